"""Systems of linear equations and inverses."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .. import functional as F
from ..functional.base import known_now
from ..ops.types import broadcast_shapes
from ..tensor import Tensor
from .checks import (
    check_floating,
    check_info,
    check_matrix,
    check_same_dtype,
    check_square,
    computed,
)
from .conjugate import adjoint as conjugate_transpose
from .factorisations import check_pivots, permutation_matrix
from .results import InvEx, Lstsq, SolveEx

SINGULAR_INVERSE = (
    "The diagonal element {info} is zero, "
    "the inversion could not be completed because the input matrix is singular."
)
SINGULAR_SOLVE = "The solver failed because the input matrix is singular."

# ---- inverse -----------------------------------------------------------------------------------------------


def inv_ex(A: Tensor, *, check_errors: bool = False) -> InvEx:
    """The inverse, and per matrix the number of the pivot that is exactly zero, or 0."""
    check_square("linalg.inv_ex", A)
    out = InvEx(*computed("linalg.inv_ex", "linalg_inverse", A))
    if check_errors:
        check_info("linalg.inv_ex", out.info, SINGULAR_INVERSE)
    return out


def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices; LinAlgError for a singular one."""
    check_square("linalg.inv", A)
    out = inv_ex(A)
    check_info("linalg.inv", out.info, SINGULAR_INVERSE)
    return out.inverse


# ---- systems -----------------------------------------------------------------------------------------------


def is_vector(A: Tensor, B: Tensor) -> bool:
    """Whether B holds vectors rather than matrices: it is one, or has A's shape without the last axis."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.array.shape) == tuple(A.array.shape[:-1]))


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """As `solve`, with the number of the pivot of A that is exactly zero, or 0, per matrix."""
    name = "linalg.solve_ex"
    check_system(name, A, B, left)
    if is_vector(A, B):
        if not left:
            raise RuntimeError(
                "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False"
            )
        x, info = computed(name, "linalg_solve", A, F.unsqueeze(B, -1))
        x = F.squeeze(x, -1)
    elif left:
        x, info = computed(name, "linalg_solve", A, B)
    else:
        x, info = computed(name, "linalg_solve", F.transpose(A, -1, -2), F.transpose(B, -1, -2))
        x = F.transpose(x, -1, -2)
    if check_errors:
        check_info("linalg.solve", info, SINGULAR_SOLVE)
    return SolveEx(x, info)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of A X = B, or of X A = B with left=False; LinAlgError for a singular A.

    B holds matrices [..., n, k], or vectors: [n], or [..., n] with the batch axes of A.
    """
    check_system("linalg.solve", A, B, left)
    return solve_ex(A, B, left=left, check_errors=True).result


def check_system(name: str, A: Tensor, B: Tensor, left: bool) -> None:
    """RuntimeError unless A is square and B has as many rows (columns, if not left)."""
    check_square(name, A)
    check_floating(name, B)
    check_same_dtype(name, A, B)
    if B.ndim == 0:
        raise RuntimeError(f"{name}: B must have at least 1 dimension, got a scalar")
    if is_vector(A, B):
        rows: Any = B.array.shape[-1]
    else:
        rows = B.array.shape[-2 if left else -1]
        check_batches(name, A, B)
    if rows != A.array.shape[-1]:
        op = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {op} ({_by(A)} and "
            f"{_by(B) if B.ndim > 1 else int(rows)})"
        )


def _by(x: Tensor) -> str:
    return f"{int(x.array.shape[-2])}x{int(x.array.shape[-1])}"


def check_batches(name: str, A: Tensor, B: Tensor) -> None:
    """RuntimeError unless the batch axes broadcast."""
    from ..ops.types import Aval

    dtype = A.array.dtype
    broadcast_shapes(name, Aval(A.array.shape[:-2], dtype), Aval(B.array.shape[:-2], dtype))


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X of A X = B (X A = B with left=False) for triangular A, whose other triangle is not read.

    unitriangular: the diagonal of A counts as ones and is not read.
    """
    name = "linalg.solve_triangular"
    check_square(name, A)
    check_matrix(name, B, "B")
    check_same_dtype(name, A, B)
    check_batches(name, A, B)
    if B.array.shape[-2 if left else -1] != A.array.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({_by(A)} and {_by(B)})"
        )
    unit = bool(unitriangular)
    if left:
        return computed(name, "linalg_solve_triangular", A, B, upper=bool(upper), unit=unit)
    At, Bt = F.transpose(A, -1, -2), F.transpose(B, -1, -2)
    return F.transpose(computed(name, "linalg_solve_triangular", At, Bt, upper=not upper, unit=unit), -1, -2)


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X of A X = B with A as `lu_factor` left it; X A = B with left=False; Aᴴ for A with adjoint=True."""
    name = "linalg.lu_solve"
    check_square(name, LU, "LU")
    check_same_dtype(name, LU, B)
    check_matrix(name, B, "B")
    check_pivots(name, pivots, LU.array.shape[-1])
    if tuple(pivots.array.shape) != tuple(LU.array.shape[:-1]):
        raise RuntimeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix, got LU "
            f"{LU.shape} and pivots {pivots.shape}"
        )
    if B.array.shape[-2 if left else -1] != LU.array.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation AX = B ({_by(LU)} and {_by(B)})"
        )
    check_batches(name, LU, B)
    if not left:
        # X A = B is Aᴴ Xᴴ = Bᴴ.
        return conjugate_transpose(_lu_solved(LU, pivots, conjugate_transpose(B), not adjoint))
    return _lu_solved(LU, pivots, B, adjoint)


def _lu_solved(LU: Tensor, pivots: Tensor, B: Tensor, adjoint: bool) -> Tensor:
    order = permutation_matrix(pivots, LU.array.shape[-1], LU)
    if not adjoint:
        y = F.matmul(F.transpose(order, -1, -2), B)
        y = solve_triangular(LU, y, upper=False, unitriangular=True)
        return solve_triangular(LU, y, upper=True)
    turned = conjugate_transpose(LU)
    y = solve_triangular(turned, B, upper=False)
    return F.matmul(order, solve_triangular(turned, y, upper=True, unitriangular=True))


# ---- least squares and pseudo-inverse ----------------------------------------------------------------------

DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Lstsq:
    """A solution of least |A X - B|: (solution, residuals, rank, singular_values), empty where not computed.

    rcond: singular values below rcond times the largest count as zero; eps * max(m, n) if not given.
    driver: "gelsy" (the default), "gels" (full rank assumed), "gelsd" or "gelss" (by the singular values).
    """
    name, driver = "linalg.lstsq", driver or "gelsy"
    check_matrix(name, A, "input")
    check_floating(name, B)
    check_same_dtype(name, A, B)
    if driver not in DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver!r}"
        )
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.array.shape) == tuple(A.array.shape[:-1]))
    right = F.unsqueeze(B, -1) if vector else B
    if right.array.shape[-2] != A.array.shape[-2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-2), got {A.shape} and {B.shape}")
    m, n = A.array.shape[-2:]
    limit = float(np.finfo(A.array.dtype).eps) * max(m, n) if rcond is None else float(rcond)
    lapack = "gelsy" if driver == "gels" else driver
    solution, rank, values = computed(name, "linalg_lstsq", A, right, rcond=limit, driver=lapack)
    left_over = _residuals(A, right, solution, rank, driver)
    none = A.new_zeros((0,), dtype=values.dtype)
    return Lstsq(
        F.squeeze(solution, -1) if vector else solution,
        left_over,
        F.zeros((0,), dtype="int64") if driver == "gels" else rank,
        values.detach() if driver in ("gelsd", "gelss") else none,
    )


def _residuals(A: Tensor, B: Tensor, solution: Tensor, rank: Tensor, driver: str) -> Tensor:
    """The squares of |A X - B| per column, where every A has more rows than columns and full rank; else empty."""
    m, n = A.array.shape[-2:]
    found = known_now(rank)
    full = driver == "gels" or found is None or bool((found == n).all())
    if m <= n or not full or driver == "gelsy":
        return F.abs(F.narrow(F.flatten(solution), 0, 0, 0))
    rest = F.abs(F.matmul(A, solution) - B)
    return F.sum(rest * rest, -2)


def tolerances(name: str, A: Tensor, atol: Any, rtol: Any) -> tuple[Tensor, Tensor]:
    """Absolute and relative tolerances as tensors over the batch; the relative default is eps * max(m, n).

    It is 0 where only an absolute one is given.
    """
    real = np.zeros((), A.array.dtype).real.dtype
    eps = float(np.finfo(real).eps) * max(A.array.shape[-2:])
    default = 0.0 if atol is not None and _positive(atol) else eps
    found = (0.0 if atol is None else atol, default if rtol is None else rtol)
    return tuple(_spread(name, A, value, real) for value in found)  # type: ignore[return-value]


def _positive(value: Any) -> bool:
    """Of a tensor this is not asked: a relative tolerance that is not given is then 0."""
    return isinstance(value, Tensor) or value > 0


def _spread(name: str, A: Tensor, value: Any, real: Any) -> Tensor:
    if not isinstance(value, Tensor):
        return F.full(tuple(A.array.shape[:-2]), float(value), dtype=str(real), device=A.device)
    if value.array.dtype.kind == "c":
        raise RuntimeError(f"{name}: atol and rtol tensors of complex type are not supported.")
    return F.expand(F.cast(value, str(real)), _broadcast(tuple(A.array.shape[:-2]), tuple(value.array.shape)))


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(np.broadcast_shapes(*shapes))


def pinv(
    A: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """The pseudo-inverse [..., n, m] of Moore and Penrose.

    Singular values up to max(atol, rtol * the largest) count as zero; both may be tensors over the batch, and `rcond`
    is an old name of rtol. hermitian: A is Hermitian, and the values are its eigenvalues.
    """
    name = "linalg.pinv"
    (check_square if hermitian else check_matrix)(name, A)
    if A.array.size == 0 and A.ndim >= 2:
        return conjugate_transpose(A)
    absolute, relative = tolerances(name, A, atol, rtol if rcond is None else rcond)
    return computed(name, "linalg_pinv", A, absolute, relative, hermitian=bool(hermitian))


# ---- tensors as matrices -----------------------------------------------------------------------------------


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a map from its last axes to its first `ind` axes."""
    if ind <= 0:
        raise RuntimeError(
            "linalg.tensorinv: Expected a strictly positive integer for 'ind', got " + str(ind)
        )
    shape = tuple(A.array.shape)
    rows, columns = shape[ind:], shape[:ind]
    if prod(rows) != prod(columns):
        raise RuntimeError(
            "linalg.tensorinv: Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {prod(rows)} != {prod(columns)}"
        )
    out = inv_ex(F.reshape(A, (prod(columns), prod(rows))))
    check_info("linalg.tensorinv", out.info, SINGULAR_INVERSE)
    return F.reshape(out.inverse, (*rows, *columns))


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X of tensordot(A, X, X.ndim) = B; the axes `dims` of A are moved to its end before."""
    if dims is not None:
        A = F.movedim(A, tuple(dims), tuple(range(A.ndim - len(tuple(dims)), A.ndim)))
    shape = tuple(A.array.shape[B.ndim :])
    if prod(shape) != prod(B.array.shape):
        raise RuntimeError(
            "linalg.tensorsolve: Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {prod(shape)} != {prod(B.array.shape)}"
        )
    flat = F.reshape(A, (prod(B.array.shape), prod(shape)))
    return F.reshape(solve(flat, F.reshape(B, (-1,))), shape)
