"""Distances between the rows of two matrices."""

from __future__ import annotations

from ..ops.types import is_floating
from ..tensor import Tensor
from .base import cpp_name
from .norms import vector_norm
from .reduction import sum
from .shaping import unsqueeze

MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """The p-norm distance [..., m, n] of every row of x1 [..., m, d] to every row of x2 [..., n, d].

    All modes of computing are one here, from the differences; the argument is PyTorch's.
    """
    check_rows(x1, x2)
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if compute_mode is not None and compute_mode not in MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode: one of {', '.join(MODES)}")
    difference = unsqueeze(x1, -2) - unsqueeze(x2, -3)
    if difference.array.shape[-1] == 0:
        return sum(difference, -1)
    return vector_norm(difference, float(p), -1, False)


def check_rows(x1: Tensor, x2: Tensor) -> None:
    """RuntimeError unless both hold rows of one length, in floating point."""
    for name, x in (("X1", x1), ("X2", x2)):
        if not is_floating(x.array.dtype):
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {cpp_name(x.array.dtype)}"
            )
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.array.shape[-1] != x2.array.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {int(x1.array.shape[-1])} X2: "
            f"{int(x2.array.shape[-1])}"
        )
