"""The CPU levels that files name, and which of them this machine has by what its system says."""

from __future__ import annotations

import platform

#: Linux's names in /proc/cpuinfo for what the x86-64 psABI puts into each level.
FEATURES = {
    2: {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"},
    3: {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    4: {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


def cpu_level(path: str = "/proc/cpuinfo") -> str:
    """The level of this CPU, `x86-64-v1` to `x86-64-v4`, or the processor family on others."""
    flags = set(cpu_field("flags", path).split())
    level = 1
    while level + 1 in FEATURES and FEATURES[level + 1] <= flags:
        level += 1
    return f"x86-64-v{level}" if platform.machine() == "x86_64" else platform.machine()


def cpu_name(path: str = "/proc/cpuinfo") -> str:
    """The CPU's name, or the processor family where the system does not say."""
    return cpu_field("model name", path) or platform.machine()


def cpu_field(name: str, path: str) -> str:
    """What stands behind the first `name` in the file; "" where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return next((line.partition(":")[2].strip() for line in file if line.startswith(name)), "")
    except OSError:
        return ""
