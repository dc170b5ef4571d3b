"""What gradient rules of linear algebra use besides the public functions: no checks of arguments, no errors."""

from __future__ import annotations

import numpy as np

from .. import functional as F
from ..functional.base import known_now
from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor
from .conjugate import adjoint, conj
from .factorisations import permutation_matrix

__all__ = ["check_gauge", "cofactors", "inverse", "permutation_matrix", "solve"]


def solve(a: Tensor, b: Tensor) -> Tensor:
    """X of A X = B; nan for a singular A."""
    return apply(TABLE["linalg_solve"], a, b)[0]


def inverse(a: Tensor) -> Tensor:
    """A⁻¹; nan for a singular A."""
    return apply(TABLE["linalg_inverse"], a)[0]


def cofactors(a: Tensor, det: Tensor) -> Tensor:
    """The conjugate cofactors, the derivative of the determinant: conj(det) A⁻ᴴ where A is regular.

    Where a determinant is zero, from the singular values: conj(det U det Vᴴ) U diag(products of the others) Vᴴ.
    """
    known = known_now(det)
    if known is None or known.all():
        return F.unsqueeze(F.unsqueeze(conj(det), -1), -1) * adjoint(inverse(a))
    u, s, vh = F.linalg.svd(a)
    n = s.array.shape[-1]
    own = F.eye(n, dtype="bool", device=a.device)
    others = F.prod(F.where(own, 1.0, F.unsqueeze(s, -2)), -1)
    turn = conj(F.linalg.det(u) * F.linalg.det(vh))
    return F.unsqueeze(F.unsqueeze(turn, -1), -1) * F.matmul(u * F.unsqueeze(others, -2), vh)


def check_gauge(name: str, what: str, own: Tensor) -> None:
    """RuntimeError where a complex gradient depends on the phase of the vectors, which is arbitrary.

    own: the part of the vectors' gradient along themselves; its imaginary part must vanish.
    """
    known = known_now(own)
    if known is None or known.dtype.kind != "c" or np.allclose(known.imag, 0, rtol=1e-2, atol=1e-2):
        return
    raise RuntimeError(
        f"{name}_backward: The {what} in the complex case are specified up to multiplication by e^{{i phi}}. The "
        "specified loss function depends on this quantity, so it is ill-defined."
    )
