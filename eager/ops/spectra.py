"""Eigenvalues, eigenvectors and singular values of stacks of matrices, by LAPACK.

Eigenvectors and singular vectors are unique only up to a factor of modulus one (and up to a rotation for equal
values), so a gradient exists only for functions that do not depend on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import lapack
from .lapack import on_host
from .linalg import adjoint, column, complex_dtype, conj, diagonal_of, differences, real_dtype, row
from .table import library
from .types import Aval, size_min


def _values(a: Aval, dtype: Any) -> Aval:
    return Aval(a.shape[:-1], dtype)


# ---- eigenvalues -------------------------------------------------------------------------------------------


def _eigh_vjp(F: Any, g: Any, out: Any, a: Any, *, lower: bool) -> tuple[Any]:
    (gw, gv), (w, v) = g, out
    if gv is None:
        return (None,) if gw is None else (F.matmul(v * row(F, gw), adjoint(F, v)),)
    inner = F.matmul(adjoint(F, v), gv)
    F.linalg.rules.check_gauge("linalg_eigh", "eigenvectors", diagonal_of(F, inner))
    inner = inner / differences(F, w)
    inner = inner - F.diag_embed(diagonal_of(F, inner))
    if gw is not None:
        inner = inner + F.diag_embed(gw)
    ga = F.matmul(v, F.matmul(inner, adjoint(F, v)))
    # What is not Hermitian of it says nothing: the matrix is.
    return ((ga + adjoint(F, ga)) / 2,)


library(
    "linalg_eigh",
    lambda a, *, lower: (_values(a, real_dtype(a.dtype)), a),
    on_host(lapack.eigh),
    vjp=_eigh_vjp,
)
library(
    "linalg_eigvalsh",
    lambda a, *, lower: _values(a, real_dtype(a.dtype)),
    on_host(lapack.eigvalsh),
    vjp=(lambda F, g, out, a, *, lower: eigh_values_gradient(F, g, a, lower),),
)


def eigh_values_gradient(F: Any, g: Any, a: Any, lower: bool) -> Any:
    """V g Vᴴ. The eigenvectors are computed only now that a gradient is wanted."""
    v = F.linalg.eigh(a, "L" if lower else "U")[1]
    return F.matmul(v * row(F, g), adjoint(F, v))


def _eig_vjp(F: Any, g: Any, out: Any, a: Any) -> tuple[Any]:
    (gw, gv), (w, v) = g, out
    turned = adjoint(F, v)
    if gv is None:
        inner = None if gw is None else column(F, gw) * turned
    else:
        inner = F.matmul(turned, gv)
        own = diagonal_of(F, inner)
        F.linalg.rules.check_gauge("linalg_eig", "eigenvectors", own)
        # The eigenvectors have norm 1, which takes the part along themselves away.
        inner = inner - F.matmul(turned, v) * row(F, F.real(own))
        inner = inner / conj(F, differences(F, w))
        inner = inner - F.diag_embed(diagonal_of(F, inner))
        inner = F.matmul(inner if gw is None else inner + F.diag_embed(gw), turned)
    if inner is None:
        return (None,)
    ga = F.linalg.rules.solve(turned, inner)
    # Of the matrix itself, which is not read, its shape and numpy dtype alone may be left.
    return (ga if np.dtype(getattr(a, "array", a).dtype).kind == "c" else F.real(ga),)


library(
    "linalg_eig",
    lambda a: (_values(a, complex_dtype(a.dtype)), Aval(a.shape, complex_dtype(a.dtype))),
    on_host(lapack.eig),
    vjp=_eig_vjp,
)


def eig_values_gradient(F: Any, g: Any, a: Any) -> Any:
    """V⁻ᴴ g Vᴴ, with the eigenvectors computed only now."""
    turned = adjoint(F, F.linalg.eig(a)[1])
    ga = F.linalg.rules.solve(turned, column(F, g) * turned)
    return ga if a.dtype.is_complex else F.real(ga)


library(
    "linalg_eigvals",
    lambda a: _values(a, complex_dtype(a.dtype)),
    on_host(lapack.eigvals),
    vjp=(lambda F, g, out, a: eig_values_gradient(F, g, a),),
)

# ---- singular values ---------------------------------------------------------------------------------------


def _svd_infer(a: Aval, *, full: bool) -> tuple[Aval, Aval, Aval]:
    *batch, m, n = a.shape
    k = size_min(m, n)
    rows, columns = (m, n) if full else (k, k)
    u, vh = Aval((*batch, m, rows), a.dtype), Aval((*batch, columns, n), a.dtype)
    return u, Aval((*batch, k), real_dtype(a.dtype)), vh


def _svd_vjp(F: Any, g: Any, out: Any, a: Any, *, full: bool) -> tuple[Any]:
    """The gradient for distinct singular values; of the vectors beyond min(m, n) there is none."""
    (m, n), k = a.shape[-2:], min(a.shape[-2:])
    gu, gs, gvh = g
    u, s, vh = F.narrow(out[0], -1, 0, k), out[1], F.narrow(out[2], -2, 0, k)
    gu = None if gu is None else F.narrow(gu, -1, 0, k)
    gvh = None if gvh is None else F.narrow(gvh, -2, 0, k)
    if gu is None and gvh is None:
        return (None,) if gs is None else (F.matmul(u * row(F, gs), vh),)
    ga = F.matmul(F.matmul(u, _svd_inner(F, gu, gs, gvh, u, s, vh)), vh)
    if gu is not None and m > k:
        part = gu / row(F, s)
        ga = ga + F.matmul(part - F.matmul(u, F.matmul(adjoint(F, u), part)), vh)
    if gvh is not None and n > k:
        part = gvh / column(F, s)
        ga = ga + F.matmul(u, part - F.matmul(F.matmul(part, adjoint(F, vh)), vh))
    return (ga,)


def _svd_inner(F: Any, gu: Any, gs: Any, gvh: Any, u: Any, s: Any, vh: Any) -> Any:
    """The gradient in the bases of the singular vectors."""
    left = None if gu is None else _skew(F, F.matmul(adjoint(F, u), gu))
    right = None if gvh is None else _skew(F, F.matmul(vh, adjoint(F, gvh)))
    own = sum(diagonal_of(F, x) for x in (left, right) if x is not None)
    F.linalg.rules.check_gauge("svd", "singular vectors", own)
    gaps = (row(F, s) - column(F, s)) * (row(F, s) + column(F, s))
    squares = gaps + F.eye(s.shape[-1], dtype=s.dtype, device=s.device)
    inner = 0
    if left is not None:
        inner = left * row(F, s) / squares
    if right is not None:
        inner = inner + column(F, s) * right / squares
    inner = inner - F.diag_embed(diagonal_of(F, inner))
    if gs is not None:
        inner = inner + F.diag_embed(gs)
    if u.dtype.is_complex and left is not None and right is not None:
        inner = inner + F.diag_embed(diagonal_of(F, left) / (2 * s))
    return inner


def _skew(F: Any, x: Any) -> Any:
    return x - adjoint(F, x)


library("linalg_svd", _svd_infer, on_host(lapack.svd), vjp=_svd_vjp)


def svd_values_gradient(F: Any, g: Any, a: Any) -> Any:
    """U g Vᴴ, with the singular vectors computed only now."""
    u, _, vh = F.linalg.svd(a, full_matrices=False)
    return F.matmul(u * row(F, g), vh)


library(
    "linalg_svdvals",
    lambda a: Aval((*a.shape[:-2], size_min(*a.shape[-2:])), real_dtype(a.dtype)),
    on_host(lapack.svdvals),
    vjp=(lambda F, g, out, a: svd_values_gradient(F, g, a),),
)
