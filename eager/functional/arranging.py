"""Elements repeated, padded, turned over and moved round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops.table import TABLE
from ..tape import apply, labelled
from ..tensor import Tensor
from .base import axes, axis, spelled
from .shaping import expand, flatten, reshape, transpose, unsqueeze

PAD, FLIP, ROLL, CLONE = TABLE["pad"], TABLE["flip"], TABLE["roll"], TABLE["clone"]

Ints = tuple[int, ...]


def pad_axes(input: Tensor, before: Ints, after: Ints, value: float = 0) -> Tensor:
    """`value` added at either end of each axis; sizes >= 0."""
    return apply(PAD, input, before=tuple(before), after=tuple(after), value=value)


def repeat(input: Tensor, *counts: Any, repeats: Any = None) -> Tensor:
    """The tensor repeated along each axis, new leading ones included."""
    times = spelled(counts, repeats)
    lead = len(times) - input.ndim
    if lead < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    if any(n < 0 for n in times):
        raise RuntimeError(f"repeat: Trying to create tensor with negative dimension, counts {list(times)}")
    own = (1,) * lead + tuple(input.array.shape)
    spread = expand(
        reshape(input, tuple(m for n in own for m in (1, n))),
        tuple(m for c, n in zip(times, own, strict=True) for m in (c, n)),
    )
    whole = reshape(spread, tuple(c * n for c, n in zip(times, own, strict=True)))
    return labelled(apply(CLONE, whole), "Repeat")


def tile(input: Tensor, *counts: Any, dims: Any = None) -> Tensor:
    """As repeat, where fewer counts than axes mean the trailing axes."""
    times = spelled(counts, dims)
    return repeat(input, (1,) * max(0, input.ndim - len(times)) + times)


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element of an axis repeated, `repeats` times or as often as its entry in `repeats` says.

    Without `repeats`: the positions repeated as often as `input` says.
    """
    if repeats is None:
        return Tensor(np.repeat(np.arange(input.array.shape[0]), interleave_counts(input)))
    if dim is None:
        input, dim = flatten(input), 0
    if not input.ndim:
        input = reshape(input, (1,))
    d = axis("repeat_interleave", dim, input.ndim)
    shape = input.array.shape
    if isinstance(repeats, Tensor):
        counts = interleave_counts(repeats)
        if counts.size not in (1, shape[d]):
            raise RuntimeError(
                f"repeats must have the same size as input along dim, but got repeats.size(0) = {counts.size} and "
                f"input.size({d}) = {int(shape[d])}"
            )
        return apply(TABLE["index"], input, Tensor(np.repeat(np.arange(shape[d]), counts)), dim=d)
    if repeats < 0:
        raise RuntimeError("repeats has to be positive")
    spread = expand(unsqueeze(input, d + 1), (*shape[: d + 1], repeats, *shape[d + 1 :]))
    return reshape(spread, (*shape[:d], shape[d] * repeats, *shape[d + 1 :]))


def interleave_counts(repeats: Tensor) -> Any:
    """How often to repeat each, read from a tensor."""
    if repeats.ndim > 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.array.dtype.name not in ("int64", "int32"):
        raise RuntimeError("repeats has to be Long or Int tensor")
    counts = repeats._read_cpu("repeat_interleave()").reshape(-1)
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    return counts


def flip(input: Tensor, *along: Any, dims: Any = None) -> Tensor:
    """The order of elements reversed along axes."""
    chosen = spelled(along, dims)
    return apply(FLIP, input, axes=axes("flip", chosen, input.ndim) if chosen else ())


def fliplr(input: Tensor) -> Tensor:
    """Reversed along the second axis."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """Reversed along the first axis."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by 90 degrees k times, from the first of `dims` towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (axis("rot90", d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turns = k % 4
    if turns == 0:
        return apply(CLONE, input)
    if turns == 2:
        return flip(input, (a, b))
    return flip(transpose(input, a, b), a) if turns == 1 else transpose(flip(input, a), a, b)


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements shifted along axes, those that fall off coming back at the other end."""
    steps = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    along = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not steps:
        raise RuntimeError("`shifts` required")
    if not along and len(steps) == 1:
        return reshape(roll(flatten(input), steps, 0), input.array.shape)
    if len(steps) != len(along):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(along)}")
    return apply(ROLL, input, shifts=steps, axes=tuple(axis("roll", d, input.ndim) for d in along))
