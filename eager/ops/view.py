"""Views: ops whose result shares the operand's memory. `put` is the base after writing through the view."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .table import define
from .types import Aval, Shape, size_max, size_min

# ---- expand ------------------------------------------------------------------------------------------------


def _expand_infer(x: Aval, *, shape: Shape) -> Aval:
    lead = len(shape) - x.ndim
    if lead < 0 or any(n != 1 and n != m for n, m in zip(x.shape, shape[lead:], strict=True)):
        raise RuntimeError(
            f"expand: {x} does not expand to {list(map(int, shape))}; only axes of size 1, or new leading axes, grow"
        )
    return Aval(shape, x.dtype)


def _expand_element(s: Any, index: tuple[Any, ...], x: Any, *, shape: Shape) -> Any:
    lead = len(shape) - x.ndim
    grown = [
        s.index(0) if n == 1 and m != 1 else i
        for n, m, i in zip(x.shape, shape[lead:], index[lead:], strict=True)
    ]
    return x(*grown)


def _expand_run(xp: Any, x: Any, *, shape: Shape) -> Any:
    """Read-only where an element stands for several."""
    out = xp.broadcast_to(x, shape)
    if out.size == x.size and xp is np:
        out.flags.writeable = x.flags.writeable
    return out


def _expand_put(F: Any, base: Any, value: Any, *, shape: Shape) -> Any:
    if prod(shape) != prod(base.shape):
        raise RuntimeError(
            "unsupported operation: more than one element of an expanded tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    return F.reshape(value, base.shape)


define(
    "expand",
    _expand_infer,
    _expand_run,
    vjp=(lambda F, g, out, x, *, shape: g,),  # the tape sums over the axes that grew
    element=_expand_element,
    put=_expand_put,
    kind="view",
)

# ---- permute -----------------------------------------------------------------------------------------------


def inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes `dims`."""
    return tuple(dims.index(k) for k in range(len(dims)))


def _permute_infer(x: Aval, *, dims: tuple[int, ...]) -> Aval:
    if sorted(dims) != list(range(x.ndim)):
        raise RuntimeError(f"permute: {list(dims)} does not name each of the {x.ndim} axes of {x} once")
    return Aval(tuple(x.shape[d] for d in dims), x.dtype)


define(
    "permute",
    _permute_infer,
    lambda xp, x, *, dims: x.transpose(dims),
    vjp=(lambda F, g, out, x, *, dims: F.permute(g, inverse(dims)),),
    element=lambda s, index, x, *, dims: x(*(index[dims.index(d)] for d in range(x.ndim))),
    put=lambda F, base, value, *, dims: F.permute(value, inverse(dims)),
    kind="view",
)

# ---- reshape -----------------------------------------------------------------------------------------------


def _reshape_infer(x: Aval, *, shape: Shape) -> Aval:
    if prod(shape) != x.size:
        raise RuntimeError(
            f"reshape: shape '{list(map(int, shape))}' is invalid for input of size {int(x.size)}"
        )
    return Aval(shape, x.dtype)


def flat_index(s: Any, index: tuple[Any, ...], shape: Shape) -> Any:
    """The row-major position of `index` in `shape`."""
    at = s.index(0)
    for i, n in zip(index, shape, strict=True):
        at = s.add(s.mul(at, s.index(n)), i)
    return at


def unflat_index(s: Any, at: Any, shape: Shape) -> tuple[Any, ...]:
    """The index in `shape` of a row-major position."""
    index = []
    for n in reversed(shape):
        index.append(s.mod(at, s.index(n)))
        at = s.floordiv(at, s.index(n))
    return tuple(reversed(index))


def _reshape_element(s: Any, index: tuple[Any, ...], x: Any, *, shape: Shape) -> Any:
    """Axes of size 1 that come or go need no arithmetic; otherwise through the flat position."""
    ones = lambda sizes: [n for n in sizes if n != 1]  # noqa: E731
    if ones(x.shape) == ones(shape):
        rest = iter(i for i, n in zip(index, shape, strict=True) if n != 1)
        return x(*(s.index(0) if n == 1 else next(rest) for n in x.shape))
    return x(*unflat_index(s, flat_index(s, index, shape), x.shape))


define(
    "reshape",
    _reshape_infer,
    lambda xp, x, *, shape: x.reshape(shape),
    vjp=(lambda F, g, out, x, *, shape: F.reshape(g, x.shape),),
    element=_reshape_element,
    put=lambda F, base, value, *, shape: F.reshape(value, base.shape),
    kind="view",
)

# ---- slice -------------------------------------------------------------------------------------------------

Ints = tuple[int, ...]


def _extent(start: int, stop: int, step: int) -> int:
    return stop - start if step == 1 else -((start - stop) // step)


def _slice_infer(x: Aval, *, starts: Ints, stops: Ints, steps: Ints) -> Aval:
    if not len(starts) == len(stops) == len(steps) == x.ndim or any(k < 1 for k in steps):
        raise ValueError(
            f"slice: wants a start, a stop and a step > 0 for each axis of {x}, got {starts, stops, steps}"
        )
    return Aval(tuple(map(_extent, starts, stops, steps)), x.dtype)


def _slice_run(xp: Any, x: Any, *, starts: Ints, stops: Ints, steps: Ints) -> Any:
    return x[(*map(slice, starts, stops, steps), ...)]  # the ellipsis keeps a 0-d result an array


def _slice_element(s: Any, index: tuple[Any, ...], x: Any, *, starts: Ints, stops: Ints, steps: Ints) -> Any:
    return x(*(s.add(s.mul(i, s.index(k)), s.index(a)) for i, a, k in zip(index, starts, steps, strict=True)))


def _slice_vjp(F: Any, g: Any, out: Any, x: Any, *, starts: Ints, stops: Ints, steps: Ints) -> Any:
    if all(k == 1 for k in steps):
        return F.pad_axes(g, starts, tuple(n - b for n, b in zip(x.shape, stops, strict=True)))
    return F.slice_put(g.new_zeros(x.shape), g, starts, stops, steps)


define(
    "slice",
    _slice_infer,
    _slice_run,
    vjp=(_slice_vjp,),
    element=_slice_element,
    put=lambda F, base, value, *, starts, stops, steps: F.slice_put(base, value, starts, stops, steps),
    kind="view",
)


def _slice_put_infer(x: Aval, value: Aval, *, starts: Ints, stops: Ints, steps: Ints) -> Aval:
    want = _slice_infer(x, starts=starts, stops=stops, steps=steps)
    if tuple(value) != tuple(want):
        raise ValueError(f"slice_put: the slice is {want}, the value {value}")
    return x


def _slice_put_run(xp: Any, x: Any, value: Any, *, starts: Ints, stops: Ints, steps: Ints) -> Any:
    out = x.copy()
    out[(*map(slice, starts, stops, steps), ...)] = value
    return out


def _slice_put_element(
    s: Any, index: tuple[Any, ...], x: Any, value: Any, *, starts: Ints, stops: Ints, steps: Ints
) -> Any:
    inside = s.const(True, "bool")
    at = []
    for i, n, a, b, k in zip(index, x.shape, starts, stops, steps, strict=True):
        offset = s.sub(i, s.index(a))
        at.append(s.floordiv(offset, s.index(k)))
        if a != 0 or b != n:
            inside = s.logical_and(inside, s.logical_and(s.ge(i, s.index(a)), s.lt(i, s.index(b))))
        if k != 1:
            inside = s.logical_and(inside, s.eq(s.mod(offset, s.index(k)), s.index(0)))
    return s.select(inside, value(*at), x(*index))


define(
    "slice_put",
    _slice_put_infer,
    _slice_put_run,
    vjp=(
        lambda F, g, out, x, value, *, starts, stops, steps: F.slice_put(
            g, g.new_zeros(value.shape), starts, stops, steps
        ),
        lambda F, g, out, x, value, *, starts, stops, steps: F.slice_axes(g, starts, stops, steps),
    ),
    element=_slice_put_element,
    kind="index",
    arity=(2, 2),
)

# ---- select ---------------------------------------------------------------------------------------------------


def _select_infer(x: Aval, *, dim: int, index: int) -> Aval:
    """One element of an axis, 0 <= index < size; the axis goes."""
    if not (0 <= dim < x.ndim and 0 <= index < x.shape[dim]):
        raise IndexError(f"select: no index {int(index)} along axis {dim} of {x}")
    return Aval((*x.shape[:dim], *x.shape[dim + 1 :]), x.dtype)


def _select_put(F: Any, base: Any, value: Any, *, dim: int, index: int) -> Any:
    starts = tuple(index if d == dim else 0 for d in range(len(base.shape)))
    stops = tuple(index + 1 if d == dim else n for d, n in enumerate(base.shape))
    return F.slice_put(base, F.unsqueeze(value, dim), starts, stops, (1,) * len(base.shape))


def _select_vjp(F: Any, g: Any, out: Any, x: Any, *, dim: int, index: int) -> Any:
    before = tuple(index if d == dim else 0 for d in range(x.ndim))
    after = tuple(n - 1 - index if d == dim else 0 for d, n in enumerate(x.shape))
    return F.pad_axes(F.unsqueeze(g, dim), before, after)


define(
    "select",
    _select_infer,
    lambda xp, x, *, dim, index: x[(slice(None),) * dim + (index, ...)],
    vjp=(_select_vjp,),
    element=lambda s, at, x, *, dim, index: x(*at[:dim], s.index(index), *at[dim:]),
    put=_select_put,
    kind="view",
)

# ---- diagonal ----------------------------------------------------------------------------------------------


def _diagonal_size(shape: Shape, offset: int, dim1: int, dim2: int) -> int:
    return size_max(size_min(shape[dim1] + min(offset, 0), shape[dim2] - max(offset, 0)), 0)


def _diagonal_infer(x: Aval, *, offset: int, dim1: int, dim2: int) -> Aval:
    if dim1 == dim2:
        raise RuntimeError(f"diagonal: dimensions cannot be identical {dim1}, {dim2}")
    rest = tuple(n for d, n in enumerate(x.shape) if d not in (dim1, dim2))
    return Aval((*rest, _diagonal_size(x.shape, offset, dim1, dim2)), x.dtype)


def _diagonal_run(xp: Any, x: Any, *, offset: int, dim1: int, dim2: int) -> Any:
    """numpy's diagonal is marked read-only, though it is a view like others."""
    view = xp.diagonal(x, offset, dim1, dim2)
    if hasattr(view.flags, "writeable"):
        view.flags.writeable = x.flags.writeable
    return view


def _diagonal_element(s: Any, index: tuple[Any, ...], x: Any, *, offset: int, dim1: int, dim2: int) -> Any:
    *rest, k = index
    at = iter(rest)
    low, high = s.add(k, s.index(max(-offset, 0))), s.add(k, s.index(max(offset, 0)))
    return x(*(low if d == dim1 else high if d == dim2 else next(at) for d in range(x.ndim)))


define(
    "diagonal",
    _diagonal_infer,
    _diagonal_run,
    vjp=(
        lambda F, g, out, x, *, offset, dim1, dim2: F.diagonal_put(
            g.new_zeros(x.shape), g, offset, dim1, dim2
        ),
    ),
    element=_diagonal_element,
    put=lambda F, base, value, *, offset, dim1, dim2: F.diagonal_put(base, value, offset, dim1, dim2),
    kind="view",
)


def _diagonal_put_infer(x: Aval, value: Aval, *, offset: int, dim1: int, dim2: int) -> Aval:
    want = _diagonal_infer(x, offset=offset, dim1=dim1, dim2=dim2)
    if tuple(value) != tuple(want):
        raise ValueError(f"diagonal_put: the diagonal is {want}, the value {value}")
    return x


def _diagonal_put_run(xp: Any, x: Any, value: Any, *, offset: int, dim1: int, dim2: int) -> Any:
    out = x.copy()
    _diagonal_run(xp, out, offset=offset, dim1=dim1, dim2=dim2)[...] = value
    return out


def _diagonal_put_element(
    s: Any, index: tuple[Any, ...], x: Any, value: Any, *, offset: int, dim1: int, dim2: int
) -> Any:
    on = s.eq(s.sub(index[dim2], index[dim1]), s.index(offset))
    k = s.sub(index[dim1], s.index(max(-offset, 0)))
    rest = [i for d, i in enumerate(index) if d not in (dim1, dim2)]
    return s.select(on, value(*rest, k), x(*index))


define(
    "diagonal_put",
    _diagonal_put_infer,
    _diagonal_put_run,
    vjp=(
        lambda F, g, out, x, value, *, offset, dim1, dim2: F.diagonal_put(
            g, g.new_zeros(value.shape), offset, dim1, dim2
        ),
        lambda F, g, out, x, value, *, offset, dim1, dim2: F.diagonal(g, offset, dim1, dim2),
    ),
    element=_diagonal_put_element,
    kind="index",
    arity=(2, 2),
)
