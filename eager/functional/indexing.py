"""Python's indexing: x[index] and x[index] = value, and index_put, which is the same out of place."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops.table import TABLE
from ..ops.types import size_max, size_min, size_same
from ..tape import apply, apply_view, labelled
from ..tensor import Tensor
from ..writes import write
from .base import cast_to, constant, known_now, number
from .pointwise import cast, where
from .shaping import RESHAPE, broadcast_shapes, expand, permute, reshape
from .slicing import SELECT, SLICE

INDEX, INDEX_PUT = TABLE["index"], TABLE["index_put"]

# ---- reading an index --------------------------------------------------------------------------------------


class Plan:
    """What an index means: a slice of every axis, the shape after integers go and new axes come, and tensors.

    `tensors` are pairs (axis of the sliced and reshaped value, int64 tensor) for advanced indexing.
    """

    def __init__(self, x: Tensor, index: Any) -> None:
        parts = list(index) if isinstance(index, tuple) or means_tuple(index) else [index]
        parts = [as_index(p) for p in parts]
        used = sum(width(p) for p in parts)
        if used > x.ndim:
            raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
        if not any(p is Ellipsis for p in parts):
            parts.append(Ellipsis)
        at = next(k for k, p in enumerate(parts) if p is Ellipsis)
        rest = [p for p in parts[at + 1 :] if p is not Ellipsis]  # a second ellipsis stands for nothing
        parts = [*parts[:at], *[slice(None)] * (x.ndim - used), *rest]
        self.starts: list[int] = []
        self.stops: list[int] = []
        self.steps: list[int] = []
        self.shape: list[int] = []
        self.tensors: list[tuple[int, Tensor]] = []
        self.moves = False
        for part in parts:
            self.take(part, x.array.shape)

    def take(self, part: Any, shape: tuple[int, ...]) -> None:
        """Account for one part of the index."""
        if part is None:
            self.shape.append(1)
        elif isinstance(part, slice):
            self.slice(part, shape[len(self.starts)])
        elif isinstance(part, Tensor):
            self.advanced(part, shape)
        elif isinstance(part, bool):
            self.tensors.append((len(self.shape), Tensor(np.zeros(int(part), np.int64))))
            self.shape.append(1)
        else:
            self.integer(part, shape[len(self.starts)])

    def bounds(self, start: int, stop: int, step: int) -> None:
        self.starts.append(start)
        self.stops.append(stop)
        self.steps.append(step)

    def slice(self, part: slice, size: int) -> None:
        step = 1 if part.step is None else operator.index(part.step)
        if step <= 0:
            raise ValueError("step must be greater than zero")
        start, stop = clip(part.start, 0, size), clip(part.stop, size, size)
        stop = size_max(start, stop)
        self.bounds(start, stop, step)
        self.shape.append(stop - start if step == 1 else -((start - stop) // step))

    def integer(self, part: int, size: int) -> None:
        if not -size <= part < size:
            raise IndexError(
                f"index {int(part)} is out of bounds for dimension {len(self.starts)} with size {int(size)}"
            )
        part = part + size if part < 0 else part
        self.bounds(part, part + 1, 1)

    def advanced(self, part: Tensor, shape: tuple[int, ...]) -> None:
        """An integer tensor stands for one axis, a mask for as many as it has."""
        if part.array.dtype.kind == "b":
            covered = shape[len(self.starts) : len(self.starts) + part.ndim]
            if tuple(covered) != tuple(part.array.shape):
                raise IndexError(
                    f"The shape of the mask {list(map(int, part.array.shape))} at index 0 does not match the shape "
                    f"of the indexed tensor {list(map(int, shape))} at index {len(self.starts)}"
                )
            found = mask_places(part)
        else:
            found = [cast(part, "int64")]
        if not part.ndim and part.array.dtype.kind == "b":
            self.tensors.append((len(self.shape), found[0]))
            self.shape.append(1)
            return
        for one in found:
            size = shape[len(self.starts)]
            self.tensors.append((len(self.shape), one))
            self.bounds(0, size, 1)
            self.shape.append(size)

    def basic(self, x: Tensor) -> Tensor:
        """The view of x that slices, integers and new axes give."""
        shape = x.array.shape
        whole = all(
            a == 0 and k == 1 and size_same(b, n)
            for a, b, k, n in zip(self.starts, self.stops, self.steps, shape, strict=True)
        )
        if not whole:
            x = apply_view(
                SLICE,
                x,
                {"starts": tuple(self.starts), "stops": tuple(self.stops), "steps": tuple(self.steps)},
            )
        if len(self.shape) != x.ndim or not all(map(size_same, self.shape, x.array.shape)):
            x = apply_view(RESHAPE, x, {"shape": tuple(self.shape)})
        return x

    def adjacent(self, x: Tensor) -> tuple[Tensor, list[int] | None, int]:
        """x with the indexed axes side by side, the permutation that took (None: none), and the first of them.

        Axes that are not neighbours come to the front, and so does what takes their place.
        """
        dims = [d for d, _ in self.tensors]
        if dims == list(range(dims[0], dims[0] + len(dims))):
            return x, None, dims[0]
        order = dims + [d for d in range(x.ndim) if d not in dims]
        return permute(x, order), order, 0


def mask_places(mask: Tensor) -> list[Tensor]:
    """The positions where a mask holds, a vector for each of its axes; of a zero-dimensional one, 0 or nothing."""
    array = mask._read("indexing with a mask")
    return [Tensor(a) for a in (array if array.shape else array.reshape(1)).nonzero()]


def width(part: Any) -> int:
    """How many axes a part of an index takes."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return part.ndim if isinstance(part, Tensor) and part.array.dtype.kind == "b" else 1


def clip(bound: Any, default: int, size: int) -> int:
    """A slice bound within 0..size."""
    if bound is None:
        return default
    bound = bound if isinstance(bound, int) else operator.index(bound)
    return size_max(bound + size, 0) if bound < 0 else size_min(bound, size)


def means_tuple(index: Any) -> bool:
    """A short list with other than numbers in it is read as a tuple: x[[rows, columns]]."""
    return (
        isinstance(index, list)
        and len(index) < 32
        and any(
            p is None or p is Ellipsis or isinstance(p, (Tensor, list, tuple, range, slice, np.ndarray))
            for p in index
        )
    )


def as_index(part: Any) -> Any:
    """Sequences and arrays as tensors, zero-dimensional integer tensors and numbers as ints."""
    if part is None or part is Ellipsis or isinstance(part, (slice, bool, int)):
        return part
    if isinstance(part, (list, tuple, range)):
        plain = [p.item() if isinstance(p, Tensor) else p for p in part]
        return tensor_index(Tensor(np.array(plain, None if plain else np.int64)))
    if isinstance(part, Tensor):
        return tensor_index(part)
    if isinstance(part, np.ndarray):
        return tensor_index(Tensor(part))
    if isinstance(part, np.generic):
        return as_index(part.item())
    try:
        return operator.index(part)
    except TypeError:
        if isinstance(part, str):
            raise TypeError("new(): invalid data type 'str'") from None
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
            f"{type(part).__name__})"
        ) from None


def tensor_index(part: Tensor) -> Any:
    """Positions, or a mask (of bool or uint8); a position alone is an int, and gives a view as in PyTorch."""
    kind = part.array.dtype
    if kind.kind not in "biu":
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if kind.name == "uint8":
        return cast(part, "bool")
    if not part.array.shape and kind.kind != "b" and known_now(part) is not None:
        return int(part.array)  # while recording it stays data
    return part


def getitem(x: Tensor, index: Any) -> Tensor:
    """x[index]: a view for integers, slices, None and …; a copy where tensors, lists or masks take part."""
    if type(index) is int and x.array.shape:
        size = x.array.shape[0]
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of bounds for dimension 0 with size {int(size)}")
        return apply_view(SELECT, x, {"dim": 0, "index": index if index >= 0 else index + size})
    plan = Plan(x, index)
    base = plan.basic(x)
    if not plan.tensors:
        if base is x:
            return apply_view(RESHAPE, x, {"shape": tuple(x.array.shape)})
        return labelled(base, "Slice" if len(plan.shape) == x.ndim else "Select")
    moved, _, first = plan.adjacent(base)
    return apply(INDEX, moved, *(t for _, t in plan.tensors), dim=first)


# ---- writing at an index -----------------------------------------------------------------------------------


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value, in place; value is a number or broadcasts to the indexed part."""
    mask = index if isinstance(index, Tensor) and index.array.dtype.kind == "b" and index.ndim else None
    if mask is not None and is_single(value):
        spread = reshape(mask, (*mask.array.shape, *(1,) * (x.ndim - mask.ndim)))
        if tuple(mask.array.shape) != tuple(x.array.shape[: mask.ndim]):
            raise IndexError(
                f"The shape of the mask {list(map(int, mask.array.shape))} at index 0 does not match the shape of the "
                f"indexed tensor {list(map(int, x.array.shape))} at index 0"
            )
        write(x, where(spread, as_value(x, value), x._alias()))
        return
    plan = Plan(x, index)
    part = plan.basic(x)
    if not plan.tensors:
        put_whole(part if part is not x else x, value)
        return
    moved, order, first = plan.adjacent(part)
    new = index_put_axes(moved._alias(), as_value(x, value), [t for _, t in plan.tensors], first)
    write(part, new if order is None else permute(new, [order.index(d) for d in range(part.ndim)]))


def is_single(value: Any) -> bool:
    return not isinstance(value, Tensor) or not value.array.shape


def as_value(x: Tensor, value: Any) -> Tensor:
    """The value to write as a tensor of x's dtype."""
    if isinstance(value, Tensor):
        return cast_to(value, x.array.dtype)
    plain = number(value)
    if isinstance(plain, complex) and x.array.dtype.kind != "c":
        raise RuntimeError(f"value cannot be converted to type {x.dtype.name} without overflow")
    if plain is not None:
        return constant(plain, x.array.dtype, x)
    from .creation import as_tensor

    return cast_to(as_tensor(value), x.array.dtype)


def put_whole(part: Tensor, value: Any) -> None:
    """Write to all of a view."""
    from .inplace import copy_

    new = as_value(part, value)
    while new.ndim > part.ndim and new.array.shape[0] == 1:  # leading axes of size 1 do not count
        new = reshape(new, new.array.shape[1:])
    copy_(part, new)


def index_axes(x: Tensor, indices: Sequence[Tensor], dim: int) -> Tensor:
    """x indexed by int64 tensors on neighbouring axes from `dim`."""
    return apply(INDEX, x, *indices, dim=dim)


def index_put_axes(
    x: Tensor, value: Tensor, indices: Sequence[Tensor], dim: int, accumulate: bool = False
) -> Tensor:
    """A copy of x with `value` at (or added at) positions on neighbouring axes from `dim`."""
    places = broadcast_shapes(*(i.array.shape for i in indices))
    shape = (*x.array.shape[:dim], *places, *x.array.shape[dim + len(indices) :])
    if tuple(value.array.shape) != shape:
        try:
            value = expand(value, shape)
        except RuntimeError:
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {list(map(int, value.array.shape))} cannot be broadcast to "
                f"indexing result of shape {list(map(int, shape))}"
            ) from None
    return apply(INDEX_PUT, x, value, *indices, dim=dim, accumulate=accumulate)


def index_put(
    input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """A copy of the tensor with `values` at (or added at) the positions x[indices]."""
    plan = Plan(input, tuple(slice(None) if i is None else i for i in indices))
    moved, order, first = plan.adjacent(plan.basic(input))
    new = index_put_axes(moved, as_value(input, values), [t for _, t in plan.tensors], first, accumulate)
    return new if order is None else permute(new, [order.index(d) for d in range(input.ndim)])
