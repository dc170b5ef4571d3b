"""Normalisation over axes, channels and groups."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..modes import no_grad
from ..ops.table import TABLE
from ..ops.types import DTYPES
from ..tape import apply, labelled
from ..tensor import Tensor
from .arranging import pad_axes
from .base import cast_to
from .pooling import avg_pool2d
from .reduction import mean, var
from .shaping import reshape

LAYER_NORM, BATCH_NORM = TABLE["layer_norm"], TABLE["batch_norm"]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Zero mean and unit variance over the last axes, of sizes normalized_shape, then scaled and shifted."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, but got normalized_shape = []"
        )
    if tuple(input.array.shape[input.ndim - len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(map(int, shape))}, expected input with shape [*, "
            f"{', '.join(str(int(n)) for n in shape)}], but got input of size{list(map(int, input.array.shape))}"
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and tuple(p.array.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(p.array.shape)} and normalized_shape = {list(map(int, shape))}"
            )
    check_parameters(input, None, {"weight": weight, "bias": bias})
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

    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but "
            "got normalized_shape = []"
        )
    if tuple(input.array.shape[max(input.ndim - len(shape), 0) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(map(int, shape))}, expected input with shape [*, "
            f"{', '.join(str(int(n)) for n in shape)}], but got input of size{list(map(int, input.array.shape))}"
        )
    axes_ = tuple(range(-len(shape), 0))
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
    if input.ndim == 1 and input.array.shape[0] == 0:
        return input.clone()
    named = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    check_parameters(input, input.array.shape[1], named)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                f"running_{'mean' if running_mean is None else 'var'} must be defined in evaluation mode"
            )
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


def check_parameters(x: Tensor, channels: Any, named: dict[str, Tensor | None]) -> None:
    """RuntimeError for a parameter that does not have one element a channel, or a dtype that does not go with x's.

    Float parameters go with an input of half precision, else all have one dtype.
    """
    given = {name: p for name, p in named.items() if p is not None}
    for name, p in given.items():
        if type(channels) is int and p.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {p.numel()}")
    if all(p.array.dtype == x.array.dtype for p in given.values()):
        return
    if any(p.array.dtype != DTYPES["float32"] for p in given.values()):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    if x.array.dtype.itemsize != 2:
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


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
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "Expected running_mean and running_var to be defined when use_input_stats is false"
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    shape = input.array.shape
    if (
        type(shape[0]) is int and type(shape[1]) is int
    ):  # PyTorch sees each sample's channels as channels of their own
        for name, p in (
            ("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)
        ):  # fmt: skip
            if p is not None and p.numel() != shape[1]:
                raise RuntimeError(
                    f"{name} should contain {shape[0] * shape[1]} elements not {shape[0] * p.numel()}"
                )
    if prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    if running_mean is not None and running_var is not None:
        axes_ = tuple(range(2, input.ndim))
        with no_grad():
            for running, plane in ((running_mean, mean(input, axes_)), (running_var, var(input, axes_))):
                running.mul_(1 - momentum).add_(mean(plane.detach(), 0), alpha=momentum)
    return group_norm(input, shape[1], weight, bias, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Groups of channels of each sample normalised together, then scaled and shifted channel by channel."""
    shape = input.array.shape
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    if shape[1] % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(map(int, shape))} and num_groups={num_groups}"
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and tuple(p.array.shape) != (shape[1],):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(p.array.shape)} and input of shape {list(map(int, shape))}"
            )
    check_parameters(input, None, {"weight": weight, "bias": bias})
    rest = prod(shape[2:])
    grouped = reshape(input, (shape[0] * num_groups, shape[1] // num_groups * rest))
    out = reshape(apply(LAYER_NORM, grouped, ndim=1, eps=float(eps)), shape)
    per_channel = (shape[1], *(1,) * (input.ndim - 2))
    out = out if weight is None else out * reshape(weight, per_channel)
    out = out if bias is None else out + reshape(bias, per_channel)
    return labelled(cast_to(out, input.array.dtype), "NativeGroupNorm")


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha · mean of squares over `size` neighbouring channels) ** beta."""
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if not input.numel():
        return input
    n, c = input.array.shape[:2]
    square = reshape(input * input, (n, 1, c, prod(input.array.shape[2:])))
    square = pad_axes(square, (0, 0, size // 2, 0), (0, 0, (size - 1) // 2, 0))
    near = reshape(avg_pool2d(square, (size, 1), stride=1), input.array.shape)
    return input / (near * alpha + k) ** beta
