"""`dynamic="auto"`: which axes of the inputs a program leaves free, found by recording it at other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from .dims import Dim
from .inputs import Inputs

Axis = tuple[str, int]
Found = dict[str, dict[int, Dim]]


def dynamic_axes(inputs: Inputs, works: Callable[[Mapping[str, Mapping[int, Dim]]], bool]) -> Found:
    """The axes that may vary, with a Dim for each, named after its input and axis.

    `works(dynamic)` says whether the program can be recorded so. Axes join one by one what has worked so far. First
    come the leading axes of one size, as one batch; then each axis alone; then those of one size that vary only
    together. Each is tried down to size 1, then 2, half the example's size, and that size itself.
    """
    found: Found = {}
    for name, axes in _groups(inputs, found):
        size = _size(inputs, axes[0])
        for low in sorted({min(n, size) for n in (1, 2, size // 2, size) if n}):
            d = Dim(name, min=low)
            trial = {key: dict(dims) for key, dims in found.items()}
            for key, axis in axes:
                trial.setdefault(key, {})[axis] = d
            if works(trial):
                found.update(trial)
                break
    return found


def _groups(inputs: Inputs, found: Found) -> Iterator[tuple[str, list[Axis]]]:
    """Sets of axes to try as one size, with its name; those that `found` has by then are left out."""

    def free(axis: Axis) -> bool:
        return axis[1] not in found.get(axis[0], {})

    shaped = [(name, t.ndim) for name, t in zip(inputs.names, inputs.tensors, strict=True)]
    every = [(name, axis) for name, ndim in shaped for axis in range(ndim)]
    leading = [(name, 0) for name, ndim in shaped if ndim]
    if leading and len({_size(inputs, a) for a in leading}) == 1:
        yield "batch", leading
    for axis in every:
        if free(axis):
            yield _name(axis), [axis]
    for size in sorted({_size(inputs, a) for a in every if free(a)}):
        together = [a for a in every if free(a) and _size(inputs, a) == size]
        if len(together) > 1:
            yield _name(together[0]), together


def _size(inputs: Inputs, axis: Axis) -> int:
    return int(inputs.tensors[inputs.names.index(axis[0])].shape[axis[1]])


def _name(axis: Axis) -> str:
    """`x` and 1: `x_1`. Nested inputs have dots and brackets in their names, which a Dim's has not."""
    return "".join(c if c.isalnum() else "_" for c in f"{axis[0]}_{axis[1]}")
