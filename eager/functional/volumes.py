"""Pooling over windows of volumes [N, C, D, H, W]: over planes first, then along the depth."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Tensor
from .convolution import depth_windows
from .creation import from_numpy
from .functions import trunc
from .pairs import Sizes, many
from .pooling import avg_pool2d, batched, check_windows, max_pool2d, steps
from .reduction import max, sum, take_along
from .shaping import reshape, squeeze, unsqueeze


def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window; return_indices adds its position in the volume."""
    kernel = many(kernel_size, 3, "kernel_size")
    s, p, d = steps(stride, kernel), many(padding, 3, "padding"), many(dilation, 3, "dilation")
    check_windows("max_pool3d", input, 3, kernel, s, p, d)
    if input.ndim == 4:
        return batched(max_pool3d, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    n, c, depth, *plane = input.array.shape
    if depth_windows_count(depth, kernel[0], s[0], p[0], d[0], ceil_mode) < 1:
        raise RuntimeError(
            f"max_pool3d: Output size is too small for an input of {list(map(int, input.array.shape))}"
        )
    images = reshape(input, (n, c * depth, *plane))
    flat, at = max_pool2d(images, kernel[1:], s[1:], p[1:], d[1:], ceil_mode, True)
    shape = (n, c, depth, *flat.array.shape[2:])
    ends = depth_ends(depth, kernel[0], s[0], p[0], d[0], ceil_mode)
    values = depth_windows(reshape(flat, shape), kernel[0], s[0], ends, d[0], float("-inf"))
    best = max(values, 2)
    if not return_indices:
        return best.values
    places = depth_windows(reshape(at, shape), kernel[0], s[0], ends, d[0], 0)
    within = squeeze(take_along(places, unsqueeze(best.indices, 2), 2), 2)
    first = from_numpy(np.arange(best.values.array.shape[2]).reshape(-1, 1, 1) * s[0] - p[0])
    return best.values, within + (first + best.indices * d[0]) * (plane[0] * plane[1])


def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window; padding counts as elements unless count_include_pad is False."""
    kernel = many(kernel_size, 3, "kernel_size")
    s, p = steps(stride, kernel), many(padding, 3, "padding")
    check_windows("avg_pool3d", input, 3, kernel, s, p, (1, 1, 1))
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    if input.ndim == 4:
        return batched(
            avg_pool3d, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )
    if input.array.dtype.kind in "iu":  # PyTorch divides whole sums, towards zero
        wide = input.double()
        out = avg_pool3d(wide, kernel, s, p, ceil_mode, count_include_pad, divisor_override)
        return trunc(out).to(input.dtype)
    n, c, depth, *plane = input.array.shape
    images = reshape(input, (n, c * depth, *plane))
    sums = avg_pool2d(images, kernel[1:], s[1:], p[1:], ceil_mode, divisor_override=1)
    sums = reshape(sums, (n, c, depth, *sums.array.shape[2:]))
    ends = depth_ends(depth, kernel[0], s[0], p[0], 1, ceil_mode)
    total = sum(depth_windows(sums, kernel[0], s[0], ends, 1, 0), 2)
    if divisor_override is not None:
        return total / divisor_override
    if not any(p) and not ceil_mode:
        return total / (kernel[0] * kernel[1] * kernel[2])
    counts = window_counts((depth, *plane), total.array.shape[2:], kernel, s, p, count_include_pad)
    return total / from_numpy(counts).to(total.dtype)


def depth_ends(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> tuple[int, int]:
    """Padding before and after the depth, with what the last window of ceil_mode needs."""
    if not ceil_mode:
        return padding, padding
    count = depth_windows_count(size, kernel, stride, padding, dilation, True)
    need = (count - 1) * stride + dilation * (kernel - 1) + 1 - (size + 2 * padding)
    return padding, padding + (need if need > 0 else 0)


def depth_windows_count(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> int:
    """Windows along the depth."""
    beyond = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return beyond // stride + 1
    count = -(-beyond // stride) + 1
    return count - 1 if (count - 1) * stride >= size + padding else count  # none in the padding alone


def window_counts(
    size: Any, out: Any, kernel: Sizes, stride: Sizes, padding: Sizes, include_pad: bool
) -> np.ndarray[Any, Any]:
    """What the sum over each window is divided by: its elements, without what lies beyond the padding."""
    total = np.ones((1,) * len(kernel))
    for k, (n, m) in enumerate(zip(size, out, strict=True)):
        start = np.arange(m) * stride[k] - padding[k]
        stop = np.minimum(start + kernel[k], n + padding[k])
        if not include_pad:
            start, stop = np.maximum(start, 0), np.minimum(stop, n)
        total = total * (stop - start).reshape((-1,) + (1,) * (len(kernel) - 1 - k))
    return total
