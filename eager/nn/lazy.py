"""Layers that take the sizes of their parameters from their first input, and become the usual layers then."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .. import functional as F
from ..modes import no_grad
from ..tensor import Tensor
from .conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvNd,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from .linear import Linear
from .module import Module
from .norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    NormBase,
)
from .parameter import UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin(Module):
    """Before the first call's `forward`, `initialize_parameters` of the same arguments gives every lazy one a shape.

    `cls_to_become`: the class that the module has afterwards, if another. A state dict gives shapes too.
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if type(self).cls_to_become is not None or self.has_uninitialized_params():
            self._infer_parameters(args, kwargs)
        return Module.__call__(self, *args, **kwargs)  # of whatever class it is by now

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes by the input of the first call; every subclass defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer still has no shape."""
        return any(is_lazy(t) for t in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, args: Any, kwargs: Any) -> None:
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become  # type: ignore[assignment]

    def _load_value(self, name: str, key: str, value: Any, assign: bool) -> list[str]:
        mine = getattr(self, name)
        if is_lazy(mine):
            if is_lazy(value):
                return []
            with no_grad():
                mine.materialize(np.shape(value))
        return super()._load_value(name, key, value, assign)


class LazyLinear(LazyModuleMixin, Linear):
    """Linear with `in_features` from the last axis of the first input."""

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new initial values, once there are any."""
        if self.in_features and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        unknown, self.in_features = self.has_uninitialized_params(), self.in_features or input.shape[-1]
        if not unknown:
            return
        self.weight.materialize((self.out_features, self.in_features))
        if self.bias is not None:
            self.bias.materialize((self.out_features,))
        self.reset_parameters()


class LazyConvNd(LazyModuleMixin, ConvNd):
    """A convolution with `in_channels` from the first input."""

    weight: Any
    bias: Any

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        *settings: Any,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        **named: Any,
    ) -> None:
        super().__init__(0, 0, kernel_size, *settings, **(named | {"bias": False}))
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new initial values, once there are any."""
        if self.in_channels and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        unknown, self.in_channels = self.has_uninitialized_params(), self.in_channels or self.channels(input)
        if not unknown:
            return
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        first, second = self.out_channels, self.in_channels
        first, second = (second, first) if self.transposed else (first, second)
        self.weight.materialize((first, second // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def channels(self, input: Tensor) -> int:
        """Those of a batch or of one sample; RuntimeError for other ranks."""
        axes = self.axes
        if input.ndim not in (axes + 1, axes + 2):
            raise RuntimeError(
                f"Expected {axes + 1}D (unbatched) or {axes + 2}D (batched) input to {type(self).__name__}, but got "
                f"input of size: {list(input.shape)}"
            )
        return int(input.shape[input.ndim - axes - 1])


class LazyForward(LazyConvNd):
    """The arguments of the forward convolutions, `in_channels` aside."""

    def __init__(
        self,
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
            out_channels, kernel_size, stride, padding, dilation, groups,
            bias=bias, padding_mode=padding_mode, device=device, dtype=dtype,
        )  # fmt: skip


class LazyTransposed(LazyConvNd):
    """The arguments of the transposed convolutions, `in_channels` aside."""

    def __init__(
        self,
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
            out_channels, kernel_size, stride, padding, output_padding, groups,
            dilation=dilation, bias=bias, padding_mode=padding_mode, device=device, dtype=dtype,
        )  # fmt: skip


class LazyConv1d(LazyForward, Conv1d):
    """Conv1d with `in_channels` from the first input."""

    cls_to_become = Conv1d


class LazyConv2d(LazyForward, Conv2d):
    """Conv2d with `in_channels` from the first input."""

    cls_to_become = Conv2d


class LazyConv3d(LazyForward, Conv3d):
    """Conv3d with `in_channels` from the first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(LazyTransposed, ConvTranspose1d):
    """ConvTranspose1d with `in_channels` from the first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(LazyTransposed, ConvTranspose2d):
    """ConvTranspose2d with `in_channels` from the first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(LazyTransposed, ConvTranspose3d):
    """ConvTranspose3d with `in_channels` from the first input."""

    cls_to_become = ConvTranspose3d


class LazyNorm(LazyModuleMixin, NormBase):
    """A normalisation with `num_features` from axis 1 of the first input."""

    weight: Any
    bias: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            self.bias = UninitializedParameter(device=device, dtype=dtype) if bias else None
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = F.tensor(0, device=device)

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, and no statistics, once there are any."""
        if self.num_features and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(LazyNorm, BatchNorm1d):
    """BatchNorm1d with `num_features` from the first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(LazyNorm, BatchNorm2d):
    """BatchNorm2d with `num_features` from the first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(LazyNorm, BatchNorm3d):
    """BatchNorm3d with `num_features` from the first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(LazyNorm, InstanceNorm1d):
    """InstanceNorm1d with `num_features` from the first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(LazyNorm, InstanceNorm2d):
    """InstanceNorm2d with `num_features` from the first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(LazyNorm, InstanceNorm3d):
    """InstanceNorm3d with `num_features` from the first input."""

    cls_to_become = InstanceNorm3d
