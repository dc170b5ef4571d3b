"""The p-norm over axes, with a gradient that is 0 where the norm is."""

from __future__ import annotations

from typing import Any

from .arrays import sum_over, wide
from .reduce import keep, without
from .table import composite
from .types import Aval

Axes = tuple[int, ...]


def _infer(x: Aval, *, axes: Axes, p: float) -> Aval:
    return Aval(without(x.shape, axes), x.dtype)


def _run(xp: Any, x: Any, *, axes: Axes, p: float) -> Any:
    w = wide(x)
    if p == 0:
        out = sum_over(xp, (w != 0).astype(w.dtype), axes)
    elif p == 2:
        out = xp.sqrt(sum_over(xp, w * w, axes))
    else:
        out = sum_over(xp, xp.abs(w) ** w.dtype.type(p), axes) ** w.dtype.type(1 / p)
    return out.astype(x.dtype, copy=False)


def _norm(F: Any, x: Any, *, axes: Axes, p: float) -> Any:
    if p == 0:
        return F.sum(F.cast(x != 0, x.dtype), axes)
    if p == 2:
        return F.sqrt(F.sum(x * x, axes))
    return F.pow(F.sum(F.pow(F.abs(x), p), axes), 1.0 / p)


def _vjp(F: Any, g: Any, out: Any, x: Any, *, axes: Axes, p: float) -> Any:
    """sign(x)·|x|^(p-1) / norm^(p-1)."""
    if p == 0:
        return x * 0.0
    zero = out == 0
    scale = F.where(zero, 0.0, g / F.pow(F.where(zero, 1.0, out), p - 1))
    if p == 2:
        slope = x
    else:
        flat = x == 0
        slope = F.where(flat, 0.0, F.sign(x) * F.pow(F.where(flat, 1.0, F.abs(x)), p - 1))
    return slope * keep(F, scale, x.shape, axes)


composite("vector_norm", _infer, _run, _norm, vjp=(_vjp,))
