"""Whether tensors are equal or nearly so."""

from __future__ import annotations

from ..tensor import Tensor
from .pointwise import abs, add, eq, isfinite, isnan, le, logical_and, logical_or, mul, sub
from .reduction import all


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Where |input - other| <= atol + rtol * |other|. RuntimeError for tensors of two dtypes."""
    for place, value in enumerate((input, other), 1):
        if not isinstance(value, Tensor):
            raise TypeError(f"isclose(): argument {place} must be Tensor, not {type(value).__name__}")
    if input.array.dtype != other.array.dtype:
        raise RuntimeError(f"isclose: {input.dtype!r} did not match {other.dtype!r}; convert one of them")
    if rtol < 0 or atol < 0:
        raise RuntimeError(
            f"isclose: rtol and atol must not be below zero, but found rtol={rtol}, atol={atol}"
        )
    out = eq(input, other)
    if equal_nan and input.array.dtype.kind not in "biu":
        out = logical_or(out, logical_and(isnan(input), isnan(other)))
    if input.array.dtype.kind == "b" or (rtol == 0 and atol == 0):
        return out
    near = le(abs(sub(input, other)), add(mul(abs(other), rtol), atol))
    return logical_or(out, logical_and(near, isfinite(other)))


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are the same (nan equals nothing). A Python bool: reads the contents."""
    if tuple(input.array.shape) != tuple(other.array.shape):
        return False
    return bool(all(input == other))


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (see isclose). A Python bool: reads the contents."""
    return bool(all(isclose(input, other, rtol, atol, equal_nan)))
