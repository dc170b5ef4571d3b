"""Bessel functions, orthogonal polynomials and other special functions, which scipy computes as a whole in float64."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np

from .gamma import in_double
from .table import library
from .types import DTYPES, Aval, broadcast_shapes, same_dtype


def no_derivative(name: str) -> Any:
    """A gradient rule that refuses: a gradient that silently is absent would be wrong."""

    def rule(F: Any, g: Any, out: Any, *inputs: Any) -> Any:
        raise NotImplementedError(f"the derivative of {name} is not implemented")

    return rule


def of_one(name: str, function: Any, vjp: Any = None) -> None:
    library(name, lambda x: x, in_double(function), vjp=(vjp or no_derivative(name),))


def of_two(name: str, function: Any, vjp: Any = (None, None)) -> None:
    def infer(x: Aval, y: Aval) -> Aval:
        return Aval(broadcast_shapes(name, x, y), same_dtype(name, x, y))

    rules = tuple(rule or no_derivative(name) for rule in vjp)
    library(name, infer, in_double(function), vjp=rules, arity=(2, 2))


# ---- Bessel functions ----------------------------------------------------------------------------------------------

for _public, _scipy in {
    "bessel_j0": "j0",
    "bessel_j1": "j1",
    "bessel_y0": "y0",
    "bessel_y1": "y1",
    "modified_bessel_k0": "k0",
    "modified_bessel_k1": "k1",
    "scaled_modified_bessel_k0": "k0e",
    "scaled_modified_bessel_k1": "k1e",
}.items():
    of_one(_public, lambda s, x, name=_scipy: getattr(s, name)(x))
of_one("spherical_bessel_j0", lambda s, x: np.where(np.isinf(x), 0.0, s.spherical_jn(0, x)))
of_one("airy_ai", lambda s, x: s.airy(x)[0])


def _i1_over_x(F: Any, i1: Any, x: Any) -> Any:
    """i1(x) / x, whose limit at 0 is 1/2."""
    zero = x == 0
    return F.where(zero, 0.5, i1 / F.where(zero, 1.0, x))


of_one("i0", lambda s, x: s.i0(x), lambda F, g, out, x: g * F.i1(x))
of_one("i1", lambda s, x: s.i1(x), lambda F, g, out, x: g * (F.i0(x) - _i1_over_x(F, out, x)))
of_one("i0e", lambda s, x: s.i0e(x), lambda F, g, out, x: g * (F.i1e(x) - F.sign(x) * out))
of_one(
    "i1e",
    lambda s, x: s.i1e(x),
    lambda F, g, out, x: g * (F.i0e(x) - _i1_over_x(F, out, x) - F.sign(x) * out),
)

# ---- the normal distribution ---------------------------------------------------------------------------------------

of_one("erfcx", lambda s, x: s.erfcx(x), lambda F, g, out, x: g * (2 * x * out - 2 / sqrt(pi)))
of_one("ndtr", lambda s, x: s.ndtr(x), lambda F, g, out, x: g * F.exp(x * x * -0.5) * (1 / sqrt(2 * pi)))
of_one(
    "log_ndtr",
    lambda s, x: s.log_ndtr(x),
    lambda F, g, out, x: g / F.erfcx(x * -sqrt(0.5)) * sqrt(2 / pi),
)
of_one("ndtri", lambda s, x: s.ndtri(x), lambda F, g, out, x: g * F.exp(out * out * 0.5) * sqrt(2 * pi))

# ---- gamma and zeta ------------------------------------------------------------------------------------------------

of_two(
    "igammac",
    lambda s, a, x: s.gammaincc(a, x),
    (None, lambda F, g, out, a, x: -g * F.exp((a - 1) * F.log(x) - x - F.lgamma(a))),
)
of_two("zeta", lambda s, x, q: s.zeta(x, q), (None, lambda F, g, out, x, q: -g * x * F.zeta(x + 1, q)))

# ---- orthogonal polynomials of degree n ----------------------------------------------------------------------------


def _third(s: Any, n: Any, x: Any) -> Any:
    return s.eval_chebyu(n, x) - np.where(n > 0, s.eval_chebyu(np.maximum(n - 1, 0), x), 0)


def _fourth(s: Any, n: Any, x: Any) -> Any:
    return s.eval_chebyu(n, x) + np.where(n > 0, s.eval_chebyu(np.maximum(n - 1, 0), x), 0)


POLYNOMIALS = {
    "chebyshev_polynomial_t": lambda s, n, x: s.eval_chebyt(n, x),
    "chebyshev_polynomial_u": lambda s, n, x: s.eval_chebyu(n, x),
    "chebyshev_polynomial_v": _third,
    "chebyshev_polynomial_w": _fourth,
    "shifted_chebyshev_polynomial_t": lambda s, n, x: s.eval_chebyt(n, 2 * x - 1),
    "shifted_chebyshev_polynomial_u": lambda s, n, x: s.eval_chebyu(n, 2 * x - 1),
    "shifted_chebyshev_polynomial_v": lambda s, n, x: _third(s, n, 2 * x - 1),
    "shifted_chebyshev_polynomial_w": lambda s, n, x: _fourth(s, n, 2 * x - 1),
    "hermite_polynomial_h": lambda s, n, x: s.eval_hermite(n, x),
    "hermite_polynomial_he": lambda s, n, x: s.eval_hermitenorm(n, x),
    "laguerre_polynomial_l": lambda s, n, x: s.eval_laguerre(n, x),
    "legendre_polynomial_p": lambda s, n, x: s.eval_legendre(n, x),
}


def _polynomial(name: str) -> None:
    """The degree is truncated to a whole number; a polynomial of negative degree is 0."""

    def value(s: Any, x: Any, n: Any) -> Any:
        degree = np.nan_to_num(n).astype(np.int64)
        found = POLYNOMIALS[name](s, np.maximum(degree, 0), x)
        return np.where(degree < 0, 0.0, found)

    of_two(name, value)


for _name in POLYNOMIALS:
    _polynomial(_name)

# ---- the bits of floats, divisors of integers ----------------------------------------------------------------------


def _frexp_infer(x: Aval) -> tuple[Aval, Aval]:
    return x, Aval(x.shape, DTYPES["int32"])


def _frexp_run(xp: Any, x: Any) -> tuple[Any, Any]:
    mantissa, exponent = xp.frexp(x)
    return xp.asarray(mantissa), xp.asarray(exponent)


library(
    "frexp",
    _frexp_infer,
    _frexp_run,
    vjp=(lambda F, g, out, x: F.ldexp(g[0], -out[1]),),
)


def _of_numpy(name: str, vjp: Any = None) -> None:
    def infer(x: Aval, y: Aval) -> Aval:
        return Aval(broadcast_shapes(name, x, y), same_dtype(name, x, y))

    library(name, infer, lambda xp, x, y: getattr(xp, name)(x, y), vjp=vjp, arity=(2, 2))


_of_numpy("gcd")
_of_numpy("lcm")
_of_numpy(
    "nextafter",
    (
        lambda F, g, out, x, y: F.where(x == y, 0.0, g),
        lambda F, g, out, x, y: F.zeros_like(g),
    ),
)
