"""The three kinds of transform as functions of tensors, and the resizing around them."""

from __future__ import annotations

from .. import functional as F
from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor

Axes = tuple[int, ...]


def c2c(x: Tensor, axes: Axes, forward: bool, scale: str) -> Tensor:
    """Complex to complex; x itself over no axes."""
    return apply(TABLE["fft_c2c"], x, axes=axes, forward=forward, scale=scale) if axes else x


def r2c(x: Tensor, axes: Axes, forward: bool, scale: str) -> Tensor:
    """Real to the first half, size // 2 + 1, of the complex coefficients along the last of the axes."""
    return apply(TABLE["fft_r2c"], x, axes=axes, forward=forward, scale=scale)


def c2r(x: Tensor, axes: Axes, forward: bool, scale: str, size: int) -> Tensor:
    """The first half of the coefficients back to `size` real elements along the last of the axes."""
    return apply(TABLE["fft_c2r"], x, axes=axes, forward=forward, scale=scale, size=int(size))


def padded(x: Tensor, axis: int, count: int) -> Tensor:
    """With `count` zeros behind, along an axis."""
    after = tuple(count if d == axis else 0 for d in range(x.ndim))
    return F.pad_axes(x, (0,) * x.ndim, after) if count else x


def fitted(x: Tensor, axis: int, size: int) -> Tensor:
    """Cut or padded with zeros to a size along an axis."""
    there = x.array.shape[axis]
    return padded(x, axis, size - there) if there <= size else F.narrow(x, axis, 0, size)


def doubled(x: Tensor, axis: int, size: int) -> Tensor:
    """Half the coefficients of `size` elements, those times 2 that stand for their conjugates as well."""
    place = F.arange(x.array.shape[axis], device=x.device)
    twice = F.logical_and(place > 0, place < size - size // 2)
    factor = F.where(twice, 2.0, F.ones_like(place, dtype=F.real(x[:0]).dtype))
    return x * F.reshape(factor, (-1, *(1,) * (x.ndim - axis - 1)))
