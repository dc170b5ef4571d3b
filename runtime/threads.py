"""How many threads a model uses by default: what this process may use, not what the machine has."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

VARIABLE = "TAPECAST_NUM_THREADS"
CGROUPS = "/sys/fs/cgroup"


def default_threads(environment: Mapping[str, str] = os.environ) -> int:
    """TAPECAST_NUM_THREADS if set, else the lesser of the CPUs this process may run on and its cgroup's
    quota.
    """
    if text := environment.get(VARIABLE):
        return checked_threads(text, VARIABLE)
    quota = cpu_quota()
    return max(1, available_cpus() if quota is None else min(available_cpus(), int(quota)))


def checked_threads(value: object, where: str) -> int:
    """A thread count as an int. Raises ValueError for anything but a whole number of at least 1."""
    text = str(value)
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise ValueError(f"{where} should be a whole number of threads, at least 1; it is {value!r}")
    return int(text)


def available_cpus() -> int:
    """CPUs in this process's affinity mask."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_quota(root: str = CGROUPS, own: str = "/proc/self/cgroup") -> float | None:
    """CPUs' worth of time this process's control groups allow it; None without a limit.

    The tightest limit of the group and of those around it holds. Inside a container the path in /proc is
    often the host's, so that only the root of the mounted tree can be read."""
    lines = (_read(own) or "").splitlines()
    limits = [
        limit for line in lines for folder in _folders(line, root) if (limit := _limit(folder)) is not None
    ]
    return min(limits, default=None)


def _folders(line: str, root: str) -> Iterator[str]:
    """The folders of a line of /proc/self/cgroup, `number:controllers:path`, outwards."""
    _, _, rest = line.partition(":")
    controllers, _, path = rest.partition(":")
    if controllers and "cpu" not in controllers.split(","):
        return
    base = os.path.join(root, "cpu") if controllers else root
    inside = path.strip("/")
    while inside:
        yield os.path.join(base, inside)
        inside = os.path.dirname(inside)
    yield base


def _limit(folder: str) -> float | None:
    """CPUs of one group: `cpu.max` (version 2) or `cpu.cfs_quota_us` (version 1)."""
    both = _read(os.path.join(folder, "cpu.max"))
    if both is None:
        quota, period = (_read(os.path.join(folder, f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
        both = f"{quota} {period}"
    try:
        allowed, per = map(int, both.split())
    except ValueError:  # "max", "None" for a file that is not there
        return None
    return allowed / per if allowed > 0 and per > 0 else None


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None
