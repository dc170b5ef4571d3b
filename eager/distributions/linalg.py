"""The few functions of linear algebra that distributions need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .. import functional as F
from ..tensor import Tensor


def _linalg() -> Any:
    return import_module("..linalg", __package__)


def cholesky(matrix: Tensor) -> Tensor:
    """The lower triangular L of L Lᵀ."""
    return _linalg().cholesky(matrix)


def solve_lower(lower: Tensor, right: Tensor) -> Tensor:
    """X of L X = right, L lower triangular."""
    return _linalg().solve_triangular(lower, right, upper=False)


def inverse_from_cholesky(lower: Tensor) -> Tensor:
    """(L Lᵀ)⁻¹."""
    inverse = solve_lower(lower, F.eye(lower.shape[-1], dtype=lower.dtype).expand(lower.shape))
    return inverse.mT @ inverse


def log_det_half(lower: Tensor) -> Tensor:
    """Half the logarithm of det(L Lᵀ)."""
    return F.diagonal(lower, 0, -2, -1).log().sum(-1)
