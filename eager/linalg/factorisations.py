"""Cholesky, LU and QR factorisations of batches of matrices [..., m, n]."""

from __future__ import annotations

from .. import functional as F
from ..functional.base import cast_to, known_now
from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor
from .checks import check_floating, check_info, check_matrix, check_square, computed
from .conjugate import adjoint
from .results import PLU, QR, CholeskyEx, LUFactor, LUFactorEx

NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor of "
    "order {info} is not positive-definite)."
)
NO_PIVOT = "{name}: LU without pivoting is not implemented on the CPU; leave pivot=True"

# ---- Cholesky ----------------------------------------------------------------------------------------------


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """The Cholesky factor, and per matrix the order of the leading minor that is not positive-definite, or 0."""
    name = "linalg.cholesky_ex"
    check_square(name, A)
    lower, info = computed(name, "linalg_cholesky", A, upper=bool(upper))
    if check_errors:
        check_info("linalg.cholesky", info, NOT_POSITIVE)
    return CholeskyEx(adjoint(lower) if upper else lower, info)


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L of a Hermitian positive-definite A = L Lᴴ, or with `upper` its adjoint.

    Only one triangle of A is read. LinAlgError for a matrix that is not positive-definite.
    """
    check_square("linalg.cholesky", A)
    return cholesky_ex(A, upper=upper, check_errors=True).L


# ---- LU ----------------------------------------------------------------------------------------------------


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """As `lu_factor`, with the number of the first pivot that is exactly zero, or 0, per matrix."""
    name = "linalg.lu_factor_ex"
    check_matrix(name, A)
    if not pivot:
        raise RuntimeError(NO_PIVOT.format(name="linalg.lu_factor"))
    out = LUFactorEx(*computed(name, "linalg_lu", A))
    if check_errors:
        check_info("linalg.lu_factor", out.info, ZERO_PIVOT)
    return out


ZERO_PIVOT = (
    "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
    "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)


def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactor:
    """L (without its diagonal of ones) and U in one matrix, and the row swaps, counted from 1.

    LinAlgError for a matrix with a pivot that is exactly zero.
    """
    check_matrix("linalg.lu_factor", A)
    factors = lu_factor_ex(A, pivot=pivot, check_errors=True)
    return LUFactor(factors.LU, factors.pivots)


def lu(A: Tensor, *, pivot: bool = True) -> PLU:
    """P, L, U with A = P L U: a permutation, unit lower triangular, upper triangular."""
    check_matrix("linalg.lu", A)
    if not pivot:
        raise RuntimeError(NO_PIVOT.format(name="linalg.lu"))
    factors = lu_factor_ex(A)
    return unpacked(factors.LU, factors.pivots)


def unpacked(LU: Tensor, pivots: Tensor) -> PLU:
    """The three factors of what `lu_factor` returns."""
    return PLU(permutation_matrix(pivots, LU.array.shape[-2], LU), unit_lower(LU), upper_part(LU))


def _rank(LU: Tensor) -> int:
    m, n = LU.array.shape[-2:]
    return m if m <= n else n


def upper_part(LU: Tensor) -> Tensor:
    """U of packed factors."""
    k = _rank(LU)
    return F.triu(LU if LU.array.shape[-2] == k else F.narrow(LU, -2, 0, k))


def unit_lower(LU: Tensor) -> Tensor:
    """L of packed factors, with its diagonal of ones."""
    k = _rank(LU)
    part = LU if LU.array.shape[-1] == k else F.narrow(LU, -1, 0, k)
    return F.tril(part, -1) + F.eye(part.array.shape[-2], k, dtype=LU.dtype, device=LU.device)


def permutation_matrix(pivots: Tensor, size: int, like: Tensor) -> Tensor:
    """P [..., size, size] of the row swaps, in the dtype of `like`."""
    order = apply(TABLE["linalg_permutation"], pivots, size=int(size))
    places = F.unsqueeze(F.arange(size, device=like.device), -1)
    return cast_to(F.unsqueeze(order, -2) == places, like.array.dtype)


def check_pivots(name: str, pivots: Tensor, size: int) -> None:
    """RuntimeError for row swaps of the wrong dtype or out of range."""
    if pivots.array.dtype != "int32":
        raise RuntimeError(
            f"{name}: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. "
            "[Note: this function is intended to be used with the output produced by linalg.lu_factor]"
        )
    found = known_now(pivots)
    if found is not None and found.size and (found.min() < 1 or found.max() > size):
        raise RuntimeError(f"{name}: pivots passed to it must be between 1 and {size}, counted from 1")


# ---- QR ----------------------------------------------------------------------------------------------------


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and upper triangular R of A = Q R.

    mode: "reduced" (Q is [..., m, min(m, n)]), "complete" (Q is square) or "r" (R alone, Q is empty).
    """
    check_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    m, n = A.array.shape[-2:]
    if mode == "r" or m >= n or A.node is None:
        return QR(*computed("linalg.qr", "linalg_qr", A, mode=mode))
    q, r = computed("linalg.qr", "linalg_qr", F.narrow(A, -1, 0, m), mode="reduced")
    return QR(q, F.cat([r, F.matmul(adjoint(q), F.narrow(A, -1, m, n - m))], -1))


def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns [..., m, n] of the product of the reflections I - tau[i] v[i] v[i]ᴴ.

    v[i] is column i of A below the diagonal, with a 1 on it, as `geqrf` returns them.
    """
    name = "linalg.householder_product"
    check_matrix(name, A)
    check_floating(name, tau)
    m, n = A.array.shape[-2:]
    if m < n or tau.array.shape[-1] > n:
        raise RuntimeError(f"{name}: wants m >= n >= tau.shape[-1], got A {A.shape} and tau {tau.shape}")
    vectors = F.tril(A, -1) + F.eye(m, n, dtype=A.dtype, device=A.device)
    out = F.eye(m, n, dtype=A.dtype, device=A.device).expand(A.array.shape)
    for i in reversed(range(tau.array.shape[-1])):
        v = F.narrow(vectors, -1, i, 1)
        out = out - F.narrow(F.unsqueeze(tau, -2), -1, i, 1) * F.matmul(v, F.matmul(adjoint(v), out))
    return out
