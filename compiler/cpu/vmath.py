"""exp, log, tanh and their kin for float32 and float64, as functions of the scalar namespace `s`.

Each reduces its argument to a short interval and evaluates a polynomial there (`polynomials.py`, fitted by
tools/fit_polynomials.py). There is no table and no branch, so any number of lanes works alike. Special values
are those of C99: signed zeros, infinities, nan, subnormal arguments and results. The errors measured at each
level are in docs/design/vector_math.md; the forms are the classical ones of Cephes (Moshier) and fdlibm (Sun,
1993).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import polynomials as fits
from .builder import Value, literal

if TYPE_CHECKING:
    from .scalars import LlvmScalars


class Format(NamedTuple):
    """A float format and the constants that differ with it."""

    dtype: str
    integer: str  # the integer dtype of its bits
    digits: int  # explicit bits of the significand
    bias: int
    ln2: tuple[float, float]  # the high part has so few bits that its product with any exponent is exact
    log_range: tuple[float, float]  # exp is 0 below and inf above
    normal_range: tuple[float, float]  # exp is a normal number inside
    exp: Sequence[float]
    expm1: Sequence[float]
    erf: Sequence[float]
    log_erfc: Sequence[float]
    erf_split: float  # where erf goes from the first form to the second
    erf_one: float  # from here on, erf rounds to 1
    erf_center: float  # what log_erfc's variable counts from


F32 = Format(
    "float32", "int32", 23, 127,
    ln2=(0.693145751953125, 1.4286068203094172e-06),
    log_range=(-104.0, 89.0), normal_range=(-87.33, 88.37),
    exp=fits.EXP_F32, expm1=fits.EXPM1_F32, erf=fits.ERF_F32, log_erfc=fits.LOG_ERFC_F32,
    erf_split=0.9277, erf_one=3.95, erf_center=0.0,
)  # fmt: skip
F64 = Format(
    "float64", "int64", 52, 1023,
    ln2=(0.6931471805598903, 5.497923018708371e-14),
    log_range=(-746.0, 710.0), normal_range=(-708.39, 709.4),
    exp=fits.EXP_F64, expm1=fits.EXPM1_F64, erf=fits.ERF_F64, log_erfc=fits.LOG_ERFC_F64,
    erf_split=1.0, erf_one=5.925, erf_center=1.875,
)  # fmt: skip
FORMATS = {"float32": F32, "float64": F64}


# ---- parts ----


def polynomial(s: LlvmScalars, x: Value, coefficients: Sequence[float]) -> Value:
    """The sum of c[k] x^k by Horner's rule."""
    result = literal(coefficients[-1], x.dtype, x.lanes)
    for c in reversed(coefficients[:-1]):
        result = s.fma(result, x, literal(c, x.dtype))
    return result


def clamp(s: LlvmScalars, x: Value, lo: float, hi: float) -> Value:
    """x between lo and hi, two instructions; nan stays nan."""
    low, high = literal(lo, x.dtype), literal(hi, x.dtype)
    below = s.select(s.compare("olt", high, x), high, x)
    return s.select(s.compare("ogt", low, below), low, below)


def copysign(s: LlvmScalars, x: Value, sign: Value) -> Value:
    return s.function.intrinsic("copysign", x, x, sign)


def nearest_integer(s: LlvmScalars, x: Value, factor: float) -> tuple[Value, Value]:
    """round(x factor), of small size, as a float and as integer lanes (anything for nan).

    Adding 1.5 * 2^digits leaves the integer in the low bits of the sum. That costs less than a rounding and a
    conversion, which for int64 most levels have no vector instruction for, and it is defined for every x.
    """
    f = FORMATS[x.dtype]
    rounder = literal(1.5 * 2.0**f.digits, f.dtype)
    shifted = s.fma(x, literal(factor, f.dtype), rounder)
    return s.sub(shifted, rounder), s.sub(s.bitcast(shifted, f.integer), s.bitcast(rounder, f.integer))


def small_integer(s: LlvmScalars, n: Value, f: Format) -> Value:
    """Integer lanes, of small size, as floats."""
    if f is F32:
        return s.convert("sitofp", n, f.dtype)
    rounder = literal(1.5 * 2.0**f.digits, f.dtype)
    return s.sub(s.bitcast(s.add(n, s.bitcast(rounder, f.integer)), f.dtype), rounder)


def scale_of(s: LlvmScalars, n: Value, f: Format) -> Value:
    """2^n for integer lanes n in the normal range."""
    biased = s.add(n, literal(f.bias, f.integer))
    return s.bitcast(s.binary("shl", biased, literal(f.digits, f.integer)), f.dtype)


def _or_nan(s: LlvmScalars, x: Value, y: Value) -> Value:
    """x where it is nan, else y."""
    return s.select(s.isnan(x), x, y)


# ---- exponentials ----


def _reduced(s: LlvmScalars, x: Value, f: Format) -> tuple[Value, Value]:
    """n (integer lanes) and r with x = n ln2 + r, |r| <= ln2 / 2."""
    n, integer = nearest_integer(s, x, math.log2(math.e))
    r = s.fma(n, literal(-f.ln2[0], f.dtype), x)
    return integer, s.fma(n, literal(-f.ln2[1], f.dtype), r)


def exp(s: LlvmScalars, x: Value) -> Value:
    f = FORMATS[x.dtype]
    n, r = _reduced(s, clamp(s, x, *f.log_range), f)
    # In two factors, so that neither overflows where the result does not, and subnormal results round once.
    half = s.binary("ashr", n, literal(1, f.integer))
    first, second = scale_of(s, half, f), scale_of(s, s.sub(n, half), f)
    # What rounds to 0 is made from 0: on the way through subnormal numbers it would cost a vector 150 cycles, and
    # masked attention is full of it.
    gone = s.compare("olt", x, literal(f.log_range[0], f.dtype))
    mantissa = s.select(gone, literal(0.0, f.dtype), polynomial(s, r, f.exp))
    return s.mul(s.mul(mantissa, first), second)


def exp_normal(s: LlvmScalars, x: Value) -> Value:
    """exp of x clamped to where the result is a normal number, for other functions; nan is lost."""
    f = FORMATS[x.dtype]
    n, r = _reduced(s, clamp(s, x, *f.normal_range), f)
    bits = s.bitcast(polynomial(s, r, f.exp), f.integer)
    return s.bitcast(s.add(bits, s.binary("shl", n, literal(f.digits, f.integer))), f.dtype)


def expm1(s: LlvmScalars, x: Value) -> Value:
    f = FORMATS[x.dtype]
    y = _expm1_finite(s, clamp(s, x, -0.75 * f.digits - 2, f.log_range[1]), f)
    # Below 2^-digits the result is x; the halving in between would cost a subnormal a bit, and 0 its sign.
    tiny = s.compare("olt", s.abs(x), literal(2.0 ** -(f.digits + 2), f.dtype))
    return s.select(tiny, x, y)


def _expm1_finite(s: LlvmScalars, x: Value, f: Format) -> Value:
    """expm1 of clamped x: 2^n (r + r^2 P(r)) + (2^n - 1), computed at half its size so that 2^n is finite."""
    n, r = _reduced(s, x, f)
    scale = scale_of(s, s.sub(n, literal(1, f.integer)), f)
    tail = s.mul(s.mul(r, r), polynomial(s, r, f.expm1))
    head = s.fma(scale, r, s.sub(scale, literal(0.5, f.dtype)))
    y = s.fma(scale, tail, head)
    return s.add(y, y)


def sigmoid(s: LlvmScalars, x: Value) -> Value:
    """1 / (1 + e^-x), from e^-|x|, which cannot overflow."""
    one = literal(1.0, x.dtype)
    e = exp(s, s.neg(s.abs(x)))
    top = s.select(s.compare("olt", x, literal(0.0, x.dtype)), e, one)
    return s.div(top, s.add(e, one))


def tanh(s: LlvmScalars, x: Value) -> Value:
    magnitude = s.abs(x)
    y = _tanh_f32(s, magnitude) if x.dtype == "float32" else _tanh_f64(s, magnitude)
    return _or_nan(s, x, copysign(s, y, x))


def _tanh_f32(s: LlvmScalars, a: Value) -> Value:
    one, two = literal(1.0, a.dtype), literal(2.0, a.dtype)
    small = _odd(s, a, fits.TANH_F32)
    large = s.sub(one, s.div(two, s.add(exp_normal(s, s.add(a, a)), one)))
    # Beyond 9.1, 1 - 2/(e^2a + 1) rounds to 1 by itself; exp_normal keeps it finite.
    return s.select(s.compare("olt", a, literal(0.625, a.dtype)), small, large)


def _tanh_f64(s: LlvmScalars, a: Value) -> Value:
    # The poles of tanh keep the polynomial's interval short; expm1 is what is exact enough just beyond it.
    bounded = clamp(s, a, 0.0, 20.0)
    t = _expm1_finite(s, s.add(bounded, bounded), F64)
    large = s.div(t, s.add(t, literal(2.0, a.dtype)))
    return s.select(s.compare("olt", a, literal(0.4, a.dtype)), _odd(s, a, fits.TANH_F64), large)


def _odd(s: LlvmScalars, x: Value, coefficients: Sequence[float]) -> Value:
    """x + x^3 P(x^2)."""
    square = s.mul(x, x)
    return s.fma(s.mul(square, polynomial(s, square, coefficients)), x, x)


def erf(s: LlvmScalars, x: Value) -> Value:
    """x + x P(x^2) near 0, then 1 - e^Q(|x|)."""
    f, a = FORMATS[x.dtype], s.abs(x)
    small = s.fma(polynomial(s, s.mul(a, a), f.erf), a, a)
    bounded = clamp(s, a, 0.0, f.erf_one)
    variable = s.sub(bounded, literal(f.erf_center, f.dtype)) if f.erf_center else bounded
    large = s.sub(literal(1.0, f.dtype), exp_normal(s, polynomial(s, variable, f.log_erfc)))
    y = s.select(s.compare("olt", a, literal(f.erf_split, f.dtype)), small, large)
    return _or_nan(s, x, copysign(s, y, x))


# ---- logarithms ----


def exponent_and_mantissa(s: LlvmScalars, x: Value, f: Format) -> tuple[Value, Value]:
    """e (integer lanes) and m with x = 2^e m, sqrt(1/2) <= m < sqrt(2), for normal positive x."""
    bits = s.bitcast(x, f.integer)
    digits = literal(f.digits, f.integer)
    root = 0x3F3504F3 if f is F32 else 0x3FE6A09E667F3BCD
    e = s.binary("ashr", s.sub(bits, literal(root, f.integer)), digits)
    return e, s.bitcast(s.sub(bits, s.binary("shl", e, digits)), f.dtype)


def log(s: LlvmScalars, x: Value) -> Value:
    f = FORMATS[x.dtype]
    subnormal = s.compare("olt", x, literal(2.0 ** (1 - f.bias), f.dtype))
    normal = s.select(subnormal, s.mul(x, literal(2.0**f.digits, f.dtype)), x)
    e, m = exponent_and_mantissa(s, normal, f)
    moved = s.select(subnormal, literal(-f.digits, f.dtype), literal(0.0, f.dtype))
    exponent = s.add(small_integer(s, e, f), moved)
    y = _log_sum(s, exponent, s.sub(m, literal(1.0, f.dtype)), f)
    return _log_specials(s, x, y, zero=literal(0.0, f.dtype))


def log1p(s: LlvmScalars, x: Value) -> Value:
    f, one = FORMATS[x.dtype], literal(1.0, x.dtype)
    e, m = exponent_and_mantissa(s, s.add(x, one), f)
    # 2^-e (1 + x) - 1 without the rounding of 1 + x; past 2^digits that rounding is too small to matter.
    scale = scale_of(s, s.sub(literal(0, f.integer), e), f)
    exact = s.fma(x, scale, s.sub(scale, one))
    large = s.compare("ogt", x, literal(2.0 ** (f.digits + 2), f.dtype))
    fraction = s.select(large, s.sub(m, one), exact)
    y = _log_sum(s, small_integer(s, e, f), fraction, f)
    y = s.select(s.compare("oeq", x, literal(0.0, f.dtype)), x, y)
    return _log_specials(s, x, y, zero=literal(-1.0, f.dtype))


def _log_sum(s: LlvmScalars, exponent: Value, x: Value, f: Format) -> Value:
    """exponent ln2 + log(1 + x) for sqrt(1/2) <= 1 + x < sqrt(2), small parts first."""
    square, low = s.mul(x, x), s.mul(exponent, literal(f.ln2[1], f.dtype))
    if f is F32:
        series = s.fma(s.mul(square, x), polynomial(s, x, fits.LOG1P_F32), low)
        tail = s.fma(square, literal(-0.5, f.dtype), series)
    else:
        # log(1 + x) = 2 atanh(t) with t = x / (2 + x), arranged as in fdlibm's e_log.c.
        t, half_square = s.div(x, s.add(x, literal(2.0, f.dtype))), s.mul(square, literal(0.5, f.dtype))
        series = s.mul(s.mul(t, t), polynomial(s, s.mul(t, t), fits.ATANH_F64))
        tail = s.sub(s.fma(t, s.add(half_square, series), low), half_square)
    return s.fma(exponent, literal(f.ln2[0], f.dtype), s.add(x, tail))


def _log_specials(s: LlvmScalars, x: Value, y: Value, zero: Value) -> Value:
    """y, but -inf at `zero`, nan below, and x itself where that is inf or nan."""
    y = s.select(s.compare("oeq", x, zero), literal(-math.inf, x.dtype), y)
    y = s.select(s.compare("olt", x, zero), literal(math.nan, x.dtype), y)
    return s.select(s.compare("ueq", x, literal(math.inf, x.dtype)), x, y)
