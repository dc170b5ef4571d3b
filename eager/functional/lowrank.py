"""Approximate decompositions of large matrices, products with the Q of a QR, and Vandermonde matrices."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .arranging import flip
from .creation import ones_like
from .cumulative import cumprod
from .joining import cat
from .padding import pad
from .pointwise import cast
from .product import matmul
from .randoms import randn
from .shaping import expand, unsqueeze

Decomposition = tuple[Tensor, Tensor, Tensor]


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> Decomposition:
    """U [..., m, q], S [..., q], V [..., n, q] with U diag(S) V.H close to A (or A - M) [..., m, n].

    A random matrix of q columns finds the space of the largest singular values, `niter` subspace iterations improve
    it (Halko, Martinsson and Tropp 2009, algorithm 5.1). A q a little above the rank gives good results.
    """
    A = A if M is None else A - M
    if A.shape[-2] < A.shape[-1]:
        U, S, V = tall_svd(A.mH, 6 if q is None else q, niter or 0)
        return V, S, U
    return tall_svd(A, 6 if q is None else q, niter or 0)


def tall_svd(A: Tensor, q: int, niter: int) -> Decomposition:
    from ..linalg import qr, svd

    start = randn((A.shape[-1], q), dtype=A.dtype, device=A.device)
    Q = qr(matmul(A, start)).Q
    for _ in range(niter):
        Q = qr(matmul(A, qr(matmul(A.mH, Q)).Q)).Q
    U, S, Vh = svd(matmul(Q.mH, A), full_matrices=False)
    return matmul(Q, U), S, Vh.mH


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Decomposition:
    """The q principal components (columns of V) of the rows of A [..., m, n], as U, S, V of `svd_lowrank`.

    `center`: of the rows less their mean. ValueError for q above min(m, n), and for a negative `niter`.
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q @ other, or other @ Q, with the square Q of the reflections that `geqrf` gave; `transpose`: with Q.H."""
    from ..linalg import householder_product

    rows = other.shape[-2] if left else other.shape[-1]
    reflections, factors = input[..., : tau.shape[-1]], tau
    missing = rows - tau.shape[-1]
    if missing:
        reflections, factors = pad(reflections, (0, missing)), pad(tau, (0, missing))
    Q = householder_product(reflections, factors)
    Q = Q.mH if transpose else Q
    return matmul(Q, other) if left else matmul(other, Q)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Of a vector [n] the powers N - 1, ... 1, 0 of each element, or with `increasing` 0, 1, ... N - 1: [n, N]."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count: Any = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    base = cast(x, "int64") if x.array.dtype.kind in "bui" else x
    ones = unsqueeze(ones_like(base), -1)
    if count <= 1:
        return ones[:, :count]
    out = cat([ones, cumprod(expand(unsqueeze(base, -1), (x.shape[0], count - 1)), -1)], -1)
    return out if increasing else flip(out, (-1,))
