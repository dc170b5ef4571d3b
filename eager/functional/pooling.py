"""Pooling over windows along one and two axes."""

from __future__ import annotations

from typing import Any

from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor
from .arranging import pad_axes
from .functions import trunc
from .pairs import Sizes, many, one, two
from .shaping import squeeze, unsqueeze

MAX_POOL, MAX_BACK, MAX_AT = TABLE["max_pool2d"], TABLE["max_pool2d_backward"], TABLE["max_pool2d_indices"]
AVG_POOL, AVG_BACK = TABLE["avg_pool2d"], TABLE["avg_pool2d_backward"]


def batched(function: Any, input: Tensor, *args: Any) -> Any:
    """A function of a batch [N, C, …] applied to one sample [C, …]."""
    out = function(unsqueeze(input, 0), *args)
    return tuple(squeeze(o, 0) for o in out) if isinstance(out, tuple) else squeeze(out, 0)


def steps(stride: Any, kernel: Sizes) -> Sizes:
    """The strides of a pooling: its windows lie side by side unless told otherwise."""
    given = stride is not None and (isinstance(stride, int) or len(stride))
    return many(stride, len(kernel), "stride") if given else kernel


def check_windows(
    name: str, x: Tensor, axes: int, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> None:
    """RuntimeError for an input without the axes or elements, or settings that no pooling has."""
    sizes = x.array.shape
    if x.ndim not in (axes + 1, axes + 2) or any(
        type(n) is int and n == 0 for n in sizes[x.ndim - axes - 1 :]
    ):
        raise RuntimeError(
            f"{name}: Expected {axes + 1}D or {axes + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got: {list(map(int, sizes))}"
        )
    for what, values in (("kernel size", kernel), ("stride", stride), ("dilation", dilation)):
        if min(values) <= 0:
            raise RuntimeError(f"{name}: {what} must be greater than zero, but got {values}")
    if min(padding) < 0:
        raise RuntimeError(f"{name}: pad must be non-negative, but got pad: {padding}")
    if any(p > (d * (k - 1) + 1) // 2 for p, k, d in zip(padding, kernel, dilation, strict=True)):
        raise RuntimeError(
            f"{name}: pad should be at most half of effective kernel size, but got pad={padding}, kernel_size={kernel} "
            f"and dilation={dilation}"
        )


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
    kernel = two(kernel_size, "kernel_size")
    attrs = {
        "kernel": kernel,
        "stride": steps(stride, kernel),
        "padding": two(padding, "padding"),
        "dilation": two(dilation, "dilation"),
    }
    check_windows("max_pool2d", input, 2, kernel, attrs["stride"], attrs["padding"], attrs["dilation"])
    if input.ndim == 3:
        return batched(max_pool2d, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
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
    """The maximum of each window of the last axis; return_indices adds its position there."""
    k, p, d = one(kernel_size), one(padding), one(dilation)
    (s,) = steps(stride, (k,))
    check_windows("max_pool1d", input, 1, (k,), (s,), (p,), (d,))
    out = max_pool2d(unsqueeze(input, -2), (1, k), (1, s), (0, p), (1, d), ceil_mode, return_indices)
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
    kernel = two(kernel_size, "kernel_size")
    attrs: dict[str, Any] = {
        "kernel": kernel,
        "stride": steps(stride, kernel),
        "padding": two(padding, "padding"),
    }
    check_windows("avg_pool2d", input, 2, kernel, attrs["stride"], attrs["padding"], (1, 1))
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    if input.ndim == 3:
        return batched(
            avg_pool2d, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )
    if input.array.dtype.kind in "iu":  # PyTorch divides whole sums, towards zero
        wide = input.double()
        out = avg_pool2d(wide, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return trunc(out).to(input.dtype)
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
    k, p = one(kernel_size), one(padding)
    (s,) = steps(stride, (k,))
    check_windows("avg_pool1d", input, 1, (k,), (s,), (p,), (1,))
    out = avg_pool2d(unsqueeze(input, -2), (1, k), (1, s), (0, p), ceil_mode, count_include_pad)
    return squeeze(out, -2)
