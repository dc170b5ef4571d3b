"""Batches of matrices through LAPACK and BLAS: what the `run` rules of the linear-algebra ops call.

numpy's functions work on whole batches and are used where there is one; for the others each matrix of the batch goes
through scipy's wrapper. Arrays on a GPU are computed on the host. All results have the precision of the operands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

INT32 = np.dtype("int32")


def on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `run` rule of a function of numpy arrays; results go back to where the operands live."""

    @wraps(function)
    def run(xp: Any, *arrays: Any, **attrs: Any) -> Any:
        if xp is np:
            return function(*arrays, **attrs)
        out = function(*map(xp.asnumpy, arrays), **attrs)
        return tuple(map(xp.asarray, out)) if isinstance(out, tuple) else xp.asarray(out)

    return run


def lapack(name: str, like: Any) -> Any:
    """The LAPACK routine for the dtype of an array."""
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs((name,), (like,))[0]


def blas(name: str, like: Any) -> Any:
    """The BLAS routine for the dtype of an array."""
    from scipy.linalg import get_blas_funcs

    return get_blas_funcs((name,), (like,))[0]


def batch_of(*arrays: Any) -> tuple[int, ...]:
    """The common batch shape of stacks of matrices."""
    return np.broadcast_shapes(*(a.shape[:-2] for a in arrays))


def broadcast_batch(*arrays: Any) -> list[Any]:
    """Stacks of matrices with their batch axes broadcast."""
    batch = batch_of(*arrays)
    return [np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays]


# ---- LU ----------------------------------------------------------------------------------------------------


def lu_factor(a: Any) -> tuple[Any, Any, Any]:
    """L and U [..., m, n] in one matrix, the row swaps [..., min(m, n)] counted from 1, and LAPACK's info [...]."""
    m, n = a.shape[-2:]
    lu = np.array(a)
    pivots = np.broadcast_to(np.arange(1, min(m, n) + 1, dtype=INT32), (*a.shape[:-2], min(m, n))).copy()
    info = np.zeros(a.shape[:-2], INT32)
    if lu.size:
        getrf = lapack("getrf", a)
        for at in np.ndindex(a.shape[:-2]):
            lu[at], swaps, info[at] = getrf(a[at])
            pivots[at] = swaps + 1
    return lu, pivots, info


def permutation_of(pivots: Any, size: int) -> Any:
    """The row order [..., size] that row swaps [..., k] counted from 1 leave: row i of the product was row p[i]."""
    order = np.broadcast_to(np.arange(size), (*pivots.shape[:-1], size)).copy()
    for at in np.ndindex(pivots.shape[:-1]):
        row = order[at]
        for i, j in enumerate(pivots[at]):
            row[i], row[j - 1] = row[j - 1], row[i]
    return order


# ---- Cholesky, inverse, systems ----------------------------------------------------------------------------


def cholesky(a: Any, *, upper: bool = False) -> tuple[Any, Any]:
    """The lower factor and, per matrix, the order of the leading minor that is not positive (0: none).

    upper: the upper triangle is the one that is read.
    """
    a = a.conj().swapaxes(-1, -2) if upper else a
    try:
        return np.linalg.cholesky(a), np.zeros(a.shape[:-2], INT32)
    except np.linalg.LinAlgError:
        lower, info, potrf = np.zeros_like(a), np.zeros(a.shape[:-2], INT32), lapack("potrf", a)
        for at in np.ndindex(a.shape[:-2]):
            lower[at], info[at] = potrf(a[at], lower=1, clean=1)
        return lower, info


def inverse(a: Any) -> tuple[Any, Any]:
    """The inverse and, per matrix, the number of the pivot that is exactly zero (0: none)."""
    try:
        return np.linalg.inv(a), np.zeros(a.shape[:-2], INT32)
    except np.linalg.LinAlgError:
        return per_matrix(np.linalg.inv, a), lu_factor(a)[2]


def solve(a: Any, b: Any) -> tuple[Any, Any]:
    """X of A X = B, and the number of the pivot that is exactly zero, as for `inverse`."""
    try:
        return np.linalg.solve(a, b), np.zeros(a.shape[:-2], INT32)
    except np.linalg.LinAlgError:
        return per_matrix(np.linalg.solve, *broadcast_batch(a, b)), lu_factor(a)[2]


def per_matrix(function: Callable[..., Any], *arrays: Any) -> Any:
    """Of each set of matrices apart; nan where it is singular. The result has the last operand's shape."""
    out = np.full(arrays[-1].shape, np.nan, arrays[-1].dtype)
    for at in np.ndindex(out.shape[:-2]):
        try:
            out[at] = function(*(a[at] for a in arrays))
        except np.linalg.LinAlgError:
            continue
    return out


def solve_triangular(a: Any, b: Any, *, upper: bool, unit: bool) -> Any:
    """X of A X = B for triangular A, of which the other triangle (and with `unit` the diagonal) is not read."""
    a, b = broadcast_batch(a, b)
    out = np.empty(b.shape, b.dtype)
    if out.size:
        trsm = blas("trsm", b)
        for at in np.ndindex(out.shape[:-2]):
            out[at] = trsm(1, a[at], b[at], lower=not upper, diag=unit)
    return out


def cholesky_solve(b: Any, factor: Any, *, upper: bool) -> Any:
    """X of L Lᴴ X = B, or of Uᴴ U X = B."""
    turned = factor.conj().swapaxes(-1, -2)
    first, second = (turned, factor) if upper else (factor, turned)
    y = solve_triangular(first, b, upper=False, unit=False)
    return solve_triangular(second, y, upper=True, unit=False)


# ---- spectra -----------------------------------------------------------------------------------------------


def complex_of(dtype: Any) -> Any:
    """The complex dtype of a dtype's precision."""
    return np.result_type(dtype, np.complex64)


def eig(a: Any) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors, always complex."""
    values, vectors = np.linalg.eig(a)
    dtype = complex_of(a.dtype)
    return values.astype(dtype, copy=False), vectors.astype(dtype, copy=False)


def eigvals(a: Any) -> Any:
    return np.linalg.eigvals(a).astype(complex_of(a.dtype), copy=False)


def eigh(a: Any, *, lower: bool) -> tuple[Any, Any]:
    values, vectors = np.linalg.eigh(a, "L" if lower else "U")
    return values, vectors


def eigvalsh(a: Any, *, lower: bool) -> Any:
    return np.linalg.eigvalsh(a, "L" if lower else "U")


def svd(a: Any, *, full: bool) -> tuple[Any, Any, Any]:
    u, s, vh = np.linalg.svd(a, full_matrices=full)
    return u, s, vh


def svdvals(a: Any) -> Any:
    return np.linalg.svd(a, compute_uv=False)


def qr(a: Any, *, mode: str) -> tuple[Any, Any]:
    """Q and R; with mode "r" Q is empty."""
    if mode == "r":
        return np.empty((0,), a.dtype), np.linalg.qr(a, "r")
    q, r = np.linalg.qr(a, mode)  # type: ignore[call-overload]
    return q, r


# ---- the rest ----------------------------------------------------------------------------------------------


def det(a: Any) -> Any:
    return np.asarray(np.linalg.det(a))


def slogdet(a: Any) -> tuple[Any, Any]:
    sign, logabs = np.linalg.slogdet(a)
    return np.asarray(sign), np.asarray(logabs)


def matrix_exp(a: Any) -> Any:
    """In double precision: the squarings would multiply the error of single."""
    from scipy.linalg import expm

    return expm(a.astype(np.result_type(a.dtype, np.float64))).astype(a.dtype) if a.size else a


def lstsq(a: Any, b: Any, *, rcond: float, driver: str) -> tuple[Any, Any, Any]:
    """A solution [..., n, k] of least |A X - B|, the rank [...] of A, and its singular values [..., min(m, n)].

    Singular values below `rcond` times the largest count as zero; the driver gelsy finds none, and gives zeros.
    """
    from scipy.linalg import lstsq as solver

    a, b = broadcast_batch(a, b)
    (m, n), k, batch = a.shape[-2:], b.shape[-1], a.shape[:-2]
    real = np.zeros((), a.dtype).real.dtype
    out, rank = np.zeros((*batch, n, k), a.dtype), np.zeros(batch, np.int64)
    values = np.zeros((*batch, min(m, n)), real)
    if a.size and b.size:
        for at in np.ndindex(batch):
            out[at], _, rank[at], s = solver(a[at], b[at], cond=rcond, lapack_driver=driver)
            if s is not None:
                values[at] = s
    return out, rank, values


def pinv(a: Any, atol: Any, rtol: Any, *, hermitian: bool) -> Any:
    """The pseudo-inverse: singular values up to max(atol, rtol * the largest) count as zero."""
    if not a.size:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    if hermitian:
        values, u = np.linalg.eigh(a)
        v = u
    else:
        u, values, vh = np.linalg.svd(a, full_matrices=False)
        v = vh.conj().swapaxes(-1, -2)
    size = np.abs(values)
    limit = np.maximum(atol[..., None], rtol[..., None] * size.max(axis=-1, keepdims=True))
    inverted = np.where(size > limit, 1 / np.where(size > limit, values, 1), 0).astype(values.dtype)
    return (v * inverted[..., None, :]) @ u.conj().swapaxes(-1, -2)


def geqrf(a: Any) -> tuple[Any, Any]:
    """R above the diagonal, the Householder vectors below it, and their factors tau."""
    m, n = a.shape[-2:]
    out, tau = np.array(a), np.zeros((*a.shape[:-2], min(m, n)), a.dtype)
    if a.size:
        routine = lapack("geqrf", a)
        for at in np.ndindex(a.shape[:-2]):
            out[at], tau[at] = routine(a[at])[:2]
    return out, tau
