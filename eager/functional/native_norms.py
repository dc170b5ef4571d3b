"""Normalisations with the statistics they used: the mean and the reciprocal standard deviation."""

from __future__ import annotations

from collections.abc import Sequence

from ..ops.arrays import is_half
from ..tensor import Tensor
from .functions import rsqrt
from .normalisation import batch_norm, group_norm, layer_norm
from .reduction import mean, var
from .shaping import reshape

Three = tuple[Tensor, Tensor, Tensor]


def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Three:
    """layer_norm, and mean and 1 / sqrt(var + eps) of each row, with axes of size 1 for those normalised."""
    axes = tuple(range(-len(normalized_shape), 0))
    return layer_norm(input, normalized_shape, weight, bias, eps), *statistics(
        input.detach(), axes, eps, True
    )


def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> Three:
    """group_norm, and mean and 1 / sqrt(var + eps) of each group: [N, group]."""
    rows = reshape(input, (N, group, C // group * HxW if group else 0))
    return group_norm(input, group, weight, bias, eps), *statistics(rows, (2,), eps, False)


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Three:
    """batch_norm, and mean and 1 / sqrt(var + eps) of each channel in training, nothing otherwise."""
    axes = (0, *range(2, input.ndim))
    found = (
        statistics(input.detach(), axes, eps, False) if training else (input.new_empty(0), input.new_empty(0))
    )
    return batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps), *found


def statistics(x: Tensor, axes: tuple[int, ...], eps: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Mean and 1 / sqrt(var + eps), the variance biased, in the dtype of x; half precision is rounded once."""
    wide = x.float() if is_half(x.array.dtype) else x
    spread = rsqrt(var(wide, axes, correction=0, keepdim=keepdim) + eps)
    return mean(wide, axes, keepdim).to(x.dtype), spread.to(x.dtype)
