"""Losses of predicted values and probabilities. `reduction` is "mean", "sum" or "none" throughout."""

from __future__ import annotations

import warnings
from math import log as _log, pi
from typing import Any

from ..tape import labelled
from ..tensor import Tensor
from .activation import logsigmoid
from .base import known_now
from .pointwise import abs, clamp, exp, log, neg, where, xlogy
from .reduction import mean, sum
from .shaping import broadcast_tensors, unsqueeze

NO_REDUCTION = "{} is not a valid value for reduction; it is 'mean', 'sum' or 'none'"


def reduced(loss: Tensor, reduction: str, label: str = "") -> Tensor:
    """A loss per element as the mean, the sum, or as it is."""
    if reduction == "mean":
        out = mean(loss)
    elif reduction == "sum":
        out = sum(loss)
    elif reduction == "none":
        out = loss
    else:
        raise ValueError(NO_REDUCTION.format(reduction))
    return labelled(out, label) if label else out


def legacy(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction, which two deprecated flags used to give; ValueError for a name that is none."""
    if size_average is None and reduce is None:
        if reduction not in ("mean", "sum", "none", "batchmean"):
            raise ValueError(NO_REDUCTION.format(reduction))
        return reduction
    if isinstance(size_average, str):
        raise ValueError(
            f"size_average={size_average!r} is not a valid value for reduction by its old flag; name it: "
            f"reduction={size_average!r}"
        )
    kind = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{kind}' instead.",
        stacklevel=3,
    )
    return kind


def same_size(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Operands broadcast to one shape, with a warning where that changes one: it is seldom meant."""
    if tuple(input.array.shape) == tuple(target.array.shape):
        return input, target
    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) in {name}. This "
        "will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        stacklevel=3,
    )
    x, t = broadcast_tensors(input, target)
    return x, t


def weighted(loss: Tensor, weight: Tensor | None, input: Tensor, reduction: str, label: str) -> Tensor:
    """Reduced, each element times its weight; the mean is over the sum of the weights."""
    if weight is None:
        return reduced(loss, reduction, label)
    loss = checked_weights(loss, weight, input)
    if reduction == "mean":
        return sum(loss) / sum(weight)
    return reduced(loss, reduction)


def checked_weights(loss: Tensor, weight: Tensor, input: Tensor) -> Tensor:
    if tuple(weight.array.shape) != tuple(input.array.shape):
        raise ValueError(
            f"Weights and input must have the same size, got {list(weight.shape)} and {list(input.shape)}."
        )
    return loss * weight


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(x - t)²."""
    reduction = legacy(size_average, reduce, reduction)
    x, t = same_size("mse_loss", input, target)
    difference = x - t
    return weighted(difference * difference, weight, input, reduction, "MseLoss")


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|x - t|."""
    reduction = legacy(size_average, reduce, reduction)
    x, t = same_size("l1_loss", input, target)
    return weighted(abs(x - t), weight, input, reduction, "")


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """(x - t)² / 2β where |x - t| < β, else |x - t| - β/2."""
    reduction = legacy(size_average, reduce, reduction)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}.")
    if beta == 0:
        return l1_loss(input, target, None, None, reduction)
    x, t = same_size("smooth_l1_loss", input, target)
    size = abs(x - t)
    return reduced(
        where(size < beta, size * size * (0.5 / beta), size - 0.5 * beta), reduction, "SmoothL1Loss"
    )


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """(x - t)² / 2 where |x - t| <= δ, else δ·(|x - t| - δ/2)."""
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}.")
    x, t = same_size("huber_loss", input, target)
    size = abs(x - t)
    loss = where(size <= delta, size * size * 0.5, (size - 0.5 * delta) * delta)
    return reduced(loss if weight is None else checked_weights(loss, weight, input), reduction, "HuberLoss")


# ---- probabilities -----------------------------------------------------------------------------------------


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t·log x + (1 - t)·log(1 - x)), the logarithms kept above -100."""
    reduction = legacy(size_average, reduce, reduction)
    if tuple(input.array.shape) != tuple(target.array.shape):
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    loss = neg(target * clamp(log(input), min=-100.0) + (1 - target) * clamp(log(1 - input), min=-100.0))
    return reduced(loss if weight is None else loss * weight, reduction, "BinaryCrossEntropy")


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(input), from the logits and without overflow."""
    reduction = legacy(size_average, reduce, reduction)
    if tuple(input.array.shape) != tuple(target.array.shape):
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    if pos_weight is None:
        loss = (1 - target) * input - logsigmoid(input)
    else:
        loss = (1 - target) * input - (1 + (pos_weight - 1) * target) * logsigmoid(input)
    return reduced(loss if weight is None else loss * weight, reduction, "BinaryCrossEntropyWithLogits")


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """t · (log t - x), x the logarithms of probabilities; reduction "batchmean" divides the sum by the batch."""
    reduction = legacy(size_average, reduce, reduction)
    loss = exp(target) * (target - input) if log_target else xlogy(target, target) - target * input
    if reduction == "batchmean":
        return sum(loss) / (input.array.shape[0] if input.ndim else 1)
    return reduced(loss, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(x) - t·x for log_input, else x - t·log(x + eps); full adds Stirling's term where t > 1."""
    reduction = legacy(size_average, reduce, reduction)
    loss = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        stirling = target * log(target) - target + 0.5 * log(target * (2 * pi))
        loss = loss + where(target > 1, stirling, 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log var + (x - t)² / var) / 2, var kept above eps (without a gradient for that).

    var: a number, or a tensor of the input's shape, perhaps with its last axis or one axis less or of size 1.
    """
    spread = checked_variance(input, var)
    spread = spread + (clamp(spread.detach(), min=eps) - spread.detach())
    loss = 0.5 * (log(spread) + (input - target) ** 2 / spread)
    return reduced(loss + 0.5 * _log(2 * pi) if full else loss, reduction)


def checked_variance(input: Tensor, var: Any) -> Tensor:
    """The variances, to be broadcast with the input."""
    if not isinstance(var, Tensor):
        var = input.new_full(input.array.shape, var)
    known = known_now(var)
    if known is not None and (known < 0).any():
        raise ValueError("gaussian_nll_loss: var has negative entry/entries")
    wanted, got = tuple(input.array.shape), tuple(var.array.shape)
    if got == wanted:
        return var
    if got == wanted[:-1]:
        return unsqueeze(var, -1)
    if len(got) != len(wanted) or [m for n, m in zip(wanted, got, strict=True) if n != m] != [1]:
        raise ValueError(
            f"gaussian_nll_loss: var is of incorrect size {list(got)} for an input of {list(wanted)}"
        )
    return var
