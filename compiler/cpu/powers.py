"""x to the power y: integers by multiplication, floats as e^(y log|x|) in enough extra precision.

float32 goes through double, so the result is rounded nearly once; float64 carries log|x| and its product with
y as pairs of doubles, about 2^-65 relative. The special cases are those of C99 (and of numpy): x^0 = 1 and
1^y = 1 even for nan, odd integer powers keep the sign of zeros and infinities, a negative x with a broken y
is nan.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from . import polynomials as fits
from .builder import FLOATS, Value, literal, literal_value
from .double_double import Pair, fast_two_sum, product, two_product, two_sum
from .vmath import F64, clamp, exponent_and_mantissa, nearest_integer, polynomial, scale_of, small_integer

if TYPE_CHECKING:
    from .scalars import LlvmScalars


def pow(s: LlvmScalars, x: Value, y: Value) -> Value:
    """x^y of two values of one dtype. Integers wrap around; negative integer powers truncate towards 0."""
    exponent = literal_value(y)
    if x.dtype not in FLOATS:
        return _integer_power(s, x, y)
    if exponent in (1, 2, 3, 4, -1, 0.5):
        return _simple(s, x, float(exponent))
    magnitude = _pow_f32(s, s.abs(x), y) if x.dtype == "float32" else _pow_f64(s, s.abs(x), y)
    return _with_specials(s, x, y, magnitude)


def _simple(s: LlvmScalars, x: Value, exponent: float) -> Value:
    square = s.mul(x, x)
    match exponent:
        case 2:
            return square
        case 3:
            return s.mul(square, x)
        case 4:
            return s.mul(square, square)
        case -1:
            return s.div(literal(1.0, x.dtype), x)
        case 0.5:
            # sqrt, but pow(-0.0, 0.5) is 0.0 and pow(-inf, 0.5) is inf.
            root = s.add(s.sqrt(x), literal(0.0, x.dtype))
            return s.select(s.eq(x, literal(-math.inf, x.dtype)), literal(math.inf, x.dtype), root)
    return x


# ---- special cases ----


def _with_specials(s: LlvmScalars, x: Value, y: Value, magnitude: Value) -> Value:
    """|x|^y turned into x^y; `magnitude` need only be right for finite |x| > 0 and for y that is not nan."""
    zero, one = literal(0.0, x.dtype), literal(1.0, x.dtype)
    infinity, nan = literal(math.inf, x.dtype), literal(math.nan, x.dtype)
    a = s.abs(x)
    whole, odd = _parity(s, y)
    broken = s.logical_and(s.lt(x, zero), s.logical_not(whole))
    out = s.select(broken, nan, magnitude)
    at_end = s.logical_or(s.eq(a, zero), s.eq(a, infinity))
    vanishes = s.binary("xor", s.eq(a, zero), s.lt(y, zero))
    out = s.select(at_end, s.select(vanishes, zero, infinity), out)
    out = s.select(s.logical_and(odd, _sign_bit(s, x)), s.neg(out), out)
    out = s.select(s.compare("uno", x, y), nan, out)
    return s.select(s.logical_or(s.eq(x, one), s.eq(y, zero)), one, out)


def _parity(s: LlvmScalars, y: Value) -> tuple[Value, Value]:
    """Is y a whole number (an infinity counts), and is it odd?"""
    half = s.mul(y, literal(0.5, y.dtype))
    whole = s.eq(s.trunc(y), y)
    return whole, s.logical_and(whole, s.ne(s.trunc(half), half))


def _sign_bit(s: LlvmScalars, x: Value) -> Value:
    integer = "int32" if x.dtype == "float32" else "int64"
    return s.lt(s.bitcast(x, integer), literal(0, integer))


# ---- float32 ----


def _pow_f32(s: LlvmScalars, a: Value, y: Value) -> Value:
    wide, power = s.convert("fpext", a, "float64"), s.convert("fpext", y, "float64")
    e, m = exponent_and_mantissa(s, wide, F64)
    one = literal(1.0, "float64")
    t = s.div(s.sub(m, one), s.add(m, one))
    square = s.mul(t, t)
    log_m = s.fma(s.mul(t, square), polynomial(s, square, fits.ATANH_SHORT), s.add(t, t))
    log = s.fma(small_integer(s, e, F64), literal(math.log(2), "float64"), log_m)
    product_ = clamp(s, s.mul(power, log), -200.0, 200.0)
    # 1 to an infinite power is 1, and 0 * inf is nan.
    exponent = s.select(s.eq(log, literal(0.0, "float64")), literal(0.0, "float64"), product_)
    n, integer = nearest_integer(s, exponent, math.log2(math.e))
    r = s.fma(n, literal(-math.log(2), "float64"), exponent)
    scale = scale_of(s, integer, F64)
    return s.convert("fptrunc", s.mul(polynomial(s, r, fits.EXP_SHORT), scale), "float32")


# ---- float64 ----

_TWO_THIRDS = (2 / 3, 3.700743415417188e-17)


def _pair(s: LlvmScalars, values: tuple[float, float]) -> Pair:
    return literal(values[0], "float64"), literal(values[1], "float64")


def _pow_f64(s: LlvmScalars, a: Value, y: Value) -> Value:
    log = _log_pair(s, a)
    # Beyond 2^65 the result is 0, 1 or infinity whatever y; the bound keeps exact products finite.
    power = clamp(s, y, -(2.0**65), 2.0**65)
    high, low = two_product(s, power, log[0])
    low = s.fma(power, log[1], low)
    bounded = clamp(s, high, -750.0, 750.0)
    low = s.select(s.eq(bounded, high), low, literal(0.0, "float64"))
    return _exp_pair(s, bounded, low)


def _log_pair(s: LlvmScalars, a: Value) -> Pair:
    """log of a > 0 as a pair: e ln2 + 2 t + 2/3 t^3 + t^5 P(t^2), t = (m - 1) / (m + 1)."""
    subnormal = s.lt(a, literal(2.0**-1022, "float64"))
    normal = s.select(subnormal, s.mul(a, literal(2.0**52, "float64")), a)
    e, m = exponent_and_mantissa(s, normal, F64)
    moved = s.select(subnormal, literal(-52.0, "float64"), literal(0.0, "float64"))
    exponent = s.add(small_integer(s, e, F64), moved)
    high, low = _log_of_mantissa(s, m)
    sum_high, sum_low = two_sum(s, s.mul(exponent, literal(F64.ln2[0], "float64")), high)
    rest = s.fma(exponent, literal(F64.ln2[1], "float64"), low)
    return fast_two_sum(s, sum_high, s.add(sum_low, rest))


def _log_of_mantissa(s: LlvmScalars, m: Value) -> Pair:
    t = _quotient(s, m)
    square = product(s, t, t)
    cube = product(s, t, square)
    third = product(s, cube, _pair(s, _TWO_THIRDS))
    series = s.mul(s.mul(cube[0], square[0]), polynomial(s, square[0], fits.ATANH5_F64))
    high, low = fast_two_sum(s, s.add(t[0], t[0]), third[0])
    return high, s.add(s.add(low, s.add(t[1], t[1])), s.add(third[1], series))


def _quotient(s: LlvmScalars, m: Value) -> Pair:
    """(m - 1) / (m + 1) as a pair."""
    one = literal(1.0, "float64")
    top = s.sub(m, one)
    bottom, lost = two_sum(s, m, one)
    quotient = s.div(top, bottom)
    high, low = two_product(s, quotient, bottom)
    remainder = s.sub(s.sub(s.sub(top, high), low), s.mul(quotient, lost))
    return quotient, s.div(remainder, bottom)


def _exp_pair(s: LlvmScalars, x: Value, low: Value) -> Value:
    """e^(x + low) for |x| <= 750 and tiny low."""
    n, integer = nearest_integer(s, x, math.log2(math.e))
    r = s.fma(n, literal(-F64.ln2[0], "float64"), x)
    small, lost = two_sum(s, r, s.mul(n, literal(-F64.ln2[1], "float64")))
    p = polynomial(s, small, fits.EXP_F64)
    p = s.fma(p, s.add(low, lost), p)
    half = s.binary("ashr", integer, literal(1, "int64"))
    return s.mul(s.mul(p, scale_of(s, half, F64)), scale_of(s, s.sub(integer, half), F64))


# ---- integers ----


def _integer_power(s: LlvmScalars, x: Value, y: Value) -> Value:
    exponent = literal_value(y)
    if exponent is not None and exponent >= 0:
        return _fixed_power(s, x, int(exponent))
    if x.dtype == "bool":
        return s.logical_or(x, s.logical_not(y))
    return _negative_power(s, x, y, _squarings(s, x, y))


def _fixed_power(s: LlvmScalars, x: Value, exponent: int) -> Value:
    """By squaring, one multiplication or two for every bit of the exponent."""
    if exponent == 0:
        return literal(1, x.dtype, x.lanes)
    half = _fixed_power(s, x, exponent // 2) if exponent > 1 else None
    square = x if half is None else s.mul(half, half)
    return s.mul(square, x) if exponent > 1 and exponent % 2 else square


def _squarings(s: LlvmScalars, x: Value, y: Value) -> Value:
    """x^y for y >= 0, all lanes squaring until the largest exponent is used up."""
    one, zero = literal(1, x.dtype), literal(0, x.dtype)

    def turn(result: Value, base: Value, left: Value) -> tuple[Value, ...]:
        used = s.ne(s.bit_and(left, one), zero)
        return s.select(used, s.mul(result, base), result), s.mul(base, base), s.shr(left, one)

    start = (s.function.broadcast(one, x.lanes), x, s.maximum(y, zero))
    return s.function.iterate(start, lambda _r, _b, left: s.any(s.ne(left, zero)), turn)[0]


def _negative_power(s: LlvmScalars, x: Value, y: Value, power: Value) -> Value:
    """`power`, but for y < 0 what 1/x^-y truncates to: ±1 for x = ±1, otherwise 0."""
    if x.dtype.startswith("uint"):
        return power
    one, zero, minus = (literal(v, x.dtype) for v in (1, 0, -1))
    alternating = s.select(s.ne(s.bit_and(y, one), zero), minus, one)
    unit = s.select(s.eq(x, one), one, s.select(s.eq(x, minus), alternating, zero))
    return s.select(s.lt(y, zero), unit, power)
