"""Convolutions, their adjoints, and what pads them."""

from __future__ import annotations

from typing import Any

from ..ops.table import TABLE
from ..tape import apply, labelled
from ..tensor import Tensor
from .arranging import pad_axes
from .pairs import Pair, one, two
from .shaping import reshape, squeeze, unsqueeze

CONV2D = TABLE["conv2d"]
CONV2D_INPUT, CONV2D_WEIGHT = TABLE["conv2d_input"], TABLE["conv2d_weight"]


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
