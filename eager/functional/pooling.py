"""Pooling over windows, and windows as columns."""

from __future__ import annotations

from typing import Any

from ..ops.table import TABLE
from ..tape import apply, labelled
from ..tensor import Tensor
from .arranging import pad_axes
from .base import axis
from .joining import cat
from .pairs import one, two
from .reduction import mean
from .shaping import reshape, squeeze, unsqueeze
from .slicing import slice_axes, slice_axis

MAX_POOL, MAX_BACK, MAX_AT = TABLE["max_pool2d"], TABLE["max_pool2d_backward"], TABLE["max_pool2d_indices"]
AVG_POOL, AVG_BACK = TABLE["avg_pool2d"], TABLE["avg_pool2d_backward"]


def batched(function: Any, input: Tensor, *args: Any) -> Any:
    """A function of [N, C, H, W] applied to [C, H, W]."""
    out = function(unsqueeze(input, 0), *args)
    return tuple(squeeze(o, 0) for o in out) if isinstance(out, tuple) else squeeze(out, 0)


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window; return_indices adds its position in the plane."""
    if input.ndim == 3:
        return batched(max_pool2d, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    kernel = two(kernel_size)
    attrs = {
        "kernel": kernel,
        "stride": kernel if stride is None or stride == [] else two(stride),
        "padding": two(padding),
        "dilation": two(dilation),
    }
    wide = input
    if ceil_mode:
        wide = with_last_windows(input, attrs, float("-inf"))
    out = apply(MAX_POOL, wide, **attrs)
    if not return_indices:
        return out
    at = apply(MAX_AT, wide, **attrs)
    if wide is not input:  # positions in the plane without the padding
        old, new = wide.array.shape[3], input.array.shape[3]
        at = at // old * new + at % old
    return out, at


def with_last_windows(x: Tensor, attrs: dict[str, Any], fill: float) -> Tensor:
    """Padded after the end so that windows that begin inside but end outside count (ceil_mode)."""
    extra = []
    for k, n in enumerate(x.array.shape[2:]):
        kernel, stride, padding = attrs["kernel"][k], attrs["stride"][k], attrs["padding"][k]
        reach = attrs.get("dilation", (1, 1))[k] * (kernel - 1) + 1
        count = -(-(n + 2 * padding - reach) // stride) + 1
        if (count - 1) * stride >= n + padding:  # the last window would lie in the padding alone
            count -= 1
        need = (count - 1) * stride + reach - (n + 2 * padding)
        extra.append(need if need > 0 else 0)
    return pad_axes(x, (0, 0, 0, 0), (0, 0, *extra), fill) if any(extra) else x


def max_pool2d_backward(grad: Tensor, input: Tensor, **attrs: Any) -> Tensor:
    """The gradient of max_pool2d."""
    return apply(MAX_BACK, grad, input, **attrs)


def max_pool2d_indices(input: Tensor, **attrs: Any) -> Tensor:
    """The position in the plane of each window's maximum."""
    return apply(MAX_AT, input, **attrs)


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window of the last axis."""
    k = one(kernel_size)
    s = k if stride is None else one(stride)
    out = max_pool2d(
        unsqueeze(input, -2), (1, k), (1, s), (0, one(padding)), (1, one(dilation)), ceil_mode, return_indices
    )
    return tuple(squeeze(o, -2) for o in out) if return_indices else squeeze(out, -2)


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window; padding counts as elements unless count_include_pad is False."""
    if input.ndim == 3:
        return batched(
            avg_pool2d, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )
    kernel = two(kernel_size)
    attrs: dict[str, Any] = {
        "kernel": kernel,
        "stride": kernel if stride is None or stride == [] else two(stride),
        "padding": two(padding),
    }
    area = kernel[0] * kernel[1]
    if divisor_override is not None:
        wide = with_last_windows(input, attrs, 0) if ceil_mode else input
        return apply(AVG_POOL, wide, **attrs, count_include_pad=True) * (area / divisor_override)
    if not ceil_mode:
        return apply(AVG_POOL, input, **attrs, count_include_pad=count_include_pad)
    wide = with_last_windows(input, attrs, 0)
    if wide is input:
        return apply(AVG_POOL, input, **attrs, count_include_pad=count_include_pad)
    # What lies beyond even the padding never counts: the share of each window that does is pooled likewise.
    counted = input.new_zeros((1, 1, *input.array.shape[2:])) + 1.0
    if count_include_pad:
        p = attrs["padding"]
        counted = pad_axes(counted, (0, 0, *p), (0, 0, *p), 1.0)
        shift = attrs | {"padding": (0, 0)}
        share = apply(AVG_POOL, with_last_windows(counted, shift, 0), **shift, count_include_pad=True)
    else:
        share = apply(AVG_POOL, with_last_windows(counted, attrs, 0), **attrs, count_include_pad=True)
    return apply(AVG_POOL, wide, **attrs, count_include_pad=True) / share


def avg_pool2d_plain(input: Tensor, **attrs: Any) -> Tensor:
    """avg_pool2d with the table's attributes."""
    return apply(AVG_POOL, input, **attrs)


def avg_pool2d_backward(grad: Tensor, *, size: Any, **attrs: Any) -> Tensor:
    """The gradient of avg_pool2d in its input of spatial size `size`."""
    return apply(AVG_BACK, grad, size=tuple(size), **attrs)


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of the last axis."""
    k = one(kernel_size)
    s = k if stride is None else one(stride)
    out = avg_pool2d(unsqueeze(input, -2), (1, k), (1, s), (0, one(padding)), ceil_mode, count_include_pad)
    return squeeze(out, -2)


def adaptive(function: Any, input: Tensor, output_size: Any) -> Tensor:
    """Windows chosen so that the output has the given size: [floor(k·n/m), ceil((k+1)·n/m)) for place k of m."""
    size = list(input.array.shape[-2:])
    wanted = [n if m is None else m for n, m in zip(size, adaptive_size(output_size), strict=True)]
    if all(n % m == 0 for n, m in zip(size, wanted, strict=True) if m):
        kernel = tuple(n // m for n, m in zip(size, wanted, strict=True))
        return function(input, kernel)
    rows = [_band(input, -2, k, size[0], wanted[0]) for k in range(wanted[0])]
    cells = [[_band(row, -1, k, size[1], wanted[1]) for k in range(wanted[1])] for row in rows]
    return cat([cat([function(c, tuple(c.array.shape[-2:])) for c in row], -1) for row in cells], -2)


def adaptive_size(value: Any) -> tuple[Any, Any]:
    if value is None or isinstance(value, int):
        return value, value
    first, second = value
    return first, second


def _band(x: Tensor, dim: int, k: int, size: int, count: int) -> Tensor:
    return slice_axis(
        x, axis("adaptive pooling", dim, x.ndim), k * size // count, -(-(k + 1) * size // count)
    )


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide the plane into output_size parts."""
    if adaptive_size(output_size) == (1, 1):
        return labelled(mean(input, (-2, -1), keepdim=True), "Mean")
    return adaptive(avg_pool2d, input, output_size)


def adaptive_max_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Maxima of windows that divide the plane into output_size parts."""
    return adaptive(max_pool2d, input, output_size)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide the last axis into output_size parts."""
    return squeeze(adaptive_avg_pool2d(unsqueeze(input, -2), (1, one(output_size))), -2)


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Maxima of windows that divide the last axis into output_size parts."""
    return squeeze(adaptive_max_pool2d(unsqueeze(input, -2), (1, one(output_size))), -2)


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of [N, C, H, W] as columns [N, C·KH·KW, windows]."""
    k, d, p, s = two(kernel_size), two(dilation), two(padding), two(stride)
    x = pad_axes(input, (0, 0, *p), (0, 0, *p)) if any(p) else input
    n, c, h, w = x.array.shape
    oh, ow = ((m - d[a] * (k[a] - 1) - 1) // s[a] + 1 for a, m in enumerate((h, w)))
    parts = []
    for i in range(k[0]):
        for j in range(k[1]):
            starts = (0, 0, i * d[0], j * d[1])
            stops = (n, c, i * d[0] + s[0] * (oh - 1) + 1, j * d[1] + s[1] * (ow - 1) + 1)
            parts.append(unsqueeze(slice_axes(x, starts, stops, (1, 1, s[0], s[1])), 2))
    return reshape(cat(parts, 2), (n, c * k[0] * k[1], oh * ow))
