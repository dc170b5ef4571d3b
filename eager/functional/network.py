"""Layers as functions: linear, convolution, pooling, padding, embedding, normalisation, dropout, attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

from ..modes import is_grad_enabled, no_grad
from ..ops.table import TABLE
from ..random import default_generator
from ..tape import apply, labelled
from ..tensor import Tensor
from ..writes import write
from .base import axis, cast_to, pair
from .indexing import index_select, int64_index
from .pointwise import masked_fill, mul, where
from .reduction import mean, norm, sum, var
from .shaping import cat, expand, flip, pad_axes, reshape, slice_axes, slice_axis, squeeze, unsqueeze

LINEAR, CONV2D = TABLE["linear"], TABLE["conv2d"]
CONV2D_INPUT, CONV2D_WEIGHT = TABLE["conv2d_input"], TABLE["conv2d_weight"]
MAX_POOL, MAX_BACK, MAX_AT = TABLE["max_pool2d"], TABLE["max_pool2d_backward"], TABLE["max_pool2d_indices"]
AVG_POOL, AVG_BACK, EMBEDDING = TABLE["avg_pool2d"], TABLE["avg_pool2d_backward"], TABLE["embedding"]
LAYER_NORM, BATCH_NORM, DROPOUT = TABLE["layer_norm"], TABLE["batch_norm"], TABLE["dropout"]
ATTENTION = TABLE["scaled_dot_product_attention"]

Pair = tuple[int, int]


def two(value: Any, name: str = "a size") -> Pair:
    """A number or a pair as a pair."""
    if isinstance(value, int):
        return value, value
    out = tuple(value)
    if len(out) == 1:
        return out[0], out[0]
    if len(out) != 2:
        raise RuntimeError(f"{name} wants one number or two, got {value}")
    return out[0], out[1]


def one(value: Any) -> int:
    return value if isinstance(value, int) else next(iter(value))


# ---- linear ------------------------------------------------------------------------------------------------


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias; x [*, in], weight [out, in], bias [out]."""
    if weight.ndim == 1:
        out = sum(input * weight, -1)
        return out if bias is None else out + bias
    if bias is None:
        return apply(LINEAR, input, weight)
    return apply(LINEAR, input, weight, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """out[k] = x1 @ weight[k] @ x2 + bias[k]; weight [out, in1, in2]."""
    from .product import einsum

    out = einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias


# ---- convolution -------------------------------------------------------------------------------------------


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of x [N, C, H, W] (or [C, H, W]) with weight [O, C/groups, KH, KW].

    padding: zeros on each side, a number or a pair, "valid" (none) or "same" (the output has the input's size).
    """
    if input.ndim == 3:
        return squeeze(conv2d(unsqueeze(input, 0), weight, bias, stride, padding, dilation, groups), 0)
    strides, spread = two(stride, "stride"), two(dilation, "dilation")
    if isinstance(padding, str):
        input, padding = same_padding(input, weight, padding, strides, spread)
    out = apply(
        CONV2D, input, weight, stride=strides, padding=two(padding, "padding"), dilation=spread, groups=groups
    )
    return with_bias(out, bias)


def with_bias(out: Tensor, bias: Tensor | None) -> Tensor:
    """One bias per channel added."""
    if bias is None:
        return out
    return labelled(out + reshape(bias, (bias.array.shape[0], *(1,) * (out.ndim - 2))), "Convolution")


def same_padding(x: Tensor, weight: Tensor, padding: str, strides: Pair, spread: Pair) -> tuple[Tensor, Pair]:
    """The padding that a word stands for; where it is uneven, x is padded by the difference first."""
    if padding == "valid":
        return x, (0, 0)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'; it is 'valid' or 'same'")
    if strides != (1, 1):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(spread, weight.array.shape[2:], strict=True)]
    if any(n % 2 for n in total):
        x = pad_axes(x, (0, 0, 0, 0), (0, 0, total[0] % 2, total[1] % 2))
    return x, (total[0] // 2, total[1] // 2)


def conv2d_plain(input: Tensor, weight: Tensor, **attrs: Any) -> Tensor:
    """conv2d with the table's attributes."""
    return apply(CONV2D, input, weight, **attrs)


def conv2d_input(grad: Tensor, weight: Tensor, *, size: Any, **attrs: Any) -> Tensor:
    """The gradient of conv2d in its input of spatial size `size`."""
    return apply(CONV2D_INPUT, grad, weight, size=tuple(size), **attrs)


def conv2d_weight(grad: Tensor, input: Tensor, *, kernel: Any, **attrs: Any) -> Tensor:
    """The gradient of conv2d in its weight of kernel size `kernel`."""
    return apply(CONV2D_WEIGHT, grad, input, kernel=tuple(kernel), **attrs)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of x [N, C, L] (or [C, L]) with weight [O, C/groups, K]."""
    if input.ndim == 2:
        return squeeze(conv1d(unsqueeze(input, 0), weight, bias, stride, padding, dilation, groups), 0)
    pad_ = padding if isinstance(padding, str) else (0, one(padding))
    out = conv2d(
        unsqueeze(input, 2), unsqueeze(weight, 2), None, (1, one(stride)), pad_, (1, one(dilation)), groups
    )
    return with_bias(squeeze(out, 2), bias)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The adjoint of conv2d, used as a layer: x [N, C, H, W], weight [C, O/groups, KH, KW]."""
    if input.ndim == 3:
        wide = unsqueeze(input, 0)
        return squeeze(
            conv_transpose2d(wide, weight, bias, stride, padding, output_padding, groups, dilation), 0
        )
    s, p, e, d = two(stride), two(padding), two(output_padding), two(dilation)
    shape, kernel = input.array.shape[2:], weight.array.shape[2:]
    height, width = (
        (n - 1) * s[k] - 2 * p[k] + d[k] * (kernel[k] - 1) + e[k] + 1 for k, n in enumerate(shape)
    )
    out = conv2d_input(input, weight, size=(height, width), stride=s, padding=p, dilation=d, groups=groups)
    return with_bias(out, bias)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The adjoint of conv1d, used as a layer: x [N, C, L], weight [C, O/groups, K]."""
    along = [(first, one(v)) for first, v in ((1, stride), (0, padding), (0, output_padding), (1, dilation))]
    s, p, e, d = along
    out = conv_transpose2d(unsqueeze(input, -2), unsqueeze(weight, 2), None, s, p, e, groups, d)
    return with_bias(squeeze(out, -2), bias)


# ---- pooling -----------------------------------------------------------------------------------------------


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


# ---- padding, resizing -------------------------------------------------------------------------------------


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Elements added at (or, where negative, taken from) both ends of the last axes.

    pad: (before, after) of the last axis, then of the one before it, … mode: constant, reflect, replicate, circular.
    """
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension, and even, but got padding "
            f"length {len(pad)} and input of dimension {input.ndim}"
        )
    pairs = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)]
    sides = [(0, 0)] * (input.ndim - len(pairs)) + pairs[::-1]
    if mode != "constant":
        for d, (before, after) in enumerate(sides):
            if before or after:
                input = wrapped_pad(input, d, before, after, mode)
        return input
    if any(a < 0 or b < 0 for a, b in sides):
        shape = input.array.shape
        starts = tuple(-a if a < 0 else 0 for a, _ in sides)
        stops = tuple(n + b if b < 0 else n for n, (_, b) in zip(shape, sides, strict=True))
        input = slice_axes(input, starts, stops, (1,) * input.ndim)
        sides = [(a if a > 0 else 0, b if b > 0 else 0) for a, b in sides]
    if not any(a or b for a, b in sides):
        return input
    fill = 0 if value is None else value
    return labelled(
        pad_axes(input, tuple(a for a, _ in sides), tuple(b for _, b in sides), fill), "ConstantPadNd"
    )


def wrapped_pad(x: Tensor, d: int, before: int, after: int, mode: str) -> Tensor:
    """Padding with the tensor's own elements along one axis."""
    n = x.array.shape[d]
    limit = {"reflect": n - 1, "circular": n, "replicate": max(before, after, 0)}.get(mode)
    if limit is None:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if before > limit or after > limit:
        raise RuntimeError(
            f"Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {after}) at dimension {d} of input {list(map(int, x.array.shape))}"
        )
    parts = [x]
    if before > 0:
        parts.insert(0, _edge(x, d, before, mode, first=True))
    if after > 0:
        parts.append(_edge(x, d, after, mode, first=False))
    out = cat(parts, d) if len(parts) > 1 else x
    if before < 0 or after < 0:
        size = out.array.shape[d]
        out = slice_axis(out, d, max(-before, 0), size + min(after, 0))
    return out


def _edge(x: Tensor, d: int, count: int, mode: str, first: bool) -> Tensor:
    n = x.array.shape[d]
    if mode == "circular":
        return slice_axis(x, d, n - count, n) if first else slice_axis(x, d, 0, count)
    if mode == "reflect":
        return flip(slice_axis(x, d, 1, count + 1) if first else slice_axis(x, d, n - 1 - count, n - 1), d)
    end = slice_axis(x, d, 0, 1) if first else slice_axis(x, d, n - 1, n)
    return expand(end, tuple(count if k == d else m for k, m in enumerate(x.array.shape)))


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    **_: Any,
) -> Tensor:
    """The planes of [N, C, H, W] (or [N, C, L]) resized: mode nearest, nearest-exact, linear, bilinear or area."""
    axes_ = range(2, input.ndim)
    old = [input.array.shape[d] for d in axes_]
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    factors = list(scale_factor) if isinstance(scale_factor, (tuple, list)) else [scale_factor] * len(old)
    if size is None:
        new = [int(n * f) for n, f in zip(old, factors, strict=True)]
    else:
        new, factors = ([size] * len(old) if isinstance(size, int) else list(size)), [None] * len(old)
    if mode == "area":
        return adaptive_avg_pool2d(input, new)
    for d, n, m, f in zip(axes_, old, new, factors, strict=True):
        input = resized(input, d, n, m, n / m if f is None else 1 / f, mode, bool(align_corners))
    return input


def resized(x: Tensor, d: int, n: int, m: int, ratio: float, mode: str, align: bool) -> Tensor:
    """One axis from n to m elements."""
    import numpy as np

    from .creation import from_numpy

    k = np.arange(m)
    if mode in ("nearest", "nearest-exact"):
        at = np.floor((k + (0.5 if mode == "nearest-exact" else 0.0)) * ratio).astype(np.int64)
        return index_select(x, d, from_numpy(np.clip(at, 0, n - 1)))
    if mode not in ("linear", "bilinear"):
        raise NotImplementedError(
            f"interpolate: mode {mode!r}; the modes are nearest, nearest-exact, linear, bilinear, area"
        )
    place = k * ((n - 1) / max(m - 1, 1)) if align else np.maximum((k + 0.5) * ratio - 0.5, 0)
    low = np.minimum(np.floor(place).astype(np.int64), n - 1)
    high = np.minimum(low + 1, n - 1)
    share = (place - low).astype(x.array.dtype).reshape((m,) + (1,) * (x.ndim - 1 - d))
    weight = from_numpy(share)
    return index_select(x, d, from_numpy(low)) * (1 - weight) + index_select(x, d, from_numpy(high)) * weight


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """[*, C·r², H, W] as [*, C, H·r, W·r]."""
    r = upscale_factor
    *lead, c, h, w = input.array.shape
    split = reshape(input, (*lead, c // (r * r), r, r, h, w))
    n = len(lead)
    order = [*range(n + 1), n + 3, n + 1, n + 4, n + 2]
    return reshape(split.permute(order), (*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """[*, C, H·r, W·r] as [*, C·r², H, W]."""
    r = downscale_factor
    *lead, c, h, w = input.array.shape
    split = reshape(input, (*lead, c, h // r, r, w // r, r))
    n = len(lead)
    order = [*range(n + 1), n + 2, n + 4, n + 1, n + 3]
    return reshape(split.permute(order), (*lead, c * r * r, h // r, w // r))


# ---- embedding ---------------------------------------------------------------------------------------------


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight [rows, width] at the positions in input. The row padding_idx gets no gradient."""
    at = int64_index("embedding", input)
    if max_norm is not None:
        with no_grad():
            used = index_select(weight, 0, reshape(at, (-1,)))
            scale = (max_norm / (norm(used, norm_type, -1, keepdim=True) + 1e-7)).clamp(max=1.0)
            from .indexing import index_copy

            write(weight, index_copy(weight._alias(), 0, reshape(at, (-1,)), used * scale))
    out = apply(EMBEDDING, weight, at)
    if padding_idx is None:
        return out
    row = padding_idx if padding_idx >= 0 else padding_idx + weight.array.shape[0]
    return (
        where(unsqueeze(at == row, -1), out.detach(), out)
        if is_grad_enabled() and out.node is not None
        else out
    )


# ---- normalisation -----------------------------------------------------------------------------------------


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Zero mean and unit variance over the last axes, of sizes normalized_shape, then scaled and shifted."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if tuple(input.array.shape[input.ndim - len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(map(int, shape))}, expected input with shape [*, "
            f"{', '.join(str(int(n)) for n in shape)}], but got input of size{list(map(int, input.array.shape))}"
        )
    if weight is None and bias is not None:
        weight = bias.new_ones(bias.array.shape)
    affine = [p for p in (weight, bias) if p is not None]
    return labelled(apply(LAYER_NORM, input, *affine, ndim=len(shape), eps=float(eps)), "NativeLayerNorm")


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x divided by its root mean square over the last axes, then scaled."""
    from ..dtypes import finfo
    from .pointwise import rsqrt

    axes_ = tuple(range(-len(tuple(normalized_shape)), 0))
    small = finfo(input.array.dtype).eps if eps is None else eps
    out = input * rsqrt(mean(input * input, axes_, keepdim=True) + small)
    return out if weight is None else out * weight


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Each channel (axis 1) normalised with the batch's statistics in training, else with the running ones.

    In training the running statistics move towards the batch's (variance unbiased) by `momentum`, in place.
    """
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when training=False")
        return normalized(input, running_mean, running_var, weight, bias, eps)
    axes_ = (0, *range(2, input.ndim))
    count = prod(input.array.shape[d] for d in axes_)
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}"
        )
    batch_mean, batch_var = mean(input, axes_), var(input, axes_, correction=0)
    if running_mean is not None and running_var is not None:
        with no_grad():
            running_mean.mul_(1 - momentum).add_(batch_mean.detach(), alpha=momentum)
            unbiased = batch_var.detach() * count / (count - 1)  # tensor by size: a recorded size stays free
            running_var.mul_(1 - momentum).add_(unbiased, alpha=momentum)
    return normalized(input, batch_mean, batch_var, weight, bias, eps)


def normalized(
    input: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    if weight is None and bias is not None:
        weight = bias.new_ones(bias.array.shape)
    affine = [p for p in (weight, bias) if p is not None]
    return labelled(apply(BATCH_NORM, input, mean, var, *affine, eps=float(eps)), "NativeBatchNorm")


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Each channel of each sample normalised over its own plane."""
    c = input.array.shape[1]
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    return group_norm(input, c, weight, bias, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Groups of channels of each sample normalised together, then scaled and shifted channel by channel."""
    shape = input.array.shape
    if shape[1] % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(map(int, shape))} and num_groups={num_groups}"
        )
    rest = prod(shape[2:])
    grouped = reshape(input, (shape[0] * num_groups, shape[1] // num_groups * rest))
    out = reshape(apply(LAYER_NORM, grouped, ndim=1, eps=float(eps)), shape)
    per_channel = (shape[1], *(1,) * (input.ndim - 2))
    out = out if weight is None else out * reshape(weight, per_channel)
    return labelled(out if bias is None else out + reshape(bias, per_channel), "NativeGroupNorm")


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha · mean of squares over `size` neighbouring channels) ** beta."""
    n, c = input.array.shape[:2]
    square = reshape(input * input, (n, 1, c, prod(input.array.shape[2:])))
    square = pad_axes(square, (0, 0, size // 2, 0), (0, 0, (size - 1) // 2, 0))
    near = reshape(avg_pool2d(square, (size, 1), stride=1), input.array.shape)
    return input / (near * alpha + k) ** beta


# ---- dropout -----------------------------------------------------------------------------------------------


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training each element is zero with probability p, and else scaled by 1 / (1 - p)."""
    check_probability(p)
    if not training or p == 0:
        return input
    x = input._alias() if inplace else input
    out = mul(x, 0.0) if p == 1 else apply(DROPOUT, x, dropout_key(input.array.shape), p=float(p))
    return write(input, out) if inplace else out


def check_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout_key(shape: Any) -> Tensor:
    return default_generator.take(-(-prod(shape) // 2))


def feature_dropout(input: Tensor, p: float, training: bool, spatial: int) -> Tensor:
    """Whole channels dropped: one draw for each, the trailing `spatial` axes share it."""
    check_probability(p)
    if not training or p == 0:
        return input
    shape = tuple(input.array.shape)
    lead = (*shape[: len(shape) - spatial], *(1,) * spatial)
    mask = dropout(input.new_ones(lead), p)
    return mul(input, mask)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Channels of [N, C, L] dropped whole."""
    return feature_dropout(input, p, training, 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Channels of [N, C, H, W] dropped whole."""
    return feature_dropout(input, p, training, 2)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout to the negative saturation of selu, with mean and variance kept."""
    from .creation import rand
    from .pointwise import lt

    check_probability(p)
    if not training or p == 0:
        return input
    floor = -1.7580993408473766
    scale = 1 / sqrt((1 - p) * (1 + p * floor * floor))
    dropped = lt(rand(tuple(input.array.shape)), p)
    return where(dropped, floor, input) * scale - scale * p * floor


# ---- attention ---------------------------------------------------------------------------------------------


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value; query [*, L, E], key [*, S, E], value [*, S, V].

    attn_mask: bool (True takes part) or a float added to the scores. is_causal: no row sees later columns.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    if enable_gqa and query.ndim > 2:
        from .shaping import repeat_interleave

        times = query.array.shape[-3] // key.array.shape[-3]
        key, value = repeat_interleave(key, times, -3), repeat_interleave(value, times, -3)
    factor = 1 / sqrt(query.array.shape[-1]) if scale is None else float(scale)
    mask = [] if attn_mask is None else [additive(attn_mask, query)]
    if dropout_p > 0.0:
        return attention_with_dropout(query, key, value, mask, dropout_p, is_causal, factor)
    out = apply(ATTENTION, query, key, value, *mask, scale=factor, causal=bool(is_causal))
    return labelled(out, "ScaledDotProductAttention")


def additive(mask: Tensor, like: Tensor) -> Tensor:
    """A bool mask as 0 and -inf; a float one in the operands' dtype."""
    if mask.array.dtype.kind == "b":
        return masked_fill(like.new_zeros(mask.array.shape), mask.logical_not(), float("-inf"))
    return cast_to(mask, like.array.dtype)


def attention_with_dropout(
    query: Tensor, key: Tensor, value: Tensor, mask: list[Tensor], p: float, causal: bool, scale: float
) -> Tensor:
    from ..ops.statistics import attention_weights
    from . import product

    weights = attention_weights(functions(), query, key, *mask, scale=scale, causal=causal)
    return product.matmul(dropout(weights, p), value)


def functions() -> Any:
    from .. import functional

    return functional


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis."""
    x, y = pair("cosine_similarity", x1, x2)
    size = norm(x, 2, dim, keepdim=True).clamp(min=eps) * norm(y, 2, dim, keepdim=True).clamp(min=eps)
    return sum(x * y / size, dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    return norm(x1 - x2 + eps, p, -1, keepdim)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distance of every row of x1 to every row of x2."""
    return norm(unsqueeze(x1, -2) - unsqueeze(x2, -3), p, -1)


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
