"""Arithmetic of two and three operands, powers, extremes, and the integer functions."""

from __future__ import annotations

from math import log as _log
from typing import Any

import numpy as np

from ..ops.table import TABLE
from ..tape import apply, apply_binary, apply_unary, labelled
from ..tensor import Tensor
from .base import (
    ADD,
    cast_to,
    check_range,
    common,
    constant,
    in_single,
    known_now,
    number,
    pair,
    refuse,
    tensor_argument,
    two_tensors,
)

SUB, MUL, DIV, POW = TABLE["sub"], TABLE["mul"], TABLE["div"], TABLE["pow"]
FLOOR_DIVIDE, REMAINDER, FMOD = TABLE["floor_divide"], TABLE["remainder"], TABLE["fmod"]
MAXIMUM, MINIMUM, ATAN2, HYPOT = TABLE["maximum"], TABLE["minimum"], TABLE["atan2"], TABLE["hypot"]

# ---- sums and products ---------------------------------------------------------------------------------------------


def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input + alpha * other."""
    if type(alpha) is int and alpha == 1:
        x, y = pair("add", input, other)
        return apply_binary(ADD, x, y)
    return scaled_sum(ADD, "add", input, other, alpha)


@in_single
def scaled_sum(op: Any, name: str, input: Any, other: Any, alpha: Any) -> Tensor:
    """op(input, alpha * other) in the dtype of input and other."""
    x, y = pair(name, input, other)
    check_alpha(alpha, x)
    if alpha == 1:
        return apply_binary(op, x, y)
    return apply_binary(op, x, apply(MUL, y, constant(alpha, x.array.dtype, x)))


def check_alpha(alpha: Any, x: Tensor) -> None:
    """A factor of another kind than the elements is an error."""
    kind = x.array.dtype.kind
    if isinstance(alpha, bool) and kind != "b":
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and kind in "biu":
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, complex) and kind != "c":
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input - alpha * other."""
    refuse_bools(input, other)
    if type(alpha) is int and alpha == 1:
        x, y = pair("sub", input, other)
        return apply_binary(SUB, x, y)
    return scaled_sum(SUB, "sub", input, other, alpha)


def refuse_bools(x: Any, y: Any) -> None:
    if is_bool(x) and is_bool(y):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported, use the `^` or `logical_xor()` "
            "operator instead."
        )
    if is_bool(x) or is_bool(y):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )


def is_bool(x: Any) -> bool:
    return x.array.dtype.kind == "b" if isinstance(x, Tensor) else isinstance(x, bool)


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * input."""
    refuse_bools(tensor_argument("rsub", input), other)
    if type(alpha) is int and alpha == 1:
        x, y = pair("rsub", input, other)
        return apply_binary(SUB, y, x)
    return scaled_sum(SUB, "rsub", other, input, alpha)


def mul(input: Any, other: Any) -> Tensor:
    """input * other."""
    x, y = pair("mul", input, other)
    return apply_binary(MUL, x, y)


# ---- quotients -----------------------------------------------------------------------------------------------------


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
    return truncated_quotient(input, other)


def truncated_quotient(input: Any, other: Any) -> Tensor:
    """The quotient rounded towards 0."""
    x, y = pair("div", input, other)
    refuse("div_trunc", x, "bc")
    if x.array.dtype.kind != "i":
        return apply(TABLE["trunc"], apply(FLOOR_DIVIDE if x.array.dtype.kind == "u" else DIV, x, y))
    check_divisor(y)
    sign, size = TABLE["sign"], TABLE["abs"]
    quotient = apply(FLOOR_DIVIDE, apply(size, x), apply(size, y))
    return apply(MUL, apply(MUL, quotient, apply(sign, x)), apply(sign, y))


def rdiv(input: Any, other: Any) -> Tensor:
    """other / input, as PyTorch computes it: other * (1 / input)."""
    (x,) = common("reciprocal", input, floating=True)
    return mul(apply_unary(TABLE["reciprocal"], x), other)


def floor_divide(input: Any, other: Any) -> Tensor:
    """The quotient rounded down."""
    x, y = pair("floor_divide", input, other)
    refuse("div_floor", x, "bc")
    check_divisor(y)
    return apply(FLOOR_DIVIDE, x, y)


def remainder(input: Any, other: Any) -> Tensor:
    """The remainder with the divisor's sign, as Python's %."""
    x, y = pair("remainder", input, other)
    refuse("remainder", x, "bc")
    check_divisor(y)
    return apply(REMAINDER, x, y)


def fmod(input: Tensor, other: Any) -> Tensor:
    """The remainder with the dividend's sign, as C's fmod."""
    x, y = pair("fmod", tensor_argument("fmod", input), other)
    refuse("fmod", x, "bc")
    check_divisor(y)
    return apply(FMOD, x, y)


def check_divisor(y: Tensor) -> None:
    """An integer zero that is known now is an error."""
    if y.array.dtype.kind in "iu" and (divisor := known_now(y)) is not None and not divisor.all():
        raise RuntimeError("ZeroDivisionError")


# ---- powers --------------------------------------------------------------------------------------------------------


def pow(input: Any, exponent: Any) -> Tensor:
    """input ** exponent. Small constant exponents are products."""
    power = number(exponent)
    if isinstance(input, Tensor) and power is not None and not isinstance(power, complex):
        quick = constant_power(input, power)
        if quick is not None:
            return labelled(quick, "Pow")
    x, y = pair("pow", input, exponent)
    refuse("pow", x, "b")
    check_range(power, x.array.dtype)
    if x.array.dtype.kind in "iu" and power is not None and power < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    return labelled(apply(POW, x, y), "Pow" if power is not None else "PowBackward1")


def constant_power(x: Tensor, power: float) -> Tensor | None:
    """x to the power of a number, where a cheaper op says the same."""
    kind = x.array.dtype.kind
    if kind == "b" and isinstance(power, bool):
        return (
            apply(TABLE["clone"], x)
            if power
            else apply(TABLE["logical_or"], x, apply(TABLE["logical_not"], x))
        )
    if kind == "b" or (kind in "iu" and isinstance(power, float)):
        return None
    if power == 2:
        return apply_binary(MUL, x, x)
    if power == 1:
        return apply(TABLE["clone"], x)
    if power == 3:
        return cube(x)
    if kind not in "iu" and power == 0.5:
        return apply(TABLE["sqrt"], x)
    if kind not in "iu" and power == -1:
        return apply(TABLE["reciprocal"], x)
    return None


@in_single
def cube(x: Tensor) -> Tensor:
    return apply(MUL, apply(MUL, x, x), x)


def rpow(input: Tensor, other: Any) -> Tensor:
    """other ** input."""
    return pow(other, input)


def float_power(input: Any, exponent: Any) -> Tensor:
    """input ** exponent in float64, or complex128 if one is complex."""
    both = common("float_power", input, exponent)
    wide = np.dtype("complex128" if both[0].array.dtype.kind == "c" else "float64")
    x, y = (
        cast_to(t, wide) if isinstance(v, Tensor) else constant(number(v), wide, t)
        for v, t in zip((input, exponent), both, strict=True)
    )
    return apply(POW, x, y)


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2 ** other."""
    x, exponent = two_tensors("ldexp", input, other)
    return mul(x, pow(2.0, exponent))


# ---- extremes ------------------------------------------------------------------------------------------------------


def maximum(input: Tensor, other: Tensor) -> Tensor:
    """The larger of each pair; nan if either is nan."""
    x, y = pair("maximum", *two_tensors("maximum", input, other))
    refuse("maximum", x, "c")
    return apply(MAXIMUM, x, y)


def minimum(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of each pair; nan if either is nan."""
    x, y = pair("minimum", *two_tensors("minimum", input, other))
    refuse("minimum", x, "c")
    return apply(MINIMUM, x, y)


def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger of each pair; a nan gives way to a number."""
    from .choice import where
    from .comparison import ge, isnan, logical_or

    x, y = pair("fmax", *two_tensors("fmax", input, other))
    return where(logical_or(ge(x, y), isnan(y)), x, y)


def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of each pair; a nan gives way to a number."""
    from .choice import where
    from .comparison import isnan, le, logical_or

    x, y = pair("fmin", *two_tensors("fmin", input, other))
    return where(logical_or(le(x, y), isnan(y)), x, y)


# ---- geometry ------------------------------------------------------------------------------------------------------


def atan2(input: Tensor, other: Tensor) -> Tensor:
    """The angle of the point (other, input)."""
    x, y = common("atan2", *two_tensors("atan2", input, other), floating=True)
    refuse("atan2", x, "c")
    return apply(ATAN2, x, y)


arctan2 = atan2


def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input² + other²), without overflow of the squares."""
    x, y = pair("hypot", *two_tensors("hypot", input, other))
    refuse("hypot", x, "biuc")
    return apply(HYPOT, x, y)


def copysign(input: Any, other: Any) -> Tensor:
    """The size of input with the sign of other."""
    from .choice import where
    from .comparison import signbit
    from .functions import abs

    x, y = common("copysign", tensor_argument("copysign", input), other, floating=True)
    refuse("copysign", x, "c")
    size = abs(x)
    return where(signbit(y), apply(TABLE["neg"], size), size)


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 where input is negative, 1 where it is positive, `values` where it is 0."""
    from .choice import where
    from .comparison import eq, gt

    x, y = two_tensors("heaviside", input, values)
    if "c" in (x.array.dtype.kind, y.array.dtype.kind):
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if x.array.dtype != y.array.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return where(eq(x, 0), y, cast_to(gt(x, 0), x.array.dtype))


def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The floating number next to input, towards other."""
    x, y = pair("nextafter", *two_tensors("nextafter", input, other))
    refuse("nextafter", x, "biuc")
    return apply(TABLE["nextafter"], x, y)


# ---- three operands ------------------------------------------------------------------------------------------------


@in_single
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight * (end - input); counted from the end where weight is at least 1/2, so that 1 gives `end`."""
    for other, name in ((end, "end"), (weight, "weight")):
        if isinstance(other, Tensor) and other.array.dtype != input.array.dtype:
            raise RuntimeError(f"expected dtype {input.dtype!r} for `{name}` but got dtype {other.dtype!r}")
    return add(input, mul(sub(end, input), weight))


@in_single
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    x, a, b = common("addcmul", input, tensor1, tensor2)
    product = mul(a, b)
    return add(x, product if value == 1 else mul(product, value_of("addcmul", value, x)))


@in_single
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2; RuntimeError for integers."""
    if tensor1.array.dtype.kind in "biu" and tensor2.array.dtype.kind in "biu":
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future release addcdiv will perform a true "
            "division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * "
            "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "
            "tensor2) for float inputs."
        )
    x, a, b = common("addcdiv", input, tensor1, tensor2)
    quotient = div(a, b)
    return add(x, quotient if value == 1 else mul(quotient, value_of("addcdiv", value, x)))


def value_of(name: str, value: Any, x: Tensor) -> Any:
    """The factor, which must be of the elements' kind."""
    if isinstance(value, float) and x.array.dtype.kind in "biu":
        raise RuntimeError(f"{name}: value cannot be converted to type {x.dtype.name} without overflow")
    return value


# ---- logarithms of sums --------------------------------------------------------------------------------------------


@in_single
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(x) + exp(y)) without overflow."""
    return logarithm_of_sum("logaddexp", input, other, 1.0)


@in_single
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2**x + 2**y) without overflow."""
    return logarithm_of_sum("logaddexp2", input, other, _log(2))


def logarithm_of_sum(name: str, input: Tensor, other: Tensor, unit: float) -> Tensor:
    """The logarithm, to the base e**unit, of the sum of two powers of it; that of the larger real part comes first."""
    from .choice import where
    from .comparison import eq, ge
    from .complexes import real
    from .functions import exp, log1p

    x, y = pair(name, *two_tensors(name, input, other))
    refuse(name, x, "biu")
    first = ge(real(x), real(y))
    top, low = where(first, x, y), where(first, y, x)
    same = eq(x, y)  # also where both are the same infinity, whose difference is nan
    tail = log1p(exp(where(same, 0.0, sub(low, top)) * unit)) * (1 / unit)
    return where(same, x + _log(2) / unit, top + tail)


# ---- integers ------------------------------------------------------------------------------------------------------


def gcd(input: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisor, never negative."""
    return of_integers("gcd", input, other)


def lcm(input: Tensor, other: Tensor) -> Tensor:
    """The least common multiple, never negative."""
    return of_integers("lcm", input, other)


def of_integers(name: str, input: Tensor, other: Tensor) -> Tensor:
    x, y = pair(name, *two_tensors(name, input, other))
    refuse(name, x, "bfVc")
    return apply(TABLE[name], x, y)
