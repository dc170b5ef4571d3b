"""sin and cos for float32 and float64, right for every finite argument.

x = q pi/2 + r with |r| <= pi/4; then sin or cos of r, by the quadrant q, from a polynomial. How r is found:

* below 2^20, from pi/2 in parts of 33 bits, whose products with q are exact (Cody and Waite);
* above, when some lane is that large, by Payne and Hanek's method (1983): of the product x 2/pi only the bits
  around the binary point are computed, from a table of the bits of 2/pi, in a helper function.

float32 is reduced in double; float64 keeps r as a pair of doubles, since r can be 2^-60 and below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from . import polynomials as fits
from .builder import Function, Value, literal, vector
from .double_double import Pair, fast_two_sum, product, two_sum
from .vmath import nearest_integer, polynomial

if TYPE_CHECKING:
    from .levels import Level
    from .scalars import LlvmScalars

#: Makes the function that reduces large arguments, for a level and a number of lanes.
MakeHelper = Callable[["Level", int], Function]

_LIMIT = 2.0**20
#: pi/2 as a sum: three parts of 33 bits and the rest.
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
#: pi/2 as a pair of doubles.
_HALF_PI_PAIR = (1.5707963267948966, 6.123233995736766e-17)

#: The first 1216 bits of 2/pi after the binary point: enough for the largest double.
_TWO_OVER_PI = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424D"
    "D2E006492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639"
    "835339F49C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F46"
    "3F669E5FEA2D7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BAB",
    16,
)
_TWO_OVER_PI_BITS = 1216


def sin(s: LlvmScalars, x: Value) -> Value:
    y = _sin_cos(s, x, 0)
    return s.select(s.compare("oeq", x, literal(0.0, x.dtype)), x, y)


def cos(s: LlvmScalars, x: Value) -> Value:
    return _sin_cos(s, x, 1)


def _sin_cos(s: LlvmScalars, x: Value, quarter_turns: int) -> Value:
    """sin(x + quarter_turns pi/2)."""
    if x.dtype == "float32":
        r, q = _reduced_f32(s, x)
        sine, cosine, integer = _sin_f32(s, r), _cos_f32(s, r), "int32"
    else:
        pair, q = _reduced_f64(s, x)
        sine, cosine, integer = _sin_f64(s, pair), _cos_f64(s, pair), "int64"
    q = s.add(q, literal(quarter_turns, integer)) if quarter_turns else q
    odd = s.ne(s.bit_and(q, literal(1, integer)), literal(0, integer))
    sign = s.shl(s.bit_and(q, literal(2, integer)), literal(30 if integer == "int32" else 62, integer))
    y = s.select(odd, cosine, sine)
    return s.bitcast(s.bit_xor(s.bitcast(y, integer), sign), x.dtype)


# ---- on -pi/4 .. pi/4 ----


def _sin_f32(s: LlvmScalars, r: Value) -> Value:
    square = s.mul(r, r)
    return s.fma(s.mul(square, polynomial(s, square, fits.SIN_F32)), r, r)


def _cos_f32(s: LlvmScalars, r: Value) -> Value:
    square = s.mul(r, r)
    head = s.fma(square, literal(-0.5, r.dtype), literal(1.0, r.dtype))
    return s.fma(s.mul(square, square), polynomial(s, square, fits.COS_F32), head)


def _sin_f64(s: LlvmScalars, r: Pair) -> Value:
    high, low = r
    square = s.mul(high, high)
    slope = s.fma(square, literal(-0.5, high.dtype), literal(1.0, high.dtype))
    tail = s.mul(s.mul(square, high), polynomial(s, square, fits.SIN_F64))
    return s.add(high, s.fma(low, slope, tail))


def _cos_f64(s: LlvmScalars, r: Pair) -> Value:
    high, low = r
    one, square = literal(1.0, high.dtype), s.mul(high, high)
    half_square = s.mul(square, literal(0.5, high.dtype))
    head = s.sub(one, half_square)
    lost = s.sub(s.sub(one, head), half_square)
    tail = s.sub(s.mul(s.mul(square, square), polynomial(s, square, fits.COS_F64)), s.mul(high, low))
    return s.add(head, s.add(lost, tail))


# ---- reduction ----


def _reduced_f32(s: LlvmScalars, x: Value) -> tuple[Value, Value]:
    """r as a float32 and q as an int32."""
    wide = s.convert("fpext", x, "float64")
    n, bits = nearest_integer(s, wide, 2 / math.pi)
    r = s.fma(n, literal(-_HALF_PI[0], "float64"), wide)
    r = s.fma(n, literal(math.fsum((-_HALF_PI[1], -_HALF_PI[2])), "float64"), r)
    r, q = _unless_large(s, x, (r, bits), _large_f32)
    return s.convert("fptrunc", r, "float32"), s.convert("trunc", q, "int32")


def _reduced_f64(s: LlvmScalars, x: Value) -> tuple[Pair, Value]:
    """r as a pair of float64 and q as an int64."""
    n, bits = nearest_integer(s, x, 2 / math.pi)
    parts = [s.mul(n, literal(-part, "float64")) for part in _HALF_PI]
    first, low1 = two_sum(s, s.add(x, parts[0]), parts[1])
    second, low2 = two_sum(s, first, parts[2])
    high, low = fast_two_sum(s, second, s.add(s.add(low1, low2), parts[3]))
    high, low, q = _unless_large(s, x, (high, low, bits), _large_f64)
    return (high, low), q


def _unless_large(s: LlvmScalars, x: Value, small: tuple[Value, ...], large: MakeHelper) -> tuple[Value, ...]:
    """`small`, with the lanes where |x| is not below the limit replaced by what the helper `large` finds."""
    f = s.function
    is_large = s.compare("uge", s.abs(x), literal(_LIMIT, x.dtype))
    before, found, ends = f.block, list[Value](), list[str]()

    def look_up() -> None:
        argument = s.select(is_large, x, literal(_LIMIT, x.dtype))
        values = _call_helper(s, argument, small, large)
        found.extend(s.select(is_large, new, old) for new, old in zip(values, small, strict=True))
        ends.append(f.block)

    f.when(s.any(is_large), look_up)
    return tuple(f.phi([(old, before), (new, ends[0])]) for old, new in zip(small, found, strict=True))


def _call_helper(s: LlvmScalars, x: Value, like: tuple[Value, ...], large: MakeHelper) -> list[Value]:
    """Results of a helper, lane by lane values of the dtypes of `like`, through memory."""
    f = s.function
    helper = large(s.level, x.lanes)
    f.require(helper)
    slots = [f.alloca(v.dtype, v.lanes) for v in like]
    f.call(helper.name, "void", x, *(Value(slot, "ptr") for slot in slots))
    return [f.load(slot, v.dtype, v.lanes) for slot, v in zip(slots, like, strict=True)]


def _bits_of_two_over_pi(first: int, count: int) -> int:
    """`count` bits of 2/pi from the given place on, 1 for the bit of 1/2; places before that hold 0."""
    return (_TWO_OVER_PI >> (_TWO_OVER_PI_BITS - first - count + 1)) & ((1 << count) - 1)


def _helper(name: str, level: Level, lanes: int, dtype: str, results: int) -> Function:
    params = [("x", vector("float" if dtype == "float32" else "double", lanes))]
    params += [(f"out{k}", "ptr") for k in range(results)]
    full = f"tapecast_{name}_{level.name}" + (f"_x{lanes}" if lanes > 1 else "")
    return Function(full, params, attributes=f"{level.attributes} noinline cold")


def _large_f32(level: Level, lanes: int) -> Function:
    """x = ± M 2^E, M of 24 bits. Bits of 2/pi that give multiples of 4 are skipped, the next 96 used."""
    from .scalars import LlvmScalars

    f = _helper("reduce_f32", level, lanes, "float32", 2)
    s, x, i64 = LlvmScalars(f, level), Value("%x", "float32", lanes), "int64"
    bits = s.convert("zext", s.bitcast(s.abs(x), "int32"), i64)
    significand = s.bit_or(s.bit_and(bits, literal(0x7FFFFF, i64)), literal(0x800000, i64))
    # The first bit used is number E - 1; the table begins at bit -31, and infinity is kept inside it.
    start = s.minimum(s.sub(s.shr(bits, literal(23, i64)), literal(150 - 30, i64)), literal(104 + 30, i64))
    word, shift = s.shr(start, literal(5, i64)), s.bit_and(start, literal(31, i64))
    table = f.constant("tapecast_two_over_pi_32", _overlapping_words(8))
    words = []
    for k in range(3):
        both = f.gather(table, s.add(word, literal(k, i64)), i64)
        words.append(s.mul(significand, s.shr(s.binary("shl", both, shift), literal(32, i64))))
    thirty_two = literal(32, i64)
    turns = s.add(s.add(s.shl(words[0], thirty_two), words[1]), s.shr(words[2], thirty_two))
    q = s.shr(s.add(turns, literal(1 << 61, i64)), literal(62, i64))
    rest = s.convert("sitofp", s.sub(turns, s.shl(q, literal(62, i64))), "float64")
    r = s.mul(rest, literal(math.pi / 2 * 2.0**-62, "float64"))
    negative = s.compare("olt", x, literal(0.0, "float32"))
    r = s.select(s.compare("ueq", s.abs(x), literal(math.inf, "float32")), literal(math.nan, "float64"), r)
    f.store(s.select(negative, s.neg(r), r), "%out0")
    f.store(s.select(negative, s.neg(q), q), "%out1")
    return f


def _overlapping_words(count: int) -> str:
    """A constant array whose k-th int64 holds the 64 bits of 2/pi from bit 32 k - 31 on."""
    words = [_bits_of_two_over_pi(32 * k - 31, 64) for k in range(count)]
    return _array(words)


def _array(words: list[int]) -> str:
    return f"[{len(words)} x i64] [{', '.join(literal(w, 'int64').typed for w in words)}]"


def _large_f64(level: Level, lanes: int) -> Function:
    """Lane after lane: the work is in 128-bit integers, which vectors do not have."""
    one = _large_f64_scalar(level)
    if lanes == 1:
        return one
    f = _helper("reduce_f64", level, lanes, "float64", 3)
    f.require(one)
    x = Value("%x", "float64", lanes)
    for lane in range(lanes):
        places = [f.gep(f"%out{k}", literal(lane, "int64"), "float64") for k in range(3)]
        f.call(one.name, "void", f.extract(x, lane), *(Value(p, "ptr") for p in places))
    return f


def _large_f64_scalar(level: Level) -> Function:
    """x = ± M 2^E, M of 53 bits: as `_large_f32`, with 192 bits of 2/pi, of whose product 128 are kept."""
    from .scalars import LlvmScalars

    f = _helper("reduce_f64", level, 1, "float64", 3)
    s, x = LlvmScalars(f, level), Value("%x", "float64")
    rest, q = _turns_f64(s, s.bitcast(s.abs(x), "int64"))
    high, low = product(s, _pair_of_fixed_point(s, rest), tuple(literal(v, "float64") for v in _HALF_PI_PAIR))  # type: ignore[arg-type]
    high, low = fast_two_sum(s, high, low)
    high = s.select(
        s.compare("ueq", s.abs(x), literal(math.inf, "float64")), literal(math.nan, "float64"), high
    )
    backward = s.compare("slt", s.bitcast(x, "int64"), literal(0, "int64"))
    turned = s.binary("xor", backward, Value(f.assign(f"icmp slt i128 {rest}, 0"), "bool"))
    for k, value in enumerate((high, low)):
        f.store(s.select(turned, s.neg(value), value), f"%out{k}")
    f.store(s.select(backward, s.neg(q), q), "%out2")
    return f


def _turns_f64(s: LlvmScalars, bits: Value) -> tuple[str, Value]:
    """|x| / (pi/2) modulo 4: the rest from the nearest whole number, an i128 in units of 2^-126, and it."""
    f, i64 = s.function, "int64"
    mantissa = s.bit_or(s.bit_and(bits, literal((1 << 52) - 1, i64)), literal(1 << 52, i64))
    wide = f.assign(f"zext {mantissa.typed} to i128")
    # The first bit used is number E - 1; the table begins at bit -63, and infinity is kept inside it.
    start = s.minimum(s.sub(s.shr(bits, literal(52, i64)), literal(1075 - 62, i64)), literal(971 + 62, i64))
    word, shift = s.shr(start, literal(6, i64)), s.bit_and(start, literal(63, i64))
    table = f.constant(
        "tapecast_two_over_pi_64", _array([_bits_of_two_over_pi(64 * k - 63, 64) for k in range(20)])
    )
    loaded = [f.load(f.gep(table, s.add(word, literal(k, i64)), i64), i64) for k in range(4)]
    parts = [f.intrinsic("fshl", a, a, b, shift) for a, b in pairwise(loaded)]
    products = [f.assign(f"mul i128 {wide}, {f.assign(f'zext {p.typed} to i128')}") for p in parts]
    top, last = f.assign(f"shl i128 {products[0]}, 64"), f.assign(f"lshr i128 {products[2]}, 64")
    turns = f.assign(f"add i128 {f.assign(f'add i128 {top}, {products[1]}')}, {last}")
    q = f.assign(f"lshr i128 {f.assign(f'add i128 {turns}, {1 << 125}')}, 126")
    rest = f.assign(f"sub i128 {turns}, {f.assign(f'shl i128 {q}, 126')}")
    return rest, Value(f.assign(f"trunc i128 {q} to i64"), i64)


def _pair_of_fixed_point(s: LlvmScalars, rest: str) -> Pair:
    """|rest| 2^-126 as a pair of doubles: its leading 53 bits and the next 53."""
    f = s.function
    negated = f.assign(f"sub i128 0, {rest}")
    magnitude = f.assign(f"select i1 {f.assign(f'icmp slt i128 {rest}, 0')}, i128 {negated}, i128 {rest}")
    f.declare("declare i128 @llvm.ctlz.i128(i128, i1)")
    zeros = f.assign(f"call i128 @llvm.ctlz.i128(i128 {magnitude}, i1 false)")
    normal = f.assign(f"shl i128 {magnitude}, {f.assign(f'and i128 {zeros}, 127')}")
    places = Value(f.assign(f"trunc i128 {zeros} to i64"), "int64")
    pair = []
    for drop in (75, 22):
        digits = Value(f.assign(f"trunc i128 {f.assign(f'lshr i128 {normal}, {drop}')} to i64"), "int64")
        digits = s.bit_and(digits, literal((1 << 53) - 1, "int64"))
        exponent = s.shl(s.sub(literal(1023 + drop - 126, "int64"), places), literal(52, "int64"))
        pair.append(s.mul(s.convert("sitofp", digits, "float64"), s.bitcast(exponent, "float64")))
    return pair[0], pair[1]
