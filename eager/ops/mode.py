"""Where the most frequent value of each row is."""

from __future__ import annotations

from typing import Any

from .reduce import without
from .table import library
from .types import DTYPES, Aval

INT64 = DTYPES["int64"]


def _run(xp: Any, x: Any, *, dim: int) -> Any:
    """The last place of the value with the longest run in order; of equal runs that of the smallest value."""
    rows = xp.moveaxis(x, dim, -1)
    order = xp.argsort(rows, axis=-1, kind="stable")
    ranked = xp.take_along_axis(rows, order, -1)
    size = rows.shape[-1]
    ends = xp.ones(ranked.shape, bool)
    ends[..., :-1] = ranked[..., :-1] != ranked[..., 1:]
    places = xp.arange(size)
    starts = xp.zeros(ranked.shape, INT64)
    starts[..., 1:] = xp.maximum.accumulate(xp.where(ends[..., :-1], places[1:], 0), axis=-1)
    lengths = xp.where(ends, places - starts + 1, 0)
    best = lengths.argmax(axis=-1)[..., None]
    return xp.take_along_axis(order, best, -1)[..., 0].astype(INT64, copy=False)


library("mode_index", lambda x, *, dim: Aval(without(x.shape, (dim,)), INT64), _run)
