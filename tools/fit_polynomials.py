"""Fits the polynomials of compiler/cpu/polynomials.py and prints that file.

    python tools/fit_polynomials.py            prints every table, with its error
    python tools/fit_polynomials.py EXP_F64    prints one

A fit minimises the largest weighted error over a grid of Chebyshev points: Lawson's iteration (reweighted
least squares) in float64, on residuals computed with 60 digits, so that repeating it refines the coefficients
as far as wanted. Then the coefficients are rounded to the format one by one, lowest power first, and after
each the rest is fitted again, so that later coefficients make up for the rounding of earlier ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import mpmath as mp
import numpy as np

mp.mp.dps = 60
Function = Callable[[mp.mpf], mp.mpf]

POINTS = 801
LAWSON_STEPS = 120


class Fit(NamedTuple):
    """`function` ≈ sum of c_k x^k, k < terms, on [lo, hi]; the error counts times `weight`."""

    function: Function
    lo: float
    hi: float
    terms: int
    weight: Function
    dtype: str
    note: str
    fixed: tuple[float, ...] = ()  # the first coefficients, given


def lawson(basis: np.ndarray, residual: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Coefficients d that minimise max |weight (residual - basis d)|, as far as float64 goes."""
    scale = np.abs(basis * weight[:, None]).max(axis=0)
    share = np.full(len(residual), 1 / len(residual))
    best, least = np.zeros(basis.shape[1]), float(np.abs(weight * residual).max())
    for _ in range(LAWSON_STEPS):
        root = np.sqrt(share) * weight
        d = np.linalg.lstsq(basis / scale * root[:, None], residual * root, rcond=None)[0] / scale
        error = np.abs(weight * (residual - basis @ d))
        if error.max() < least:
            best, least = d, float(error.max())
        if not (total := (share * error).sum()):
            break
        share = share * error / total
    return best


def rounded(x: mp.mpf, dtype: str) -> mp.mpf:
    return mp.mpf(float(np.float32(float(x)))) if dtype == "float32" else mp.mpf(float(x))


def fit(f: Fit) -> tuple[float, list[float]]:
    """The largest weighted error, and the rounded coefficients."""
    grid = [f.lo + (f.hi - f.lo) * (mp.cos(mp.pi * (k + 0.5) / POINTS) + 1) / 2 for k in range(POINTS)]
    values = [f.function(x) for x in grid]
    weight = np.array([float(abs(f.weight(x))) for x in grid])
    powers = np.array([[float(x) ** k for k in range(f.terms)] for x in grid])
    c = [mp.mpf(v) for v in f.fixed] + [mp.mpf(0)] * (f.terms - len(f.fixed))

    def residual() -> list[mp.mpf]:
        return [v - mp.polyval(c[::-1], x) for v, x in zip(values, grid, strict=True)]

    def improve(first: int) -> None:
        r = residual()
        unit = max(abs(v) for v in r)
        d = lawson(powers[:, first:], np.array([float(v / unit) for v in r]), weight)
        for k, step in enumerate(d, first):
            c[k] += unit * mp.mpf(float(step))

    for first in range(len(f.fixed), f.terms):
        for _ in range(3 if first == len(f.fixed) else 1):
            improve(first)
        c[first] = rounded(c[first], f.dtype)
    worst = max(float(abs(v)) * w for v, w in zip(residual(), weight, strict=True))
    return worst, [float(v) for v in c]


# ---- what is fitted ----

HALF_LN2 = float(mp.log(2) / 2) * 1.0001
ROOT = (float(mp.sqrt(0.5)) - 1, float(mp.sqrt(2)) - 1)
QUARTER_PI_SQUARED = float((mp.pi / 4) ** 2) * 1.0001
ATANH = float((3 - 2 * mp.sqrt(2)) ** 2) * 1.0001  # s^2 for s = (m-1)/(m+1), m = sqrt(2)


def expm1_tail(x: mp.mpf) -> mp.mpf:
    """(e^x - 1 - x) / x^2."""
    return mp.mpf(1) / 2 if abs(x) < 1e-20 else (mp.expm1(x) - x) / x**2


def log1p_tail(x: mp.mpf) -> mp.mpf:
    """(log(1+x) - x + x^2/2) / x^3."""
    return mp.mpf(1) / 3 if abs(x) < 1e-15 else (mp.log1p(x) - x + x * x / 2) / x**3


def atanh_tail(first: int) -> Function:
    """The series of 2 atanh(s) from the term 2/(2 first + 1) on, over its power of s, in z = s^2."""

    def tail(z: mp.mpf) -> mp.mpf:
        return mp.nsum(lambda k: 2 * z**k / (2 * (k + first) + 1), [0, mp.inf])

    return tail


def odd_tail(function: Function, at_zero: mp.mpf) -> Function:
    """(f(x) - x) / x^3 as a function of z = x^2."""
    return lambda z: at_zero if z < 1e-20 else (function(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3


def relative(function: Function, power: int) -> Function:
    """The weight of an error of P where f(x) has the term x^power P(x): what it is relative to f(x)."""
    return lambda x: x**power / function(x) if x or not power else mp.mpf(0)


def relative_odd(function: Function, power: int) -> Function:
    """The same for a term x^power P(x^2), as a function of z = x^2."""
    return lambda z: relative(function, power)(mp.sqrt(z))


def twice_atanh(s: mp.mpf) -> mp.mpf:
    return 2 * mp.atanh(s)


def cos_tail(z: mp.mpf) -> mp.mpf:
    """(cos(x) - 1 + x^2/2) / x^4 as a function of z = x^2."""
    return mp.mpf(1) / 24 if z < 1e-15 else (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def cos_weight(z: mp.mpf) -> mp.mpf:
    return z**2 / mp.cos(mp.sqrt(z))


def erf_ratio(z: mp.mpf) -> mp.mpf:
    """erf(x)/x - 1 as a function of z = x^2."""
    return 2 / mp.sqrt(mp.pi) - 1 if z < 1e-30 else mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1


def erf_ratio_weight(z: mp.mpf) -> mp.mpf:
    return mp.sqrt(mp.pi) / 2 if z == 0 else mp.sqrt(z) / mp.erf(mp.sqrt(z))


def log_erfc(center: float) -> Function:
    return lambda t: mp.log(mp.erfc(t + center))


def log_erfc_weight(center: float) -> Function:
    """What an absolute error of log(erfc) is relative to erf."""
    return lambda t: mp.erfc(t + center) / mp.erf(t + center)


SIN = (odd_tail(mp.sin, -mp.mpf(1) / 6), relative_odd(mp.sin, 3))
TANH = (odd_tail(mp.tanh, -mp.mpf(1) / 3), relative_odd(mp.tanh, 3))
EXP_WEIGHT, EXPM1_WEIGHT, LOG1P_WEIGHT = relative(mp.exp, 0), relative(mp.expm1, 2), relative(mp.log1p, 3)
ATANH_WEIGHT, ATANH5_WEIGHT = relative_odd(twice_atanh, 3), relative_odd(twice_atanh, 5)
F32, F64 = "float32", "float64"
FITS = {
    "EXP_F32": Fit(mp.exp, -HALF_LN2, HALF_LN2, 7, EXP_WEIGHT, F32, "exp(x), |x| < ln2/2", (1.0, 1.0)),
    "EXP_F64": Fit(mp.exp, -HALF_LN2, HALF_LN2, 12, EXP_WEIGHT, F64, "exp(x), |x| < ln2/2", (1.0, 1.0)),
    "EXPM1_F32": Fit(expm1_tail, -HALF_LN2, HALF_LN2, 5, EXPM1_WEIGHT, F32, "expm1(x) = x + x^2 P(x)"),
    "EXPM1_F64": Fit(expm1_tail, -HALF_LN2, HALF_LN2, 11, EXPM1_WEIGHT, F64, "expm1(x) = x + x^2 P(x)"),
    "LOG1P_F32": Fit(log1p_tail, *ROOT, 9, LOG1P_WEIGHT, F32, "log1p(x) = x - x^2/2 + x^3 P(x)"),
    "ATANH_F64": Fit(atanh_tail(1), 0, ATANH, 7, ATANH_WEIGHT, F64, "2 atanh(s) = 2 s + s^3 P(s^2)"),
    "ATANH5_F64": Fit(atanh_tail(2), 0, ATANH, 9, ATANH5_WEIGHT, F64, "atanh(s) = s + s^3/3 + s^5 P(s^2)/2"),
    "TANH_F32": Fit(TANH[0], 0, 0.625**2, 5, TANH[1], F32, "tanh(x) = x + x^3 P(x^2), |x| < 0.625"),
    "TANH_F64": Fit(TANH[0], 0, 0.4**2, 9, TANH[1], F64, "tanh(x) = x + x^3 P(x^2), |x| < 0.4"),
    "ERF_F32": Fit(erf_ratio, 0, 0.9277**2, 6, erf_ratio_weight, F32, "erf(x) = x + x P(x^2), |x| < 0.9277"),
    "ERF_F64": Fit(erf_ratio, 0, 1.0, 14, erf_ratio_weight, F64, "erf(x) = x + x P(x^2), |x| < 1"),
    "LOG_ERFC_F32": Fit(
        log_erfc(0), 0.92, 3.95, 9, log_erfc_weight(0), F32, "log(erfc(x)) = P(x), 0.92 < x < 3.95"
    ),
    "LOG_ERFC_F64": Fit(
        log_erfc(1.875), -0.88, 4.05, 21, log_erfc_weight(1.875), F64,
        "log(erfc(x)) = P(x - 1.875), 1 < x < 5.92",
    ),
    "SIN_F32": Fit(SIN[0], 0, QUARTER_PI_SQUARED, 4, SIN[1], F32, "sin(x) = x + x^3 P(x^2), |x| < pi/4"),
    "SIN_F64": Fit(SIN[0], 0, QUARTER_PI_SQUARED, 6, SIN[1], F64, "sin(x) = x + x^3 P(x^2), |x| < pi/4"),
    "COS_F32": Fit(cos_tail, 0, QUARTER_PI_SQUARED, 4, cos_weight, F32, "cos(x) = 1 - x^2/2 + x^4 P(x^2)"),
    "COS_F64": Fit(cos_tail, 0, QUARTER_PI_SQUARED, 6, cos_weight, F64, "cos(x) = 1 - x^2/2 + x^4 P(x^2)"),
    "EXP_SHORT": Fit(mp.exp, -HALF_LN2, HALF_LN2, 8, EXP_WEIGHT, F64, "exp(x) for float32's pow", (1.0,)),
    "ATANH_SHORT": Fit(atanh_tail(1), 0, ATANH, 5, ATANH_WEIGHT, F64, "2 atanh(s) for float32's pow"),
}  # fmt: skip


def table(name: str) -> str:
    f = FITS[name]
    error, coefficients = fit(f)
    rows = "\n".join(f"    {c!r}," for c in coefficients)
    return f"#: {f.note}: error 2^{np.log2(error):.1f}\n{name} = (\n{rows}\n)"


def main(names: Sequence[str]) -> None:
    print(
        '"""Coefficients, lowest power first, as tools/fit_polynomials.py prints them (its notes say how)."""'
    )
    for name in names:
        print("\n" + table(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(FITS))
