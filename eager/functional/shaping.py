"""Views, and moving elements about: reshape, permute, slices, concatenation, padding, flips."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from ..ops.table import TABLE
from ..tape import apply, apply_view, labelled
from ..tensor import Tensor
from .base import axes, axis, cast_to, sizes

EXPAND, PERMUTE, RESHAPE, SLICE = TABLE["expand"], TABLE["permute"], TABLE["reshape"], TABLE["slice"]
SELECT = TABLE["select"]
DIAGONAL, SLICE_PUT, DIAGONAL_PUT = TABLE["diagonal"], TABLE["slice_put"], TABLE["diagonal_put"]
CAT, PAD, FLIP, ROLL = TABLE["cat"], TABLE["pad"], TABLE["flip"], TABLE["roll"]
TRIL, TRIU, SUM_TO = TABLE["tril"], TABLE["triu"], TABLE["sum_to"]

Ints = tuple[int, ...]

# ---- shape -------------------------------------------------------------------------------------------------


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


def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The elements in row-major order in another shape, which may hold one -1; a view where that is possible."""
    wanted = resolve(sizes(shape), prod(input.array.shape))
    return apply_view(RESHAPE, input, {"shape": wanted})


def view(input: Tensor, *shape: Any) -> Tensor:
    """As reshape, and always a view: RuntimeError where the strides do not allow one. A dtype reinterprets bits."""
    if len(shape) == 1 and hasattr(shape[0], "numpy"):
        return Tensor(input._read("view(dtype)").view(shape[0].numpy))
    out = labelled(reshape(input, *shape), "View")
    if out.link is None and out.array is not input.array and prod(out.array.shape):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
            "two contiguous subspaces). Use .reshape(...) instead."
        )
    return out


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
    among = axes("squeeze", dim, len(shape))
    kept = tuple(n for d, n in enumerate(shape) if not (d in among and n == 1))
    return labelled(
        apply_view(RESHAPE, input, {"shape": kept}), "Squeeze" if dim is None else "SqueezeBackward1"
    )


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a new axis of size 1 at `dim`."""
    shape = input.array.shape
    d = axis("unsqueeze", dim, len(shape) + 1)
    return labelled(apply_view(RESHAPE, input, {"shape": (*shape[:d], 1, *shape[d:])}), "Unsqueeze")


def expand(input: Tensor, *shape: Any) -> Tensor:
    """Axes of size 1 (and new leading ones) repeated without a copy; -1 keeps a size."""
    own, wanted = input.array.shape, sizes(shape)
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
    """Summed to a shape that broadcasts to the tensor's."""
    return sum_to(input, sizes(size))


def permute(input: Tensor, *dims: Any) -> Tensor:
    """The axes in the order `dims`."""
    order = tuple(axis("permute", d, input.ndim) for d in sizes(dims))
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
    src = [axis("movedim", d, ndim) for d in ([source] if isinstance(source, int) else source)]
    dst = [axis("movedim", d, ndim) for d in ([destination] if isinstance(destination, int) else destination)]
    rest = iter(d for d in range(ndim) if d not in src)
    order = [src[dst.index(d)] if d in dst else next(rest) for d in range(ndim)]
    return apply_view(PERMUTE, input, {"dims": tuple(order)})


moveaxis = movedim


def contiguous(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """The tensor in dense row-major memory: itself, or a copy."""
    return input if input.is_contiguous() else apply(TABLE["clone"], input)


# ---- slices ------------------------------------------------------------------------------------------------


def slice_axes(input: Tensor, starts: Ints, stops: Ints, steps: Ints) -> Tensor:
    """The slice [start : stop : step] along every axis; bounds must be within the axes."""
    return apply_view(SLICE, input, {"starts": starts, "stops": stops, "steps": steps})


def slice_axis(input: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
    """A slice along one axis, bounds within it."""
    shape = input.array.shape
    starts = tuple(start if d == dim else 0 for d in range(len(shape)))
    stops = tuple(stop if d == dim else n for d, n in enumerate(shape))
    return apply_view(
        SLICE,
        input,
        {
            "starts": starts,
            "stops": stops,
            "steps": tuple(step if d == dim else 1 for d in range(len(shape))),
        },
    )


def slice_put(input: Tensor, value: Tensor, starts: Ints, stops: Ints, steps: Ints) -> Tensor:
    """A copy of the tensor with `value` in a slice."""
    return apply(SLICE_PUT, input, value, starts=starts, stops=stops, steps=steps)


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` elements of an axis, from `start`."""
    d = axis("narrow", dim, input.ndim)
    size = input.array.shape[d]
    if not -size <= start <= size:
        raise IndexError(f"start ({start}) must be within the axis of size {int(size)}")
    start = start + size if start < 0 else start
    if length < 0 or start + length > size:
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


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts of an axis: of one size (the last may be smaller), or of the sizes given."""
    d = axis("split", dim, tensor.ndim)
    size = tensor.array.shape[d]
    if isinstance(split_size_or_sections, int):
        step = split_size_or_sections
        if step <= 0:
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={step}")
        parts = [builtins.min(step, size - at) for at in range(0, size, step)] or [0]
    else:
        parts = list(split_size_or_sections)
        if builtins.sum(parts) != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {int(size)} (input tensor's size at "
                f"dimension {d}), but got split_sizes={list(map(int, parts))}"
            )
    out, at = [], 0
    for part in parts:
        out.append(labelled(slice_axis(tensor, d, at, at + part), "Split"))
        at = at + part
    return tuple(out)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` parts of an axis, of equal size but for the last."""
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = input.array.shape[axis("chunk", dim, input.ndim)]
    return split(input, builtins.max(-(-size // chunks), 1), dim)


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts cut at the given places, or that many parts of nearly equal size."""
    d = axis("tensor_split", dim, input.ndim)
    size = input.array.shape[d]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        parts = [size // count + (k < size % count) for k in range(count)]
        return split(input, parts, d)
    cuts = [0, *(builtins.min(c if c >= 0 else c + size, size) for c in indices_or_sections), size]
    return tuple(slice_axis(input, d, a, builtins.max(a, b)) for a, b in pairwise(cuts))


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The elements of an axis, without it."""
    d = axis("unbind", dim, input.ndim)
    return tuple(labelled(select(input, d, k), "Unbind") for k in range(input.array.shape[d]))


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A view of a diagonal of two axes, as the last axis."""
    a, b = axis("diagonal", dim1, input.ndim), axis("diagonal", dim2, input.ndim)
    return apply_view(DIAGONAL, input, {"offset": offset, "dim1": a, "dim2": b})


def diagonal_put(input: Tensor, value: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """A copy of the tensor with `value` on a diagonal."""
    return apply(DIAGONAL_PUT, input, value, offset=offset, dim1=dim1, dim2=dim2)


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of the tensor with `src` on a diagonal."""
    a, b = axis("diagonal_scatter", dim1, input.ndim), axis("diagonal_scatter", dim2, input.ndim)
    return diagonal_put(input, src, offset, a, b)


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with the vector on a diagonal, or the diagonal of a matrix."""
    if input.ndim == 2:
        return apply(TABLE["clone"], apply_view(DIAGONAL, input, {"offset": diagonal, "dim1": 0, "dim2": 1}))
    if input.ndim != 1:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return diag_embed(input, diagonal)


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last axis on a diagonal, zero elsewhere; their axes are dim1 and dim2 of the result."""
    size = input.array.shape[-1] + builtins.abs(offset)
    plain = diagonal_put(
        input.new_zeros((*input.array.shape[:-1], size, size)), input, offset, input.ndim - 1, input.ndim
    )
    return movedim(plain, (-2, -1), (dim1, dim2)) if (dim1, dim2) != (-2, -1) else plain


# ---- joining -----------------------------------------------------------------------------------------------


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after another along an axis."""
    given = list(tensors)
    if not given:
        raise RuntimeError("torch.cat(): expected a non-empty list of Tensors".removeprefix("torch."))
    parts = [x for x in given if x.array.shape != (0,)] or given[
        :1
    ]  # PyTorch lets an empty vector pass anywhere
    if builtins.any(not x.array.shape for x in parts):
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    dtype = parts[0].array.dtype
    if builtins.any(x.array.dtype != dtype for x in given):
        from ..dtypes import promote

        for x in given:
            dtype = promote(dtype, x.array.dtype)
        parts = [cast_to(x, dtype) for x in parts]
    return apply(CAT, *parts, dim=axis("cat", dim, parts[0].ndim))


concat = concatenate = cat


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors, all of one shape, along a new axis."""
    given = list(tensors)
    if not given:
        raise RuntimeError("stack expects a non-empty TensorList")
    for x in given:
        if x.array.shape != given[0].array.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(map(int, given[0].array.shape))} at "
                f"entry 0 and {list(map(int, x.array.shape))} at entry {next(k for k, y in enumerate(given) if y is x)}"
            )
    d = axis("stack", dim, given[0].ndim + 1)
    return labelled(cat([unsqueeze(x, d) for x in given], d), "Stack")


def atleast_1d(input: Tensor) -> Tensor:
    """With at least one axis."""
    return reshape(input, (1,)) if input.ndim == 0 else input


def atleast_2d(input: Tensor) -> Tensor:
    """With at least two axes."""
    return reshape(input, (1, *input.array.shape)[-2:] if input.ndim else (1, 1)) if input.ndim < 2 else input


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the second axis (vectors along their only one)."""
    parts = [atleast_1d(x) for x in tensors]
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the first axis, vectors as rows."""
    return cat([atleast_2d(x) for x in tensors], 0)


# ---- repetition, padding, order ----------------------------------------------------------------------------


def pad_axes(input: Tensor, before: Ints, after: Ints, value: float = 0) -> Tensor:
    """`value` added at either end of each axis; sizes >= 0."""
    return apply(PAD, input, before=tuple(before), after=tuple(after), value=value)


def repeat(input: Tensor, *repeats: Any) -> Tensor:
    """The tensor repeated along each axis, new leading ones included."""
    counts = sizes(repeats)
    lead = len(counts) - input.ndim
    if lead < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    own = (1,) * lead + tuple(input.array.shape)
    spread = expand(
        reshape(input, tuple(m for n in own for m in (1, n))),
        tuple(m for c, n in zip(counts, own, strict=True) for m in (c, n)),
    )
    return labelled(
        apply(TABLE["clone"], reshape(spread, tuple(c * n for c, n in zip(counts, own, strict=True)))),
        "Repeat",
    )


def tile(input: Tensor, *dims: Any) -> Tensor:
    """As repeat, where fewer counts than axes mean the trailing axes."""
    counts = sizes(dims)
    return repeat(input, (1,) * builtins.max(0, input.ndim - len(counts)) + counts)


def repeat_interleave(input: Tensor, repeats: Any, dim: int | None = None) -> Tensor:
    """Each element of an axis repeated, `repeats` times or as often as its entry in `repeats` says."""
    if dim is None:
        input, dim = flatten(input), 0
    d = axis("repeat_interleave", dim, input.ndim)
    if isinstance(repeats, Tensor):
        import numpy as np

        from .creation import from_numpy
        from .indexing import index_select

        counts = repeats._read_cpu("repeat_interleave()")
        return index_select(input, d, from_numpy(np.repeat(np.arange(input.array.shape[d]), counts)))
    shape = input.array.shape
    spread = expand(unsqueeze(input, d + 1), (*shape[: d + 1], repeats, *shape[d + 1 :]))
    return reshape(spread, (*shape[:d], shape[d] * repeats, *shape[d + 1 :]))


def flip(input: Tensor, *dims: Any) -> Tensor:
    """The order of elements reversed along axes."""
    chosen = sizes(dims)
    return apply(FLIP, input, axes=axes("flip", chosen, input.ndim) if chosen else ())


def fliplr(input: Tensor) -> Tensor:
    """Reversed along the second axis."""
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """Reversed along the first axis."""
    return flip(input, 0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by 90 degrees k times, from the first of `dims` towards the second."""
    a, b = dims
    turns = k % 4
    if turns == 0:
        return apply(TABLE["clone"], input)
    if turns == 2:
        return flip(input, (a, b))
    return flip(transpose(input, a, b), a) if turns == 1 else transpose(flip(input, a), a, b)


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements shifted along axes, those that fall off coming back at the other end."""
    if dims is None:
        return reshape(roll(flatten(input), shifts, 0), input.array.shape)
    steps = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    along = (dims,) if isinstance(dims, int) else tuple(dims)
    if len(steps) != len(along):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(along)}")
    return apply(ROLL, input, shifts=steps, axes=tuple(axis("roll", d, input.ndim) for d in along))


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The elements on and below a diagonal of the last two axes."""
    return apply(TRIL, input, diagonal=diagonal)


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The elements on and above a diagonal of the last two axes."""
    return apply(TRIU, input, diagonal=diagonal)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of a grid: each vector expanded over the axes of all."""
    given = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    if indexing == "xy" and len(given) > 1:
        swapped = meshgrid(given[1], given[0], *given[2:])
        return (swapped[1], swapped[0], *swapped[2:])
    shape = tuple(prod(x.array.shape) for x in given)
    return tuple(
        expand(reshape(x, tuple(shape[d] if d == k else 1 for d in range(len(shape)))), shape)
        for k, x in enumerate(given)
    )
