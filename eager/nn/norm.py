"""Normalisation layers: BatchNorm1d, BatchNorm2d, LayerNorm, GroupNorm."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import functional as F
from ..modes import no_grad
from ..tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter


class NormBase(Module):
    """Normalises each channel (axis 1) over all other axes, then scales and shifts it.

    In training mode by the statistics of the batch, which also move the running ones by `momentum` (None: their
    plain average over all batches); in eval mode by the running ones. Input ranks: `ndims`.
    """

    _version = 2
    ndims: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        register_affine(self, num_features, affine, bias, device, dtype)
        if track_running_stats:
            self.register_buffer("running_mean", F.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", F.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", F.tensor(0, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Running mean 0 and variance 1, as before the first batch."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, and no statistics."""
        self.reset_running_stats()
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        self.check_input(input)
        mean, var = self.running_mean, self.running_var
        if self.training and self.track_running_stats:
            with no_grad():
                self.num_batches_tracked.add_(1)
                if self.momentum is None:
                    self.average_running_stats(input)
                    mean = var = None
        by_batch = self.training or mean is None
        if self.training and not self.track_running_stats:
            mean = var = None
        return F.batch_norm(
            input, mean, var, self.weight, self.bias, by_batch, self.momentum or 0.0, self.eps
        )

    def average_running_stats(self, input: Tensor) -> None:
        """Bring the batch's mean and (unbiased) variance into the average of those of all batches, in place."""
        axes = [0, *range(2, input.ndim)]
        # A tensor, not a number: a recorded step counts on.
        share = 1.0 / self.num_batches_tracked.to(self.running_mean.dtype)
        self.running_mean.add_((input.mean(axes) - self.running_mean) * share)
        self.running_var.add_((input.var(axes, unbiased=True) - self.running_var) * share)

    def check_input(self, input: Tensor) -> None:
        if input.ndim not in self.ndims:
            wanted = " or ".join(f"{n}D" for n in self.ndims)
            raise ValueError(f"expected {wanted} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # Version 1, and checkpoints of other tools, have no count of batches.
        if args[0].get("version", 1) < 2 and self.track_running_stats:
            state_dict.setdefault(f"{prefix}num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, *args)


class BatchNorm(NormBase):
    """What the batch norms of all ranks are."""


class BatchNorm1d(BatchNorm):
    """BatchNorm of (N, C) or (N, C, L)."""

    ndims = (2, 3)


class BatchNorm2d(BatchNorm):
    """BatchNorm of images (N, C, H, W)."""

    ndims = (4,)


class LayerNorm(Module):
    """Normalises over the last axes, which must have the sizes `normalized_shape`, then scales and shifts."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        register_affine(self, shape, elementwise_affine, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalises each of `num_groups` groups of channels (axis 1) of each sample, then scales and shifts."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        register_affine(self, num_channels, affine, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


def register_affine(
    module: Module, shape: int | tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any
) -> None:
    """Give a layer its scale (`weight`) and shift (`bias`); there is no shift without a scale."""
    for name, wanted in (("weight", weight), ("bias", weight and bias)):
        value = Parameter(F.empty(shape, device=device, dtype=dtype)) if wanted else None
        module.register_parameter(name, value)


def reset_affine(module: Module) -> None:
    """Scale 1, shift 0."""
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


class BatchNorm3d(BatchNorm):
    """BatchNorm of volumes (N, C, D, H, W)."""

    ndims = (5,)


class RMSNorm(Module):
    """Divides by the root mean square over the last axes, of sizes `normalized_shape`, then scales."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        weight = Parameter(F.ones(shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)

    def reset_parameters(self) -> None:
        """Scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class CrossMapLRN2d(Module):
    """x / (k + alpha * sum of squares over neighbouring channels / size) ** beta, of images.

    (size - 1) // 2 neighbours count on each side, and the first channel for all those after its neighbours too.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        half = (self.size - 1) // 2
        square, count = input * input, 2 * half + 1
        rows = F.unsqueeze(F.flatten(square, 2), 1)
        near = F.avg_pool2d(rows, (count, 1), 1, (half, 0)) * count
        late = F.reshape(F.arange(input.shape[1]) > half, (-1, 1, 1))
        total = F.reshape(near, input.shape) + square[:, :1] * late
        return input / (total * (self.alpha / self.size) + self.k) ** self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of squares over `size` neighbouring channels) ** beta."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class SyncBatchNorm(BatchNorm):
    """BatchNorm of two axes or more. There is one process, whose batch is all there is to share statistics of."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def check_input(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")
        if type(input.array.shape[1]) is int and input.array.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every BatchNorm in it replaced by one of this class, which takes its tensors over."""
        out = module
        if isinstance(module, BatchNorm):
            out = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for store in ("_parameters", "_buffers"):
                getattr(out, store).update(getattr(module, store))
            out.training = module.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


class InstanceNorm(NormBase):
    """Normalises each channel of each sample over its own plane; without a batch, input ranks one less."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self.check_input(input)
        batched = input.ndim == max(self.ndims)
        self.check_channels(input, input.ndim - max(self.ndims) + 1)
        out = F.instance_norm(
            input if batched else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum or 0.0,
            self.eps,
        )
        return out if batched else out.squeeze(0)

    def check_channels(self, input: Tensor, axis: int) -> None:
        """ValueError for channels that the layer has no parameters for; a warning where it has none at all."""
        found = input.array.shape[axis]
        if type(found) is not int or found == self.num_features:
            return
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={axis} to match num_features ({self.num_features}), but got: {found}."
            )
        warnings.warn(
            f"input's size at dim={axis} does not match num_features. You can silence this warning by not passing in "
            "num_features, which is not used because affine=False",
            stacklevel=2,
        )


class InstanceNorm1d(InstanceNorm):
    """InstanceNorm of (N, C, L) or (C, L)."""

    ndims = (2, 3)


class InstanceNorm2d(InstanceNorm):
    """InstanceNorm of (N, C, H, W) or (C, H, W)."""

    ndims = (3, 4)


class InstanceNorm3d(InstanceNorm):
    """InstanceNorm of (N, C, D, H, W) or (C, D, H, W)."""

    ndims = (4, 5)


# Under the names by which PyTorch programs ask what kind of layer they have.
_NormBase, _BatchNorm = NormBase, BatchNorm
_InstanceNorm = InstanceNorm
