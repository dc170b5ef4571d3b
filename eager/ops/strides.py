"""Views by steps through memory: sizes and strides given outright, sliding windows, other dtypes of the same bits."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .table import define, library
from .types import DTYPES, Aval, Shape, dtype_name

Ints = tuple[int, ...]

# ---- as_strided --------------------------------------------------------------------------------------------
#
# `own` are the strides that x had, `offset` counts from its first element, all in elements. A value of another layout
# (a recorded one in a compiled program) is laid out like that first; which needs `own` to be dense.


def strides_of(x: Any) -> Ints:
    """The strides of an array in elements."""
    return tuple(k // x.dtype.itemsize for k in x.strides)


def address(x: Any) -> int:
    """Where the first element lies, in bytes; cupy's too."""
    return int(x.__array_interface__["data"][0] if isinstance(x, np.ndarray) else x.data.ptr)


def last_place(size: Shape, stride: Ints) -> int:
    """The position of the last element, counted from the first; -1 where there are none."""
    return -1 if 0 in size else sum((n - 1) * k for n, k in zip(size, stride, strict=True))


def dense_order(shape: Shape, stride: Ints) -> list[int] | None:
    """The axes from the outermost in memory to the innermost, where they fill it without gaps; None elsewhere."""
    order = sorted(range(len(shape)), key=lambda d: (-stride[d], d))
    step = 1
    for d in reversed(order):
        if shape[d] != 1 and stride[d] != step:
            return None
        step *= shape[d]
    return order


def memory_of(x: Any) -> Any:
    """The bytes of the array that owns x's memory; None where its elements are not side by side."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    order = dense_order(x.shape, strides_of(x))
    return None if order is None or x.size == 0 else x.transpose(order).reshape(-1).view(np.uint8)


def view_of(x: Any, memory: Any, shape: Shape, strides: Ints, offset: int) -> Any:
    """A view of x's memory by strides and an offset from x in bytes.

    numpy's own as_strided hides whose memory it is.
    """
    start, item = address(x) - address(memory) + offset, x.dtype.itemsize
    out = np.ndarray((*shape, item), np.uint8, memory, start, (*strides, 1)).view(x.dtype)[..., 0]
    out.flags.writeable = x.flags.writeable
    return out


def _same_layout(x: Any, own: Ints) -> bool:
    return all(n == 1 or a == b for n, a, b in zip(x.shape, strides_of(x), own, strict=True))


def _as_strided_infer(x: Aval, *, size: Ints, stride: Ints, offset: int, own: Ints) -> Aval:
    if len(size) != len(stride):
        raise RuntimeError(
            f"as_strided: mismatch in length of strides and shape, {list(stride)} and {list(size)}"
        )
    return Aval(size, x.dtype)


def _as_strided_run(xp: Any, x: Any, *, size: Ints, stride: Ints, offset: int, own: Ints) -> Any:
    if 0 in size:
        return xp.empty(size, x.dtype)
    item = x.dtype.itemsize
    memory = memory_of(x) if xp is np and _same_layout(x, own) else None
    if memory is not None:
        return view_of(x, memory, size, tuple(k * item for k in stride), offset * item)
    order = dense_order(x.shape, own)
    if order is None or offset < 0:
        raise RuntimeError(
            f"as_strided: strides {list(own)} of shape {list(x.shape)} leave gaps in memory; clone first"
        )
    flat = x.transpose(order).reshape(-1)
    return xp.lib.stride_tricks.as_strided(flat[offset:], size, tuple(k * item for k in stride))


def _as_strided_element(
    s: Any, index: tuple[Any, ...], x: Any, *, size: Ints, stride: Ints, offset: int, own: Ints
) -> Any:
    place = s.index(offset)
    for i, k in zip(index, stride, strict=True):
        place = s.add(place, s.mul(i, s.index(k)))
    order = dense_order(x.shape, own)
    if order is None:
        raise RuntimeError(
            f"as_strided: strides {list(own)} of shape {list(map(int, x.shape))} leave gaps in memory, which "
            "a compiled program does not have; clone first"
        )
    at = [s.index(0)] * x.ndim
    for d in reversed(order):
        at[d] = s.mod(place, s.index(x.shape[d]))
        place = s.floordiv(place, s.index(x.shape[d]))
    return x(*at)


def _as_strided_vjp(
    F: Any, g: Any, out: Any, x: Any, *, size: Ints, stride: Ints, offset: int, own: Ints
) -> Any:
    """Gradients add up in memory and are read again where x lies; an element x holds twice gets its share."""
    here = F.memory_places(g, x.shape, own, 0)
    low = min(offset, 0)
    extent = max(last_place(x.shape, own), last_place(size, stride) + offset) - low + 1
    places = F.memory_places(g, size, stride, offset - low)
    memory = F.index_put_axes(g.new_zeros((extent,)), F.reshape(g, (-1,)), (places,), 0, accumulate=True)
    found = F.index_axes(memory, (here - low,), 0)
    if any(k == 0 and n > 1 for n, k in zip(x.shape, own, strict=True)):
        found = found / prod(n for n, k in zip(x.shape, own, strict=True) if k == 0)
    return F.reshape(found, x.shape)


def _as_strided_put(
    F: Any, base: Any, value: Any, *, size: Ints, stride: Ints, offset: int, own: Ints
) -> Any:
    low = min(offset, 0)
    extent = max(last_place(base.shape, own), last_place(size, stride) + offset) - low + 1
    here = F.memory_places(base, base.shape, own, -low)
    places = F.memory_places(base, size, stride, offset - low)
    memory = F.index_put_axes(base.new_zeros((extent,)), F.reshape(base, (-1,)), (here,), 0)
    memory = F.index_put_axes(memory, F.reshape(value, (-1,)), (places,), 0)
    return F.reshape(F.index_axes(memory, (here,), 0), base.shape)


define(
    "as_strided",
    _as_strided_infer,
    _as_strided_run,
    vjp=(_as_strided_vjp,),
    element=_as_strided_element,
    put=_as_strided_put,
    kind="view",
)

# ---- unfold: sliding windows along an axis -----------------------------------------------------------------


def _unfold_infer(x: Aval, *, dim: int, size: int, step: int) -> Aval:
    """Windows of `size` elements of an axis, `step` apart; the window is the last axis."""
    if not 0 <= size <= x.shape[dim] or step < 1:
        raise RuntimeError(f"unfold: windows of {size} elements, {step} apart, do not fit axis {dim} of {x}")
    count = (x.shape[dim] - size) // step + 1
    return Aval((*x.shape[:dim], count, *x.shape[dim + 1 :], size), x.dtype)


def _unfold_run(xp: Any, x: Any, *, dim: int, size: int, step: int) -> Any:
    count = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    memory = memory_of(x) if xp is np and 0 not in shape else None
    if memory is not None:
        return view_of(x, memory, shape, strides, 0)
    return xp.lib.stride_tricks.as_strided(x, shape, strides)


def _unfold_element(s: Any, index: tuple[Any, ...], x: Any, *, dim: int, size: int, step: int) -> Any:
    at = s.add(s.mul(index[dim], s.index(step)), index[-1])
    return x(*index[:dim], at, *index[dim + 1 : -1])


def _unfold_put(F: Any, base: Any, value: Any, *, dim: int, size: int, step: int) -> Any:
    places = F.window_places(base, (base.shape[dim] - size) // step + 1, size, step)
    return F.index_put_axes(base, F.movedim(value, -1, dim + 1), (places,), dim)


def _unfold_vjp(F: Any, g: Any, out: Any, x: Any, *, dim: int, size: int, step: int) -> Any:
    places = F.window_places(g, (x.shape[dim] - size) // step + 1, size, step)
    return F.index_put_axes(g.new_zeros(x.shape), F.movedim(g, -1, dim + 1), (places,), dim, accumulate=True)


define(
    "unfold",
    _unfold_infer,
    _unfold_run,
    vjp=(_unfold_vjp,),
    element=_unfold_element,
    put=_unfold_put,
    kind="view",
)

# ---- view_dtype --------------------------------------------------------------------------------------------


def _view_dtype_infer(x: Aval, *, dtype: str) -> Aval:
    """The same bits in another dtype; the last axis grows or shrinks with the size of an element."""
    to = DTYPES[dtype]
    if to.itemsize == x.dtype.itemsize:
        return Aval(x.shape, to)
    sizes = f"view: {x} as {dtype} (different element sizes)"
    if not x.ndim:
        raise RuntimeError(f"{sizes}: self.dim() cannot be 0")
    if x.shape[-1] * x.dtype.itemsize % to.itemsize:
        raise RuntimeError(f"{sizes}: self.size(-1) must be divisible by {to.itemsize // x.dtype.itemsize}")
    return Aval((*x.shape[:-1], x.shape[-1] * x.dtype.itemsize // to.itemsize), to)


def _view_dtype_run(xp: Any, x: Any, *, dtype: str) -> Any:
    if x.ndim and x.dtype.itemsize != DTYPES[dtype].itemsize and x.shape[-1] > 1 and strides_of(x)[-1] != 1:
        raise RuntimeError(
            f"view: self.stride(-1) must be 1 to view {dtype_name(x.dtype)} as {dtype} (different element sizes), "
            f"but got {strides_of(x)[-1]}"
        )
    return x.view(DTYPES[dtype])


library(
    "view_dtype",
    _view_dtype_infer,
    _view_dtype_run,
    put=lambda F, base, value, *, dtype: F.view_dtype(value, base.dtype),
)
