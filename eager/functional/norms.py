"""Norms over axes and what is scaled by them."""

from __future__ import annotations

from math import inf
from typing import Any

from ..ops.table import TABLE
from ..tape import labelled
from ..tensor import Tensor
from .base import as_float, axis, cast_to
from .output import takes_out
from .pointwise import abs, cast, reciprocal, where
from .reduction import amax, amin, reduce_with, sum

NORM = TABLE["vector_norm"]


@takes_out
def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The p-norm of the elements over axes; p a number, inf, -inf, "fro" (2) or "nuc" (of matrices).

    Of a complex tensor the norm is real. RuntimeError for integers without a dtype.
    """
    x = input if dtype is None else cast(input, dtype)
    if x.array.dtype.kind in "biu":
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got " + x.dtype.name
        )
    if p == "nuc":
        return nuclear_norm(x, dim, keepdim)
    if p is None or p == "fro":
        p = 2.0
    if not isinstance(p, (int, float)):
        raise RuntimeError(f"norm(): p is a number, inf, -inf, 'fro' or 'nuc', got {p!r}")
    return labelled(vector_norm(x, float(p), dim, keepdim), "LinalgVectorNorm")


def vector_norm(x: Tensor, p: float, dim: Any, keepdim: bool) -> Tensor:
    """The p-norm over axes; of complex elements that of their absolute values."""
    if x.array.dtype.kind == "c":
        x = abs(x)
    if p == 1:
        return sum(abs(x), dim, keepdim)
    if p in (inf, -inf):
        return (amax if p > 0 else amin)(abs(x), dim, keepdim)
    return reduce_with(NORM, x, dim, keepdim, p=p)


def nuclear_norm(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum of the singular values of the matrices on two axes."""
    from .. import functional

    row, column = (-2, -1) if dim is None else dim
    if dim is None and x.ndim != 2:
        raise RuntimeError(
            f"norm(): 'nuc' wants a matrix or dim, a pair of axes, got a tensor of {x.ndim} axes"
        )
    first, second = axis("norm", row, x.ndim), axis("norm", column, x.ndim)
    values = functional.svd(functional.movedim(x, (first, second), (-2, -1))).S
    out = sum(values, -1)
    if keepdim:
        for d in sorted((first, second)):
            out = functional.unsqueeze(out, d)
    return out


def frobenius_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The 2-norm of the elements over axes."""
    return norm(input, "fro", dim, keepdim)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The p-norm over all axes but one, which are kept at size 1; dim -1 means over all."""
    if dim == -1:
        return norm(v, pow)
    kept = axis("norm_except_dim", dim, v.ndim)
    return vector_norm(v, float(pow), [k for k in range(v.ndim) if k != kept], True)


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference."""
    return norm(as_float("dist", input - other), p)


@takes_out
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice along an axis scaled down to a p-norm of at most maxnorm."""
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    if p <= 0:
        raise RuntimeError(f"renorm: non-positive norm not supported, got p={p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    d = axis("renorm", dim, input.ndim)
    size = vector_norm(input, float(p), [k for k in range(input.ndim) if k != d], True)
    large = size > maxnorm
    scale = where(large, reciprocal(where(large, size, 1.0) + 1e-7) * maxnorm, 1.0)
    return input * cast_to(scale, input.array.dtype)
