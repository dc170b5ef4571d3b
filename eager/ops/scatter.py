"""Scattering along an axis with a product or an extreme: many entries of the source may name one element."""

from __future__ import annotations

from typing import Any

from .index import _along, _bounds, _grid, _scatter_hits
from .table import define
from .types import Aval, same_dtype

COMBINE = {"prod": "mul", "amax": "maximum", "amin": "minimum"}


def _infer(x: Aval, index: Aval, src: Aval, *, dim: int, reduce: str) -> Aval:
    _along("scatter_reduce", x, index, dim)
    same_dtype("scatter_reduce", x, src)
    if src.shape != index.shape:
        raise RuntimeError(f"scatter_reduce: the source must have the index's shape, got {src} and {index}")
    return x


def _run(xp: Any, x: Any, index: Any, src: Any, *, dim: int, reduce: str) -> Any:
    _bounds("scatter_reduce", index, dim, x.shape[dim])
    out = x.copy()
    function = {"prod": xp.multiply, "amax": xp.maximum, "amin": xp.minimum}[reduce]
    function.at(out, _grid(xp, index, dim), src)
    return out


def _element(s: Any, at: tuple[Any, ...], x: Any, index: Any, src: Any, *, dim: int, reduce: str) -> Any:
    """Its own value and those of all entries that name it, combined; an entry that does not counts as its own value."""
    hit, own, op = _scatter_hits(s, at, index, dim), x(*at), COMBINE[reduce]
    neutral = s.const(1, src.dtype) if reduce == "prod" else own
    entry = lambda k: s.select(hit(k), src(*at[:dim], k, *at[dim + 1 :]), neutral)  # noqa: E731
    found = s.reduce(op, (index.shape[dim],), entry)
    combined: Any = getattr(s, op)(own, found)
    return combined


def _vjp(F: Any, g: Any, out: Any, x: Any, index: Any, src: Any, *, dim: int, reduce: str) -> Any:
    rule = _product_vjp if reduce == "prod" else _extreme_vjp
    own, entry = rule(F, g, out, x, index, src, dim)
    return own, None, entry


def _extreme_vjp(F: Any, g: Any, out: Any, x: Any, index: Any, src: Any, dim: int) -> Any:
    """All that tie for the extreme share the gradient."""
    tied = F.cast(F.eq(src, F.gather(out, dim, index)), g.dtype)
    own = F.cast(F.eq(x, out), g.dtype)
    share = g / F.scatter_add(own, dim, index, tied)
    return own * share, tied * F.gather(share, dim, index)


def _product_vjp(F: Any, g: Any, out: Any, x: Any, index: Any, src: Any, dim: int) -> Any:
    """The product of the others: a quotient, except where just one factor is zero."""
    nonzero = F.where(F.eq(x, 0), F.ones_like(x), x)
    own = g * F.scatter_reduce(nonzero, dim, index, src, "prod") / nonzero
    zero = F.eq(src, 0)
    zeros = F.scatter_add(F.zeros_like(x), dim, index, F.cast(zero, x.dtype))
    single = F.logical_and(zero, F.eq(F.gather(zeros, dim, index), 1))
    without = F.scatter_reduce(x, dim, index, F.masked_fill(src, single, 1), "prod")
    quotient = F.gather(g * out, dim, index) / F.masked_fill(src, zero, 1)
    return own, F.where(single, F.gather(g * without, dim, index), quotient)


define("scatter_reduce", _infer, _run, vjp=_vjp, element=_element, kind="index", arity=(3, 3))
