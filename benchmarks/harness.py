"""What benchmarks share: contenders run in turns, so that a machine whose speed drifts treats all alike.

Figures are seconds a call. Every round runs each contender once for about `target` seconds; what is reported is the
best and the median over rounds, and ratios of medians. Nothing here decides a test.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Timing(NamedTuple):
    """Seconds a call over the rounds of a run."""

    best: float
    median: float


Repeat = Callable[[int], object]  # runs the contender this many times


def calls(f: Callable[[], object]) -> Repeat:
    """A contender that is called from Python, the call's own cost included."""

    def repeat(n: int) -> None:
        for _ in range(n):
            f()

    return repeat


def in_turns(
    contenders: Mapping[str, Repeat],
    target: float | Mapping[str, float] = 0.03,
    rounds: int = 9,
    warm: float = 0.15,
    gap: float = 0.003,
) -> dict[str, Timing]:
    """Time all contenders in one alternating run. `target`: seconds a turn, for all or by name. `warm`: seconds of
    running before it, in turns as well; a core that was idle takes some 50 ms to come up to speed. `gap`: seconds
    between turns, which let the spinning workers of the contender before go to sleep."""
    targets = target if isinstance(target, Mapping) else dict.fromkeys(contenders, target)
    turns = {name: max(1, int(targets[name] / once(run))) for name, run in contenders.items()}
    end = time.perf_counter() + warm
    while time.perf_counter() < end:
        for name, run in contenders.items():
            run(max(1, turns[name] // 4))
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            time.sleep(gap)
            run(1)
            start = time.perf_counter()
            run(turns[name])
            seconds[name].append((time.perf_counter() - start) / turns[name])
    return {name: Timing(min(s), statistics.median(s)) for name, s in seconds.items()}


def once(run: Repeat) -> float:
    run(1)
    start = time.perf_counter()
    run(1)
    return max(time.perf_counter() - start, 1e-7)


def machine() -> str:
    """One line on where this ran: processor, cores this process may use, Python."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as f:
            model = next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, {len(os.sched_getaffinity(0))} cores, Python {sys.version.split()[0]}"


def micro(seconds: float) -> str:
    """`12.3 µs`, `4.56 ms`."""
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"
