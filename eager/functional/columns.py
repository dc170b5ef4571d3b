"""Windows of images as columns, and columns added up to images again."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Tensor
from .arranging import pad_axes
from .convolution import conv2d_input
from .creation import from_numpy
from .joining import cat
from .pairs import Sizes, two
from .shaping import reshape, squeeze, unsqueeze
from .slicing import slice_axes


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of [N, C, H, W] (or [C, H, W]) as columns [N, C·KH·KW, windows]."""
    if input.ndim == 3:
        return squeeze(unfold(unsqueeze(input, 0), kernel_size, dilation, padding, stride), 0)
    k, d, p, s = two(kernel_size), two(dilation), two(padding), two(stride)
    check_settings(k, d, p, s)
    if input.ndim != 4 or any(type(n) is int and n == 0 for n in input.array.shape[1:]):
        raise RuntimeError(
            f"Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(map(int, input.array.shape))}"
        )
    x = pad_axes(input, (0, 0, *p), (0, 0, *p)) if any(p) else input
    n, c = x.array.shape[:2]
    oh, ow = windows(input.array.shape[2:], k, d, p, s)
    parts = []
    for i in range(k[0]):
        for j in range(k[1]):
            starts = (0, 0, i * d[0], j * d[1])
            stops = (n, c, i * d[0] + s[0] * (oh - 1) + 1, j * d[1] + s[1] * (ow - 1) + 1)
            parts.append(unsqueeze(slice_axes(x, starts, stops, (1, 1, s[0], s[1])), 2))
    return reshape(cat(parts, 2), (n, c * k[0] * k[1], oh * ow))


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Columns [N, C·KH·KW, windows] (or without N) added up where windows overlap: the adjoint of unfold."""
    if input.ndim == 2:
        return squeeze(fold(unsqueeze(input, 0), output_size, kernel_size, dilation, padding, stride), 0)
    size, k, d, p, s = two(output_size), two(kernel_size), two(dilation), two(padding), two(stride)
    check_settings(k, d, p, s)
    area = k[0] * k[1]
    if input.ndim != 3 or any(type(n) is int and n == 0 for n in input.array.shape[1:]):
        raise RuntimeError(
            f"Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(map(int, input.array.shape))}"
        )
    if input.array.shape[1] % area:
        raise RuntimeError(
            f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={int(input.array.shape[1])} and kernel_size={k}"
        )
    n, rows, count = input.array.shape
    oh, ow = windows(size, k, d, p, s)
    if oh * ow != count:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={k}, dilation={d}, padding={p}, stride={s}, expected size of "
            f"input's dimension 2 to match the calculated number of sliding blocks {int(oh)} * {int(ow)} = "
            f"{int(oh * ow)}, but got input.size(2)={int(count)}"
        )
    channels = rows // area
    one_each = np.tile(np.eye(area, dtype=input.array.dtype).reshape(area, 1, *k), (channels, 1, 1, 1))
    columns = reshape(input, (n, rows, oh, ow))
    return conv2d_input(
        columns, from_numpy(one_each), size=size, stride=s, padding=p, dilation=d, groups=channels
    )


def windows(size: Any, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> list[int]:
    """Windows along each axis. RuntimeError where there is none."""
    out = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
    ]
    if min(out) < 1:
        raise RuntimeError(
            f"Given an image of size {tuple(map(int, size))}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, stride={stride}, calculated shape of the array of sliding blocks as "
            f"{tuple(map(int, out))}, but its components must be at least one"
        )
    return out


def check_settings(kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> None:
    """RuntimeError for sizes that no window has."""
    for name, values in (("kernel", kernel), ("dilation", dilation), ("stride", stride)):
        if min(values) <= 0:
            raise RuntimeError(f"{name} should be greater than zero, but got {values}")
    if min(padding) < 0:
        raise RuntimeError(f"padding should be non-negative, but got {padding}")
