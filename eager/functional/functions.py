"""Functions of one operand: exponentials, trigonometric and hyperbolic functions, rounding, sign."""

from __future__ import annotations

from math import pi
from typing import Any

from ..ops.table import TABLE
from ..tape import apply, apply_unary
from ..tensor import Tensor
from .arithmetic import div, mul, sub
from .base import as_float, common, in_single, refuse, tensor_argument
from .choice import clamp, where
from .comparison import eq, gt, isnan, logical_and, logical_not, logical_or, lt

# ---- functions that make integers floats ---------------------------------------------------------------------------


def _floating(name: str, doc: str, real_only: bool = False) -> Any:
    """A function that makes integers floats first."""
    op = TABLE[name]

    def function(input: Tensor) -> Tensor:
        if isinstance(input, Tensor) and input.array.dtype.kind == "f":
            return apply_unary(op, input)
        x = as_float(name, input)
        if real_only:
            refuse(name, x, "c")
        return apply_unary(op, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


exp = _floating("exp", "e to the power of each element.")
exp2 = _floating("exp2", "2 to the power of each element.")
expm1 = _floating("expm1", "exp(x) - 1, exact near 0.")
log = _floating("log", "The natural logarithm.")
log1p = _floating("log1p", "log(1 + x), exact near 0.")
log2 = _floating("log2", "The logarithm to base 2.")
log10 = _floating("log10", "The logarithm to base 10.")
sqrt = _floating("sqrt", "The square root.")
rsqrt = _floating("rsqrt", "1 / sqrt(x).")
reciprocal = _floating("reciprocal", "1 / x.")
sin = _floating("sin", "The sine.")
cos = _floating("cos", "The cosine.")
tan = _floating("tan", "The tangent.")
asin = _floating("asin", "The inverse sine.")
acos = _floating("acos", "The inverse cosine.")
atan = _floating("atan", "The inverse tangent.")
sinh = _floating("sinh", "The hyperbolic sine.")
cosh = _floating("cosh", "The hyperbolic cosine.")
tanh = _floating("tanh", "The hyperbolic tangent.")
asinh = _floating("asinh", "The inverse hyperbolic sine.")
acosh = _floating("acosh", "The inverse hyperbolic cosine.")
atanh = _floating("atanh", "The inverse hyperbolic tangent.")
sigmoid = _floating("sigmoid", "1 / (1 + exp(-x)).")
erf = _floating("erf", "The error function.", True)
erfc = _floating("erfc", "1 - erf(x), exact where that is small.", True)
arctan, arcsin, arccos = atan, asin, acos
arcsinh, arccosh, arctanh = asinh, acosh, atanh

# ---- sign and rounding, which keep the dtype -----------------------------------------------------------------------


def _plain(name: str, doc: str, kinds: str = "") -> Any:
    """A function that keeps the dtype and takes none of these `kinds`."""
    op = TABLE[name]

    def function(input: Tensor) -> Tensor:
        refuse(name, tensor_argument(name, input), kinds)
        return apply_unary(op, input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


abs = _plain("abs", "The absolute value; of a complex tensor, real.")
sign = _plain("sign", "-1, 0 or 1; 0 for nan.", "c")
floor = _plain("floor", "The largest whole number not above x.", "bc")
ceil = _plain("ceil", "The smallest whole number not below x.", "bc")
trunc = _plain("trunc", "x without its fraction.", "bc")
absolute, fix = abs, trunc


def neg(input: Tensor) -> Tensor:
    """-x."""
    if tensor_argument("neg", input).array.dtype.kind == "b":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
            "the `~` or `logical_not()` operator instead."
        )
    return apply_unary(NEG, input)


NEG, ROUND = TABLE["neg"], TABLE["round"]
negative = neg


def positive(input: Tensor) -> Tensor:
    """+x: x itself."""
    if tensor_argument("positive", input).array.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@in_single
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Rounded to `decimals` places, halves to even; a negative number of places rounds to tens."""
    refuse("round", tensor_argument("round", input), "bc")
    if decimals == 0:
        return apply(ROUND, input)
    refuse("round with decimals", input, "iu")
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    if decimals > 0:
        return div(apply(ROUND, mul(input, scale)), scale)
    return mul(apply(ROUND, div(input, scale)), scale)


def frac(input: Tensor) -> Tensor:
    """x - trunc(x)."""
    refuse("frac", tensor_argument("frac", input), "biuc")
    return sub(input, trunc(input))


def frexp(input: Tensor) -> tuple[Tensor, Tensor]:
    """Mantissa, of size in [0.5, 1), and int32 exponent: x = mantissa * 2 ** exponent."""
    from .results import Frexp

    if tensor_argument("frexp", input).array.dtype.kind in "biuc":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return Frexp(*apply(TABLE["frexp"], input))


# ---- combinations --------------------------------------------------------------------------------------------------


def square(input: Tensor) -> Tensor:
    """x * x; of bool, as int64."""
    if tensor_argument("square", input).array.dtype.kind == "b":
        return where(input, 1, 0)
    return mul(input, input)


@in_single
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), x first kept within [eps, 1 - eps] if eps is given."""
    x = as_float("logit", input)
    refuse("logit", x, "c")
    if eps is not None:
        x = clamp(x, eps, 1 - eps)
    return log(x / (1 - x))


@in_single
def xlogy(input: Any, other: Any) -> Tensor:
    """x * log(y), 0 where x is 0 (nan where y is nan)."""
    x, y = common("xlogy", input, other, floating=True)
    refuse("xlogy", x, "c")
    finite = logical_and(gt(y, 0), lt(y, float("inf")))
    flat = logical_and(eq(x, 0), logical_not(logical_or(finite, isnan(y))))
    return mul(x, log(where(flat, 1.0, y)))


@in_single
def sinc(input: Tensor) -> Tensor:
    """sin(πx) / (πx), 1 at 0."""
    x = mul(as_float("sinc", input), pi)
    zero = eq(x, 0)
    return where(zero, 1.0, div(sin(x), where(zero, 1.0, x)))


def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians."""
    x = as_float("deg2rad", input)
    refuse_complex("deg2rad", x)
    return mul(x, pi / 180)


def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees."""
    x = as_float("rad2deg", input)
    refuse_complex("rad2deg", x)
    return mul(x, 180 / pi)


def refuse_complex(name: str, x: Tensor) -> None:
    if x.array.dtype.kind == "c":
        raise RuntimeError(f"{name} is not supported for complex tensors.")
