"""The few functions of linear algebra that distributions need."""

from __future__ import annotations

from .. import functional as F, linalg
from ..tensor import Tensor


def cholesky(matrix: Tensor) -> Tensor:
    """The lower triangular L of L Lᵀ."""
    return linalg.cholesky(matrix)


def solve_lower(lower: Tensor, right: Tensor) -> Tensor:
    """X of L X = right, L lower triangular."""
    return linalg.solve_triangular(lower, right, upper=False)


def inverse_from_cholesky(lower: Tensor) -> Tensor:
    """(L Lᵀ)⁻¹."""
    inverse = solve_lower(lower, F.eye(lower.shape[-1], dtype=lower.dtype).expand(lower.shape))
    return inverse.mT @ inverse


def log_det_half(lower: Tensor) -> Tensor:
    """Half the logarithm of det(L Lᵀ)."""
    return F.diagonal(lower, 0, -2, -1).log().sum(-1)
