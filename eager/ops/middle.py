"""The median of all elements: the lower one of an even number."""

from __future__ import annotations

from typing import Any

from .table import composite
from .types import Aval, is_floating


def _missing(xp: Any, x: Any) -> Any:
    return xp.isnan(x).sum() if is_floating(x.dtype) else 0


def _run(xp: Any, x: Any, *, ignore_nan: bool) -> Any:
    missing, size = _missing(xp, x), x.shape[0]
    if not size:
        return xp.full((), xp.nan if is_floating(x.dtype) else xp.iinfo(x.dtype).min, x.dtype)
    if missing and not ignore_nan:
        return x[xp.isnan(x)][0]
    place = max(size - int(missing) - 1, 0) // 2
    return xp.partition(x, place)[place] if x.dtype.kind in "iuf" else xp.sort(x)[place]


def _median(F: Any, x: Any, *, ignore_nan: bool) -> Any:
    """The element at a place of the sorted ones, where nan comes last."""
    missing, size = F.sum(F.isnan(x)), x.shape[0]
    middle = F.clamp(F.floor_divide(size - missing - 1, 2), min=0)
    if not ignore_nan:
        middle = F.where(missing > 0, size - missing, middle)
    order = F.argsort(x, 0)
    return F.reshape(F.gather(x, 0, F.gather(order, 0, F.reshape(middle, (1,)))), ())


def _vjp(F: Any, g: Any, out: Any, x: Any, *, ignore_nan: bool) -> Any:
    """Elements equal to the median share the gradient, as in PyTorch."""
    hit = F.logical_or(x == out, F.logical_and(F.isnan(x), F.isnan(out)))
    share = F.cast(hit, x.dtype)
    return share * (g / F.sum(share))


composite("median", lambda x, *, ignore_nan: Aval((), x.dtype), _run, _median, vjp=(_vjp,))
