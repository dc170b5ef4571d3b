"""Comparison, tests of floating numbers, logic and bits."""

from __future__ import annotations

from typing import Any

from ..ops.table import TABLE
from ..ops.types import DTYPES
from ..tape import apply, apply_binary, apply_unary
from ..tensor import Tensor
from .base import cast_to, pair, refuse, tensor_argument, two_tensors

# ---- comparison ----------------------------------------------------------------------------------------------------


def _comparison(name: str, doc: str, ordered: bool) -> Any:
    op = TABLE[name]

    def function(input: Tensor, other: Any) -> Tensor:
        x, y = pair(name, tensor_argument(name, input), other)
        if ordered:
            refuse(name, x, "c")
        return apply_binary(op, x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


eq = _comparison("eq", "Where input == other, as bool.", False)
ne = _comparison("ne", "Where input != other, as bool.", False)
lt = _comparison("lt", "Where input < other, as bool.", True)
le = _comparison("le", "Where input <= other, as bool.", True)
gt = _comparison("gt", "Where input > other, as bool.", True)
ge = _comparison("ge", "Where input >= other, as bool.", True)
not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge

# ---- tests of one element ------------------------------------------------------------------------------------------


def isnan(input: Tensor) -> Tensor:
    """Where an element is nan."""
    return apply_unary(TABLE["isnan"], tensor_argument("isnan", input))


def isinf(input: Tensor) -> Tensor:
    """Where an element is infinite."""
    return apply_unary(TABLE["isinf"], tensor_argument("isinf", input))


def isfinite(input: Tensor) -> Tensor:
    """Where an element is neither infinite nor nan."""
    return logical_not(logical_or(isnan(input), isinf(input)))


def isposinf(input: Tensor) -> Tensor:
    """Where an element is +inf."""
    if tensor_argument("isposinf", input).array.dtype.kind == "c":
        raise RuntimeError("isposinf does not support complex inputs.")
    return eq(input, float("inf"))


def isneginf(input: Tensor) -> Tensor:
    """Where an element is -inf."""
    if tensor_argument("isneginf", input).array.dtype.kind == "c":
        raise RuntimeError("isneginf does not support complex inputs.")
    return eq(input, float("-inf"))


def signbit(input: Tensor) -> Tensor:
    """Where the sign bit is set, that of -0.0 included."""
    from .choice import where
    from .functions import reciprocal

    kind = tensor_argument("signbit", input).array.dtype.kind
    if kind == "c":
        raise RuntimeError("signbit is not implemented for complex tensors.")
    if kind in "biu":
        return lt(input, 0)
    return lt(where(eq(input, 0), reciprocal(input), input), 0)


# ---- logic ---------------------------------------------------------------------------------------------------------


def _logical(name: str, doc: str) -> Any:
    op = TABLE[name]

    def function(input: Tensor, other: Tensor) -> Tensor:
        x, y = two_tensors(name, input, other)
        return apply(op, truth(x), truth(y))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def truth(x: Tensor) -> Tensor:
    """Where an element is nonzero."""
    return cast_to(x, DTYPES["bool"])


logical_and = _logical("logical_and", "Where both are nonzero.")
logical_or = _logical("logical_or", "Where either is nonzero.")
logical_xor = _logical("logical_xor", "Where just one is nonzero.")


def logical_not(input: Tensor) -> Tensor:
    """Where an element is zero."""
    return apply_unary(TABLE["logical_not"], tensor_argument("logical_not", input))


# ---- bits ----------------------------------------------------------------------------------------------------------


def _bitwise(name: str, doc: str, kinds: str = "fVc") -> Any:
    op = TABLE[name]

    def function(input: Any, other: Any) -> Tensor:
        x, y = pair(name, input, other)
        refuse(name, x, kinds)
        return apply(op, x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


bitwise_and = _bitwise("bitwise_and", "The and of the bits of two integers, or of two bools.")
bitwise_or = _bitwise("bitwise_or", "The or of the bits of two integers, or of two bools.")
bitwise_xor = _bitwise("bitwise_xor", "The exclusive or of the bits of two integers, or of two bools.")
bitwise_left_shift = _bitwise(
    "bitwise_left_shift", "The bits moved up by `other` places; 0 once all have left.", "bfVc"
)
bitwise_right_shift = _bitwise(
    "bitwise_right_shift", "The bits moved down by `other` places, the sign repeated.", "bfVc"
)


def bitwise_not(input: Tensor) -> Tensor:
    """Each bit inverted; of a bool, its opposite."""
    if tensor_argument("bitwise_not", input).array.dtype.kind not in "biu":
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return apply(TABLE["bitwise_not"], input)
