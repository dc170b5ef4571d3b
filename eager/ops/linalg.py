"""Linear algebra: factorisations, spectra and systems of equations, each computed as a whole by LAPACK.

All operands are stacks of matrices [..., m, n] of a floating-point or complex dtype. A factorisation that can fail
gives LAPACK's `info`, an int32 per matrix, 0 for success, as its last output. The gradients are those of Giles,
"Collected matrix derivative results for forward and reverse mode algorithmic differentiation" (2008), for complex
operands in the convention of PyTorch: the gradient is the conjugate Wirtinger derivative times two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import lapack
from .lapack import INT32, on_host
from .table import library
from .types import DTYPES, Aval, broadcast_shapes, same_dtype, size_min

INT64 = DTYPES["int64"]


def real_dtype(dtype: Any) -> Any:
    """The dtype of the absolute value."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def complex_dtype(dtype: Any) -> Any:
    """The complex dtype of a floating dtype's precision."""
    return dtype if dtype.kind == "c" else np.dtype(f"c{dtype.itemsize * 2}")


def _same_and_info(a: Aval, **attrs: Any) -> tuple[Aval, Aval]:
    return a, Aval(a.shape[:-2], INT32)


# ---- helpers of gradient rules: F is the public functions --------------------------------------------------


def adjoint(F: Any, x: Any) -> Any:
    """The conjugate transpose of each matrix."""
    t = F.transpose(x, -1, -2)
    return F.conj(t) if x.dtype.is_complex else t


def conj(F: Any, x: Any) -> Any:
    return F.conj(x) if x.dtype.is_complex else x


def row(F: Any, x: Any) -> Any:
    """Vectors [..., n] as rows, to scale the columns of matrices by."""
    return F.unsqueeze(x, -2)


def column(F: Any, x: Any) -> Any:
    """Vectors [..., n] as columns, to scale the rows of matrices by."""
    return F.unsqueeze(x, -1)


def diagonal_of(F: Any, x: Any) -> Any:
    return F.diagonal(x, 0, -2, -1)


def halved_diagonal(F: Any, x: Any) -> Any:
    """The lower triangle with half the diagonal."""
    return (F.tril(x) + F.tril(x, -1)) / 2


def differences(F: Any, x: Any) -> Any:
    """x[j] - x[i] at [..., i, j], and 1 on the diagonal, to divide by."""
    out = row(F, x) - column(F, x)
    return out + F.eye(x.shape[-1], dtype=out.dtype, device=out.device)


def lower_solve(F: Any, a: Any, b: Any, unit: bool = False) -> Any:
    return F.linalg.solve_triangular(a, b, upper=False, unitriangular=unit)


def upper_solve(F: Any, a: Any, b: Any, unit: bool = False) -> Any:
    return F.linalg.solve_triangular(a, b, upper=True, unitriangular=unit)


# ---- Cholesky ----------------------------------------------------------------------------------------------


def _cholesky_vjp(F: Any, g: Any, out: Any, a: Any, *, upper: bool = False) -> tuple[Any]:
    lower = out[0]
    if g[0] is None:
        return (None,)
    phi = F.matmul(adjoint(F, lower), g[0])
    # With the diagonal of phi as it is, as PyTorch has it: of a complex matrix its imaginary part has no meaning.
    phi = (F.tril(phi) + adjoint(F, F.tril(phi, -1))) / 2
    left = upper_solve(F, adjoint(F, lower), phi)
    return (adjoint(F, upper_solve(F, adjoint(F, lower), adjoint(F, left))),)


library("linalg_cholesky", _same_and_info, on_host(lapack.cholesky), vjp=_cholesky_vjp)

# ---- inverse and systems -----------------------------------------------------------------------------------


def _inverse_vjp(F: Any, g: Any, out: Any, a: Any) -> tuple[Any]:
    if g[0] is None:
        return (None,)
    turned = adjoint(F, out[0])
    return (-F.matmul(turned, F.matmul(g[0], turned)),)


library("linalg_inverse", _same_and_info, on_host(lapack.inverse), vjp=_inverse_vjp)


def _solved(name: str, a: Aval, b: Aval) -> Aval:
    """The shape of X in A X = B, with the batch axes broadcast."""
    dtype = same_dtype(name, a, b)
    if a.shape[-2] != a.shape[-1] or a.shape[-1] != b.shape[-2]:
        raise RuntimeError(f"{name}: wants A [..., n, n] and B [..., n, k], got {a} and {b}")
    batch = broadcast_shapes(name, Aval(a.shape[:-2], dtype), Aval(b.shape[:-2], dtype))
    return Aval((*batch, *b.shape[-2:]), dtype)


def _solve_vjp(F: Any, g: Any, out: Any, a: Any, b: Any) -> tuple[Any, Any]:
    if g[0] is None:
        return None, None
    gb = F.linalg.rules.solve(adjoint(F, a), g[0])
    return -F.matmul(gb, adjoint(F, out[0])), gb


library(
    "linalg_solve",
    lambda a, b: (_solved("linalg.solve", a, b), Aval(a.shape[:-2], INT32)),
    on_host(lapack.solve),
    vjp=_solve_vjp,
    arity=(2, 2),
)


def _triangular_vjp(F: Any, g: Any, out: Any, a: Any, b: Any, *, upper: bool, unit: bool) -> tuple[Any, Any]:
    gb = F.linalg.solve_triangular(adjoint(F, a), g, upper=not upper, unitriangular=unit)
    ga = -F.matmul(gb, adjoint(F, out))
    return (F.triu(ga, int(unit)) if upper else F.tril(ga, -int(unit))), gb


library(
    "linalg_solve_triangular",
    lambda a, b, **attrs: _solved("linalg.solve_triangular", a, b),
    on_host(lapack.solve_triangular),
    vjp=_triangular_vjp,
    arity=(2, 2),
)


def _cholesky_solve_vjp(F: Any, g: Any, out: Any, b: Any, factor: Any, *, upper: bool) -> tuple[Any, Any]:
    """Of the whole factor, as PyTorch has it: not of its triangle alone."""
    gb = F.cholesky_solve(g, factor, upper)
    common = F.matmul(gb, adjoint(F, out))
    common = common + adjoint(F, common)
    return gb, -(F.matmul(factor, common) if upper else F.matmul(common, factor))


library(
    "cholesky_solve",
    lambda b, factor, *, upper: _solved("cholesky_solve", factor, b),
    on_host(lapack.cholesky_solve),
    vjp=_cholesky_solve_vjp,
    arity=(2, 2),
)

# ---- LU ----------------------------------------------------------------------------------------------------


def _lu_infer(a: Aval) -> tuple[Aval, Aval, Aval]:
    k = size_min(*a.shape[-2:])
    return a, Aval((*a.shape[:-2], k), INT32), Aval(a.shape[:-2], INT32)


def _lu_vjp(F: Any, g: Any, out: Any, a: Any) -> tuple[Any]:
    """The square leading part as in the square case; the rest of L or U passes its gradient on to that part."""
    if g[0] is None:
        return (None,)
    (m, n), k = a.shape[-2:], min(a.shape[-2:])
    lu, gl, gu = out[0], F.tril(g[0], -1), F.triu(g[0])
    square = F.narrow(F.narrow(lu, -2, 0, k), -1, 0, k)
    lower, upper = adjoint(F, square), adjoint(F, F.triu(square))
    gl1, gu1 = F.narrow(gl, -2, 0, k), F.narrow(gu, -1, 0, k)
    gl1, gu1 = F.narrow(gl1, -1, 0, k), F.narrow(gu1, -2, 0, k)
    rest: Any = None
    if n > k:
        rest = upper_solve(F, lower, F.narrow(gu, -1, k, n - k), unit=True)
        gl1 = gl1 - F.tril(F.matmul(rest, adjoint(F, F.narrow(lu, -1, k, n - k))), -1)
    elif m > k:
        rest = _right_lower_solve(F, upper, F.narrow(gl, -2, k, m - k))
        gu1 = gu1 - F.triu(F.matmul(adjoint(F, F.narrow(lu, -2, k, m - k)), rest))
    unit = F.tril(square, -1) + F.eye(k, dtype=square.dtype, device=square.device)
    inner = F.tril(F.matmul(adjoint(F, unit), gl1), -1) + F.triu(F.matmul(gu1, upper))
    ga = _right_lower_solve(F, upper, upper_solve(F, lower, inner, unit=True))
    if rest is not None:
        ga = F.cat([ga, rest], -1 if n > k else -2)
    order = F.linalg.rules.permutation_matrix(out[1], m, g[0])
    return (F.matmul(order, ga),)


def _right_lower_solve(F: Any, a: Any, b: Any) -> Any:
    """X of X A = B for lower triangular A."""
    return F.transpose(upper_solve(F, F.transpose(a, -1, -2), F.transpose(b, -1, -2)), -1, -2)


library("linalg_lu", _lu_infer, on_host(lapack.lu_factor), vjp=_lu_vjp)
library(
    "linalg_permutation",
    lambda pivots, *, size: Aval((*pivots.shape[:-1], size), INT64),
    on_host(lapack.permutation_of),
)

# ---- QR ----------------------------------------------------------------------------------------------------


def _qr_infer(a: Aval, *, mode: str) -> tuple[Aval, Aval]:
    *batch, m, n = a.shape
    rows = m if mode == "complete" else size_min(m, n)
    q = (0,) if mode == "r" else (*batch, m, rows)
    return Aval(q, a.dtype), Aval((*batch, rows, n), a.dtype)


def _qr_vjp(F: Any, g: Any, out: Any, a: Any, *, mode: str) -> tuple[Any]:
    """For m >= n. A wider matrix is split by the public function: Q of its square part, times the rest."""
    m, n = a.shape[-2:]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
            "Please use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
    (gq, gr), (q, r) = g, out
    s = None if gr is None else F.matmul(F.triu(gr), adjoint(F, r))
    if gq is not None:
        part = F.matmul(adjoint(F, q), gq)
        s = -part if s is None else s - part
    if s is None:
        return (None,)
    half = (F.triu(s) + F.triu(s, 1)) / 2
    turned = F.matmul(q, half + adjoint(F, half))
    turned = turned if gq is None else gq + turned
    return (adjoint(F, upper_solve(F, r, adjoint(F, turned))),)


library("linalg_qr", _qr_infer, on_host(lapack.qr), vjp=_qr_vjp)

# ---- determinant, exponential, least squares ---------------------------------------------------------------


def _batch(a: Aval) -> Aval:
    return Aval(a.shape[:-2], a.dtype)


library(
    "linalg_det",
    _batch,
    on_host(lapack.det),
    vjp=(lambda F, g, out, a: column(F, column(F, g)) * F.linalg.rules.cofactors(a, out),),
)


def _slogdet_vjp(F: Any, g: Any, out: Any, a: Any) -> tuple[Any]:
    """The logarithm moves by the trace of A⁻¹ dA; of a complex matrix the real part, the sign by the other."""
    gsign, glog = g
    if gsign is not None and a.dtype.is_complex:
        turn = F.imag(F.conj(gsign) * out[0])
        glog = F.complex(F.zeros_like(turn) if glog is None else glog, -turn)
    if glog is None:
        return (None,)
    return (column(F, column(F, glog)) * adjoint(F, F.linalg.rules.inverse(a)),)


library(
    "linalg_slogdet",
    lambda a: (_batch(a), Aval(a.shape[:-2], real_dtype(a.dtype))),
    on_host(lapack.slogdet),
    vjp=_slogdet_vjp,
)


def _exp_vjp(F: Any, g: Any, out: Any, a: Any) -> Any:
    """The derivative of exp at Aᴴ along g: the corner of the exponential of [[Aᴴ, g], [0, Aᴴ]]."""
    n, turned = a.shape[-1], adjoint(F, a)
    top, bottom = F.cat([turned, g], -1), F.cat([F.zeros_like(turned), turned], -1)
    whole = F.linalg.matrix_exp(F.cat([top, bottom], -2))
    return F.narrow(F.narrow(whole, -2, 0, n), -1, n, n)


library("linalg_matrix_exp", lambda a: a, on_host(lapack.matrix_exp), vjp=(_exp_vjp,))


def _lstsq_infer(a: Aval, b: Aval, **attrs: Any) -> tuple[Aval, Aval, Aval]:
    batch = broadcast_shapes("linalg.lstsq", *(Aval(x.shape[:-2], x.dtype) for x in (a, b)))
    m, n = a.shape[-2:]
    values = Aval((*batch, size_min(m, n)), real_dtype(a.dtype))
    return Aval((*batch, n, b.shape[-1]), a.dtype), Aval(batch, INT64), values


def _lstsq_vjp(F: Any, g: Any, out: Any, a: Any, b: Any, **attrs: Any) -> tuple[Any, Any]:
    """Through the solution A⁺ B."""
    if g[0] is None:
        return None, None
    inverse = F.linalg.pinv(a)
    gb = F.matmul(adjoint(F, inverse), g[0])
    return pseudo_inverse_gradient(F, F.matmul(g[0], adjoint(F, b)), inverse, a), gb


library("linalg_lstsq", _lstsq_infer, on_host(lapack.lstsq), vjp=_lstsq_vjp, arity=(2, 2))


def pseudo_inverse_gradient(F: Any, g: Any, out: Any, a: Any) -> Any:
    """The gradient of A⁺ for constant rank (Golub and Pereyra, 1973), products ordered for the shape of A."""
    turned, gt = adjoint(F, out), adjoint(F, g)
    if a.shape[-2] <= a.shape[-1]:
        k = F.matmul(gt, out)
        kt = F.matmul(k, turned)
        return (
            kt
            - adjoint(F, F.matmul(out, k))
            - F.matmul(F.matmul(a, out), kt)
            + F.matmul(F.matmul(turned, out), gt - F.matmul(k, a))
        )
    k = F.matmul(out, gt)
    tk = F.matmul(turned, k)
    return (
        tk
        - adjoint(F, F.matmul(k, out))
        + F.matmul(F.matmul(gt - F.matmul(a, k), out), turned)
        - F.matmul(F.matmul(tk, out), a)
    )


def _pinv_infer(a: Aval, atol: Aval, rtol: Aval, *, hermitian: bool) -> Aval:
    return Aval((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)


library(
    "linalg_pinv",
    _pinv_infer,
    on_host(lapack.pinv),
    vjp=(lambda F, g, out, a, atol, rtol, *, hermitian: pseudo_inverse_gradient(F, g, out, a), None, None),
    arity=(3, 3),
)
library(
    "linalg_geqrf",
    lambda a: (a, Aval((*a.shape[:-2], size_min(*a.shape[-2:])), a.dtype)),
    on_host(lapack.geqrf),
)
