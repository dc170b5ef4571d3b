"""Functions of the gamma family, and the quantiles that random numbers of other distributions come from.

scipy computes them, in float64 whatever the operands are.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from .table import library
from .types import DTYPES, Aval, broadcast_shapes


def special(xp: Any) -> Any:
    """scipy.special, or cupy's."""
    return import_module(f"{'cupyx.scipy' if xp.__name__ == 'cupy' else 'scipy'}.special")


def in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `run` rule of `function(special, *float64 arrays)`; the result is in the first operand's dtype."""

    def run(xp: Any, *arrays: Any, **attrs: Any) -> Any:
        wide = [a.astype(DTYPES["float64"]) for a in arrays]
        return xp.asarray(function(special(xp), *wide, **attrs)).astype(arrays[0].dtype)

    return run


def same(*avals: Aval, **attrs: Any) -> Aval:
    return Aval(broadcast_shapes("quantile", *avals), avals[0].dtype)


library("lgamma", same, in_double(lambda s, x: s.gammaln(x)), vjp=(lambda F, g, out, x: g * F.digamma(x),))
library(
    "digamma", same, in_double(lambda s, x: s.digamma(x)), vjp=(lambda F, g, out, x: g * F.polygamma(1, x),)
)
library(
    "polygamma",
    same,
    in_double(lambda s, x, *, n: s.polygamma(n, x)),
    vjp=(lambda F, g, out, x, *, n: g * F.polygamma(n + 1, x),),
)
library(
    "erfinv",
    same,
    in_double(lambda s, x: s.erfinv(x)),
    # 2 / sqrt(pi) * exp(-y²) is the slope of erf at y.
    vjp=(lambda F, g, out, x: g * F.exp(out * out) * 0.8862269254527580,),
)

library(
    "igamma",
    same,
    in_double(lambda s, a, x: s.gammainc(a, x)),
    vjp=(None, lambda F, g, out, a, x: g * F.exp((a - 1) * F.log(x) - x - F.lgamma(a))),
    arity=(2, 2),
)

# ---- quantiles: random numbers are those of uniform ones -----------------------------------------------------------

STEP = 1e-3
"""Of the shape, relative, in the difference quotient below: its error is of order STEP⁴, its noise 1e-16 / STEP."""


def gamma_quantile(s: Any, shape: Any, u: Any) -> Any:
    return s.gammaincinv(shape, u)


def gamma_slope(s: Any, shape: Any, x: Any) -> Any:
    """How the quantile x moves with the shape: minus the slope of the distribution function over the density.

    Implicit reparameterisation (Figurnov, Mohamed and Mnih 2018); the slope by a difference of fourth order.
    """
    x = np.maximum(x, np.finfo(np.float64).tiny)
    h = shape * STEP
    near = s.gammainc(shape + h, x) - s.gammainc(shape - h, x)
    far = s.gammainc(shape + 2 * h, x) - s.gammainc(shape - 2 * h, x)
    density = np.exp((shape - 1) * np.log(x) - x - s.gammaln(shape))
    return -(8 * near - far) / (12 * h) / density


library(
    "gamma_quantile",
    same,
    in_double(gamma_quantile),
    vjp=(lambda F, g, out, shape, u: g * F.gamma_slope(shape, out), None),
    arity=(2, 2),
)
library("gamma_slope", same, in_double(gamma_slope), arity=(2, 2))
library(
    "poisson_quantile",
    same,
    in_double(
        lambda s, rate, u: np.where(rate > 0, np.maximum(np.ceil(s.pdtrik(u, rate) - 1e-9), 0), rate * 0)
    ),
    arity=(2, 2),
)


def binomial_quantile(s: Any, count: Any, p: Any, u: Any) -> Any:
    inside = np.clip(p, 1e-300, 1 - 1e-16)
    k = np.clip(np.ceil(s.bdtrik(u, count, inside) - 1e-9), 0, count)
    k = np.where(u <= (1 - inside) ** count, 0, k)
    return np.where(p >= 1, count, np.where(p <= 0, 0, k))


library("binomial_quantile", same, in_double(binomial_quantile), arity=(3, 3))
