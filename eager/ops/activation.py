"""Activation functions, one element at a time, each with its gradient in closed form."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

from .arrays import in_single, special
from .table import unary

SQRT_HALF = sqrt(0.5)
SQRT_2_PI = sqrt(2 / pi)

unary(
    "relu",
    lambda xp, x: xp.maximum(x, x.dtype.type(0)),
    lambda F, g, out, x: F.where(out > 0, g, 0.0),
    lambda s, x: s.maximum(x, s.const(0, x.dtype)),
)

# ---- gelu --------------------------------------------------------------------------------------------------


def _gelu_run(xp: Any, x: Any, *, approximate: str) -> Any:
    if approximate == "tanh":
        return x * (xp.tanh((x + x * x * x * 0.044715) * SQRT_2_PI) + 1) * 0.5
    return x * special(xp, "ndtr", x)


def _gelu_vjp(F: Any, g: Any, out: Any, x: Any, *, approximate: str) -> Any:
    if approximate == "tanh":
        t = F.tanh((x + x * x * x * 0.044715) * SQRT_2_PI)
        slope = (1 - t * t) * (1 + x * x * (3 * 0.044715)) * SQRT_2_PI
        return g * ((t + 1) * 0.5 + x * slope * 0.5)
    density = F.exp(x * x * -0.5) * (1 / sqrt(2 * pi))
    return g * ((F.erf(x * SQRT_HALF) + 1) * 0.5 + x * density)


def _gelu_scalar(s: Any, x: Any, *, approximate: str) -> Any:
    def c(value: float) -> Any:
        return s.const(value, x.dtype)

    if approximate == "tanh":
        inner = s.mul(c(SQRT_2_PI), s.add(x, s.mul(c(0.044715), s.mul(s.mul(x, x), x))))
        return s.mul(s.mul(c(0.5), x), s.add(c(1.0), s.tanh(inner)))
    return s.mul(s.mul(c(0.5), x), s.add(c(1.0), s.erf(s.mul(x, c(SQRT_HALF)))))


unary("gelu", in_single(_gelu_run), _gelu_vjp, _gelu_scalar)

# ---- others ------------------------------------------------------------------------------------------------


def _silu_vjp(F: Any, g: Any, out: Any, x: Any) -> Any:
    p = F.sigmoid(x)
    return g * (p * (1 + x * (1 - p)))


unary(
    "silu",
    in_single(lambda xp, x: x / (1 + xp.exp(-x)) if x.dtype.kind == "c" else x * special(xp, "expit", x)),
    _silu_vjp,
    lambda s, x: s.mul(x, s.sigmoid(x)),
)


def _leaky_scalar(s: Any, x: Any, *, negative_slope: float) -> Any:
    return s.select(s.gt(x, s.const(0, x.dtype)), x, s.mul(x, s.const(negative_slope, x.dtype)))


unary(
    "leaky_relu",
    in_single(lambda xp, x, *, negative_slope: xp.where(x > 0, x, x * x.dtype.type(negative_slope))),
    lambda F, g, out, x, *, negative_slope: F.where(x > 0, g, g * negative_slope),
    _leaky_scalar,
)


def _elu_scalar(s: Any, x: Any, *, alpha: float) -> Any:
    return s.select(s.gt(x, s.const(0, x.dtype)), x, s.mul(s.const(alpha, x.dtype), s.expm1(x)))


unary(
    "elu",
    in_single(lambda xp, x, *, alpha: xp.where(x > 0, x, xp.expm1(x) * x.dtype.type(alpha))),
    lambda F, g, out, x, *, alpha: F.where(x > 0, g, g * (F.exp(x) * alpha)),
    _elu_scalar,
)


def _softplus_run(xp: Any, x: Any, *, beta: float, threshold: float) -> Any:
    """log(1 + exp(βx)) / β, and x itself where βx > threshold, as PyTorch has it."""
    scaled = x * x.dtype.type(beta)
    return xp.where(scaled > threshold, x, xp.log1p(xp.exp(scaled)) / x.dtype.type(beta))


def _softplus_vjp(F: Any, g: Any, out: Any, x: Any, *, beta: float, threshold: float) -> Any:
    return F.where(x * beta > threshold, g, g * F.sigmoid(x * beta))


def _softplus_scalar(s: Any, x: Any, *, beta: float, threshold: float) -> Any:
    scaled = s.mul(x, s.const(beta, x.dtype))
    soft = s.div(s.log1p(s.exp(scaled)), s.const(beta, x.dtype))
    return s.select(s.gt(scaled, s.const(threshold, x.dtype)), x, soft)


unary("softplus", in_single(_softplus_run), _softplus_vjp, _softplus_scalar)


def _clamp_run(xp: Any, x: Any, *, min: float | None, max: float | None) -> Any:
    if min is not None:
        x = xp.maximum(x, x.dtype.type(min))
    return x if max is None else xp.minimum(x, x.dtype.type(max))


def _clamp_vjp(F: Any, g: Any, out: Any, x: Any, *, min: float | None, max: float | None) -> Any:
    """The gradient passes where the bounds do not bind; on a bound it still passes."""
    if min is None:
        return F.where(x <= max, g, 0.0)
    inside = x >= min if max is None else F.logical_and(x >= min, x <= max)
    return F.where(inside, g, 0.0)


def _clamp_scalar(s: Any, x: Any, *, min: float | None, max: float | None) -> Any:
    if min is not None:
        x = s.maximum(x, s.const(min, x.dtype))
    return x if max is None else s.minimum(x, s.const(max, x.dtype))


unary("clamp", _clamp_run, _clamp_vjp, _clamp_scalar)
