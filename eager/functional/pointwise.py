"""Functions of one element at a time: arithmetic, functions, comparison, logic, choice, conversion."""

from __future__ import annotations

from math import log as _log, pi
from typing import Any

from ..dtypes import category, dtype_of, get_default_dtype
from ..ops.table import TABLE
from ..tape import apply, apply_binary, apply_unary, labelled
from ..tensor import Tensor
from .base import ADD, as_float, cast_to, common, constant, known_now, name_of, number, pair

SUB, MUL, DIV, POW = TABLE["sub"], TABLE["mul"], TABLE["div"], TABLE["pow"]
FLOOR_DIVIDE, REMAINDER = TABLE["floor_divide"], TABLE["remainder"]
MAXIMUM, MINIMUM, ATAN2, WHERE = TABLE["maximum"], TABLE["minimum"], TABLE["atan2"], TABLE["where"]
CLONE, CAST, CLAMP = TABLE["clone"], TABLE["cast"], TABLE["clamp"]

# ---- arithmetic --------------------------------------------------------------------------------------------


def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input + alpha * other."""
    if alpha != 1:
        other = mul(other, alpha)
    x, y = pair("add", input, other)
    return apply_binary(ADD, x, y)


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input - alpha * other."""
    if alpha != 1:
        other = mul(other, alpha)
    x, y = pair("sub", input, other)
    if x.array.dtype.kind == "b":
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported, use the `^` or `logical_xor()` "
            "operator instead."
        )
    return apply_binary(SUB, x, y)


def rsub(input: Any, other: Any) -> Tensor:
    """other - input."""
    x, y = pair("rsub", input, other)
    return apply_binary(SUB, y, x)


def mul(input: Any, other: Any) -> Tensor:
    """input * other."""
    x, y = pair("mul", input, other)
    return apply_binary(MUL, x, y)


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; integers become floats. rounding_mode: None, "trunc" or "floor"."""
    if rounding_mode is None:
        x, y = pair("div", input, other)
        if x.array.dtype.kind in "biu":
            x, y = common("div", input, other, floating=True)
        return apply_binary(DIV, x, y)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode != "trunc":
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    x, y = pair("div", input, other)
    whole = x.array.dtype.kind in "iu"
    if not whole:
        return trunc(apply(DIV, x, y))
    check_divisor(y)
    quotient = apply(FLOOR_DIVIDE, abs(x), abs(y))
    return mul(mul(quotient, sign(x)), sign(y))


def rdiv(input: Any, other: Any) -> Tensor:
    """other / input."""
    return div(*pair("div", other, input))


def floor_divide(input: Any, other: Any) -> Tensor:
    """The quotient rounded down."""
    x, y = pair("floor_divide", input, other)
    check_divisor(y)
    return apply(FLOOR_DIVIDE, x, y)


def remainder(input: Any, other: Any) -> Tensor:
    """The remainder with the divisor's sign, as Python's %."""
    x, y = pair("remainder", input, other)
    check_divisor(y)
    return apply(REMAINDER, x, y)


def check_divisor(y: Tensor) -> None:
    """An integer zero that is known now is an error."""
    if y.array.dtype.kind in "iu" and (divisor := known_now(y)) is not None and not divisor.all():
        raise RuntimeError("ZeroDivisionError")


def fmod(input: Any, other: Any) -> Tensor:
    """The remainder with the dividend's sign, as C's fmod."""
    x, y = pair("fmod", input, other)
    return sub(x, mul(div(x, y, rounding_mode="trunc"), y))


def pow(input: Any, exponent: Any) -> Tensor:
    """input ** exponent. Small constant exponents are products."""
    power = number(exponent)
    if isinstance(input, Tensor) and power is not None and not isinstance(power, complex):
        quick = _constant_power(input, power)
        if quick is not None:
            return labelled(quick, "Pow")
    x, y = pair("pow", input, exponent)
    if x.array.dtype.kind in "iu" and power is not None and power < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    return labelled(apply(POW, x, y), "Pow" if power is not None else "PowBackward1")


def _constant_power(x: Tensor, power: float) -> Tensor | None:
    """x to the power of a number, where a cheaper op says the same."""
    floating = x.array.dtype.kind not in "biu"
    if not floating and isinstance(power, float):
        return None
    if power == 2:
        return apply_binary(MUL, x, x)
    if power == 1:
        return clone(x)
    if power == 3:
        return apply(MUL, apply(MUL, x, x), x)
    if floating and power == 0.5:
        return sqrt(x)
    if floating and power == -1:
        return reciprocal(x)
    return None


def rpow(input: Tensor, other: Any) -> Tensor:
    """other ** input."""
    x, y = pair("pow", input, other)
    return apply(POW, y, x)


def float_power(input: Any, exponent: Any) -> Tensor:
    """input ** exponent in float64."""
    x, y = common("float_power", input, exponent)
    return apply(POW, cast(x, "float64"), cast(y, "float64"))


def maximum(input: Tensor, other: Tensor) -> Tensor:
    """The larger of each pair; nan if either is nan."""
    return apply(MAXIMUM, *pair("maximum", input, other))


def minimum(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of each pair; nan if either is nan."""
    return apply(MINIMUM, *pair("minimum", input, other))


def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger of each pair; a nan gives way to a number."""
    x, y = pair("fmax", input, other)
    return where(isnan(x), y, where(isnan(y), x, maximum(x, y)))


def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of each pair; a nan gives way to a number."""
    x, y = pair("fmin", input, other)
    return where(isnan(x), y, where(isnan(y), x, minimum(x, y)))


def atan2(input: Tensor, other: Any) -> Tensor:
    """The angle of the point (other, input)."""
    return apply(ATAN2, *common("atan2", input, other, floating=True))


def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input² + other²)."""
    x, y = pair("hypot", input, other)
    return sqrt(x * x + y * y)


def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight * (end - input)."""
    return add(input, mul(sub(end, input), weight))


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    return add(input, mul(tensor1, tensor2), alpha=value)


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2."""
    return add(input, div(tensor1, tensor2), alpha=value)


# ---- functions of one operand ------------------------------------------------------------------------------


def _floating(name: str, doc: str) -> Any:
    """A function that makes integers floats first."""
    op = TABLE[name]

    def function(input: Tensor) -> Tensor:
        if isinstance(input, Tensor) and input.array.dtype.kind == "f":
            return apply_unary(op, input)
        return apply_unary(op, as_float(name, input))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _plain(name: str, doc: str) -> Any:
    """A function that keeps the dtype."""
    op = TABLE[name]

    def function(input: Tensor) -> Tensor:
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")
        return apply_unary(op, input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


exp = _floating("exp", "e to the power of each element.")
expm1 = _floating("expm1", "exp(x) - 1, exact near 0.")
log = _floating("log", "The natural logarithm.")
log1p = _floating("log1p", "log(1 + x), exact near 0.")
sqrt = _floating("sqrt", "The square root.")
rsqrt = _floating("rsqrt", "1 / sqrt(x).")
reciprocal = _floating("reciprocal", "1 / x.")
sin = _floating("sin", "The sine.")
cos = _floating("cos", "The cosine.")
tanh = _floating("tanh", "The hyperbolic tangent.")
sigmoid = _floating("sigmoid", "1 / (1 + exp(-x)).")
erf = _floating("erf", "The error function.")
abs = _plain("abs", "The absolute value.")
sign = _plain("sign", "-1, 0 or 1; 0 for nan.")
floor = _plain("floor", "The largest whole number not above x.")
ceil = _plain("ceil", "The smallest whole number not below x.")
trunc = _plain("trunc", "x without its fraction.")
absolute, fix = abs, trunc


def neg(input: Tensor) -> Tensor:
    """-x."""
    if input.array.dtype.kind == "b":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
            "the `~` or `logical_not()` operator instead."
        )
    return apply_unary(_NEG, input)


_NEG = TABLE["neg"]
negative = neg


def positive(input: Tensor) -> Tensor:
    """+x: x itself."""
    return input


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Rounded to `decimals` places, halves to even."""
    if decimals == 0:
        return apply(_ROUND, input)
    scale = 10.0**decimals
    return div(apply(_ROUND, mul(input, scale)), scale)


_ROUND = TABLE["round"]


def frac(input: Tensor) -> Tensor:
    """x - trunc(x)."""
    return sub(input, trunc(input))


def square(input: Tensor) -> Tensor:
    """x * x."""
    return mul(input, input)


def exp2(input: Tensor) -> Tensor:
    """2 to the power of each element."""
    return pow(2.0, as_float("exp2", input))


def log2(input: Tensor) -> Tensor:
    """The logarithm to base 2."""
    return log(input) * (1 / _log(2))


def log10(input: Tensor) -> Tensor:
    """The logarithm to base 10."""
    return log(input) * (1 / _log(10))


def tan(input: Tensor) -> Tensor:
    """The tangent."""
    return div(sin(input), cos(input))


def sinh(input: Tensor) -> Tensor:
    """The hyperbolic sine: (u + u / (u + 1)) / 2 with u = expm1(x), exact near 0."""
    u = expm1(input)
    return mul(add(u, div(u, add(u, 1))), 0.5)


def cosh(input: Tensor) -> Tensor:
    """The hyperbolic cosine."""
    return mul(add(exp(input), exp(neg(as_float("cosh", input)))), 0.5)


def atan(input: Tensor) -> Tensor:
    """The inverse tangent."""
    return atan2(input, 1)


def asin(input: Tensor) -> Tensor:
    """The inverse sine."""
    x = as_float("asin", input)
    return atan2(x, sqrt((1 - x) * (1 + x)))


def acos(input: Tensor) -> Tensor:
    """The inverse cosine."""
    x = as_float("acos", input)
    return atan2(sqrt((1 - x) * (1 + x)), x)


def asinh(input: Tensor) -> Tensor:
    """The inverse hyperbolic sine."""
    x = as_float("asinh", input)
    size = abs(x)
    return sign(x) * log1p(size + size * size / (sqrt(size * size + 1) + 1))


def acosh(input: Tensor) -> Tensor:
    """The inverse hyperbolic cosine."""
    x = as_float("acosh", input)
    return log(x + sqrt((x - 1) * (x + 1)))


def atanh(input: Tensor) -> Tensor:
    """The inverse hyperbolic tangent."""
    x = as_float("atanh", input)
    return mul(sub(log1p(x), log1p(neg(x))), 0.5)


arctan, arcsin, arccos, arctan2 = atan, asin, acos, atan2
arcsinh, arccosh, arctanh = asinh, acosh, atanh


def erfc(input: Tensor) -> Tensor:
    """1 - erf(x)."""
    return sub(1, erf(input))


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), x first kept within [eps, 1 - eps] if eps is given."""
    x = as_float("logit", input)
    if eps is not None:
        x = clamp(x, eps, 1 - eps)
    return log(x / (1 - x))


def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(x) + exp(y)) without overflow."""
    x, y = pair("logaddexp", input, other)
    top = maximum(x, y)
    same = eq(x, y)  # also where both are the same infinity, whose difference is nan
    return where(same, x + _log(2), top + log1p(exp(neg(abs(where(same, 0.0, x - y))))))


def xlogy(input: Any, other: Any) -> Tensor:
    """x * log(y), 0 where x is 0 (nan where y is nan)."""
    x, y = common("xlogy", input, other, floating=True)
    finite = logical_and(gt(y, 0), lt(y, float("inf")))
    flat = logical_and(eq(x, 0), logical_not(logical_or(finite, isnan(y))))
    return mul(x, log(where(flat, 1.0, y)))


def sinc(input: Tensor) -> Tensor:
    """sin(πx) / (πx), 1 at 0."""
    x = as_float("sinc", input) * pi
    zero = eq(x, 0)
    return where(zero, 1.0, div(sin(x), where(zero, 1.0, x)))


def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians."""
    return as_float("deg2rad", input) * (pi / 180)


def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees."""
    return as_float("rad2deg", input) * (180 / pi)


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Each element kept within [min, max]; a bound is a number, a tensor or None."""
    if min is None and max is None:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        out = input if min is None else maximum(*common("clamp", input, min))
        return out if max is None else minimum(*common("clamp", out, max))
    bounds = [b for b in (min, max) if b is not None]
    x = common("clamp", input, *bounds)[0]
    return apply(CLAMP, x, min=_bound(x, min), max=_bound(x, max))


def _bound(x: Tensor, value: Any) -> Any:
    """A bound as a plain number of the tensor's kind, so that equal clamps have equal attributes."""
    return value if value is None else (int(value) if x.array.dtype.kind in "iu" else float(value))


clip = clamp


def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Each element, or `min` where that is larger."""
    return clamp(input, min=min)


def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Each element, or `max` where that is smaller."""
    return clamp(input, max=max)


def nan_to_num(
    input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """nan and the infinities replaced, these by default with the largest finite values."""
    if input.array.dtype.kind in "biu":
        return clone(input)
    from ..dtypes import finfo

    limits = finfo(input.array.dtype)
    out = where(isnan(input), nan, input)
    out = where(eq(out, float("inf")), limits.max if posinf is None else posinf, out)
    return where(eq(out, float("-inf")), limits.min if neginf is None else neginf, out)


# ---- comparison and logic ----------------------------------------------------------------------------------


def _comparison(name: str, doc: str) -> Any:
    op = TABLE[name]

    def function(input: Any, other: Any) -> Tensor:
        x, y = pair(name, input, other)
        return apply_binary(op, x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


eq = _comparison("eq", "Where input == other, as bool.")
ne = _comparison("ne", "Where input != other, as bool.")
lt = _comparison("lt", "Where input < other, as bool.")
le = _comparison("le", "Where input <= other, as bool.")
gt = _comparison("gt", "Where input > other, as bool.")
ge = _comparison("ge", "Where input >= other, as bool.")
not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge

isnan = _plain("isnan", "Where an element is nan.")
isinf = _plain("isinf", "Where an element is infinite.")
logical_not = _plain("logical_not", "Where an element is zero.")


def isfinite(input: Tensor) -> Tensor:
    """Where an element is neither infinite nor nan."""
    return logical_not(logical_or(isnan(input), isinf(input)))


def isposinf(input: Tensor) -> Tensor:
    """Where an element is +inf."""
    return eq(input, float("inf"))


def isneginf(input: Tensor) -> Tensor:
    """Where an element is -inf."""
    return eq(input, float("-inf"))


def signbit(input: Tensor) -> Tensor:
    """Where the sign bit is set, that of -0.0 included."""
    if input.array.dtype.kind in "biu":
        return lt(input, 0)
    return lt(where(eq(input, 0), reciprocal(input), input), 0)


def _logical(name: str, doc: str) -> Any:
    op = TABLE[name]

    def function(input: Tensor, other: Tensor) -> Tensor:
        return apply(op, cast(input, "bool"), cast(other, "bool"))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


logical_and = _logical("logical_and", "Where both are nonzero.")
logical_or = _logical("logical_or", "Where either is nonzero.")
logical_xor = _logical("logical_xor", "Where just one is nonzero.")


def _bitwise(name: str) -> Any:
    op = TABLE[name]

    def function(input: Any, other: Any) -> Tensor:
        x, y = pair(name, input, other)
        if x.array.dtype.kind not in "biu":
            raise RuntimeError(f'"{name}" not implemented for {x.dtype!r}; it wants integers or bool')
        return apply(op, x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name.removeprefix('bitwise_')} of the bits of two integers, or of two bools."
    return function


bitwise_and, bitwise_or, bitwise_xor = (
    _bitwise("bitwise_and"),
    _bitwise("bitwise_or"),
    _bitwise("bitwise_xor"),
)


def bitwise_not(input: Tensor) -> Tensor:
    """Each bit inverted; of a bool, its opposite."""
    if input.array.dtype.kind not in "biu":
        raise RuntimeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return apply(_NOT, input)


_NOT = TABLE["bitwise_not"]


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Where |input - other| <= atol + rtol * |other|."""
    near = logical_and(le(abs(sub(input, other)), add(mul(abs(other), rtol), atol)), isfinite(other))
    out = logical_or(eq(input, other), near)
    return logical_or(out, logical_and(isnan(input), isnan(other))) if equal_nan else out


# ---- choice, conversion, copy ------------------------------------------------------------------------------


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """input where the condition holds, else other. With the condition alone, its nonzero positions."""
    if input is None and other is None:
        from .indexing import nonzero

        return nonzero(condition, as_tuple=True)
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        dtype = get_default_dtype().numpy if float in (type(input), type(other)) else None
        x = constant(input, dtype or constant_dtype(input), condition)
        y = constant(other, dtype or constant_dtype(other), condition)
    else:
        x, y = pair("where", input, other)
    return apply(WHERE, condition, x, y)


def constant_dtype(value: Any) -> Any:
    from ..dtypes import scalar_dtype

    return scalar_dtype(value)


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value`, a number or a zero-dimensional tensor, where the mask holds."""
    if mask.array.dtype.kind != "b":
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if isinstance(value, Tensor):
        if value.array.shape:
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        fill = cast_to(value, input.array.dtype)
    else:
        check_fits(value, input)
        fill = constant(value, input.array.dtype, input)
    return apply(WHERE, mask, fill, input)


def check_fits(value: Any, x: Tensor) -> None:
    """A float does not go into integers unasked."""
    if isinstance(value, float) and category(x.array.dtype) < 2:
        raise RuntimeError(f"value cannot be converted to type {name_of(x.array.dtype)} without overflow")


def cast(input: Tensor, dtype: Any) -> Tensor:
    """The tensor in another dtype; itself if that is its own."""
    if type(dtype) is str:
        wanted = dtype
    else:
        wanted = dtype_of(dtype).name
    return (
        input
        if name_of(input.array.dtype) == wanted
        else labelled(apply(CAST, input, dtype=wanted), "ToCopy")
    )


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with the history."""
    return apply_unary(CLONE, input)
