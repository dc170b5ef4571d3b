"""Exponentials, logarithms, roots, trigonometric and hyperbolic functions and their inverses, the error function."""

from __future__ import annotations

from math import log, pi
from typing import Any

from .arrays import in_single, special
from .erfc_series import ERFCX
from .table import binary, unary

# ---- exponentials, logarithms, roots -------------------------------------------------------------------------------

unary("exp", lambda xp, x: xp.exp(x), lambda F, g, out, x: g * out, lambda s, x: s.exp(x))
unary("expm1", lambda xp, x: xp.expm1(x), lambda F, g, out, x: g * (out + 1), lambda s, x: s.expm1(x))
unary(
    "exp2",
    lambda xp, x: xp.exp2(x),
    lambda F, g, out, x: g * out * log(2),
    lambda s, x: s.pow(s.const(2, x.dtype), x),
)
unary("log", lambda xp, x: xp.log(x), lambda F, g, out, x: g / x, lambda s, x: s.log(x))
unary("log1p", lambda xp, x: xp.log1p(x), lambda F, g, out, x: g / (x + 1), lambda s, x: s.log1p(x))


def _logarithm(name: str, base: float) -> None:
    unary(
        name,
        lambda xp, x: getattr(xp, name)(x),
        lambda F, g, out, x: g / (x * log(base)),
        lambda s, x: s.mul(s.log(x), s.const(1 / log(base), x.dtype)),
    )


_logarithm("log2", 2)
_logarithm("log10", 10)
unary("sqrt", lambda xp, x: xp.sqrt(x), lambda F, g, out, x: g / (out * 2), lambda s, x: s.sqrt(x))
unary(
    "rsqrt",
    in_single(lambda xp, x: xp.reciprocal(xp.sqrt(x))),
    lambda F, g, out, x: g * (out * out * out) * -0.5,
    lambda s, x: s.rsqrt(x),
)
unary(
    "reciprocal",
    lambda xp, x: xp.reciprocal(x),
    lambda F, g, out, x: -g * (out * out),
    lambda s, x: s.div(s.const(1, x.dtype), x),
)


def _hypot(s: Any, x: Any, y: Any) -> Any:
    """Scaled by the larger of the two, so that no square overflows."""
    x, y = s.abs(x), s.abs(y)
    big, small = s.maximum(x, y), s.minimum(x, y)
    one, zero, inf = (s.const(v, x.dtype) for v in (1.0, 0.0, float("inf")))
    ratio = s.select(s.eq(big, zero), zero, s.div(small, big))
    plain = s.mul(big, s.sqrt(s.add(one, s.mul(ratio, ratio))))
    return s.select(s.logical_or(s.eq(x, inf), s.eq(y, inf)), inf, plain)


binary(
    "hypot",
    lambda xp, x, y: xp.hypot(x, y),
    (lambda F, g, out, x, y: g * (x / out), lambda F, g, out, x, y: g * (y / out)),
    _hypot,
)

# ---- circular functions --------------------------------------------------------------------------------------------

unary("sin", lambda xp, x: xp.sin(x), lambda F, g, out, x: g * F.cos(x), lambda s, x: s.sin(x))
unary("cos", lambda xp, x: xp.cos(x), lambda F, g, out, x: -g * F.sin(x), lambda s, x: s.cos(x))
unary(
    "tan",
    lambda xp, x: xp.tan(x),
    lambda F, g, out, x: g * (1 + out * out),
    lambda s, x: s.div(s.sin(x), s.cos(x)),
)


def _is_negative(s: Any, x: Any) -> Any:
    """The sign bit of x: -0.0 counts as negative."""
    zero, one = s.const(0.0, x.dtype), s.const(1.0, x.dtype)
    return s.lt(s.select(s.eq(x, zero), s.div(one, x), x), zero)


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
    angle = s.select(_is_negative(s, x), s.sub(c(pi), angle), angle)
    return s.select(_is_negative(s, y), s.neg(angle), angle)


def _cosine_of(s: Any, x: Any) -> Any:
    """√(1 - x²), exact near |x| = 1."""
    one = s.const(1.0, x.dtype)
    return s.sqrt(s.mul(s.sub(one, x), s.add(one, x)))


binary(
    "atan2",
    lambda xp, x, y: xp.arctan2(x, y),
    (lambda F, g, out, x, y: g * (y / (x * x + y * y)), lambda F, g, out, x, y: -g * (x / (x * x + y * y))),
    _atan2,
)
unary(
    "atan",
    lambda xp, x: xp.arctan(x),
    lambda F, g, out, x: g / (x * x + 1),
    lambda s, x: _atan2(s, x, s.const(1.0, x.dtype)),
)
unary(
    "asin",
    lambda xp, x: xp.arcsin(x),
    lambda F, g, out, x: g * F.rsqrt((1 - x) * (1 + x)),
    lambda s, x: _atan2(s, x, _cosine_of(s, x)),
)
unary(
    "acos",
    lambda xp, x: xp.arccos(x),
    lambda F, g, out, x: -g * F.rsqrt((1 - x) * (1 + x)),
    lambda s, x: _atan2(s, _cosine_of(s, x), x),
)

# ---- hyperbolic functions ------------------------------------------------------------------------------------------


def _sinh(s: Any, x: Any) -> Any:
    """(u + u / (u + 1)) / 2 with u = expm1(|x|), exact near 0; e^(|x| / 2) twice where e^|x| overflows."""
    half, one = s.const(0.5, x.dtype), s.const(1.0, x.dtype)
    size = s.abs(x)
    u, root = s.expm1(size), s.exp(s.mul(half, size))
    small = s.mul(half, s.add(u, s.div(u, s.add(u, one))))
    out = s.select(s.gt(size, s.const(10.0, x.dtype)), s.mul(s.mul(half, root), root), small)
    return s.select(_is_negative(s, x), s.neg(out), out)


def _cosh(s: Any, x: Any) -> Any:
    half = s.const(0.5, x.dtype)
    root = s.exp(s.mul(half, s.abs(x)))
    return s.add(s.mul(s.mul(half, root), root), s.div(half, s.mul(root, root)))


unary("sinh", lambda xp, x: xp.sinh(x), lambda F, g, out, x: g * F.cosh(x), _sinh)
unary("cosh", lambda xp, x: xp.cosh(x), lambda F, g, out, x: g * F.sinh(x), _cosh)
unary("tanh", lambda xp, x: xp.tanh(x), lambda F, g, out, x: g * (1 - out * out), lambda s, x: s.tanh(x))


def _asinh(s: Any, x: Any) -> Any:
    """log1p of |x| + x² / (1 + √(x² + 1)); log |x| + log 2 where the square would overflow."""
    one, size = s.const(1.0, x.dtype), s.abs(x)
    large = s.gt(size, s.const(1e4, x.dtype))
    square = s.select(large, one, s.mul(size, size))
    near = s.log1p(s.add(size, s.div(square, s.add(one, s.sqrt(s.add(square, one))))))
    correction = s.const(log(2), x.dtype)
    inverse = s.div(s.const(0.5, x.dtype), size)
    far = s.add(s.add(s.log(size), correction), s.mul(inverse, inverse))
    out = s.select(large, far, near)
    return s.select(_is_negative(s, x), s.neg(out), out)


def _acosh(s: Any, x: Any) -> Any:
    """log1p of (x - 1) + √((x - 1)(x + 1)); log x + log 2 where the product would overflow."""
    one = s.const(1.0, x.dtype)
    large = s.gt(x, s.const(1e4, x.dtype))
    low = s.sub(s.select(large, one, x), one)
    near = s.log1p(s.add(low, s.sqrt(s.mul(low, s.add(low, s.const(2.0, x.dtype))))))
    inverse = s.div(s.const(0.5, x.dtype), x)
    far = s.sub(s.add(s.log(x), s.const(log(2), x.dtype)), s.mul(inverse, inverse))
    return s.select(large, far, near)


def _atanh(s: Any, x: Any) -> Any:
    half = s.const(0.5, x.dtype)
    return s.mul(half, s.sub(s.log1p(x), s.log1p(s.neg(x))))


unary("asinh", lambda xp, x: xp.arcsinh(x), lambda F, g, out, x: g * F.rsqrt(x * x + 1), _asinh)
unary(
    "acosh",
    lambda xp, x: xp.arccosh(x),
    lambda F, g, out, x: g * F.rsqrt(x - 1) * F.rsqrt(x + 1),
    _acosh,
)
unary("atanh", lambda xp, x: xp.arctanh(x), lambda F, g, out, x: g / ((1 - x) * (1 + x)), _atanh)


def _sigmoid_run(xp: Any, x: Any) -> Any:
    return xp.reciprocal(1 + xp.exp(-x)) if x.dtype.kind == "c" else special(xp, "expit", x)


unary("sigmoid", _sigmoid_run, lambda F, g, out, x: g * (out * (1 - out)), lambda s, x: s.sigmoid(x))

# ---- error function ------------------------------------------------------------------------------------------------

unary(
    "erf",
    lambda xp, x: special(xp, "erf", x),
    lambda F, g, out, x: g * (F.exp(-x * x) * (2 / pi**0.5)),
    lambda s, x: s.erf(x),
)


def erfcx(s: Any, x: Any) -> Any:
    """exp(x²)·erfc(x) of x >= 0: t·exp(a Chebyshev series in t), t = 2 / (2 + x)."""
    c = lambda v: s.const(v, x.dtype)  # noqa: E731
    t = s.div(c(2.0), s.add(c(2.0), x))
    u = s.sub(s.mul(c(4.0), t), c(2.0))
    b, after = c(0.0), c(0.0)
    for coefficient in reversed(ERFCX[1:]):
        b, after = s.add(s.sub(s.mul(u, b), after), c(coefficient)), b
    exponent = s.add(s.sub(s.mul(s.mul(c(0.5), u), b), after), c(ERFCX[0]))
    return s.mul(t, s.exp(exponent))


def _erfc(s: Any, x: Any) -> Any:
    """1 - erf(x) below 0.5; above, erfcx(x)·exp(-x²), which keeps its digits however small it gets."""
    one, tail = s.const(1.0, x.dtype), s.maximum(x, s.const(0.0, x.dtype))
    large = s.mul(erfcx(s, tail), s.exp(s.neg(s.mul(tail, tail))))
    return s.select(s.lt(x, s.const(0.5, x.dtype)), s.sub(one, s.erf(x)), large)


unary(
    "erfc",
    lambda xp, x: special(xp, "erfc", x),
    lambda F, g, out, x: g * (F.exp(-x * x) * (-2 / pi**0.5)),
    _erfc,
)
