"""Arithmetic, functions, rounding, comparison, logic and choice: the ops that work one element at a time."""

from __future__ import annotations

from typing import Any

from .arrays import converted
from .table import binary, define, elementwise, unary
from .types import DTYPES, Aval, broadcast_shapes, real_dtype, same_dtype

BOOL = DTYPES["bool"]


def no_slope(F: Any, g: Any, out: Any, *inputs: Any) -> Any:
    """The gradient of a step function: zero wherever it exists."""
    return F.zeros_like(g)


# ---- arithmetic --------------------------------------------------------------------------------------------

binary(
    "add",
    lambda xp, x, y: x + y,
    (lambda F, g, out, x, y: g, lambda F, g, out, x, y: g),
    lambda s, x, y: s.logical_or(x, y) if x.dtype == "bool" else s.add(x, y),
)
binary(
    "sub",
    lambda xp, x, y: x - y,
    (lambda F, g, out, x, y: g, lambda F, g, out, x, y: -g),
    lambda s, x, y: s.sub(x, y),
)
binary(
    "mul",
    lambda xp, x, y: x * y,
    (lambda F, g, out, x, y: g * y, lambda F, g, out, x, y: g * x),
    lambda s, x, y: s.logical_and(x, y) if x.dtype == "bool" else s.mul(x, y),
)
binary(
    "div",
    lambda xp, x, y: x / y,
    (lambda F, g, out, x, y: g / y, lambda F, g, out, x, y: -g * ((x / y) / y)),
    lambda s, x, y: s.div(x, y),
)
binary(
    "floor_divide",
    lambda xp, x, y: xp.floor_divide(x, y),
    (no_slope, no_slope),
    lambda s, x, y: s.floordiv(x, y),
)
binary(
    "remainder",
    lambda xp, x, y: xp.remainder(x, y),
    (lambda F, g, out, x, y: g, lambda F, g, out, x, y: -g * F.floor(x / y)),
    lambda s, x, y: s.mod(x, y),
)


def _fmod(s: Any, x: Any, y: Any) -> Any:
    """The remainder of the absolute values with the sign of x."""
    if x.dtype == "uint8":
        return s.mod(x, y)
    size = s.mod(s.abs(x), s.abs(y))
    return s.select(s.lt(x, s.const(0, x.dtype)), s.neg(size), size)


binary(
    "fmod",
    lambda xp, x, y: xp.fmod(x, y),
    (lambda F, g, out, x, y: g, lambda F, g, out, x, y: -g * F.trunc(x / y)),
    _fmod,
)


def _pow_base(F: Any, g: Any, out: Any, x: Any, y: Any) -> Any:
    """y·x^(y-1), and 0 for y = 0 even where x^(-1) is infinite."""
    return F.where(y == 0, 0.0, g * (y * F.pow(x, y - 1)))


def _pow_exponent(F: Any, g: Any, out: Any, x: Any, y: Any) -> Any:
    """out·log x; 0^y has slope 0 in y, not 0·log 0 = nan."""
    flat = F.logical_and(x == 0, F.real(y) >= 0)
    return F.where(flat, 0.0, g * (out * F.log(F.where(flat, 1.0, x))))


binary("pow", lambda xp, x, y: xp.power(x, y), (_pow_base, _pow_exponent), lambda s, x, y: s.pow(x, y))


def _share_extreme(F: Any, g: Any, mine: Any, other: Any, wins: Any) -> Any:
    """The gradient of maximum or minimum for the operand `mine`: all where it wins, half at a tie."""
    return F.where(mine == other, g * 0.5, F.where(wins, g, 0.0))


binary(
    "maximum",
    lambda xp, x, y: xp.maximum(x, y),
    (
        lambda F, g, out, x, y: _share_extreme(F, g, x, y, x > y),
        lambda F, g, out, x, y: _share_extreme(F, g, y, x, y > x),
    ),
    lambda s, x, y: s.logical_or(x, y) if x.dtype == "bool" else s.maximum(x, y),
)
binary(
    "minimum",
    lambda xp, x, y: xp.minimum(x, y),
    (
        lambda F, g, out, x, y: _share_extreme(F, g, x, y, x < y),
        lambda F, g, out, x, y: _share_extreme(F, g, y, x, y < x),
    ),
    lambda s, x, y: s.logical_and(x, y) if x.dtype == "bool" else s.minimum(x, y),
)

# ---- sign --------------------------------------------------------------------------------------------------------

unary("neg", lambda xp, x: -x, lambda F, g, out, x: -g, lambda s, x: s.neg(x))
unary(
    "abs",
    lambda xp, x: xp.abs(x),
    lambda F, g, out, x: g * F.sgn(x),
    lambda s, x: x if x.dtype in ("bool", "uint8") else s.abs(x),
    infer=lambda x: Aval(x.shape, real_dtype(x.dtype)),
    holomorphic=False,
)


def _sign(s: Any, x: Any) -> Any:
    if x.dtype == "bool":
        return x
    zero, one = s.const(0, x.dtype), s.const(1, x.dtype)
    if x.dtype == "uint8":
        return s.select(s.gt(x, zero), one, zero)
    return s.select(s.gt(x, zero), one, s.select(s.lt(x, zero), s.neg(one), zero))


def _sign_run(xp: Any, x: Any) -> Any:
    """numpy's sign of nan is nan; PyTorch's is 0."""
    return x.copy() if x.dtype == BOOL else (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


unary("sign", _sign_run, no_slope, _sign)
# ---- rounding ----------------------------------------------------------------------------------------------


def _rounding(name: str, numpy_name: str) -> None:
    def run(xp: Any, x: Any) -> Any:
        return x.copy() if x.dtype.kind in "biu" else getattr(xp, numpy_name)(x)

    def scalar(s: Any, x: Any) -> Any:
        return x if "int" in x.dtype or x.dtype == "bool" else getattr(s, name)(x)

    unary(name, run, no_slope, scalar)


_rounding("floor", "floor")
_rounding("ceil", "ceil")
_rounding("round", "rint")
_rounding("trunc", "trunc")

# ---- comparison, logic, bits -------------------------------------------------------------------------------


def _comparison(name: str, numpy_name: str) -> None:
    def run(xp: Any, x: Any, y: Any) -> Any:
        return getattr(xp, numpy_name)(x, y)

    binary(name, run, None, lambda s, x, y: getattr(s, name)(x, y), dtype=BOOL)


_comparison("eq", "equal")
_comparison("ne", "not_equal")
_comparison("lt", "less")
_comparison("le", "less_equal")
_comparison("gt", "greater")
_comparison("ge", "greater_equal")


def _isnan(s: Any, x: Any) -> Any:
    return s.const(False, "bool") if "int" in x.dtype or x.dtype == "bool" else s.isnan(x)


def _isinf(s: Any, x: Any) -> Any:
    if "int" in x.dtype or x.dtype == "bool":
        return s.const(False, "bool")
    return s.eq(s.abs(x), s.const(float("inf"), x.dtype))


unary("isnan", lambda xp, x: xp.isnan(x), None, _isnan, dtype=BOOL)
unary("isinf", lambda xp, x: xp.isinf(x), None, _isinf, dtype=BOOL)
unary("logical_not", lambda xp, x: xp.logical_not(x), None, lambda s, x: s.logical_not(x), dtype=BOOL)


def _bits(name: str, numpy_name: str, logical: str | None, bitwise: str) -> None:
    """A bit operation of integers; on bool it is the logical one."""

    def scalar(s: Any, x: Any, y: Any) -> Any:
        if x.dtype == "bool":
            return s.ne(x, y) if logical is None else getattr(s, logical)(x, y)
        return getattr(s, bitwise)(x, y)

    binary(name, lambda xp, x, y: getattr(xp, numpy_name)(x, y), None, scalar)


_bits("bitwise_and", "bitwise_and", "logical_and", "bit_and")
_bits("bitwise_or", "bitwise_or", "logical_or", "bit_or")
_bits("bitwise_xor", "bitwise_xor", None, "bit_xor")


def _in_width(s: Any, x: Any, y: Any) -> Any:
    """Whether y is a possible number of places to shift x by: 0 to one less than its bits."""
    bits = DTYPES[x.dtype].itemsize * 8
    return s.logical_and(s.ge(y, s.const(0, y.dtype)), s.lt(y, s.const(bits, y.dtype)))


def _left_shift(s: Any, x: Any, y: Any) -> Any:
    zero, inside = s.const(0, x.dtype), _in_width(s, x, y)
    return s.select(inside, s.shl(x, s.select(inside, y, zero)), zero)


def _right_shift(s: Any, x: Any, y: Any) -> Any:
    """The logical shift of x, or of its complement where x is negative, complemented again."""
    zero, inside = s.const(0, x.dtype), _in_width(s, x, y)
    places = s.select(inside, y, zero)
    if x.dtype == "uint8":
        return s.select(inside, s.shr(x, places), zero)
    ones = s.const(-1, x.dtype)
    negative = s.lt(x, zero)
    kept = s.select(negative, s.bit_xor(x, ones), x)
    shifted = s.select(inside, s.shr(kept, places), zero)
    return s.select(negative, s.bit_xor(shifted, ones), shifted)


binary("bitwise_left_shift", lambda xp, x, y: xp.left_shift(x, y), None, _left_shift)
binary("bitwise_right_shift", lambda xp, x, y: xp.right_shift(x, y), None, _right_shift)

# On bool operands only: the functional layer casts first.
binary("logical_and", lambda xp, x, y: x & y, None, lambda s, x, y: s.logical_and(x, y), dtype=BOOL)
binary("logical_or", lambda xp, x, y: x | y, None, lambda s, x, y: s.logical_or(x, y), dtype=BOOL)
binary("logical_xor", lambda xp, x, y: x ^ y, None, lambda s, x, y: s.ne(x, y), dtype=BOOL)


def _invert(s: Any, x: Any) -> Any:
    if x.dtype == "bool":
        return s.logical_not(x)
    return s.bit_xor(x, s.const(255 if x.dtype == "uint8" else -1, x.dtype))


unary("bitwise_not", lambda xp, x: xp.invert(x), None, _invert)

# ---- conversion, copy, choice ------------------------------------------------------------------------------

unary(
    "cast",
    lambda xp, x, *, dtype: converted(x, DTYPES[dtype]),
    lambda F, g, out, x, *, dtype: F.cast(g, x.dtype),
    lambda s, x, *, dtype: s.cast(x, dtype),
    infer=lambda x, *, dtype: Aval(x.shape, DTYPES[dtype]),
)
unary("clone", lambda xp, x: x.copy(), lambda F, g, out, x: g, lambda s, x: x)


def _where_infer(condition: Aval, x: Aval, y: Aval) -> Aval:
    if condition.dtype != BOOL:
        raise RuntimeError(
            f"where: expected condition to be a boolean tensor, but got a tensor with {condition}"
        )
    return Aval(broadcast_shapes("where", condition, x, y), same_dtype("where", x, y))


define(
    "where",
    _where_infer,
    lambda xp, condition, x, y: xp.where(condition, x, y),
    vjp=(
        None,
        lambda F, g, out, condition, x, y: F.where(condition, g, 0.0),
        lambda F, g, out, condition, x, y: F.where(condition, 0.0, g),
    ),
    scalar=lambda s, condition, x, y: s.select(condition, x, y),
    element=elementwise(lambda s, condition, x, y: s.select(condition, x, y)),
    arity=(3, 3),
)
