"""The gamma function's family, and random numbers that are quantiles of uniform ones."""

from __future__ import annotations

import math
from typing import Any

from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor
from .base import as_float, cast_to, common, two_tensors
from .randoms import rand
from .ranges import arange
from .reduction import sum
from .shaping import broadcast_tensors, unsqueeze


def lgamma(input: Tensor) -> Tensor:
    """log |Γ(x)|."""
    return apply(TABLE["lgamma"], as_float("lgamma", input))


def digamma(input: Tensor) -> Tensor:
    """The derivative of log Γ."""
    return apply(TABLE["digamma"], as_float("digamma", input))


def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma."""
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, got {n}")
    if n == 0:
        return digamma(input)
    return apply(TABLE["polygamma"], as_float("polygamma", input), n=int(n))


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    x = as_float("mvlgamma", input)
    steps = unsqueeze(x, -1) - cast_to(arange(p), x.array.dtype) / 2
    return sum(lgamma(steps), -1) + p * (p - 1) / 4 * math.log(math.pi)


def erfinv(input: Tensor) -> Tensor:
    """The inverse of erf, on (-1, 1)."""
    return apply(TABLE["erfinv"], as_float("erfinv", input))


def igamma(input: Tensor, other: Tensor) -> Tensor:
    """The regularised lower incomplete gamma function P(input, other), differentiable by `other`."""
    return apply(TABLE["igamma"], *common("igamma", *two_tensors("igamma", input, other), floating=True))


def gamma_slope(shape: Tensor, x: Tensor) -> Tensor:
    """How a gamma-distributed x, held at its quantile, moves with the shape."""
    return apply(TABLE["gamma_slope"], shape, x)


def standard_gamma(concentration: Tensor, *, generator: Any = None) -> Tensor:
    """Gamma-distributed numbers of these shapes and scale 1, differentiable by the shapes."""
    u = rand(tuple(concentration.array.shape), dtype="float64", generator=generator)
    return apply(TABLE["gamma_quantile"], concentration, u)


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Poisson-distributed numbers of these rates, in their dtype."""
    u = rand(tuple(input.array.shape), dtype="float64", generator=generator)
    return apply(TABLE["poisson_quantile"], input, u)


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """How many of `count` trials of probability `prob` succeed."""
    n, p = broadcast_tensors(*common("binomial", count, prob, floating=True))
    u = rand(tuple(n.array.shape), dtype="float64", generator=generator)
    return apply(TABLE["binomial_quantile"], n, p, u)
