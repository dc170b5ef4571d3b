"""Activation functions."""

from __future__ import annotations

from typing import Any

from ..ops.table import TABLE
from ..tape import apply, apply_unary, labelled
from ..tensor import Tensor
from .base import as_float, in_single, refuse
from .pointwise import abs, clamp, exp, expm1, log, log1p, mul, neg, sigmoid, tanh, where
from .reduction import softmax
from .shaping import reshape
from .splitting import chunk

RELU, GELU, SILU = TABLE["relu"], TABLE["gelu"], TABLE["silu"]
LEAKY_RELU, ELU, SOFTPLUS = TABLE["leaky_relu"], TABLE["elu"], TABLE["softplus"]


def written(x: Tensor, value: Tensor, inplace: bool) -> Tensor:
    """The value, or x with the value written over it."""
    if not inplace:
        return value
    from ..writes import write

    return write(x, value)


def old(x: Tensor, inplace: bool) -> Tensor:
    """What an in-place function computes from: the tensor's old self."""
    return x._alias() if inplace else x


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    if not inplace:
        return apply_unary(RELU, input)
    return written(input, apply_unary(RELU, input._alias()), True)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x kept within [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x kept within [min_val, max_val]; of integers, within the bounds without their fractions."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    refuse("hardtanh", input, "bc")
    bounds = (int(min_val), int(max_val)) if input.array.dtype.kind in "iu" else (min_val, max_val)
    return written(input, labelled(clamp(old(input, inplace), *bounds), "Hardtanh"), inplace)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x · Φ(x), Φ the normal distribution function; approximate="tanh" is the cheaper form of it."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")
    return apply(GELU, as_float("gelu", input), approximate=approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x · sigmoid(x)."""
    return written(input, apply(SILU, old(input, inplace)), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · tanh(softplus(x))."""
    return written(input, _mish(old(input, inplace)), inplace)


@in_single
def _mish(x: Tensor) -> Tensor:
    return mul(x, tanh(softplus(x)))


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, times negative_slope where it is negative."""
    out = apply(LEAKY_RELU, old(input, inplace), negative_slope=float(negative_slope))
    return written(input, out, inplace)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """leaky_relu with a learnt slope, one or one per channel (axis 1)."""
    slope = weight
    if weight.numel() > 1:
        if input.ndim < 2 or weight.array.shape[0] != input.array.shape[1]:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} "
                f"and channel size = {int(input.array.shape[1]) if input.ndim > 1 else 1}."
            )
        slope = reshape(weight, (weight.array.shape[0], *(1,) * (input.ndim - 2)))
    elif not input.ndim:
        slope = reshape(weight, ())
    return where(input > 0, input, mul(input, slope))


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """x, times a slope drawn from [lower, upper) where it is negative; when not training, times the mean slope."""
    from .randoms import rand

    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    x = old(input, inplace)
    slope = rand(tuple(x.array.shape), dtype=x.dtype) * (upper - lower) + lower
    return written(input, where(x > 0, x, mul(x, slope)), inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or alpha · (exp(x) - 1) where it is negative."""
    return written(input, apply(ELU, old(input, inplace), alpha=float(alpha)), inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or alpha · (exp(x / alpha) - 1) where it is negative."""
    return written(input, _celu(old(input, inplace), alpha), inplace)


@in_single
def _celu(x: Tensor, alpha: float) -> Tensor:
    return where(x > 0, x, alpha * expm1(minimum_zero(x) / alpha))


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu with the constants of self-normalising networks (Klambauer et al. 2017)."""
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return written(input, _selu(old(input, inplace), alpha, scale), inplace)


@in_single
def _selu(x: Tensor, alpha: float, scale: float) -> Tensor:
    return elu(x, alpha) * scale


def minimum_zero(x: Tensor) -> Tensor:
    return clamp(x, max=0.0)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta · x)) / beta, and x where beta · x > threshold."""
    return apply(SOFTPLUS, input, beta=float(beta), threshold=float(threshold))


@in_single
def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)) = min(x, 0) - log1p(exp(-|x|))."""
    return labelled(minimum_zero(input) - log1p(exp(neg(abs(input)))), "LogSigmoid")


@in_single
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (abs(input) + 1)


@in_single
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - tanh(input)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, or 0 where |x| <= lambd."""
    return where(abs(input) <= lambd, 0.0, input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd, 0 where |x| <= lambd."""
    if lambd < 0:
        raise RuntimeError(
            f"lambda must be in range [0, inf) for input dtype {input.dtype.name}, but found {lambd}"
        )
    return where(input > lambd, input - lambd, where(input < -lambd, input + lambd, 0.0 * input))


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6."""
    return written(input, _hardsigmoid(old(input, inplace)), inplace)


@in_single
def _hardsigmoid(x: Tensor) -> Tensor:
    return clamp(x + 3.0, 0.0, 6.0) / 6.0


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x · hardsigmoid(x)."""
    return written(input, _hardswish(old(input, inplace)), inplace)


@in_single
def _hardswish(x: Tensor) -> Tensor:
    return mul(x, _hardsigmoid(x))


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x, or `value` where x <= threshold."""
    x = old(input, inplace)
    return written(input, where(x > threshold, x, value), inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of an axis times the sigmoid of the second."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    size = input.array.shape[dim]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {int(size)}")
    a, b = chunk(input, 2, dim)
    return mul(a, sigmoid(b))


def softmin(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """softmax(-x)."""
    return softmax(neg(input), dim, dtype)


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    """x divided by its p-norm along an axis, or by eps where that is smaller."""
    from .norms import norm

    return input / clamp(norm(input, p, dim, keepdim=True), min=eps)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Tensor:
    """A differentiable sample of a categorical distribution; hard: one-hot forward, soft gradient."""
    from .randoms import rand
    from .reduction import argmax
    from .scattering import scatter

    noise = rand(tuple(logits.array.shape), dtype=logits.dtype)
    soft = softmax((logits - log(neg(log(noise + 1e-20)) + 1e-20)) / tau, dim)
    if not hard:
        return soft
    one = scatter(logits.new_zeros(logits.array.shape), dim, argmax(soft, dim, True), 1.0)
    return one - soft.detach() + soft
