"""Special functions: Bessel functions, the normal distribution, orthogonal polynomials, the zeta function."""

from __future__ import annotations

from typing import Any

from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor
from .arithmetic import mul
from .base import as_float, common, refuse, two_tensors
from .choice import where
from .comparison import eq, gt, isnan, logical_and, logical_not, logical_or
from .functions import log, log1p, neg


def of_one(name: str, doc: str) -> Any:
    """A function of one operand that the table has; integers become floats."""

    def function(input: Tensor) -> Tensor:
        x = as_float(name, input)
        refuse(name, x, "c")
        return apply(TABLE[name], x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


airy_ai = of_one("airy_ai", "The Airy function Ai.")
bessel_j0 = of_one("bessel_j0", "The Bessel function of the first kind of order 0.")
bessel_j1 = of_one("bessel_j1", "The Bessel function of the first kind of order 1.")
bessel_y0 = of_one("bessel_y0", "The Bessel function of the second kind of order 0.")
bessel_y1 = of_one("bessel_y1", "The Bessel function of the second kind of order 1.")
i0 = of_one("i0", "The modified Bessel function of the first kind of order 0.")
i0e = of_one("i0e", "exp(-|x|)·i0(x).")
i1 = of_one("i1", "The modified Bessel function of the first kind of order 1.")
i1e = of_one("i1e", "exp(-|x|)·i1(x).")
modified_bessel_k0 = of_one(
    "modified_bessel_k0", "The modified Bessel function of the second kind of order 0."
)
modified_bessel_k1 = of_one(
    "modified_bessel_k1", "The modified Bessel function of the second kind of order 1."
)
scaled_modified_bessel_k0 = of_one("scaled_modified_bessel_k0", "exp(x) times the function of order 0.")
scaled_modified_bessel_k1 = of_one("scaled_modified_bessel_k1", "exp(x) times the function of order 1.")
spherical_bessel_j0 = of_one("spherical_bessel_j0", "sin(x) / x, 1 at 0.")
erfcx = of_one("erfcx", "exp(x²)·erfc(x).")
ndtr = of_one("ndtr", "The distribution function of the normal distribution.")
log_ndtr = of_one("log_ndtr", "The logarithm of ndtr, exact in the lower tail.")
ndtri = of_one("ndtri", "The quantiles of the normal distribution: the inverse of ndtr.")


def modified_bessel_i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0."""
    return i0(input)


def modified_bessel_i1(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""
    return i1(input)


def igammac(input: Tensor, other: Tensor) -> Tensor:
    """The regularised upper incomplete gamma function Q(input, other), differentiable by `other`."""
    x, y = common("igammac", *two_tensors("igammac", input, other), floating=True)
    return apply(TABLE["igammac"], x, y)


def zeta(input: Any, other: Any) -> Tensor:
    """The Hurwitz zeta function: the sum of (k + other) ** -input over k = 0, 1, …; differentiable by `other`."""
    return apply(TABLE["zeta"], *common("zeta", input, other, floating=True))


def entr(input: Tensor) -> Tensor:
    """-x·log(x); 0 at 0, -inf below."""
    x = as_float("entr", input)
    refuse("entr", x, "c")
    positive = logical_or(gt(x, 0), isnan(x))
    inside = neg(mul(x, log(where(positive, x, 1.0))))
    return where(positive, inside, where(eq(x, 0), 0.0, where(positive, x, float("-inf"))))


def xlog1py(input: Any, other: Any) -> Tensor:
    """x·log1p(y), 0 where x is 0 (nan where y is nan)."""
    x, y = common("xlog1py", input, other, floating=True)
    refuse("xlog1py", x, "c")
    finite = logical_and(gt(y, -1), logical_not(eq(y, float("inf"))))
    flat = logical_and(eq(x, 0), logical_not(logical_or(finite, isnan(y))))
    return mul(x, log1p(where(flat, 0.0, y)))


# ---- orthogonal polynomials ----------------------------------------------------------------------------------------


def polynomial(name: str) -> Any:
    kind = name.replace("polynomial_", "").replace("_", " ")

    def function(input: Any, n: Any) -> Tensor:
        return apply(TABLE[name], *common(name, input, n, floating=True))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {kind} polynomial of degree n at x."
    return function


chebyshev_polynomial_t = polynomial("chebyshev_polynomial_t")
chebyshev_polynomial_u = polynomial("chebyshev_polynomial_u")
chebyshev_polynomial_v = polynomial("chebyshev_polynomial_v")
chebyshev_polynomial_w = polynomial("chebyshev_polynomial_w")
hermite_polynomial_h = polynomial("hermite_polynomial_h")
hermite_polynomial_he = polynomial("hermite_polynomial_he")
laguerre_polynomial_l = polynomial("laguerre_polynomial_l")
legendre_polynomial_p = polynomial("legendre_polynomial_p")
shifted_chebyshev_polynomial_t = polynomial("shifted_chebyshev_polynomial_t")
shifted_chebyshev_polynomial_u = polynomial("shifted_chebyshev_polynomial_u")
shifted_chebyshev_polynomial_v = polynomial("shifted_chebyshev_polynomial_v")
shifted_chebyshev_polynomial_w = polynomial("shifted_chebyshev_polynomial_w")
