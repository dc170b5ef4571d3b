"""What a compilation may be asked for."""

from __future__ import annotations

from dataclasses import dataclass

from ..serialized_models.levels import cpu_level

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
TARGETS = ("portable", "native", *LEVELS)


@dataclass(frozen=True)
class Options:
    """`target`: "portable" (every CPU level in one file), "native" (this machine's level), or one level by name.

    `fast_math`: also rewrites that change rounding. `verify`: run the result against the graph at the smallest,
    a middle and the largest declared sizes, up to 64 (`verify.LARGEST`), before it is written.
    `name`: the prefix of exported symbols.
    Raises ValueError for an unknown target, and a name that is no C identifier or tapecast.h's.
    """

    target: str = "portable"
    fast_math: bool = False
    verify: bool = True
    name: str = "model"

    def __post_init__(self) -> None:
        if self.target.startswith("cuda"):
            raise ValueError(
                f"target cuda: artifacts for GPUs do not exist yet; use one of {', '.join(TARGETS)}"
            )
        if self.target not in TARGETS:
            raise ValueError(f"target must be one of {', '.join(TARGETS)}, got {self.target!r}")
        if not (self.name.isidentifier() and self.name.isascii()):
            raise ValueError(f"name becomes the prefix of C symbols: want a C identifier, got {self.name!r}")
        if f"{self.name}_".startswith("tapecast_"):
            raise ValueError(
                f"name {self.name!r}: what begins with tapecast_ belongs to tapecast.h; choose another name"
            )

    @property
    def levels(self) -> tuple[str, ...]:
        """The CPU levels to compile for, lowest first."""
        if self.target == "portable":
            return LEVELS
        return (native_level(),) if self.target == "native" else (self.target,)


def native_level() -> str:
    """The best level of this machine. ValueError where that is none there is code for."""
    level = cpu_level()
    if level not in LEVELS:
        raise ValueError(f"target native: this CPU is {level}, and there is code for {', '.join(LEVELS)}")
    return level
