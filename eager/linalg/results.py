"""What the factorisations return: tuples with PyTorch's names of the parts."""

from __future__ import annotations

from typing import NamedTuple

from ..tensor import Tensor


class CholeskyEx(NamedTuple):
    L: Tensor
    info: Tensor


class InvEx(NamedTuple):
    inverse: Tensor
    info: Tensor


class SolveEx(NamedTuple):
    result: Tensor
    info: Tensor


class SignLogabsdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class Eig(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class SVD(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


class SVDLegacy(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor


class QR(NamedTuple):
    Q: Tensor
    R: Tensor


class PLU(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor


class LUFactor(NamedTuple):
    LU: Tensor
    pivots: Tensor


class LUFactorEx(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor


class Lstsq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class TriangularSolve(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor


class Geqrf(NamedTuple):
    a: Tensor
    tau: Tensor
