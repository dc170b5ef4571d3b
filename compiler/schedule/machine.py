"""What a schedule needs to know of the processor it is for."""

from __future__ import annotations

from typing import NamedTuple


class Machine(NamedTuple):
    """A CPU level. `lanes`: float32 values in a vector register; `registers`: how many of those there are."""

    level: str
    lanes: int
    registers: int
    fma: bool

    @property
    def accumulators(self) -> int:
        """How many registers a tile of sums may fill; the rest hold the operands of the inner loop."""
        return 24 if self.registers == 32 else 12


#: 16-column panels of weights are read as one, two or four vectors by these levels.
PANEL = 16

MACHINES = {
    "x86-64-v2": Machine("x86-64-v2", 4, 16, False),
    "x86-64-v3": Machine("x86-64-v3", 8, 16, True),
    "x86-64-v4": Machine("x86-64-v4", 16, 32, True),
}

#: Multiply-adds (or their worth) below which another thread costs more than it brings: about 3 µs of work.
GRAIN = 1 << 17
