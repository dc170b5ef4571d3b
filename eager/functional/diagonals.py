"""Diagonals and triangles of matrices, and matrices made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.table import TABLE
from ..tape import apply, apply_view
from ..tensor import Tensor
from .base import axis
from .output import takes_out
from .shaping import flatten, movedim, reshape

DIAGONAL, DIAGONAL_PUT, CLONE = TABLE["diagonal"], TABLE["diagonal_put"], TABLE["clone"]
TRIL, TRIU = TABLE["tril"], TABLE["triu"]


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A view of a diagonal of two axes, as the last axis."""
    a, b = axis("diagonal", dim1, input.ndim), axis("diagonal", dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply_view(DIAGONAL, input, {"offset": offset, "dim1": a, "dim2": b})


def diagonal_put(input: Tensor, value: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """A copy of the tensor with `value` on a diagonal."""
    return apply(DIAGONAL_PUT, input, value, offset=offset, dim1=dim1, dim2=dim2)


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of the tensor with `src` on a diagonal."""
    a, b = axis("diagonal_scatter", dim1, input.ndim), axis("diagonal_scatter", dim2, input.ndim)
    return diagonal_put(input, src, offset, a, b)


@takes_out
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with the vector on a diagonal, or the diagonal of a matrix."""
    if input.ndim == 2:
        return apply(CLONE, apply_view(DIAGONAL, input, {"offset": diagonal, "dim1": 0, "dim2": 1}))
    if input.ndim != 1:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return diag_embed(input, diagonal)


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last axis on a diagonal, zero elsewhere; their axes are dim1 and dim2 of the result."""
    if not input.ndim:
        raise RuntimeError("diag_embed: wants a tensor with at least one axis, got a zero-dimensional one")
    a, b = axis("diag_embed", dim1, input.ndim + 1), axis("diag_embed", dim2, input.ndim + 1)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.array.shape[-1] + abs(offset)
    zeros = input.new_zeros((*input.array.shape[:-1], size, size))
    plain = diagonal_put(zeros, input, offset, input.ndim - 1, input.ndim)
    return movedim(plain, (-2, -1), (dim1, dim2)) if (dim1, dim2) != (-2, -1) else plain


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements on a diagonal."""
    return diag_embed(flatten(input), offset)


def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the matrices (vectors and numbers count as rows) one after another on the diagonal."""
    from ..dtypes import promote
    from .base import cast_to
    from .slicing import slice_put

    given = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    blocks = [as_row(k, x) for k, x in enumerate(given)]
    if not blocks:
        from .creation import zeros

        return zeros(1, 0)
    dtype = blocks[0].array.dtype
    for x in blocks:
        dtype = promote(dtype, x.array.dtype)
    rows, columns = (sum(x.array.shape[d] for x in blocks) for d in (0, 1))
    out, at, across = blocks[0].new_zeros((rows, columns), dtype=dtype), 0, 0
    for x in blocks:
        down, right = at + x.array.shape[0], across + x.array.shape[1]
        out = slice_put(out, cast_to(x, dtype), (at, across), (down, right), (1, 1))
        at, across = down, right
    return out


def as_row(k: int, x: Tensor) -> Tensor:
    """A matrix as it is, a vector as a row, a number as a matrix of one element."""
    if x.ndim > 2:
        raise RuntimeError(
            f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {k} has {x.ndim} "
            "dimensions".removeprefix("torch.")
        )
    return x if x.ndim == 2 else reshape(x, (1, -1) if x.numel() else (1, 0))


def is_matrix(name: str, x: Tensor) -> None:
    if x.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions, got {x.ndim}")


@takes_out
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The elements on and below a diagonal of the last two axes."""
    is_matrix("tril", input)
    return apply(TRIL, input, diagonal=diagonal)


@takes_out
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The elements on and above a diagonal of the last two axes."""
    is_matrix("triu", input)
    return apply(TRIU, input, diagonal=diagonal)


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """int64[2, n]: rows and columns of the elements on and below a diagonal, row by row."""
    return triangle_indices(
        "tril_indices", np.tri(max(row, 0), max(col, 0), offset, bool), row, col, dtype, device
    )


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """int64[2, n]: rows and columns of the elements on and above a diagonal, row by row."""
    below = np.tri(max(row, 0), max(col, 0), offset - 1, bool)
    return triangle_indices("triu_indices", ~below, row, col, dtype, device)


def triangle_indices(name: str, chosen: Any, row: int, col: int, dtype: Any, device: Any) -> Tensor:
    from .creation import as_tensor

    if row < 0 or col < 0:
        raise RuntimeError(f"{name}: row and col must be non-negative, got {row} and {col}")
    return as_tensor(np.stack(chosen.nonzero()).astype("int64"), dtype=dtype, device=device)
