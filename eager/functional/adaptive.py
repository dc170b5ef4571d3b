"""Adaptive pooling: place k of m has the window [floor(k·n/m), ceil((k+1)·n/m)) of an axis of n elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tape import labelled
from ..tensor import Tensor
from .base import axis
from .creation import from_numpy
from .joining import cat
from .pooling import avg_pool2d, batched, max_pool2d
from .reduction import amax, max, mean, take_along
from .scattering import index_select
from .shaping import expand, flatten, permute, reshape, squeeze, unsqueeze
from .slicing import slice_axis
from .volumes import avg_pool3d, max_pool3d

AVERAGE = {2: avg_pool2d, 3: avg_pool3d}
MAXIMUM = {2: max_pool2d, 3: max_pool3d}


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide the last axis into output_size parts."""
    size = wanted_size("adaptive_avg_pool1d", input, 1, output_size)
    return squeeze(adaptive_avg_pool2d(unsqueeze(input, -2), (1, *size)), -2)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide the plane into output_size parts; None keeps an axis as it is."""
    size = wanted_size("adaptive_avg_pool2d", input, 2, output_size)
    return labelled(mean(input, (-2, -1), keepdim=True), "Mean") if size == (1, 1) else averages(input, size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide the volume into output_size parts; None keeps an axis as it is."""
    size = wanted_size("adaptive_avg_pool3d", input, 3, output_size)
    return mean(input, (-3, -2, -1), keepdim=True) if size == (1, 1, 1) else averages(input, size)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows that divide the last axis into output_size parts; return_indices adds their positions."""
    size = wanted_size("adaptive_max_pool1d", input, 1, output_size)
    out = adaptive_max_pool2d(unsqueeze(input, -2), (1, *size), return_indices)
    return tuple(squeeze(o, -2) for o in out) if return_indices else squeeze(out, -2)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows that divide the plane into output_size parts; return_indices adds positions in the plane."""
    return maxima(input, wanted_size("adaptive_max_pool2d", input, 2, output_size), return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows that divide the volume into output_size parts; return_indices adds positions in it."""
    return maxima(input, wanted_size("adaptive_max_pool3d", input, 3, output_size), return_indices)


def wanted_size(name: str, x: Tensor, axes: int, output_size: Any) -> tuple[Any, ...]:
    """The output's size along each axis. RuntimeError for a size or an input that does not do.

    ValueError, as in PyTorch, for too few axes where the size is a sequence.
    """
    if axes > 1 and x.ndim <= axes and isinstance(output_size, (tuple, list)):
        raise ValueError(f"{name}: Input dimension should be at least {axes + 1}, got {x.ndim}")
    given = (
        (output_size,) * axes if output_size is None or isinstance(output_size, int) else tuple(output_size)
    )
    if len(given) == 1 and axes == 1:
        given = (given[0],)
    if len(given) != axes:
        raise RuntimeError(f"{name}: output_size must be {axes} numbers, got {output_size}")
    if x.ndim not in (axes + 1, axes + 2) or any(
        type(n) is int and n == 0 for n in x.array.shape[x.ndim - axes :]
    ):
        raise RuntimeError(
            f"{name}: Expected {axes + 1}D or {axes + 2}D input with elements in all but the axis of the batch, got "
            f"{list(map(int, x.array.shape))}"
        )
    out = tuple(n if m is None else m for n, m in zip(x.array.shape[-axes:], given, strict=True))
    if any(type(m) is int and m < 0 for m in out):
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0, got {output_size}"
        )
    return out


def even(x: Tensor, size: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The windows' size where all are equal."""
    pairs = list(zip(x.array.shape[-len(size) :], size, strict=True))
    return tuple(n // m for n, m in pairs) if all(m and n % m == 0 for n, m in pairs) else None


def averages(x: Tensor, size: tuple[Any, ...]) -> Tensor:
    """Means over each axis in turn: windows are products, and each of their elements counts the same."""
    kernel = even(x, size)
    if kernel is not None:
        return AVERAGE[len(size)](x, kernel)
    for d, m in enumerate(size, x.ndim - len(size)):
        x = banded(mean, x, d, m)
    return x


def banded(reduce: Any, x: Tensor, d: int, count: Any) -> Tensor:
    """`reduce` over each of `count` windows along an axis."""
    n = x.array.shape[d]
    if n == count:
        return x
    if count == 0:
        return slice_axis(x, d, 0, 0)
    bands = [
        slice_axis(x, axis("pool", d, x.ndim), k * n // count, -(-(k + 1) * n // count)) for k in range(count)
    ]
    return cat([reduce(band, d, keepdim=True) for band in bands], d)


def maxima(x: Tensor, size: tuple[Any, ...], positions: bool) -> Any:
    kernel = even(x, size)
    if kernel is not None:
        return MAXIMUM[len(size)](x, kernel, return_indices=positions)
    if not positions:
        for d, m in enumerate(size, x.ndim - len(size)):
            x = banded(amax, x, d, m)
        return x
    if x.ndim == len(size) + 1:
        return batched(maxima, x, size, positions)
    return maxima_and_positions(x, size)


def maxima_and_positions(x: Tensor, size: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The windows as rows, short ones filled up with elements of their own, and the first maximum of each."""
    axes, shape = len(size), x.array.shape[2:]
    chosen = [window_indices(n, m) for n, m in zip(shape, size, strict=True)]
    at: Any = np.zeros((1,) * (2 * axes), np.int64)
    for k, (index, n) in enumerate(zip(chosen, shape, strict=True)):
        x = index_select(x, 2 + k, from_numpy(index.ravel()))
        place = [1] * (2 * axes)
        place[2 * k : 2 * k + 2] = index.shape
        at = at * n + index.reshape(place)
    split = tuple(m for index in chosen for m in index.shape)
    order = [*range(0, 2 * axes, 2), *range(1, 2 * axes, 2)]
    rows = permute(reshape(x, (*x.array.shape[:2], *split)), (0, 1, *(2 + k for k in order)))
    places = np.ascontiguousarray(np.broadcast_to(at, split).transpose(order)).reshape(*size, -1)
    rows = flatten(rows, 2 + axes)
    best = max(rows, -1)
    spread = expand(from_numpy(places), rows.array.shape)
    return best.values, squeeze(take_along(spread, unsqueeze(best.indices, -1), -1), -1)


def window_indices(n: int, m: int) -> Any:
    """[m, longest window]: the elements of each window, the last repeated."""
    k = np.arange(m)
    starts, stops = k * n // m, -(-(k + 1) * n // m)
    width = int((stops - starts).max(initial=1))
    return np.minimum(starts[:, None] + np.arange(width), stops[:, None] - 1)
