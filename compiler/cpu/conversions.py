"""Conversions between dtypes, as functions of the scalar namespace `s`; `cast` is numpy's astype.

float16 and bfloat16 live in i16 registers. Rounding is to nearest even. Like numpy and ml_dtypes, float64
becomes float16 in one rounding, and bfloat16 by way of float32; integers become either by way of float32.
Sources: the bit manipulation for half precision follows Giesen's float_to_half_fast3_rtne and half_to_float
(2012); rounding to odd on the way from double (Boldo and Melquiond, 2008) keeps the second rounding harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .builder import FLOATS, HALVES, REGISTER, Value, literal, literal_value

if TYPE_CHECKING:
    from .scalars import LlvmScalars


def cast(s: LlvmScalars, x: Value, dtype: str) -> Value:
    """`x` as the dtype. Float to integer truncates; out of range gives the nearest end, nan 0."""
    if x.dtype == dtype:
        return x
    number = literal_value(x)
    if number is not None and (dtype in FLOATS or dtype in HALVES):
        return literal(number, dtype, x.lanes)
    if x.dtype in HALVES:
        return cast(s, _widened(s, x), dtype)
    if dtype in HALVES:
        return _narrowed(s, x, dtype)
    if dtype == "bool":
        return s.ne(x, literal(0, x.dtype))
    if x.dtype in FLOATS:
        return _from_float(s, x, dtype)
    return _from_integer(s, x, dtype)


def _from_float(s: LlvmScalars, x: Value, dtype: str) -> Value:
    if dtype in FLOATS:
        return s.convert("fpext" if dtype == "float64" else "fptrunc", x, dtype)
    # Through int32, as C compilers and numpy do, so that -1.0 becomes 255 and not 0 as a uint8.
    to = "int32" if dtype in ("int8", "uint8", "int16", "uint16") else dtype
    name = "fptoui.sat" if to.startswith("uint") else "fptosi.sat"
    out = s.function.intrinsic(name, (to, x.lanes), x, overloads=(x,))
    return out if to == dtype else s.convert("trunc", out, dtype)


def _from_integer(s: LlvmScalars, x: Value, dtype: str) -> Value:
    unsigned = x.dtype == "bool" or x.dtype.startswith("uint")
    if dtype in FLOATS:
        return s.convert("uitofp" if unsigned else "sitofp", x, dtype)
    have, want = int(REGISTER[x.dtype][1:]), int(REGISTER[dtype][1:])
    if want < have:
        return s.convert("trunc", x, dtype)
    return s.convert("zext" if unsigned else "sext", x, dtype)


# ---- 16-bit floats ----


def _widened(s: LlvmScalars, x: Value) -> Value:
    if x.dtype == "bfloat16":
        return s.bitcast(_shl(s, s.convert("zext", x, "int32"), 16), "float32")
    if s.level.f16c:
        to, half = x._replace(dtype="float32"), f"<{x.lanes} x half>" if x.lanes > 1 else "half"
        bits = s.function.assign(f"bitcast {x.typed} to {half}")
        return to._replace(name=s.function.assign(f"fpext {half} {bits} to {to.type}"))
    return _half_to_float(s, s.convert("zext", x, "int32"))


def _half_to_float(s: LlvmScalars, h: Value) -> Value:
    """The float32 of half bits in the low part of int32 lanes."""
    magnitude = _shl(s, _and(s, h, 0x7FFF), 13)
    # A float's exponent counts from 127 and a half's from 15; multiplying also makes subnormals normal.
    scaled = s.mul(s.bitcast(magnitude, "float32"), literal(2.0**112, "float32"))
    special = s.bitcast(_or(s, magnitude, 0x7F800000), "float32")
    value = s.select(s.compare("uge", magnitude, literal(0x7C00 << 13, "int32")), special, scaled)
    return s.bitcast(s.binary("or", s.bitcast(value, "int32"), _shl(s, _and(s, h, 0x8000), 16)), "float32")


def _narrowed(s: LlvmScalars, x: Value, dtype: str) -> Value:
    if dtype == "bfloat16":
        return _float_to_bfloat(s, cast(s, x, "float32"))
    wide = _rounded_to_odd(s, x) if x.dtype == "float64" else cast(s, x, "float32")
    if s.level.f16c:
        half = f"<{x.lanes} x half>" if x.lanes > 1 else "half"
        name = s.function.assign(f"fptrunc {wide.typed} to {half}")
        out = Value("", dtype, x.lanes)
        return out._replace(name=s.function.assign(f"bitcast {half} {name} to {out.type}"))
    return _float_to_half(s, wide)


def _float_to_bfloat(s: LlvmScalars, x: Value) -> Value:
    bits = s.bitcast(x, "int32")
    odd = _and(s, _lshr(s, bits, 16), 1)
    rounded = _lshr(s, s.add(s.add(bits, literal(0x7FFF, "int32")), odd), 16)
    quiet = _or(s, _lshr(s, bits, 16), 0x40)
    out = s.select(s.isnan(x), quiet, rounded)
    return s.convert("trunc", out, "int16")._replace(dtype="bfloat16")


def _float_to_half(s: LlvmScalars, x: Value) -> Value:
    bits = s.bitcast(x, "int32")
    magnitude = _and(s, bits, 0x7FFFFFFF)
    # Adding 0.5 lines a small number's bits up with a subnormal half's, and rounds.
    half = literal(0.5, "float32")
    small = s.sub(s.bitcast(s.add(s.bitcast(magnitude, "float32"), half), "int32"), s.bitcast(half, "int32"))
    odd = _and(s, _lshr(s, magnitude, 13), 1)
    rebias = literal(((15 - 127) << 23) + 0xFFF, "int32")
    normal = _lshr(s, s.add(s.add(magnitude, rebias), odd), 13)
    nan = s.compare("ugt", magnitude, literal(0x7F800000, "int32"))
    large = s.select(nan, literal(0x7E00, "int32"), literal(0x7C00, "int32"))
    out = s.select(s.compare("ult", magnitude, literal(113 << 23, "int32")), small, normal)
    out = s.select(s.compare("uge", magnitude, literal(143 << 23, "int32")), large, out)
    out = s.binary("or", out, _and(s, _lshr(s, bits, 16), 0x8000))
    return s.convert("trunc", out, "int16")._replace(dtype="float16")


def _rounded_to_odd(s: LlvmScalars, x: Value) -> Value:
    """A neighbouring float32, with an odd last bit if inexact: rounding it again is as rounding once."""
    near = s.convert("fptrunc", x, "float32")
    back = s.convert("fpext", near, "float64")
    bits = s.bitcast(near, "int32")
    even = s.compare("eq", _and(s, bits, 1), literal(0, "int32"))
    inexact = s.binary("and", s.compare("one", back, x), even)
    larger = s.compare("ogt", s.abs(x), s.abs(back))
    step = s.select(larger, literal(1, "int32"), literal(-1, "int32"))
    return s.bitcast(s.select(inexact, s.add(bits, step), bits), "float32")


def _and(s: LlvmScalars, x: Value, bits: int) -> Value:
    return s.binary("and", x, literal(bits, x.dtype))


def _or(s: LlvmScalars, x: Value, bits: int) -> Value:
    return s.binary("or", x, literal(bits, x.dtype))


def _shl(s: LlvmScalars, x: Value, by: int) -> Value:
    return s.binary("shl", x, literal(by, x.dtype))


def _lshr(s: LlvmScalars, x: Value, by: int) -> Value:
    return s.binary("lshr", x, literal(by, x.dtype))
