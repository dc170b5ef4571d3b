"""From units to objects: one module for each CPU level, one for what they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..loops import Kernel
from ..unit import Unit
from .builder import Module
from .detect import NUMBERS
from .emit import Variant, kernel_functions
from .entry import Dims, entry_function, host_text, workspace_function
from .levels import level_of
from .pool import EXTERNALS
from .workers import Source, objects

__all__ = ["LIBC", "objects", "sources", "variant_of"]

#: What a library may need from outside: the pool's system calls, and the weights that the linker places.
LIBC = EXTERNALS


def variant_of(name: str, library: str) -> Variant:
    return Variant(f"_v{NUMBERS[name]}", level_of(name), f"@{library}_parallel")


def sources(
    library: str, units: Sequence[Unit], scheduled: Mapping[str, Mapping[str, Kernel]], dims: Dims
) -> Iterator[Source]:
    """The modules of a library. `scheduled[level][kernel name]` are the kernels as that level runs them."""
    for name in scheduled:
        yield _level_source(library, units, scheduled[name], name, dims)
    lowest = next(iter(scheduled))
    workspaces = [workspace_function(library, u, variant_of(lowest, library)) for u in units]
    yield Source(host_text(library, units, list(scheduled), workspaces), lowest)


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
