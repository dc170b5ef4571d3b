"""Pooling with powers and with random windows, and maxima put back where they were."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..tensor import Tensor
from .base import known_now
from .joining import cat
from .pairs import Sizes, many
from .pooling import avg_pool1d as average1d, avg_pool2d, batched, steps
from .ranges import arange
from .reduction import max
from .scattering import scatter
from .shaping import flatten, reshape, squeeze, unsqueeze
from .volumes import avg_pool3d


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The `norm_type`-th root of the sum of powers of each window of the last axis."""
    return power_pool(average1d, 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The `norm_type`-th root of the sum of powers of each window of planes."""
    return power_pool(avg_pool2d, 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The `norm_type`-th root of the sum of powers of each window of volumes."""
    return power_pool(avg_pool3d, 3, input, norm_type, kernel_size, stride, ceil_mode)


def power_pool(
    average: Any, axes: int, x: Tensor, p: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Tensor:
    kernel = many(kernel_size, axes, "kernel_size")
    mean = average(x**p, kernel_size, stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * prod(kernel)) ** (1.0 / p)


# ---- maxima back in their places ---------------------------------------------------------------------------


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Zeros with the elements of `input` at `indices`, as max_pool1d gave them."""
    return unpooled(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Zeros with the elements of `input` at `indices`, as max_pool2d gave them."""
    return unpooled(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Zeros with the elements of `input` at `indices`, as max_pool3d gave them."""
    return unpooled(3, input, indices, kernel_size, stride, padding, output_size)


def unpooled(
    axes: int, x: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    """The positions are those in a plane or volume of the output's size."""
    kernel = many(kernel_size, axes, "kernel_size")
    s, p = steps(stride, kernel), many(padding, axes, "padding")
    if indices.array.dtype != np.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype}")
    if tuple(indices.array.shape) != tuple(x.array.shape):
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(map(int, x.array.shape))}) but "
            f"got indices tensor with shape: {list(map(int, indices.array.shape))}"
        )
    if x.ndim not in (axes + 1, axes + 2):
        raise RuntimeError(
            f"Input to max_unpooling{axes}d should be a {axes + 1}d or {axes + 2}d Tensor, got {x.ndim}d"
        )
    size = unpooled_size(x.array.shape[-axes:], kernel, s, p, output_size)
    lead = x.array.shape[: x.ndim - axes]
    room = prod(size)
    places = known_now(indices)
    if places is not None and places.size and not 0 <= places.min() <= places.max() < room:
        worst = places.max() if places.max() >= room else places.min()
        raise RuntimeError(
            f"Found an invalid max index: {int(worst)} (output volumes are of size {'x'.join(map(str, size))})"
        )
    zeros = x.new_zeros((*lead, room))
    start = x.ndim - axes
    return reshape(scatter(zeros, -1, flatten(indices, start), flatten(x, start)), (*lead, *size))


def unpooled_size(old: Any, kernel: Sizes, stride: Sizes, padding: Sizes, wanted: Any) -> tuple[int, ...]:
    """The output's size; a wanted one may differ from the usual by less than a step."""
    usual = [(n - 1) * s + k - 2 * p for n, k, s, p in zip(old, kernel, stride, padding, strict=True)]
    if wanted is None:
        return tuple(usual)
    given = tuple(wanted)[-len(usual) :]
    if len(wanted) not in (len(usual), len(usual) + 2):
        raise ValueError(
            f"output_size should be a sequence containing {len(usual)} or {len(usual) + 2} elements, but it has a "
            f"length of '{len(wanted)}'"
        )
    for k, (n, m, s) in enumerate(zip(usual, given, stride, strict=True)):
        if not n - s < m < n + s:
            raise ValueError(
                f'invalid output_size "{list(given)}" (dim {k} must be between {n - s} and {n + s})'
            )
    return given


# ---- random windows ----------------------------------------------------------------------------------------


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Maxima of windows a random step apart (Graham, Fractional Max-Pooling, 2015)."""
    return fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Maxima of windows of volumes a random step apart."""
    return fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional(
    axes: int, x: Tensor, kernel_size: Any, output_size: Any, ratio: Any, positions: bool, samples: Any
) -> Any:
    if (output_size is None) == (ratio is None):
        what = "requires specifying either an output_size or an output_ratio"
        if output_size is not None:
            what = "only one of output_size and output_ratio may be specified"
        raise ValueError(f"fractional_max_pool{axes}d {what}")
    if x.ndim not in (axes + 1, axes + 2):
        raise RuntimeError(
            f"fractional_max_pool{axes}d_out(): Expected {axes + 1}D or {axes + 2}D tensor, but got: {list(x.shape)}"
        )
    if x.ndim == axes + 1:
        return batched(lambda b: fractional(axes, b, kernel_size, output_size, ratio, positions, samples), x)
    kernel, shape = many(kernel_size, axes, "kernel_size"), x.array.shape[2:]
    if ratio is not None:
        each = (ratio,) * axes if isinstance(ratio, float) else tuple(ratio)
        if not all(0 < r < 1 for r in each):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {ratio})")
        output_size = tuple(int(n * r) for n, r in zip(shape, each, strict=True))
    size = many(output_size, axes, "output_size")
    check_room(axes, shape, size, kernel)
    n, c = x.array.shape[:2]
    if samples is None:
        samples = x.new_empty((n, c, axes)).uniform_()
    rows: Any = 0
    for k in range(axes):
        # The samples are (…, height, width) for planes with width first, as PyTorch draws them.
        u = samples[..., axes - 1 - k] if axes == 2 else samples[..., k]
        inside = unsqueeze(window_starts(u, shape[k], size[k], kernel[k]), -1) + arange(kernel[k])
        place = [n, c] + [1] * (2 * axes)
        place[2 + k], place[2 + axes + k] = size[k], kernel[k]
        rows = rows * shape[k] + reshape(inside, tuple(place))
    flat = reshape(rows, (n, c, *size, prod(kernel)))
    taken = flatten(x, 2).gather(2, flatten(flat, 2))
    best = max(reshape(taken, tuple(flat.array.shape)), -1)
    if not positions:
        return best.values
    return best.values, squeeze(flat.gather(-1, unsqueeze(best.indices, -1)), -1)


def check_room(axes: int, shape: Any, size: Sizes, kernel: Sizes) -> None:
    """RuntimeError where the windows are larger than what is left for them."""
    for name, n, m, k in zip(("time", "height", "width")[-axes:], shape, size, kernel, strict=True):
        if type(n) is int and m + k - 1 > n - (axes == 3):  # as PyTorch has it, volumes need one more
            raise RuntimeError(
                f"fractional_max_pool{axes}d{'_out' if axes == 3 else ''}(): pool {name} {k} too large relative to "
                f"input {name} {n}"
            )


def window_starts(u: Tensor, n: Any, m: int, kernel: int) -> Tensor:
    """[N, C, m]: where the windows begin, for random numbers u [N, C]; the last ends with the axis."""
    u = unsqueeze(u, -1)
    last = (u * 0).long() + (n - kernel)
    if m == 1:
        return last
    alpha = (n - kernel) / (m - 1)
    starts = ((u + arange(m - 1)) * alpha).long() - (u * alpha).long()
    return cat([starts, last], -1)
