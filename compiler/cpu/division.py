"""Division with Python's signs: floordiv and mod for integers and floats, as functions of the namespace `s`.

Integers: division by 0 gives 0 and never traps. Floats: as numpy and PyTorch, from the exact remainder of the
truncated quotient (C's fmod), which is computed here since LLVM would call a library for it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .builder import FLOATS, Value, literal, literal_value
from .vmath import F64, copysign, scale_of

if TYPE_CHECKING:
    from .scalars import LlvmScalars


def floordiv(s: LlvmScalars, x: Value, y: Value) -> Value:
    """The quotient rounded down. Integers: 0 for y = 0, and wrapping for the smallest integer by -1."""
    if x.dtype in FLOATS:
        return _float_floordiv(s, x, y)
    if x.dtype == "bool":
        return s.logical_and(x, y)
    return _signed_floordiv(s, x, y) if x.dtype.startswith("int") else _unsigned(s, "udiv", x, y)


def mod(s: LlvmScalars, x: Value, y: Value) -> Value:
    """x - y floor(x / y), which has the sign of y. Integers: 0 for y = 0. Floats: nan for y = 0."""
    if x.dtype in FLOATS:
        return _float_mod(s, x, y)
    if x.dtype == "bool":
        return literal(False, "bool", x.lanes)
    return _signed_mod(s, x, y) if x.dtype.startswith("int") else _unsigned(s, "urem", x, y)


# ---- integers ----


def _unsigned(s: LlvmScalars, instruction: str, x: Value, y: Value) -> Value:
    if literal_value(y):
        return s.binary(instruction, x, y)
    zero = literal(0, x.dtype)
    by_zero = s.eq(y, zero)
    return s.select(by_zero, zero, s.binary(instruction, x, s.select(by_zero, literal(1, x.dtype), y)))


def _safe_divisor(s: LlvmScalars, y: Value) -> Value:
    """y, with 1 for the divisors 0 and -1 that can trap."""
    known = literal_value(y)
    if known is not None and known not in (0, -1):
        return y
    one = literal(1, y.dtype)
    risky = s.compare("ult", s.add(y, one), literal(2, y.dtype))
    return s.select(risky, one, y)


def _signed_floordiv(s: LlvmScalars, x: Value, y: Value) -> Value:
    zero, minus = literal(0, x.dtype), literal(-1, x.dtype)
    by = _safe_divisor(s, y)
    truncated = s.binary("sdiv", x, by)
    rest = s.sub(x, s.mul(truncated, by))
    q = s.select(_signs_differ(s, rest, by), s.add(truncated, minus), truncated)
    if by is y:
        return q
    return s.select(s.eq(y, zero), zero, s.select(s.eq(y, minus), s.neg(x), q))


def _signed_mod(s: LlvmScalars, x: Value, y: Value) -> Value:
    by = _safe_divisor(s, y)
    rest = s.binary("srem", x, by)
    return s.select(_signs_differ(s, rest, by), s.add(rest, by), rest)


def _signs_differ(s: LlvmScalars, rest: Value, y: Value) -> Value:
    """Is a remainder not 0 and of the other sign than y?"""
    zero = literal(0, y.dtype)
    return s.logical_and(s.ne(rest, zero), s.lt(s.binary("xor", rest, y), zero))


# ---- floats ----


def _float_mod(s: LlvmScalars, x: Value, y: Value) -> Value:
    zero = literal(0.0, x.dtype)
    rest = fmod(s, x, y)
    other_sign = s.binary("xor", s.lt(rest, zero), s.lt(y, zero))
    moved = s.select(other_sign, s.add(rest, y), rest)
    return s.select(s.eq(rest, zero), copysign(s, zero_like(x), y), moved)


def _float_floordiv(s: LlvmScalars, x: Value, y: Value) -> Value:
    """numpy's npy_floor_divide: floor((x - fmod) / y), corrected where that quotient rounded."""
    zero, one = literal(0.0, x.dtype), literal(1.0, x.dtype)
    rest, quotient = fmod(s, x, y), s.div(x, y)
    exact = s.div(s.sub(x, rest), y)
    other_sign = s.binary("xor", s.lt(rest, zero), s.lt(y, zero))
    exact = s.select(s.logical_and(s.ne(rest, zero), other_sign), s.sub(exact, one), exact)
    down = s.floor(exact)
    down = s.select(s.gt(s.sub(exact, down), literal(0.5, x.dtype)), s.add(down, one), down)
    out = s.select(s.eq(exact, zero), copysign(s, zero_like(x), quotient), down)
    return s.select(s.eq(y, zero), quotient, out)


def zero_like(x: Value) -> Value:
    return literal(0.0, x.dtype, x.lanes)


def fmod(s: LlvmScalars, x: Value, y: Value) -> Value:
    """C's fmod, exact: x minus the truncated quotient times y; nan for y = 0 and for infinite x."""
    a, b = s.abs(x), s.abs(y)
    infinity = literal(math.inf, x.dtype)
    bad = s.logical_or(s.compare("ueq", a, infinity), s.compare("ueq", b, zero_like(x)))
    # Lanes without a remainder to find must not keep the loop going.
    a = s.select(bad, zero_like(x), a)
    b = s.select(bad, literal(1.0, x.dtype), b)
    rest = _fmod_f32(s, a, b) if x.dtype == "float32" else _fmod_f64(s, a, b)
    return s.select(bad, literal(math.nan, x.dtype), copysign(s, rest, x))


def _fmod_f32(s: LlvmScalars, a: Value, b: Value) -> Value:
    """In double, 28 bits of the quotient at a time: such a part times b is exact, as is the difference."""
    a, b = s.convert("fpext", a, "float64"), s.convert("fpext", b, "float64")
    one, below_one = literal(1.0, "float64"), literal(1 - 2.0**-50, "float64")

    def turn(rest: Value) -> tuple[Value, ...]:
        bits = s.bitcast(s.mul(s.div(rest, b), below_one), "int64")
        leading = s.bitcast(s.bit_and(bits, literal(-1 << 24, "int64")), "float64")
        part = s.maximum(one, s.trunc(leading))
        return (s.select(s.ge(rest, b), s.sub(rest, s.mul(part, b)), rest),)

    (rest,) = s.function.iterate((a,), lambda rest: s.any(s.ge(rest, b)), turn)
    return s.convert("fptrunc", rest, "float32")


def _fmod_f64(s: LlvmScalars, a: Value, b: Value) -> Value:
    """Long division of the significands, a bit a turn."""
    (ma, ea), (mb, eb) = _significand(s, a), _significand(s, b)
    zero, one = literal(0, "int64"), literal(1, "int64")
    places = s.sub(ea, eb)

    def turn(m: Value, n: Value) -> tuple[Value, ...]:
        rest = s.select(s.ge(m, mb), s.sub(m, mb), m)
        rest = s.select(s.gt(n, zero), s.shl(rest, one), rest)
        going = s.ge(n, zero)
        return s.select(going, rest, m), s.select(going, s.sub(n, one), n)

    m, _ = s.function.iterate((ma, places), lambda _, n: s.any(s.ge(n, zero)), turn)
    exponent = s.sub(eb, literal(1075, "int64"))
    half = s.binary("ashr", exponent, one)
    rest = s.mul(s.convert("sitofp", m, "float64"), scale_of(s, half, F64))
    return s.select(s.lt(places, zero), a, s.mul(rest, scale_of(s, s.sub(exponent, half), F64)))


def _significand(s: LlvmScalars, x: Value) -> tuple[Value, Value]:
    """m (53 bits, the first set unless x is 0) and e with x = m 2^(e - 1075), for x >= 0."""
    bits, one = s.bitcast(x, "int64"), literal(1, "int64")
    field = s.shr(bits, literal(52, "int64"))
    leading = s.select(s.eq(field, literal(0, "int64")), literal(0, "int64"), literal(1 << 52, "int64"))
    m = s.bit_or(s.bit_and(bits, literal((1 << 52) - 1, "int64")), leading)
    shift = s.sub(s.function.intrinsic("ctlz", m, m, Value("false", "bool")), literal(11, "int64"))
    return s.binary("shl", m, shift), s.sub(s.maximum(one, field), shift)
