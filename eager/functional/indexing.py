"""Reading and writing at positions: x[index], x[index] = value, gather, scatter and their kin."""

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
from .base import axis, cast_to, constant, known_now, number
from .pointwise import cast, where
from .shaping import RESHAPE, SELECT, SLICE, expand, permute, reshape, unsqueeze

INDEX, INDEX_PUT = TABLE["index"], TABLE["index_put"]
GATHER, SCATTER, SCATTER_ADD = TABLE["gather"], TABLE["scatter"], TABLE["scatter_add"]

# ---- reading an index --------------------------------------------------------------------------------------


class Plan:
    """What an index means: a slice of every axis, the shape after integers go and new axes come, and tensors.

    `tensors` are pairs (axis of the sliced and reshaped value, int64 tensor) for advanced indexing.
    """

    def __init__(self, x: Tensor, index: Any) -> None:
        parts = list(index) if isinstance(index, tuple) else [index]
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
            found = [Tensor(a) for a in part._read("indexing with a mask").nonzero()]
        else:
            found = [cast(part, "int64")]
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


def as_index(part: Any) -> Any:
    """Sequences and arrays as tensors, zero-dimensional integer tensors as they are, numbers as ints."""
    if part is None or part is Ellipsis or isinstance(part, (slice, bool, int)):
        return part
    if isinstance(part, (list, tuple, range)):
        part = Tensor(
            np.array(
                [p.item() if isinstance(p, Tensor) else p for p in part] or [],
                None if len(part) else np.int64,
            )
        )
    elif isinstance(part, np.ndarray):
        part = Tensor(part)
    elif isinstance(part, np.generic):
        return part.item()
    if isinstance(part, Tensor):
        if part.array.dtype.kind not in "biu":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return part
    try:
        return operator.index(part)
    except TypeError:
        if isinstance(part, str):
            raise TypeError("new(): invalid data type 'str'") from None
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
            f"{type(part).__name__})"
        ) from None


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
    mask = index if isinstance(index, Tensor) and index.array.dtype.kind == "b" else None
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
    from .shaping import broadcast_shapes

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


# ---- along one axis ----------------------------------------------------------------------------------------


def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """out[…, k, …] = input[…, index[…, k, …], …] along an axis."""
    at = int64_index("gather", index)
    if not input.ndim and not at.ndim:
        return reshape(apply(GATHER, reshape(input, (1,)), reshape(at, (1,)), dim=0), ())
    return apply(GATHER, input, at, dim=axis("gather", dim, input.ndim))


def int64_index(name: str, index: Tensor) -> Tensor:
    if index.array.dtype.kind not in "iu":
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, got {index.dtype}")
    return cast(index, "int64")


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """gather, with the other axes broadcast; of the flattened tensor without an axis."""
    if dim is None:
        return gather(reshape(input, (-1,)), 0, reshape(indices, (-1,)))
    return gather(input, dim, indices)


def scatter_args(name: str, input: Tensor, dim: int, index: Tensor, src: Any) -> tuple[Tensor, Tensor, int]:
    """Index and source of one shape, and the axis. The source may be larger than the index, or a number."""
    at = int64_index(name, index)
    if not isinstance(src, Tensor):
        src = expand(constant(src, input.array.dtype, input), at.array.shape)
    elif src.array.dtype != input.array.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if tuple(src.array.shape) != tuple(at.array.shape):
        src = apply_view(
            SLICE, src, {"starts": (0,) * src.ndim, "stops": tuple(at.array.shape), "steps": (1,) * src.ndim}
        )
    return at, src, axis(name, dim, input.ndim)


def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None) -> Tensor:
    """A copy of the tensor with src[…, k, …] at position index[…, k, …] of an axis."""
    at, source, d = scatter_args("scatter", input, dim, index, value if src is None else src)
    return apply(SCATTER, input, at, source, dim=d)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy of the tensor with src[…, k, …] added at position index[…, k, …] of an axis."""
    at, source, d = scatter_args("scatter_add", input, dim, index, src)
    return apply(SCATTER_ADD, input, at, source, dim=d)


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The elements of an axis at the positions of a vector."""
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if not input.ndim:
        return reshape(input, (1,))
    at = int64_index("index_select", index if index.ndim else reshape(index, (1,)))
    return labelled(apply(INDEX, input, at, dim=axis("index_select", dim, input.ndim)), "IndexSelect")


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A copy of the tensor with alpha * source added at positions of an axis."""
    d = axis("index_add", dim, input.ndim)
    return index_put_axes(
        input, source if alpha == 1 else source * alpha, [int64_index("index_add", index)], d, True
    )


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy of the tensor with `source` at positions of an axis."""
    d = axis("index_copy", dim, input.ndim)
    return index_put_axes(input, source, [int64_index("index_copy", index)], d)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of the tensor with a number at positions of an axis."""
    d = axis("index_fill", dim, input.ndim)
    return index_put_axes(input, as_value(input, value), [int64_index("index_fill", index)], d)


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of the tensor with `src` at one position of an axis."""
    d = axis("select_scatter", dim, input.ndim)
    index = index + input.array.shape[d] if index < 0 else index
    return slice_scatter(input, unsqueeze(src, d), d, index, index + 1)


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of the tensor with `src` in a slice of an axis."""
    from .shaping import slice_put

    d = axis("slice_scatter", dim, input.ndim)
    shape = input.array.shape
    low, high = clip(start, 0, shape[d]), clip(end, shape[d], shape[d])
    starts = tuple(low if k == d else 0 for k in range(len(shape)))
    stops = tuple(high if k == d else n for k, n in enumerate(shape))
    return slice_put(input, src, starts, stops, tuple(step if k == d else 1 for k in range(len(shape))))


def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of the flattened tensor at positions."""
    return apply(INDEX, reshape(input, (-1,)), int64_index("take", index), dim=0)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, as a vector."""
    from .shaping import broadcast_tensors

    x, m = broadcast_tensors(input, mask)
    return labelled(getitem(x, m), "MaskedSelect")


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of the tensor with the elements of `source`, in order, where the mask holds."""
    from .shaping import broadcast_tensors

    x, m = broadcast_tensors(input, mask)
    count = int(m._read("masked_scatter()").sum())
    flat = getitem(reshape(source, (-1,)), slice(0, count))
    return index_put(x, (m,), flat)


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The positions of nonzero elements: a matrix of one row each, or a vector per axis."""
    array = input._read("nonzero()")
    found = (
        array.reshape(1).nonzero() if as_tuple and not array.shape else array.nonzero() if array.shape else ()
    )
    if as_tuple:
        return tuple(Tensor(a.astype("int64")) for a in found)
    if not array.shape:
        return Tensor(np.zeros((int(bool(array)), 0), np.int64))
    return Tensor(
        np.stack(found, 1).astype("int64") if isinstance(array, np.ndarray) else _stack_on_device(found)
    )


def _stack_on_device(found: Any) -> Any:
    import cupy

    return cupy.stack(found, 1).astype("int64")


argwhere = nonzero


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last axis with 1 at the position each element names, else 0."""
    from .creation import arange
    from .pointwise import eq

    if tensor.array.dtype.kind not in "iu" or tensor.array.dtype.itemsize != 8:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        found = tensor._read("one_hot() without num_classes")
        if not found.size:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(found.max()) + 1
    classes = known_now(tensor)
    if classes is not None and classes.size:
        if classes.min() < 0:
            raise RuntimeError("Class values must be non-negative.")
        if classes.max() >= num_classes:
            raise RuntimeError("Class values must be smaller than num_classes.")
    return cast(eq(unsqueeze(tensor, -1), arange(num_classes)), "int64")
