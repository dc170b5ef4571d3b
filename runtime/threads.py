"""How many threads a model uses by default: what this process may use, not what the machine has."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

VARIABLE = "TAPECAST_NUM_THREADS"
CGROUPS = Path("/sys/fs/cgroup")


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


def cpu_quota(root: Path = CGROUPS, own: Path = Path("/proc/self/cgroup")) -> float | None:
    """CPUs' worth of time this process's control groups allow it; None without a limit.

    The tightest limit of the group and of those around it holds. Inside a container the path in /proc is
    often the host's, so that only the root of the mounted tree can be read."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    limits = [
        limit for line in lines for folder in _folders(line, root) if (limit := _limit(folder)) is not None
    ]
    return min(limits, default=None)


def _folders(line: str, root: Path) -> Iterator[Path]:
    """The folders of a line of /proc/self/cgroup, `number:controllers:path`, outwards."""
    _, _, rest = line.partition(":")
    controllers, _, path = rest.partition(":")
    if controllers and "cpu" not in controllers.split(","):
        return
    base = root / "cpu" if controllers else root
    inside = Path(path.lstrip("/"))
    yield from (base / folder for folder in (inside, *inside.parents))


def _limit(folder: Path) -> float | None:
    """CPUs of one group: `cpu.max` (version 2) or `cpu.cfs_quota_us` (version 1)."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii")
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii")
        return None if quota.strip() in ("max", "-1") else int(quota) / int(period)
    except (OSError, ValueError):
        return None
