"""Conjugates that leave real tensors alone."""

from __future__ import annotations

from .. import functional as F
from ..tensor import Tensor


def conj(x: Tensor) -> Tensor:
    """The complex conjugate; x itself where it is real."""
    return F.conj(x) if x.array.dtype.kind == "c" else x


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of each matrix."""
    return conj(F.transpose(x, -1, -2))
