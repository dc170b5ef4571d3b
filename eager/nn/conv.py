"""Convolution layers along one, two and three axes, and the transposed ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import functional as F
from ..functional.pairs import Sizes, many
from ..tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class ConvNd(Module):
    """What the layers share. `axes`: along how many they run; `weight` is (out, in / groups, *kernel_size), of the
    transposed ones (in, out / groups, *kernel_size). Weight and bias start uniform within
    1/sqrt(weight.shape[1] * the kernel's elements)."""

    axes: ClassVar[int]
    transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.check(in_channels, out_channels, groups, padding, stride, padding_mode)
        super().__init__()
        n = self.axes
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = many(kernel_size, n), many(stride, n)
        self.dilation, self.output_padding = many(dilation, n), many(output_padding, n)
        self.padding: str | Sizes = padding if isinstance(padding, str) else many(padding, n)
        self.padding_mode = padding_mode
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        self.weight = Parameter(F.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(F.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def check(
        self, in_channels: int, out_channels: int, groups: int, padding: Any, stride: Any, padding_mode: str
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
        if padding == "same" and max(many(stride, self.axes)) > 1:
            raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {set(PADDING_MODES)}, but got padding_mode='{padding_mode}'"
            )
        if self.transposed and padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            init.default_bias_(self.bias, self.weight)

    def extra_repr(self) -> str:
        n = self.axes
        parts = [f"{self.in_channels}, {self.out_channels}"]
        parts += [f"kernel_size={self.kernel_size}, stride={self.stride}"]
        parts += [f"padding={self.padding}"] if self.padding != (0,) * n else []
        parts += [f"dilation={self.dilation}"] if self.dilation != (1,) * n else []
        parts += [f"output_padding={self.output_padding}"] if self.output_padding != (0,) * n else []
        parts += [f"groups={self.groups}"] if self.groups != 1 else []
        parts += ["bias=False"] if self.bias is None else []
        parts += [f"padding_mode={self.padding_mode}"] if self.padding_mode != "zeros" else []
        return ", ".join(parts)


class Forward(ConvNd):
    """A cross-correlation. `padding`: zeros (or what `padding_mode` says) on each side, "valid" (none) or "same" (as
    many as keep the size; needs stride 1). `groups` splits the channels; both counts must be divisible by it."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            0,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        return self.convolve(input, self.weight, self.bias)

    def convolve(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The layer's convolution with a weight and bias of the caller's."""
        function = (F.conv1d, F.conv2d, F.conv3d)[self.axes - 1]
        if self.padding_mode == "zeros":
            return function(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self.sides(), self.padding_mode)
        return function(padded, weight, bias, self.stride, 0, self.dilation, self.groups)

    def sides(self) -> list[int]:
        """The padding as nn.functional.pad has it: (before, after) of the last axis first."""
        if self.padding == "valid":
            return [0] * (2 * self.axes)
        if self.padding == "same":
            total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            both = [(n // 2, n - n // 2) for n in total]
        else:
            both = [(n, n) for n in self.padding if isinstance(n, int)]
        return [n for pair in reversed(both) for n in pair]


class Conv1d(Forward):
    """Cross-correlation of sequences (N, in_channels, L) or (in_channels, L) with `out_channels` kernels."""

    axes = 1


class Conv2d(Forward):
    """Cross-correlation of images (N, in_channels, H, W) or (in_channels, H, W) with `out_channels` kernels."""

    axes = 2


class Conv3d(Forward):
    """Cross-correlation of volumes (N, in_channels, D, H, W), or without N, with `out_channels` kernels."""

    axes = 3


class Transposed(ConvNd):
    """The adjoint of a convolution of the same settings. `output_padding` elements are added at the end of each axis,
    of which several sizes lead to the same input; `output_size` at a call chooses them."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.axes - 1]
        extra = self.output_padding if output_size is None else self.extra(input, output_size)
        return function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def extra(self, input: Tensor, output_size: Sequence[int]) -> Sizes:
        """The output padding that leads to a size. ValueError for one that none leads to."""
        n = self.axes
        wanted = tuple(output_size)[-n:]
        if len(output_size) not in (n, input.ndim):
            raise ValueError(
                f"ConvTranspose{n}D: for {input.ndim}D input, output_size must have {n} or {input.ndim} elements "
                f"(got {len(output_size)})"
            )
        padding = many(self.padding, n)
        least = [
            (size - 1) * s - 2 * p + d * (k - 1) + 1
            for size, s, p, d, k in zip(
                input.shape[-n:], self.stride, padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        most = [m + s - 1 for m, s in zip(least, self.stride, strict=True)]
        if not all(low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"requested an output size of {tuple(output_size)}, but valid sizes range from {least} to {most} (for "
                f"an input of {tuple(input.shape[2:])})"
            )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))


class ConvTranspose1d(Transposed):
    """The transposed convolution of sequences (N, in_channels, L) or (in_channels, L)."""

    axes = 1


class ConvTranspose2d(Transposed):
    """The transposed convolution of images (N, in_channels, H, W) or (in_channels, H, W)."""

    axes = 2


class ConvTranspose3d(Transposed):
    """The transposed convolution of volumes (N, in_channels, D, H, W), or without N."""

    axes = 3


# Under the names by which PyTorch programs ask what kind of layer they have.
_ConvNd = ConvNd
_ConvTransposeNd = Transposed
