"""Pooling layers over the last one, two or three axes of (N, C, …) or (C, …)."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import functional as F
from ..functional.pairs import many
from ..functional.pooling import steps
from ..tensor import Tensor
from .module import Module


class MaxPool(Module):
    """The largest element of each window; the step is the window's size unless `stride` is given.

    `return_indices`: also where each was, for MaxUnpool. `ceil_mode`: windows may begin inside and end outside.
    """

    function: ClassVar[Any]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        return self.function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(MaxPool):
    """The largest element of each window of sequences."""

    function = staticmethod(F.max_pool1d)


class MaxPool2d(MaxPool):
    """The largest element of each window of images."""

    function = staticmethod(F.max_pool2d)


class MaxPool3d(MaxPool):
    """The largest element of each window of volumes."""

    function = staticmethod(F.max_pool3d)


class MaxUnpool(Module):
    """Zeros with what a MaxPool of the same settings gave, each element where it was."""

    axes: ClassVar[int]
    function: ClassVar[Any]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = many(kernel_size, self.axes)
        self.stride, self.padding = steps(stride, self.kernel_size), many(padding, self.axes)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        out: Tensor = self.function(input, indices, self.kernel_size, self.stride, self.padding, output_size)
        return out

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(MaxUnpool):
    """MaxPool1d back."""

    axes, function = 1, staticmethod(F.max_unpool1d)


class MaxUnpool2d(MaxUnpool):
    """MaxPool2d back."""

    axes, function = 2, staticmethod(F.max_unpool2d)


class MaxUnpool3d(MaxUnpool):
    """MaxPool3d back."""

    axes, function = 3, staticmethod(F.max_unpool3d)


class AvgPool1d(Module):
    """The mean of each window of sequences; the step is the window's size unless `stride` is given."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = many(kernel_size, 1)
        self.stride, self.padding = steps(stride, self.kernel_size), many(padding, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(Module):
    """The mean of each window of images; the step is the window's size unless `stride` is given."""

    function: ClassVar[Any] = staticmethod(F.avg_pool2d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = self.function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )
        return out

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool3d(AvgPool2d):
    """The mean of each window of volumes; the step is the window's size unless `stride` is given."""

    function = staticmethod(F.avg_pool3d)


class LPPool(Module):
    """The `norm_type`-th root of the sum of powers of each window."""

    function: ClassVar[Any]

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride = norm_type, kernel_size, stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = self.function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )
        return out

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(LPPool):
    """Power-average pooling of sequences."""

    function = staticmethod(F.lp_pool1d)


class LPPool2d(LPPool):
    """Power-average pooling of images."""

    function = staticmethod(F.lp_pool2d)


class LPPool3d(LPPool):
    """Power-average pooling of volumes."""

    function = staticmethod(F.lp_pool3d)


class AdaptiveAvgPool(Module):
    """Means over windows chosen so that the output is `output_size`; None keeps an axis as it is."""

    function: ClassVar[Any]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = self.function(input, self.output_size)
        return out

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(AdaptiveAvgPool):
    """Means over `output_size` windows of sequences."""

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(AdaptiveAvgPool):
    """Means over windows of images, as many as `output_size` along each axis."""

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(AdaptiveAvgPool):
    """Means over windows of volumes, as many as `output_size` along each axis."""

    function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool(Module):
    """Maxima over windows chosen so that the output is `output_size`; `return_indices`: also where each was."""

    function: ClassVar[Any]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return self.function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(AdaptiveMaxPool):
    """Maxima over `output_size` windows of sequences."""

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(AdaptiveMaxPool):
    """Maxima over windows of images, as many as `output_size` along each axis."""

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(AdaptiveMaxPool):
    """Maxima over windows of volumes, as many as `output_size` along each axis."""

    function = staticmethod(F.adaptive_max_pool3d)


class FractionalMaxPool(Module):
    """Maxima over windows a random step apart, so that the output is `output_size` or `output_ratio` of the input."""

    axes: ClassVar[int]
    function: ClassVar[Any]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            given = "only one of output_size and output_ratio may be specified"
            missing = "requires specifying either an output size, or a pooling ratio"
            raise ValueError(f"{type(self).__name__} {missing}" if output_size is None else given)
        n = self.axes
        self.kernel_size, self.return_indices = many(kernel_size, n), return_indices
        self.output_size = None if output_size is None else many(output_size, n)
        self.output_ratio = (output_ratio,) * n if isinstance(output_ratio, float) else output_ratio
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        return self.function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


class FractionalMaxPool2d(FractionalMaxPool):
    """Fractional max pooling of images."""

    axes, function = 2, staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(FractionalMaxPool):
    """Fractional max pooling of volumes."""

    axes, function = 3, staticmethod(F.fractional_max_pool3d)


# Under the names by which PyTorch programs ask what kind of layer they have.
_MaxPoolNd = MaxPool
_AdaptiveAvgPoolNd = AdaptiveAvgPool
_AdaptiveMaxPoolNd = AdaptiveMaxPool
