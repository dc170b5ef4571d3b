"""Values made from nothing but attributes."""

from __future__ import annotations

from typing import Any

from .table import define
from .types import DTYPES, Aval, Shape


def _full_element(s: Any, index: tuple[Any, ...], *, shape: Shape, value: Any, dtype: str) -> Any:
    """A number, or a symbolic size (an int subclass), which is known when the program runs."""
    if isinstance(value, int) and type(value) not in (int, bool):
        return s.cast(s.index(value), dtype)
    return s.const(value, dtype)


define(
    "full",
    lambda *, shape, value, dtype: Aval(shape, DTYPES[dtype]),
    lambda xp, *, shape, value, dtype: xp.full(shape, value, DTYPES[dtype]),
    element=_full_element,
    kind="create",
    arity=(0, 0),
)


def _arange_run(xp: Any, *, size: int, start: float, step: float, dtype: str) -> Any:
    """start + k·step for k < size, computed in int64 or float64 and then rounded once."""
    return (xp.arange(size) * step + start).astype(DTYPES[dtype])


def _arange_element(
    s: Any, index: tuple[Any, ...], *, size: int, start: float, step: float, dtype: str
) -> Any:
    whole = not isinstance(start, float) and not isinstance(step, float)
    if whole:
        return s.cast(s.add(s.mul(index[0], s.index(step)), s.index(start)), dtype)
    k = s.cast(index[0], "float64")
    return s.cast(s.add(s.mul(k, s.const(float(step), "float64")), s.const(float(start), "float64")), dtype)


def _arange_infer(*, size: int, start: float, step: float, dtype: str) -> Aval:
    shape: Shape = (size,)
    return Aval(shape, DTYPES[dtype])


define("arange", _arange_infer, _arange_run, element=_arange_element, kind="create", arity=(0, 0))
