"""From units to objects: one module for each CPU level, one for what they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..loops import Kernel
from ..unit import Unit
from .builder import Module
from .detect import NUMBERS
from .emit import Variant, kernel_functions
from .entry import Dims, entry_function, host_text, workspace_function
from .levels import level_of
from .llvm_driver import object_code
from .pool import EXTERNALS

#: What a library may need from outside: the pool's system calls, and the weights that the linker places.
LIBC = EXTERNALS


class Source(NamedTuple):
    """One module: its text and the CPU level it is compiled for."""

    text: str
    cpu: str


def variant_of(name: str, library: str) -> Variant:
    return Variant(f"_v{NUMBERS[name]}", level_of(name), f"@{library}_parallel")


def sources(
    library: str, units: Sequence[Unit], scheduled: Mapping[str, Mapping[str, Kernel]], dims: Dims
) -> list[Source]:
    """The modules of a library. `scheduled[level][kernel name]` are the kernels as that level runs them."""
    out = [_level_source(library, units, scheduled[name], name, dims) for name in scheduled]
    lowest = next(iter(scheduled))
    workspaces = [workspace_function(library, u, variant_of(lowest, library)) for u in units]
    return [*out, Source(host_text(library, units, list(scheduled), workspaces), lowest)]


def _level_source(
    library: str, units: Sequence[Unit], kernels: Mapping[str, Kernel], name: str, dims: Dims
) -> Source:
    variant = variant_of(name, library)
    module = Module()
    module.define(f"{library}_weights", "external constant [0 x i8], align 64")
    module.define(f"{library}_parallel", "external hidden global ptr, align 8")
    for kernel in kernels.values():
        for function in kernel_functions(kernel, variant):
            module.add(function)
    for unit in units:
        module.add(entry_function(library, unit, kernels, variant, dims))
    return Source(module.text(), name)


def compile_sources(modules: Sequence[Source]) -> tuple[bytes, ...]:
    return tuple(object_code(m.text, m.cpu) for m in modules)
