"""Ops that move elements without computing: concatenation, padding, flips, rolls, triangles."""

from __future__ import annotations

from typing import Any

from .table import define
from .types import Aval, same_dtype

Ints = tuple[int, ...]

# ---- cat ---------------------------------------------------------------------------------------------------


def _cat_infer(*xs: Aval, dim: int) -> Aval:
    if not xs:
        raise RuntimeError("cat: expected a non-empty list of Tensors")
    first, dtype = xs[0], same_dtype("cat", *xs)
    for x in xs[1:]:
        if x.ndim != first.ndim or any(
            m != n for d, (m, n) in enumerate(zip(x.shape, first.shape, strict=True)) if d != dim
        ):
            raise RuntimeError(
                f"cat: Sizes of tensors must match except in dimension {dim}. Expected {first}, got {x}"
            )
    total = xs[0].shape[dim]
    for x in xs[1:]:
        total = total + x.shape[dim]
    return Aval((*first.shape[:dim], total, *first.shape[dim + 1 :]), dtype)


def _cat_element(s: Any, index: tuple[Any, ...], *xs: Any, dim: int) -> Any:
    """Nested choices by where the index falls; only the chosen operand is read."""

    def pick(rest: tuple[Any, ...], at: Any) -> Any:
        here = rest[0](*index[:dim], at, *index[dim + 1 :])
        if len(rest) == 1:
            return here
        size = s.index(rest[0].shape[dim])
        return s.select(s.lt(at, size), here, pick(rest[1:], s.sub(at, size)))

    return pick(xs, index[dim])


def _cat_vjp(F: Any, g: Any, out: Any, *xs: Any, dim: int) -> Any:
    """One gradient per operand, whatever their number."""
    return F.split(g, [x.shape[dim] for x in xs], dim)


define(
    "cat",
    _cat_infer,
    lambda xp, *xs, dim: xp.concatenate(xs, axis=dim),
    vjp=_cat_vjp,
    element=_cat_element,
    kind="index",
    arity=(1, None),
)

# ---- pad ---------------------------------------------------------------------------------------------------


def _pad_infer(x: Aval, *, before: Ints, after: Ints, value: float) -> Aval:
    """before, after: elements of `value` to add at either end of each axis; all >= 0."""
    if not len(before) == len(after) == x.ndim or any(n < 0 for n in (*before, *after)):
        raise RuntimeError(
            f"pad: wants sizes >= 0 for each axis of {x}, got {before} before and {after} after"
        )
    return Aval(tuple(a + n + b for a, n, b in zip(before, x.shape, after, strict=True)), x.dtype)


def _pad_run(xp: Any, x: Any, *, before: Ints, after: Ints, value: float) -> Any:
    shape = tuple(a + n + b for a, n, b in zip(before, x.shape, after, strict=True))
    out = xp.zeros(shape, x.dtype) if value == 0 else xp.full(shape, value, x.dtype)
    out[(*(slice(a, a + n) for a, n in zip(before, x.shape, strict=True)), ...)] = x
    return out


def _pad_element(s: Any, index: tuple[Any, ...], x: Any, *, before: Ints, after: Ints, value: float) -> Any:
    inside = s.const(True, "bool")
    at = []
    for i, n, a, b in zip(index, x.shape, before, after, strict=True):
        at.append(i if a == 0 else s.sub(i, s.index(a)))
        if a != 0:
            inside = s.logical_and(inside, s.ge(i, s.index(a)))
        if b != 0:
            inside = s.logical_and(inside, s.lt(at[-1], s.index(n)))
    return s.select(inside, x(*at), s.const(value, x.dtype))


def _pad_vjp(F: Any, g: Any, out: Any, x: Any, *, before: Ints, after: Ints, value: float) -> Any:
    stops = tuple(a + n for a, n in zip(before, x.shape, strict=True))
    return F.slice_axes(g, before, stops, (1,) * len(before))


define("pad", _pad_infer, _pad_run, vjp=(_pad_vjp,), element=_pad_element, kind="index")

# ---- flip, roll --------------------------------------------------------------------------------------------


def _flip_element(s: Any, index: tuple[Any, ...], x: Any, *, axes: Ints) -> Any:
    last = [s.index(n - 1) for n in x.shape]
    return x(*(s.sub(last[d], i) if d in axes else i for d, i in enumerate(index)))


define(
    "flip",
    lambda x, *, axes: x,
    lambda xp, x, *, axes: xp.flip(x, axes).copy(),
    vjp=(lambda F, g, out, x, *, axes: F.flip(g, axes),),
    element=_flip_element,
    kind="index",
)


def _roll_element(s: Any, index: tuple[Any, ...], x: Any, *, shifts: Ints, axes: Ints) -> Any:
    at = list(index)
    for shift, d in zip(shifts, axes, strict=True):
        at[d] = s.mod(s.sub(at[d], s.index(shift)), s.index(x.shape[d]))
    return x(*at)


define(
    "roll",
    lambda x, *, shifts, axes: x,
    lambda xp, x, *, shifts, axes: xp.roll(x, shifts, axes),
    vjp=(lambda F, g, out, x, *, shifts, axes: F.roll(g, tuple(-k for k in shifts), axes),),
    element=_roll_element,
    kind="index",
)

# ---- triangles ---------------------------------------------------------------------------------------------


def _triangle(name: str, compare: str) -> None:
    """The elements on one side of a diagonal; zeros elsewhere."""

    def infer(x: Aval, *, diagonal: int) -> Aval:
        if x.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions, got {x}")
        return x

    def vjp(F: Any, g: Any, out: Any, x: Any, *, diagonal: int) -> Any:
        return getattr(F, name)(g, diagonal)

    def element(s: Any, index: tuple[Any, ...], x: Any, *, diagonal: int) -> Any:
        keep = getattr(s, compare)(s.sub(index[-1], index[-2]), s.index(diagonal))
        return s.select(keep, x(*index), s.const(0, x.dtype))

    define(
        name,
        infer,
        lambda xp, x, *, diagonal: getattr(xp, name)(x, diagonal),
        vjp=(vjp,),
        element=element,
        kind="index",
    )


_triangle("tril", "le")
_triangle("triu", "ge")
