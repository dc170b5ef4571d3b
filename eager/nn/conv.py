"""Convolution layers."""

from __future__ import annotations

import math
from typing import Any

from .. import functional as F
from ..functional.pairs import two
from ..tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter

Size2 = int | tuple[int, int]


class Conv2d(Module):
    """Cross-correlation of images (N, in_channels, H, W) with `out_channels` kernels; (C, H, W) works too.

    `padding`: zeros around the image, or "valid" (none) or "same" (as many as keep the size; needs stride 1).
    `groups` splits the channels; both channel counts must be divisible by it. Weight and bias start uniform
    within 1/sqrt(in_channels / groups * kernel height * kernel width).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size2,
        stride: Size2 = 1,
        padding: str | Size2 = 0,
        dilation: Size2 = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        check(in_channels, out_channels, groups, padding, stride, padding_mode)
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = two(kernel_size), two(stride), two(dilation)
        self.padding = padding if isinstance(padding, str) else two(padding)
        self.padding_mode = padding_mode
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(F.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(F.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            init.default_bias_(self.bias, self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}"]
        parts += [f"kernel_size={self.kernel_size}, stride={self.stride}"]
        parts += [f"padding={self.padding}"] if self.padding != (0, 0) else []
        parts += [f"dilation={self.dilation}"] if self.dilation != (1, 1) else []
        parts += [f"groups={self.groups}"] if self.groups != 1 else []
        parts += ["bias=False"] if self.bias is None else []
        return ", ".join(parts)


def check(
    in_channels: int, out_channels: int, groups: int, padding: str | Size2, stride: Size2, padding_mode: str
) -> None:
    """ValueError for settings that no convolution has."""
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str) and padding not in ("same", "valid"):
        raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}")
    if padding == "same" and two(stride) != (1, 1):
        raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode != "zeros":
        raise ValueError(
            f"padding_mode must be 'zeros', the one mode of Conv2d here, but got padding_mode={padding_mode!r}; "
            "for others pad the input before the layer"
        )
