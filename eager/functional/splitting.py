"""An axis in parts, all of them views."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..tape import labelled
from ..tensor import Tensor
from .base import axis
from .slicing import select, slice_axis


def split(
    tensor: Tensor, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None
) -> tuple[Tensor, ...]:
    """Views of consecutive parts of an axis: of one size (the last may be smaller), or of the sizes given."""
    wanted = split_size if split_size_or_sections is None else split_size_or_sections
    if not isinstance(wanted, int):
        return split_with_sizes(tensor, wanted, dim)
    d = split_axis("split", tensor, dim)
    size = tensor.array.shape[d]
    if wanted < 0 or (wanted == 0 and size != 0):
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={wanted}")
    return parts(tensor, d, [min(wanted, size - at) for at in range(0, size, wanted or 1)] or [0])


def split_axis(name: str, x: Tensor, dim: int) -> int:
    if not x.ndim:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    return axis(name, dim, x.ndim)


def parts(x: Tensor, d: int, lengths: list[int]) -> tuple[Tensor, ...]:
    """Slices of the lengths one after another."""
    out, at = [], 0
    for n in lengths:
        out.append(labelled(slice_axis(x, d, at, at + n), "Split"))
        at = at + n
    return tuple(out)


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts of an axis, of the sizes given."""
    d = split_axis("split_with_sizes", input, dim)
    size, lengths = input.array.shape[d], list(split_sizes)
    if any(n < 0 for n in lengths):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes="
            f"{list(map(int, lengths))}"
        )
    if sum(lengths) != size:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {int(size)} (input tensor's size at "
            f"dimension {d}), but got split_sizes={list(map(int, lengths))}"
        )
    return parts(input, d, lengths)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` parts of an axis, of equal size but for the last."""
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    d = split_axis("chunk", input, dim)
    size = input.array.shape[d]
    if size == 0:
        return parts(input, d, [0] * chunks)
    return split(input, max(-(-size // chunks), 1), d)


unsafe_split, unsafe_split_with_sizes, unsafe_chunk = split, split_with_sizes, chunk


def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """Parts cut at the given places, or that many parts of nearly equal size."""
    wanted: Any = next((v for v in (indices_or_sections, sections, indices) if v is not None), None)
    if not input.ndim:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    d = axis("tensor_split", dim, input.ndim)
    size = input.array.shape[d]
    if isinstance(wanted, Tensor):
        wanted = split_places(wanted)
    if isinstance(wanted, int):
        if wanted < 1:
            raise RuntimeError(f"number of sections must be larger than 0, got {wanted}")
        return parts(input, d, [size // wanted + (k < size % wanted) for k in range(wanted)])
    cuts = [0, *(min(max(c if c >= 0 else c + size, 0), size) for c in wanted), size]
    return tuple(slice_axis(input, d, a, max(a, b)) for a, b in pairwise(cuts))


def split_places(given: Tensor) -> Any:
    """The number, or the numbers, of an int64 tensor."""
    if given.array.dtype.name != "int64":
        raise RuntimeError(
            f"tensor_split expected tensor_indices_or_sections to have dtype of long, but got {given.dtype}"
        )
    if given.ndim > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but "
            f"got a tensor with {given.ndim} dims"
        )
    return given.tolist()


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The elements of an axis, without it."""
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    d = axis("unbind", dim, input.ndim)
    return tuple(labelled(select(input, d, k), "Unbind") for k in range(input.array.shape[d]))


def evenly(name: str, input: Tensor, least: int, dim: int, wanted: Any) -> tuple[Tensor, ...]:
    """tensor_split along a fixed axis, into equal parts where a number is given."""
    if input.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension{'s' * (least > 1)}, but got a tensor with "
            f"{input.ndim} dimensions!".removeprefix("torch.")
        )
    if isinstance(wanted, float):
        raise TypeError(f"{name}(): wants an int or a tuple of ints, got {wanted}")
    size = input.array.shape[dim]
    if isinstance(wanted, int) and (wanted == 0 or size % wanted):
        raise RuntimeError(
            f"{name} attempted to split along dimension {dim}, but the size of the dimension {int(size)} is not "
            f"divisible by the split_size {wanted}!"
        )
    return tensor_split(input, wanted, dim)


def hsplit(
    input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """Parts of the second axis (of a vector's only one): so many equal ones, or cut at the given places."""
    wanted = next((v for v in (indices_or_sections, sections, indices) if v is not None), None)
    return evenly("hsplit", input, 1, 0 if input.ndim == 1 else 1, wanted)


def vsplit(
    input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """Parts of the first axis: so many equal ones, or cut at the given places."""
    wanted = next((v for v in (indices_or_sections, sections, indices) if v is not None), None)
    return evenly("vsplit", input, 2, 0, wanted)


def dsplit(
    input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None
) -> tuple[Tensor, ...]:
    """Parts of the third axis: so many equal ones, or cut at the given places."""
    wanted = next((v for v in (indices_or_sections, sections, indices) if v is not None), None)
    return evenly("dsplit", input, 3, 2, wanted)
