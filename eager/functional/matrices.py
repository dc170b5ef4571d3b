"""Functions of matrices that PyTorch has at its root: older spellings of those in `linalg`."""

from __future__ import annotations

from typing import Any

from .. import linalg
from ..linalg import factorisations, results
from ..linalg.checks import check_matrix, check_same_dtype, check_square, computed
from ..linalg.conjugate import adjoint
from ..tensor import Tensor
from .base import constant

# ---- factorisations ----------------------------------------------------------------------------------------


def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The Cholesky factor of a Hermitian positive-definite matrix; see `linalg.cholesky`."""
    check_square("cholesky", input)
    factor, info = linalg.cholesky_ex(input, upper=upper)
    linalg.checks.check_info("cholesky", info, factorisations.NOT_POSITIVE)
    return factor


def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of L Lᴴ, or of Uᴴ U with `upper`, given the factor."""
    check_square("cholesky_inverse", L)
    identity = _identity(L)
    return cholesky_solve(identity, L, upper)


def _identity(like: Tensor) -> Tensor:
    from . import eye

    return eye(like.array.shape[-1], dtype=like.dtype, device=like.device).expand(like.array.shape)


def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X of L Lᴴ X = B, or of Uᴴ U X = B with `upper`, given the factor."""
    check_matrix("cholesky_solve", B, "B")
    check_square("cholesky_solve", L, "L")
    check_same_dtype("cholesky_solve", B, L)
    return computed("cholesky_solve", "cholesky_solve", B, L, upper=bool(upper))


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """L and U in one matrix and the row swaps, and with `get_infos` the numbers of zero pivots."""
    factors = linalg.lu_factor_ex(A, pivot=pivot)
    return tuple(factors) if get_infos else results.LUFactor(factors.LU, factors.pivots)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> results.PLU:
    """P, L and U of what `linalg.lu_factor` returns; empty tensors for what is not wanted."""
    if LU_data.ndim < 2:
        raise RuntimeError(
            f"lu_unpack: The input tensor LU_data must have at least 2 dimensions, got {LU_data.shape}"
        )
    if unpack_pivots:
        factorisations.check_pivots("torch.lu_unpack", LU_pivots, LU_data.array.shape[-2])
    none = LU_data.new_zeros((0,))
    size = LU_data.array.shape[-2]
    order = factorisations.permutation_matrix(LU_pivots, size, LU_data) if unpack_pivots else none
    if not unpack_data:
        return results.PLU(order, none, none)
    return results.PLU(order, factorisations.unit_lower(LU_data), factorisations.upper_part(LU_data))


def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X of A X = b with A as `linalg.lu_factor` left it."""
    return linalg.lu_solve(LU_data, LU_pivots, b)


def qr(input: Tensor, some: bool = True) -> results.QR:
    """Q and R, reduced, or with `some=False` complete."""
    return linalg.qr(input, "reduced" if some else "complete")


def geqrf(input: Tensor) -> results.Geqrf:
    """R above the diagonal with the Householder vectors below it, and their factors tau."""
    check_matrix("geqrf", input, "input")
    return results.Geqrf(*computed("geqrf", "linalg_geqrf", input))


def orgqr(input: Tensor, tau: Tensor) -> Tensor:
    """The columns of Q that `geqrf` describes; see `linalg.householder_product`."""
    return linalg.householder_product(input, tau)


def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> results.SVDLegacy:
    """U, S, V with input = U diag(S) Vᴴ. `some`: only min(m, n) vectors; `compute_uv=False`: zeros for U and V."""
    check_matrix("linalg.svd", input)
    if compute_uv:
        u, s, vh = linalg.svd(input, full_matrices=not some)
        return results.SVDLegacy(u, s, adjoint(vh))
    *batch, m, n = input.array.shape
    u, v = (input.new_zeros((*batch, k, k)) for k in (m, n))
    return results.SVDLegacy(u, linalg.svdvals(input), v)


# ---- systems and inverses ----------------------------------------------------------------------------------


def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> results.TriangularSolve:
    """X of A X = b (of Aᵀ X = b with `transpose`) for triangular A, and a copy of A."""
    name = "triangular_solve"
    check_matrix(name, b, "b")
    check_square(name, A)
    turned = A.transpose(-1, -2) if transpose else A
    x = linalg.solve_triangular(turned, b, upper=upper != transpose, unitriangular=unitriangular)
    return results.TriangularSolve(x, A.clone())


def inverse(input: Tensor) -> Tensor:
    """The inverse of square matrices; see `linalg.inv`."""
    return linalg.inv(input)


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudo-inverse; singular values up to rcond times the largest count as zero."""
    return linalg.pinv(input, rcond)


# ---- determinants and functions ----------------------------------------------------------------------------


def det(A: Tensor) -> Tensor:
    """The determinant of square matrices."""
    return linalg.det(A)


def slogdet(A: Tensor) -> results.SignLogabsdet:
    """The sign and the logarithm of the modulus of the determinant."""
    return linalg.slogdet(A)


def logdet(A: Tensor) -> Tensor:
    """The logarithm of the determinant: nan for a negative one, -inf for zero; complex for complex A."""
    from . import log, where

    sign, logabs = linalg.slogdet(A)
    if A.dtype.is_complex:
        return logabs + log(sign)
    return where(sign == -1, constant(float("nan"), logabs.array.dtype, logabs), logabs)


def matrix_power(input: Tensor, n: int) -> Tensor:
    """A square matrix multiplied with itself n times; see `linalg.matrix_power`."""
    return linalg.matrix_power(input, n)


def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices."""
    return linalg.matrix_exp(A)
