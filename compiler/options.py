"""What a compilation may be asked for."""

from __future__ import annotations

from dataclasses import dataclass

TARGETS = ("portable", "native", "x86-64-v2", "x86-64-v3", "x86-64-v4")


@dataclass(frozen=True)
class Options:
    """`target`: "portable" (every CPU level in one file), "native" (this machine's level), or one level by name.

    `fast_math`: also rewrites that change rounding. `verify`: run the result against the graph at the smallest,
    a middle and the largest declared sizes before it is written. `name`: the prefix of exported symbols.
    Raises ValueError for an unknown target or a name that is no C identifier.
    """

    target: str = "portable"
    fast_math: bool = False
    verify: bool = True
    name: str = "model"

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise ValueError(f"target must be one of {', '.join(TARGETS)}, got {self.target!r}")
        if not (self.name.isidentifier() and self.name.isascii()):
            raise ValueError(f"name becomes the prefix of C symbols: want a C identifier, got {self.name!r}")

    @property
    def levels(self) -> tuple[str, ...]:
        """The CPU levels to compile for, lowest first."""
        if self.target == "portable":
            return ("x86-64-v2", "x86-64-v3", "x86-64-v4")
        return (native_level(),) if self.target == "native" else (self.target,)


def native_level() -> str:
    """The best level of this machine, by the CPU flags the kernel reports."""
    with open("/proc/cpuinfo") as f:
        flags = next((set(line.split()) for line in f if line.startswith("flags")), set())
    if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags:
        return "x86-64-v4"
    if {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"} <= flags:
        return "x86-64-v3"
    return "x86-64-v2"
