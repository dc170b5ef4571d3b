"""Finding values: places in sorted sequences, members of a set, counts in bins."""

from __future__ import annotations

from typing import Any

from .table import define, library
from .types import DTYPES, Aval, Shape

INT64, BOOL = DTYPES["int64"], DTYPES["bool"]

# ---- searchsorted ------------------------------------------------------------------------------------------


def _searchsorted_infer(sequence: Aval, x: Aval, *, right: bool) -> Aval:
    """int64 places in a sorted vector, or in the rows of [..., n] for the rows of x [..., m]."""
    if sequence.ndim > 1 and sequence.shape[:-1] != x.shape[:-1]:
        raise RuntimeError(
            f"searchsorted: the sequences and the values must have the same axes but the last, got {sequence}, {x}"
        )
    return Aval(x.shape, INT64)


def _searchsorted_run(xp: Any, sequence: Any, x: Any, *, right: bool) -> Any:
    side = "right" if right else "left"
    if sequence.dtype.kind == "V":  # bfloat16, which numpy does not search
        sequence, x = sequence.astype("float32"), x.astype("float32")
    if sequence.ndim == 1:
        return xp.asarray(xp.searchsorted(sequence, x, side)).astype(INT64)
    out = xp.zeros(x.shape, INT64)
    rows = sequence.reshape(-1, sequence.shape[-1]) if sequence.size else xp.zeros((0, 0), sequence.dtype)
    wanted, found = x.reshape(len(rows), x.shape[-1]), out.reshape(len(rows), x.shape[-1])
    for k, row in enumerate(rows):
        found[k] = xp.searchsorted(row, wanted[k], side)
    return out


def _searchsorted_element(s: Any, at: tuple[Any, ...], sequence: Any, x: Any, *, right: bool) -> Any:
    """How many elements of the sequence stand before the value."""
    value, batch = x(*at), at[:-1] if sequence.ndim > 1 else ()
    beyond = s.gt if right else s.ge

    def before(k: Any) -> Any:
        return s.select(beyond(sequence(*batch, k), value), s.index(0), s.index(1))

    return s.reduce("add", (sequence.shape[-1],), before)


define(
    "searchsorted",
    _searchsorted_infer,
    _searchsorted_run,
    element=_searchsorted_element,
    kind="reduce",
    arity=(2, 2),
)

# ---- isin --------------------------------------------------------------------------------------------------


def _isin_element(s: Any, at: tuple[Any, ...], x: Any, test: Any) -> Any:
    value = x(*at)
    return s.reduce("logical_or", (test.shape[0],), lambda k: s.eq(value, test(k)))


define(
    "isin",
    lambda x, test: Aval(x.shape, BOOL),
    lambda xp, x, test: xp.asarray(xp.isin(x, test)).reshape(x.shape),
    element=_isin_element,
    kind="reduce",
    arity=(2, 2),
)

# ---- bins --------------------------------------------------------------------------------------------------


def _uniform_bin(xp: Any, x: Any, edges: Any, local: bool) -> Any:
    """The bin of each element among bins of equal width, from its place between the ends.

    `local`: the neighbours' edges decide, so that rounding of that place does not show (as torch.histogram has it;
    histc has not).
    """
    count = len(edges) - 1
    place = (x - edges[0]) * x.dtype.type(count) / (edges[-1] - edges[0])
    place = xp.clip(xp.where(xp.isnan(place), 0, place).astype(INT64), 0, count - 1)
    if local:
        low = xp.clip(place - 1, 0, count - 1)
        found = low
        for step in (1, 2):
            nearer = xp.minimum(low + step, count - 1)
            found = xp.where(x >= edges[nearer], nearer, found)
        place = found
    return place


def _bin(xp: Any, x: Any, edges: Any, uniform: bool, local: bool) -> tuple[Any, Any]:
    """The bin of each element, and whether it lies in one; the last bin holds its upper edge."""
    inside = (x >= edges[0]) & (x <= edges[-1])
    if uniform:
        return _uniform_bin(xp, x, edges, local), inside
    at = xp.searchsorted(edges, x, "right") - 1
    return xp.clip(at, 0, len(edges) - 2), inside


def _histogram_infer(x: Aval, weight: Aval, *edges: Aval, uniform: bool, local: bool, density: bool) -> Aval:
    """Weights of points x[n, d] summed in the boxes between the edges of d axes."""
    shape: Shape = tuple(e.shape[0] - 1 for e in edges)
    return Aval(shape, x.dtype)


def _histogram_run(
    xp: Any, x: Any, weight: Any, *edges: Any, uniform: bool, local: bool, density: bool
) -> Any:
    shape = tuple(len(e) - 1 for e in edges)
    flat, inside = xp.zeros(len(x), INT64), xp.ones(len(x), BOOL)
    for d, (n, e) in enumerate(zip(shape, edges, strict=True)):
        at, within = _bin(xp, x[:, d], e, uniform, local)
        flat, inside = flat * n + at, inside & within
    size = 1
    for n in shape:
        size *= n
    out = xp.bincount(flat[inside], weight[inside].astype("float64"), size).reshape(shape)
    if density:
        out = out / out.sum()
        for d, e in enumerate(edges):
            out = out / xp.diff(e).astype("float64").reshape(-1, *(1,) * (len(shape) - d - 1))
    return out.astype(x.dtype)


library("histogram", _histogram_infer, _histogram_run, arity=(3, None))
library(
    "bincount",
    lambda x, *weight, size: Aval((size,), weight[0].dtype if weight else INT64),
    lambda xp, x, *weight, size: xp.bincount(x, *weight, minlength=size).astype(
        weight[0].dtype if weight else INT64
    ),
    arity=(1, 2),
)
