"""How much memory a worker process takes for itself, and how much of it are copies of what it shared at the fork."""

from __future__ import annotations

import resource
import time
from typing import Any

from ..multiprocessing.segments import amount
from .dataset import ConcatDataset, Subset

COPIED_LIMIT = 64 << 20
"""Bytes of the parent's memory that one worker may copy before the loader warns."""


class Memory:
    """Measures this process now and then, from what it is now: all of it shared, if it was `forked` a moment ago."""

    def __init__(self, forked: bool) -> None:
        # The exact figures take the system longer than a fork does; these it has at hand.
        anonymous = anonymous_memory()
        self.start = 0 if forked else anonymous, anonymous, faulted_memory()
        self.latest: tuple[int, int] | None = None
        self.pause = 0.25
        self.next = time.monotonic() + self.pause

    def look(self) -> None:
        """Measure, when it is time again: `latest` is then bytes taken since the start, and bytes that were copied."""
        now = time.monotonic()
        if now >= self.next and (found := measure()) is not None:
            private, anonymous, faults = (a - b for a, b in zip(found, self.start, strict=True))
            # A copied page was there before, so that what is private grows by more than what there is. The parent
            # makes pages private as well, by writing to its own: those take no page faults here.
            self.latest = private, max(0, min(private, faults) - max(0, anonymous))
            self.pause = min(10.0, max(2 * self.pause, 50 * (time.monotonic() - now)))
            self.next = now + self.pause


def measure() -> tuple[int, int, int] | None:
    """Bytes: private and written to, anonymous, and of all page faults so far. None where the system does not say."""
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line and " kB" in line)
        private, anonymous = (1024 * int(lines[name].split()[0]) for name in ("Private_Dirty", "Anonymous"))
    except (OSError, KeyError, ValueError):
        return None
    return private, anonymous, faulted_memory()


def anonymous_memory() -> int:
    """Bytes that are no file's; 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next((1024 * int(line.split()[1]) for line in file if line.startswith("RssAnon")), 0)
    except OSError:
        return 0


def faulted_memory() -> int:
    """Bytes of the pages that this process touched for the first time or copied."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt * resource.getpagesize()


def growth_warning(number: int, pid: int, copied: int, num_workers: int, dataset: Any) -> str:
    """The message about a worker that has copied much."""
    while isinstance(dataset, Subset) or (isinstance(dataset, ConcatDataset) and len(dataset.datasets) == 1):
        dataset = dataset.dataset if isinstance(dataset, Subset) else dataset.datasets[0]
    kind = type(dataset)
    return (
        f"DataLoader worker {number} (pid {pid}) has copied {amount(copied)} of memory that it shared with the parent, "
        f"and {num_workers} workers do: reading a Python object counts references in it, so that each worker ends up "
        f"with its own copy of the objects of {kind.__module__}.{kind.__qualname__}{largest_container(dataset)}. Hold "
        "them in a tapecast.utils.data.SharedList, or in arrays"
    )


def largest_container(dataset: Any) -> str:
    """` (its paths: list of 1000 objects)` for the longest list or dict among the attributes."""
    held = [
        (len(v), name, v)
        for name, v in getattr(dataset, "__dict__", {}).items()
        if isinstance(v, list | dict)
    ]
    if not held:
        return ""
    length, name, value = max(held, key=lambda item: item[0])
    return f" (its `{name}`: {type(value).__name__} of {length} objects)"
