"""The shape of a tensor and the order of its axes: views wherever strides allow."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from math import prod
from typing import Any

from ..memory_format import channels_last, channels_last_3d, memory_format as MemoryFormat, preserve_format
from ..ops.table import TABLE
from ..ops.types import DTYPES
from ..tape import apply, apply_view, labelled
from ..tensor import Tensor
from .base import axes, axis, cast_to, name_of, spelled

EXPAND, PERMUTE, RESHAPE = TABLE["expand"], TABLE["permute"], TABLE["reshape"]
INT64 = DTYPES["int64"]
CLONE, SUM_TO = TABLE["clone"], TABLE["sum_to"]

Ints = tuple[int, ...]

# ---- sizes -------------------------------------------------------------------------------------------------


def resolve(shape: Ints, numel: int, label: str = "shape") -> Ints:
    """A shape whose one -1, if any, is worked out."""
    if -1 not in shape:
        if shape and builtins.min(shape) < 0:
            raise RuntimeError(f"invalid shape dimension {builtins.min(shape)}")
        return shape
    at = shape.index(-1)
    rest = prod(shape[:at]) * prod(shape[at + 1 :])
    if -1 in shape[at + 1 :]:
        raise RuntimeError("only one dimension can be inferred")
    if rest == 0:
        raise RuntimeError(
            f"cannot reshape tensor of {int(numel)} elements into shape {list(map(int, shape))} because the "
            "unspecified dimension size -1 can be any value and is ambiguous"
        )
    if numel % rest:
        raise RuntimeError(f"shape '{list(map(int, shape))}' is invalid for input of size {int(numel)}")
    return (*shape[:at], numel // rest, *shape[at + 1 :])


def reshape(input: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The elements in row-major order in another shape, which may hold one -1; a view where that is possible."""
    wanted = resolve(spelled(sizes, shape), prod(input.array.shape))
    return apply_view(RESHAPE, input, {"shape": wanted})


def view(input: Tensor, *shape: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """As reshape, and always a view: RuntimeError where the strides do not allow one. A dtype reinterprets bits."""
    kind = shape[0] if len(shape) == 1 and hasattr(shape[0], "numpy") else dtype
    if kind is not None:
        return view_dtype(input, kind.numpy)
    out = labelled(reshape(input, spelled(shape, size)), "View")
    if out.link is None and out.array is not input.array and prod(out.array.shape):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
            "two contiguous subspaces). Use .reshape(...) instead."
        )
    return out


def view_dtype(input: Tensor, dtype: Any) -> Tensor:
    """The same bits as elements of another numpy dtype; the last axis grows or shrinks with their size."""
    if dtype == input.array.dtype:
        return apply_view(RESHAPE, input, {"shape": tuple(input.array.shape)})
    return apply_view(TABLE["view_dtype"], input, {"dtype": name_of(dtype)})


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """The elements in the shape of `other`."""
    return reshape(input, other.array.shape)


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """A view in the shape of `other`."""
    return view(input, other.array.shape)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes start_dim to end_dim as one."""
    shape = input.array.shape
    first, last = axis("flatten", start_dim, len(shape)), axis("flatten", end_dim, len(shape))
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if first == last and shape:
        return input
    return labelled(
        apply_view(
            RESHAPE, input, {"shape": (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])}
        ),
        "View",
    )


def ravel(input: Tensor) -> Tensor:
    """All elements along one axis."""
    return flatten(input)


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One axis as several, of the given sizes (one may be -1)."""
    shape = input.array.shape
    d = axis("unflatten", dim, len(shape))
    parts = resolve(tuple(sizes), shape[d])
    return reshape(input, (*shape[:d], *parts, *shape[d + 1 :]))


def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without the axes of size 1, or those among `dim`."""
    shape = input.array.shape
    none = dim is not None and not isinstance(dim, int) and not len(dim)
    among = () if none else axes("squeeze", dim, len(shape))
    kept = tuple(n for d, n in enumerate(shape) if not (d in among and n == 1))
    return labelled(
        apply_view(RESHAPE, input, {"shape": kept}), "Squeeze" if dim is None else "SqueezeBackward1"
    )


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a new axis of size 1 at `dim`."""
    shape = input.array.shape
    d = axis("unsqueeze", dim, len(shape) + 1)
    return labelled(apply_view(RESHAPE, input, {"shape": (*shape[:d], 1, *shape[d:])}), "Unsqueeze")


def expand(input: Tensor, *shape: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """Axes of size 1 (and new leading ones) repeated without a copy; -1 keeps a size."""
    own, wanted = input.array.shape, spelled(shape, size)
    lead = len(wanted) - len(own)
    if lead < 0:
        raise RuntimeError(
            f"expand({list(map(int, own))}, size={list(map(int, wanted))}): the number of sizes provided "
            f"({len(wanted)}) must be greater or equal to the number of dimensions in the tensor ({len(own)})"
        )
    full = tuple(own[d - lead] if n == -1 and d >= lead else n for d, n in enumerate(wanted))
    for d, (n, m) in enumerate(zip(own, full[lead:], strict=True), lead):
        if n != 1 and n != m:
            raise RuntimeError(
                f"The expanded size of the tensor ({int(m)}) must match the existing size ({int(n)}) at "
                f"non-singleton dimension {d}.  Target sizes: {list(map(int, full))}.  "
                f"Tensor sizes: {list(map(int, own))}"
            )
    return apply_view(EXPAND, input, {"shape": full})


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expanded to the shape of `other`."""
    return expand(input, other.array.shape)


def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """Expanded to `size`."""
    return expand(input, tuple(size))


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape."""
    given = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    shape = broadcast_shapes(*(t.array.shape for t in given))
    return tuple(expand(t, shape) for t in given)


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that all of these broadcast to, as a Size."""
    from ..ops.types import DTYPES, Aval, broadcast_shapes as common_shape
    from ..tensor import Size

    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    return Size(common_shape("broadcast_shapes", *(Aval(s, DTYPES["float32"]) for s in given)))


def sum_to(input: Tensor, shape: Any) -> Tensor:
    """The inverse of broadcasting: summed over the axes along which `shape` was repeated."""
    wanted = tuple(shape)
    return input if tuple(input.array.shape) == wanted else apply(SUM_TO, input, shape=wanted)


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Summed to a shape that broadcasts to the tensor's. Integers are summed as int64."""
    wanted = spelled(size, None)
    if wanted and tuple(input.array.shape) == wanted:
        return input
    return sum_to(cast_to(input, INT64) if input.array.dtype.kind in "biu" else input, wanted)


# ---- axes --------------------------------------------------------------------------------------------------


def permute(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """The axes in the order `dims`."""
    order = tuple(axis("permute", d, input.ndim) for d in spelled(order, dims))
    if len(order) != input.ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(order)}"
        )
    return apply_view(PERMUTE, input, {"dims": order})


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes swapped."""
    ndim = input.ndim
    a, b = axis("transpose", dim0, ndim), axis("transpose", dim1, ndim)
    order = list(range(ndim))
    if ndim:
        order[a], order[b] = b, a
    return labelled(apply_view(PERMUTE, input, {"dims": tuple(order)}), "Transpose")


swapaxes = swapdims = transpose


def t(input: Tensor) -> Tensor:
    """A matrix transposed; a vector or a scalar as it is."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return labelled(transpose(input, 0, 1), "T") if input.ndim == 2 else input


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Axes `source` at positions `destination`, the others in order."""
    ndim = input.ndim
    src = moved_axes("source", source, ndim)
    dst = moved_axes("destination", destination, ndim)
    if len(src) != len(dst):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({source} dims) should contain the same number of "
            f"dims as destination ({destination} dims)"
        )
    rest = iter(d for d in range(ndim) if d not in src)
    order = [src[dst.index(d)] if d in dst else next(rest) for d in range(ndim)]
    return apply_view(PERMUTE, input, {"dims": tuple(order)})


def moved_axes(name: str, dims: Any, ndim: int) -> list[int]:
    out = [axis("movedim", d, ndim) for d in ([dims] if isinstance(dims, int) else dims)]
    if len(set(out)) != len(out):
        raise RuntimeError(f"movedim: repeated dim in `{name}` ({dims})")
    return out if ndim else []


moveaxis = movedim


def reversed_axes(input: Tensor) -> Tensor:
    """All axes in reverse order."""
    return permute(input, tuple(reversed(range(input.ndim))))


def matrix_transpose(input: Tensor) -> Tensor:
    """The last two axes swapped."""
    if input.ndim < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor."
        )
    return transpose(input, -2, -1)


def conjugated(input: Tensor) -> Tensor:
    from ..tape import F

    return F.conj(input) if input.array.dtype.kind == "c" else input


def adjoint(input: Tensor) -> Tensor:
    """The last two axes swapped, and conjugated."""
    if input.ndim < 2:
        raise RuntimeError(
            f"tensor.mH is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor."
        )
    return conjugated(transpose(input, -2, -1))


def conjugate_transpose(input: Tensor) -> Tensor:
    """A matrix transposed and conjugated; a zero-dimensional tensor conjugated."""
    if input.ndim not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor."
        )
    return conjugated(transpose(input, 0, 1) if input.ndim else input)


def contiguous(input: Tensor, *, memory_format: MemoryFormat | None = None) -> Tensor:
    """The tensor in dense memory, row-major or channels last: itself, or a copy."""
    if input.is_contiguous(memory_format=memory_format):
        return input
    if memory_format not in (channels_last, channels_last_3d):
        return apply(CLONE, input)
    order = channels_order(memory_format, input.ndim)
    dense = apply(CLONE, apply_view(PERMUTE, input, {"dims": order}))
    return permute(dense, tuple(order.index(d) for d in range(len(order))))


def laid_out(input: Tensor, memory_format: MemoryFormat | None) -> Tensor:
    """In dense memory of a format; None and preserve_format leave it as it is."""
    if memory_format is None or memory_format is preserve_format:
        return input
    return contiguous(input, memory_format=memory_format)


def channels_order(format: MemoryFormat, ndim: int) -> tuple[int, ...]:
    """The axes from the outermost in memory to the innermost: channels, axis 1, go last."""
    if ndim != format.ndim:
        raise RuntimeError(f"required rank {format.ndim} tensor to use {format} format, got {ndim} axes")
    return (0, *range(2, ndim), 1)


# ---- at least so many axes ------------------------------------------------------------------------------------


def each(function: Any, tensors: tuple[Any, ...]) -> Any:
    """The function of one tensor, or the tuple of its values for several."""
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return function(tensors[0])
    given = tensors[0] if len(tensors) == 1 else tensors
    return tuple(function(x) for x in given)


def atleast_1d(*tensors: Any) -> Any:
    """With at least one axis; a tuple for several tensors."""
    return each(lambda x: x if x.ndim else reshape(x, (1,)), tensors)


def atleast_2d(*tensors: Any) -> Any:
    """With at least two axes, a vector as a row; a tuple for several tensors."""
    return each(lambda x: x if x.ndim > 1 else reshape(x, (1, *x.array.shape) if x.ndim else (1, 1)), tensors)


def atleast_3d(*tensors: Any) -> Any:
    """With at least three axes: a vector along the second, a matrix along the first two; a tuple for several."""

    def grown(x: Tensor) -> Tensor:
        shape = tuple(x.array.shape)
        return x if x.ndim > 2 else reshape(x, ((1, 1, 1), (1, *shape, 1), (*shape, 1))[x.ndim])

    return each(grown, tensors)
