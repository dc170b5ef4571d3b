"""Arithmetic, functions, rounding, comparison, logic and choice: the ops that work one element at a time."""

from __future__ import annotations

from math import pi
from typing import Any

from .arrays import special
from .table import binary, define, elementwise, unary
from .types import DTYPES, Aval, broadcast_shapes, same_dtype

BOOL = DTYPES["bool"]


def no_slope(F: Any, g: Any, out: Any, x: Any) -> Any:
    """The gradient of a step function: zero wherever it exists."""
    return g.new_zeros(x.shape)


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
    None,
    lambda s, x, y: s.floordiv(x, y),
)
binary(
    "remainder",
    lambda xp, x, y: xp.remainder(x, y),
    (lambda F, g, out, x, y: g, lambda F, g, out, x, y: -g * F.floor(x / y)),
    lambda s, x, y: s.mod(x, y),
)


def _pow_base(F: Any, g: Any, out: Any, x: Any, y: Any) -> Any:
    """y·x^(y-1), and 0 for y = 0 even where x^(-1) is infinite."""
    return F.where(y == 0, 0.0, g * (y * F.pow(x, y - 1)))


def _pow_exponent(F: Any, g: Any, out: Any, x: Any, y: Any) -> Any:
    """out·log x; 0^y has slope 0 in y, not 0·log 0 = nan."""
    flat = F.logical_and(x == 0, y >= 0)
    return F.where(flat, 0.0, g * (out * F.log(F.where(flat, 1.0, x))))


binary("pow", lambda xp, x, y: xp.power(x, y), (_pow_base, _pow_exponent), lambda s, x, y: s.pow(x, y))
binary(
    "atan2",
    lambda xp, x, y: xp.arctan2(x, y),
    (lambda F, g, out, x, y: g * (y / (x * x + y * y)), lambda F, g, out, x, y: -g * (x / (x * x + y * y))),
    # The language has no arctangent: half-angle steps bring the argument close to 0, a series does the rest.
    lambda s, x, y: _atan2(s, x, y),
)


def _atan2(s: Any, y: Any, x: Any) -> Any:
    """atan2 from arithmetic: atan(z) = 2·atan(z / (1 + √(1 + z²))) thrice, then the series to z¹¹, |z| < 0.1."""
    c = lambda v: s.const(v, x.dtype)  # noqa: E731
    big, small = s.maximum(s.abs(x), s.abs(y)), s.minimum(s.abs(x), s.abs(y))
    z = s.select(s.eq(big, c(0.0)), c(0.0), s.select(s.eq(big, small), c(1.0), s.div(small, big)))
    for _ in range(3):
        z = s.div(z, s.add(c(1.0), s.sqrt(s.add(c(1.0), s.mul(z, z)))))
    square, series = s.mul(z, z), c(1 / 13)
    for n in (11, 9, 7, 5, 3, 1):
        series = s.sub(c(1 / n), s.mul(square, series))
    angle = s.mul(c(8.0), s.mul(z, series))
    angle = s.select(s.gt(s.abs(y), s.abs(x)), s.sub(c(pi / 2), angle), angle)
    negative_x = s.lt(s.select(s.eq(x, c(0.0)), s.div(c(1.0), x), x), c(0.0))  # -0.0 counts as negative
    negative_y = s.lt(s.select(s.eq(y, c(0.0)), s.div(c(1.0), y), y), c(0.0))
    angle = s.select(negative_x, s.sub(c(pi), angle), angle)
    return s.select(negative_y, s.neg(angle), angle)


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

# ---- functions ---------------------------------------------------------------------------------------------

unary("neg", lambda xp, x: -x, lambda F, g, out, x: -g, lambda s, x: s.neg(x))
unary(
    "abs",
    lambda xp, x: xp.abs(x),
    lambda F, g, out, x: g * F.sign(x),
    lambda s, x: x if x.dtype in ("bool", "uint8") else s.abs(x),
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
unary("exp", lambda xp, x: xp.exp(x), lambda F, g, out, x: g * out, lambda s, x: s.exp(x))
unary("expm1", lambda xp, x: xp.expm1(x), lambda F, g, out, x: g * (out + 1), lambda s, x: s.expm1(x))
unary("log", lambda xp, x: xp.log(x), lambda F, g, out, x: g / x, lambda s, x: s.log(x))
unary("log1p", lambda xp, x: xp.log1p(x), lambda F, g, out, x: g / (x + 1), lambda s, x: s.log1p(x))
unary("sqrt", lambda xp, x: xp.sqrt(x), lambda F, g, out, x: g / (out * 2), lambda s, x: s.sqrt(x))
unary(
    "rsqrt",
    lambda xp, x: xp.reciprocal(xp.sqrt(x)),
    lambda F, g, out, x: g * (out * out * out) * -0.5,
    lambda s, x: s.rsqrt(x),
)
unary(
    "reciprocal",
    lambda xp, x: xp.reciprocal(x),
    lambda F, g, out, x: -g * (out * out),
    lambda s, x: s.div(s.const(1, x.dtype), x),
)
unary("sin", lambda xp, x: xp.sin(x), lambda F, g, out, x: g * F.cos(x), lambda s, x: s.sin(x))
unary("cos", lambda xp, x: xp.cos(x), lambda F, g, out, x: -g * F.sin(x), lambda s, x: s.cos(x))
unary("tanh", lambda xp, x: xp.tanh(x), lambda F, g, out, x: g * (1 - out * out), lambda s, x: s.tanh(x))
unary(
    "sigmoid",
    lambda xp, x: special(xp, "expit", x),
    lambda F, g, out, x: g * (out * (1 - out)),
    lambda s, x: s.sigmoid(x),
)
unary(
    "erf",
    lambda xp, x: special(xp, "erf", x),
    lambda F, g, out, x: g * (F.exp(-x * x) * (2 / pi**0.5)),
    lambda s, x: s.erf(x),
)

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
    lambda xp, x, *, dtype: x.astype(DTYPES[dtype]),
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
