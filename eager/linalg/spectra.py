"""Eigenvalues, eigenvectors and singular values of batches of matrices."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .checks import check_matrix, check_square, computed
from .results import SVD, Eig


def eig(A: Tensor) -> Eig:
    """Eigenvalues [..., n] and eigenvectors [..., n, n] (columns of norm 1), complex and in no order."""
    check_square("linalg.eig", A)
    return Eig(*computed("linalg.eig", "linalg_eig", A))


def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues [..., n], complex and in no order."""
    check_square("linalg.eigvals", A)
    return computed("linalg.eigvals", "linalg_eigvals", A)


def reads_lower(UPLO: str) -> bool:
    """Whether the lower triangle is the one that is read."""
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "L"


def eigh(A: Tensor, UPLO: str = "L") -> Eig:
    """Eigenvalues [..., n], rising, and orthonormal eigenvectors (columns) of Hermitian matrices.

    UPLO: which triangle is read, "L" or "U".
    """
    check_square("linalg.eigh", A)
    return Eig(*computed("linalg.eigh", "linalg_eigh", A, lower=reads_lower(UPLO)))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues [..., n] of Hermitian matrices, rising."""
    check_square("linalg.eigvalsh", A)
    return computed("linalg.eigvalsh", "linalg_eigvalsh", A, lower=reads_lower(UPLO))


def check_driver(driver: Any) -> None:
    if driver is not None:
        raise RuntimeError(
            f"linalg.svd: keyword argument `driver=` is only supported on CUDA, got {driver!r}"
        )


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """U, S, Vh with A = U diag(S) Vh: singular vectors, and singular values falling.

    full_matrices: U and Vh are square; otherwise they have min(m, n) columns and rows.
    """
    check_matrix("linalg.svd", A)
    check_driver(driver)
    return SVD(*computed("linalg.svd", "linalg_svd", A, full=bool(full_matrices)))


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values [..., min(m, n)], falling."""
    check_matrix("linalg.svdvals", A)
    check_driver(driver)
    return computed("linalg.svdvals", "linalg_svdvals", A)
