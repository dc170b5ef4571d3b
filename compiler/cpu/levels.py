"""What emitted code depends on in a target: register width, and the instructions it may use."""

from __future__ import annotations

from dataclasses import dataclass

from .builder import item_size
from .llvm_driver import TARGETS, Target, target_for


@dataclass(frozen=True)
class Level:
    """One set of instructions that functions are emitted for.

    `name` is short and goes into the names of helper functions; `vector_bits` is the width of the register
    that loops fill; `fma` and `f16c` tell whether a fused multiply-add and half conversions are instructions
    (LLVM would call a library where they are not).
    """

    name: str
    target: Target
    vector_bits: int
    fma: bool
    f16c: bool

    def lanes(self, dtype: str) -> int:
        """Elements of the dtype that fill a register: 4, 8 and 16 float32 at x86-64-v2, v3 and v4."""
        return self.vector_bits // (8 * item_size(dtype))

    @property
    def attributes(self) -> str:
        """The attributes of a function of this level.

        "no-builtins" keeps LLVM from turning loops into calls of memset and the like.
        """
        width = f'"prefer-vector-width"="{self.vector_bits}"'
        return f'nounwind "no-builtins" {width} {self.target.attributes}'


def level_of(target: Target | str) -> Level:
    """The level a target has, read from its feature string: `level_of("x86-64-v3")`."""
    target = target_for(target)
    features = set(target.features.split(","))
    short = target.cpu.removeprefix("x86-64-").replace("-", "_").replace(".", "_")
    if target.arch == "aarch64":
        return Level(short, target, 128, fma=True, f16c=True)
    bits = 512 if "+avx512f" in features else 256 if "+avx2" in features else 128
    return Level(short, target, bits, fma="+fma" in features, f16c="+f16c" in features)


#: The levels of an artifact that serves every x86-64 machine.
LEVELS: dict[str, Level] = {name: level_of(target) for name, target in TARGETS.items() if "x86" in name}
