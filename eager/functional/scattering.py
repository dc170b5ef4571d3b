"""Reading and writing along one axis, or in the flattened tensor, at positions that are data."""

from __future__ import annotations

from typing import Any

from ..ops.index import OutOfBounds
from ..ops.table import TABLE
from ..ops.types import DTYPES
from ..tape import apply, apply_view, labelled
from ..tensor import Tensor
from .base import axis, cast_to, constant, cpp_name, known_now
from .indexing import as_value, clip, index_put_axes
from .output import takes_out
from .pointwise import cast, eq, where
from .shaping import broadcast_shapes, expand, reshape, unsqueeze
from .slicing import SLICE, slice_axis, slice_put

INDEX, GATHER, SCATTER = TABLE["index"], TABLE["gather"], TABLE["scatter"]
SCATTER_ADD, SCATTER_REDUCE = TABLE["scatter_add"], TABLE["scatter_reduce"]

# ---- checks ------------------------------------------------------------------------------------------------


def int64_index(name: str, index: Tensor) -> Tensor:
    if not isinstance(index, Tensor):
        raise TypeError(f"{name}(): argument 'index' must be Tensor, not {type(index).__name__}")
    if index.array.dtype.kind not in "iu":
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, got {index.dtype}")
    return cast(index, "int64")


def same_kind(name: str, input: Tensor, src: Tensor) -> None:
    if src.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to src.dtype, got {cpp_name(input.array.dtype)} and "
            f"{cpp_name(src.array.dtype)}"
        )


def with_axis(x: Tensor) -> Tensor:
    """A zero-dimensional tensor as a vector of one element."""
    return x if x.array.shape else reshape(x, (1,))


def position_vector(name: str, index: Tensor) -> Tensor:
    """int64[n] of a vector of positions, or of a zero-dimensional one."""
    if isinstance(index, Tensor) and index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    return with_axis(int64_index(name, index))


# ---- gather ------------------------------------------------------------------------------------------------


@takes_out(exact=True)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """out[…, k, …] = input[…, index[…, k, …], …] along an axis."""
    d = axis("gather", dim, input.ndim)
    at = int64_index("gather", index)
    if not at.numel():
        return reshape(slice_axis(reshape(input, (input.numel(),)), 0, 0, 0), at.array.shape)
    if max(input.ndim, 1) != max(at.ndim, 1):
        raise RuntimeError(
            "Index tensor must have the same number of dimensions as input tensor, got "
            f"{list(map(int, at.array.shape))} for {list(map(int, input.array.shape))}"
        )
    if not input.ndim or not at.ndim:
        return reshape(apply(GATHER, with_axis(input), with_axis(at), dim=0), at.array.shape)
    return apply(GATHER, input, at, dim=d)


@takes_out
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """gather, with the other axes broadcast, negative positions counted from the end; flattened without an axis."""
    if not isinstance(indices, Tensor) or indices.array.dtype.name != "int64":
        raise RuntimeError(
            f"take_along_dim(): dtype of indices should be Long but got {cpp_name(indices.array.dtype)}"
        )
    if dim is None:
        return take_along_dim(reshape(input, (-1,)), reshape(indices, (-1,)), 0)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    d = axis("take_along_dim", dim, input.ndim)
    own, at = tuple(input.array.shape), tuple(indices.array.shape)
    rest = broadcast_shapes((*own[:d], 1, *own[d + 1 :]), (*at[:d], 1, *at[d + 1 :]))
    x = expand(input, (*rest[:d], own[d], *rest[d + 1 :]))
    places = expand(indices, (*rest[:d], at[d], *rest[d + 1 :]))
    return gather(x, d, where(places < 0, places + own[d], places))


@takes_out
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The elements of an axis at the positions of a vector."""
    at = position_vector("index_select", index)
    d = axis("index_select", dim, input.ndim)
    check_not_negative("index_select", at)
    if not input.ndim:
        if at.numel() != 1:
            raise RuntimeError(
                f"index_select(): Index to scalar can have only 1 value, got {at.numel()} value(s)"
            )
        return reshape(apply(INDEX, reshape(input, (1,)), at, dim=0), ())
    return labelled(apply(INDEX, input, at, dim=d), "IndexSelect")


def check_not_negative(name: str, index: Tensor) -> None:
    known = known_now(index)
    if known is not None and known.size and known.min() < 0:
        raise IndexError(f"{name}(): index out of range in self: {int(known.min())} is negative")


@takes_out
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of the flattened tensor at positions."""
    if index.array.dtype.name != "int64":
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {cpp_name(index.array.dtype)}")
    if index.numel() and not input.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    return apply(INDEX, reshape(input, (input.numel(),)), index, dim=0)


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of the tensor with the elements of `source` at (or added at) positions of the flattened tensor."""
    if index.array.dtype.name != "int64":
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {cpp_name(index.array.dtype)}")
    if source.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = {input.dtype} and "
            f"source.dtype = {source.dtype}"
        )
    if index.numel() != source.numel():
        raise RuntimeError(
            f"put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    if index.numel() and not input.numel():
        raise IndexError("put_(): tried to put elements into an empty tensor")
    count = index.numel()
    flat = index_put_axes(
        reshape(input, (input.numel(),)), reshape(source, (count,)), [reshape(index, (count,))], 0, accumulate
    )
    return reshape(flat, input.array.shape)


# ---- scatter -----------------------------------------------------------------------------------------------


def scatter_args(
    name: str, input: Tensor, dim: int, index: Tensor, src: Any
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Input, index and source of one rank, the last two of one shape, and the axis.

    The source may be larger than the index, or a number.
    """
    at = int64_index(name, index)
    d = axis(name, dim, input.ndim)
    x, at = with_axis(input), with_axis(at)
    if not isinstance(src, Tensor):
        return x, at, expand(constant(src, input.array.dtype, input), at.array.shape), d
    same_kind(name, input, src)
    src = with_axis(src)
    if not at.numel():
        return x, at, src, d
    if at.ndim != x.ndim or src.ndim != at.ndim:
        other = "self" if at.ndim != x.ndim else "src"
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {other} tensor")
    if any(n > m for n, m in zip(at.array.shape, src.array.shape, strict=True)):
        raise RuntimeError(
            f"{name}(): Expected index {list(map(int, at.array.shape))} to be no larger than src "
            f"{list(map(int, src.array.shape))}"
        )
    if tuple(src.array.shape) != tuple(at.array.shape):
        stops = tuple(at.array.shape)
        src = apply_view(SLICE, src, {"starts": (0,) * src.ndim, "stops": stops, "steps": (1,) * src.ndim})
    return x, at, src, d


def scattered(op: Any, name: str, input: Tensor, dim: int, index: Tensor, src: Any, **attrs: Any) -> Tensor:
    x, at, source, d = scatter_args(name, input, dim, index, src)
    if not at.numel():
        return apply(TABLE["clone"], input)
    return reshape(apply(op, x, at, source, dim=d, **attrs), input.array.shape)


@takes_out
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """A copy of the tensor with src[…, k, …] at position index[…, k, …] of an axis.

    `reduce`: "add" or "multiply" combines them with what is there.
    """
    given = value if src is None else src
    if reduce is None:
        return scattered(SCATTER, "scatter", input, dim, index, given)
    if reduce == "add":
        return scattered(SCATTER_ADD, "scatter", input, dim, index, given)
    if reduce == "multiply":
        return scattered(SCATTER_REDUCE, "scatter", input, dim, index, given, reduce="prod")
    raise RuntimeError(f"scatter(): reduce argument must be either add or multiply, got {reduce}")


@takes_out
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy of the tensor with src[…, k, …] added at position index[…, k, …] of an axis."""
    return scattered(SCATTER_ADD, "scatter_add", input, dim, index, src)


NEUTRAL = {"sum": 0, "mean": 0, "prod": 1}


@takes_out
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The tensor with src[…, k, …] combined into position index[…, k, …] of an axis.

    `reduce`: "sum", "prod", "mean", "amax" or "amin". Without `include_self` the tensor's own value there does not
    count.
    """
    if reduce not in (*NEUTRAL, "amax", "amin"):
        raise RuntimeError(
            f"scatter_reduce(): reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if not include_self:
        neutral = NEUTRAL[reduce] if reduce in NEUTRAL else lowest(input, reduce == "amin")
        input = scattered(SCATTER, "scatter_reduce", input, dim, index, neutral)
    if reduce not in NEUTRAL or reduce == "prod":
        return scattered(SCATTER_REDUCE, "scatter_reduce", input, dim, index, src, reduce=reduce)
    total = scattered(SCATTER_ADD, "scatter_reduce", input, dim, index, src)
    if reduce == "sum":
        return total
    kind = input.array.dtype
    counts = cast_to(input.new_zeros(tuple(input.array.shape)), DTYPES["int64"]) + int(include_self)
    counts = scattered(SCATTER_ADD, "scatter_reduce", counts, dim, index, 1)
    return quotient(total, where(eq(counts, 0), 1, counts), kind)


def quotient(total: Tensor, counts: Tensor, kind: Any) -> Tensor:
    """total / counts in the dtype of the total; integers rounded down."""
    if kind.kind in "iu":
        from .pointwise import floor_divide

        return cast_to(floor_divide(total, counts), kind)
    if kind.kind == "b":
        return total
    return total / cast_to(counts, kind)


def lowest(x: Tensor, highest: bool) -> Any:
    """The value that no other of x's dtype is below (or above)."""
    import numpy as np

    kind = x.array.dtype
    if kind.kind == "b":
        return highest
    if kind.kind in "iu":
        return int(np.iinfo(kind).max if highest else np.iinfo(kind).min)
    return float("inf") if highest else float("-inf")


# ---- index_add and its kin: whole slices at the positions of a vector --------------------------------------


def slices_args(
    name: str, input: Tensor, dim: int, index: Tensor, source: Tensor
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Input and source with at least one axis, an index vector, and the axis."""
    at = position_vector(name, index)
    d = axis(name, dim, input.ndim)
    same_kind(name, input, source)
    if source.ndim != input.ndim and source.ndim and input.ndim:
        raise OutOfBounds(
            f"{name}(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({input.ndim})"
        )
    x, y = with_axis(input), with_axis(source)
    if y.ndim != x.ndim:
        y = reshape(y, (1,) * x.ndim)
    if at.array.shape[0] != y.array.shape[d]:
        raise IndexError(
            f"{name}(): Number of indices ({int(at.array.shape[0])}) should be equal to source.size(dim): "
            f"({int(y.array.shape[d])}), for dim: {d}"
        )
    for k, (n, m) in enumerate(zip(x.array.shape, y.array.shape, strict=True)):
        if k != d and n != m:
            raise OutOfBounds(
                f"{name}(): source tensor shape must match self tensor shape, excluding the specified dimension. Got "
                f"self.shape = {list(map(int, input.array.shape))} source.shape = {list(map(int, source.array.shape))}"
            )
    check_range(name, at, x.array.shape[d])
    return x, at, y, d


def check_range(name: str, index: Tensor, size: int) -> None:
    known = known_now(index)
    if known is not None and known.size and (known.min() < 0 or known.max() >= size):
        bad = known[(known < 0) | (known >= size)][0]
        raise OutOfBounds(f"{name}(): index {int(bad)} is out of bounds for an axis of size {int(size)}")


@takes_out
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A copy of the tensor with alpha * source added at positions of an axis."""
    x, at, y, d = slices_args("index_add", input, dim, index, source)
    scaled = y if alpha == 1 else cast_to(y * alpha, y.array.dtype)
    return reshape(index_put_axes(x, scaled, [at], d, True), input.array.shape)


@takes_out
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy of the tensor with `source` at positions of an axis."""
    x, at, y, d = slices_args("index_copy", input, dim, index, source)
    return reshape(index_put_axes(x, y, [at], d), input.array.shape)


@takes_out
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The tensor with slices of `source` combined into positions of an axis.

    `reduce`: "prod", "mean", "amax" or "amin". Without `include_self` the tensor's own values there do not count.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    x, at, y, d = slices_args("index_reduce", input, dim, index, source)
    spread = expand(reshape(at, tuple(-1 if k == d else 1 for k in range(x.ndim))), y.array.shape)
    out = scatter_reduce(x, d, spread, y, reduce, include_self=include_self)
    return reshape(out, input.array.shape)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of the tensor with a number (or a zero-dimensional tensor's) at positions of an axis."""
    at = position_vector("index_fill", index)
    d = axis("index_fill", dim, input.ndim)
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if input.array.dtype.kind != "c" and isinstance(value, complex):
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    x = with_axis(input)
    size = x.array.shape[d]
    none = apply(TABLE["full"], shape=(size,), value=False, dtype="bool")
    chosen = index_put_axes(none, constant(True, none.array.dtype, none), [at], 0)
    spread = reshape(chosen, tuple(size if k == d else 1 for k in range(x.ndim)))
    return reshape(where(spread, as_value(x, value), x), input.array.shape)


# ---- a part replaced ---------------------------------------------------------------------------------------


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of the tensor with `src` at one position of an axis."""
    d = axis("select_scatter", dim, input.ndim)
    size = input.array.shape[d]
    if not -size <= index < size:
        raise IndexError(
            f"select_scatter(): index {index} is out of bounds for dimension {d} with size {int(size)}"
        )
    index = index + size if index < 0 else index
    return slice_scatter(input, unsqueeze(src, d), d, index, index + 1)


def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A copy of the tensor with `src` in a slice of an axis."""
    d = axis("slice_scatter", dim, input.ndim)
    shape = input.array.shape
    low, high = clip(start, 0, shape[d]), clip(end, shape[d], shape[d])
    starts = tuple(low if k == d else 0 for k in range(len(shape)))
    stops = tuple(max(low, high) if k == d else n for k, n in enumerate(shape))
    steps = tuple(step if k == d else 1 for k in range(len(shape)))
    return slice_put(input, cast_to(src, input.array.dtype), starts, stops, steps)
