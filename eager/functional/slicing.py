"""Slices of axes, and one element of an axis."""

from __future__ import annotations

from typing import Any

from ..ops.index import OutOfBounds
from ..ops.table import TABLE
from ..tape import apply, apply_view
from ..tensor import Tensor
from .base import axis

SLICE, SLICE_PUT, SELECT = TABLE["slice"], TABLE["slice_put"], TABLE["select"]

Ints = tuple[int, ...]


def slice_axes(input: Tensor, starts: Ints, stops: Ints, steps: Ints) -> Tensor:
    """The slice [start : stop : step] along every axis; bounds must be within the axes."""
    return apply_view(SLICE, input, {"starts": starts, "stops": stops, "steps": steps})


def slice_axis(input: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
    """A slice along one axis, bounds within it."""
    shape = input.array.shape
    starts = tuple(start if d == dim else 0 for d in range(len(shape)))
    stops = tuple(stop if d == dim else n for d, n in enumerate(shape))
    steps = tuple(step if d == dim else 1 for d in range(len(shape)))
    return apply_view(SLICE, input, {"starts": starts, "stops": stops, "steps": steps})


def slice_put(input: Tensor, value: Tensor, starts: Ints, stops: Ints, steps: Ints) -> Tensor:
    """A copy of the tensor with `value` in a slice."""
    return apply(SLICE_PUT, input, value, starts=starts, stops=stops, steps=steps)


def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` elements of an axis, from `start` (a number or an integer tensor of one element)."""
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, Tensor):
        if start.array.shape or start.array.dtype.kind not in "iu":
            raise RuntimeError("narrow(): start must be an 0-dim integral Tensor.")
        start = int(start)
    if not -input.ndim <= dim < input.ndim:
        raise OutOfBounds(f"narrow(): Expected dim to be in [{-input.ndim}, {input.ndim - 1}], but got {dim}")
    d = dim % input.ndim
    size = input.array.shape[d]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-int(size)}, {int(size)}], but got {int(start)})"
        )
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(
            f"start ({int(start)}) + length ({int(length)}) exceeds dimension size ({int(size)})."
        )
    return slice_axis(input, d, start, start + length)


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """One element of an axis; the axis goes."""
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = axis("select", dim, input.ndim)
    size = input.array.shape[d]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(map(int, input.array.shape))} "
            f"at dimension {d}"
        )
    index = index + size if index < 0 else index
    return apply_view(SELECT, input, {"dim": d, "index": index})
