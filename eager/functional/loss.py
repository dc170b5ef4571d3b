"""Losses. `reduction` is "mean", "sum" or "none" throughout."""

from __future__ import annotations

from math import log as _log, pi
from typing import Any

from ..tape import labelled
from ..tensor import Tensor
from .activation import logsigmoid
from .base import known_now
from .indexing import gather, int64_index
from .pointwise import abs, cast, clamp, exp, log, maximum, neg, where, xlogy
from .reduction import log_softmax, mean, sum
from .shaping import broadcast_tensors, reshape, squeeze, unsqueeze


def reduced(loss: Tensor, reduction: str, label: str = "") -> Tensor:
    """A loss per element as the mean, the sum, or as it is."""
    if reduction == "mean":
        out = mean(loss)
    elif reduction == "sum":
        out = sum(loss)
    elif reduction == "none":
        out = loss
    else:
        raise ValueError(f"{reduction} is not a valid value for reduction; it is 'mean', 'sum' or 'none'")
    return labelled(out, label) if label else out


def same_size(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Operands broadcast to one shape, with a warning where that changes one: it is seldom meant."""
    if tuple(input.array.shape) == tuple(target.array.shape):
        return input, target
    import warnings

    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) in {name}. This "
        "will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        stacklevel=3,
    )
    x, t = broadcast_tensors(input, target)
    return x, t


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(x - t)²."""
    x, t = same_size("mse_loss", input, target)
    difference = x - t
    loss = difference * difference
    return reduced(loss if weight is None else loss * weight, reduction, "MseLoss")


def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|x - t|."""
    x, t = same_size("l1_loss", input, target)
    loss = abs(x - t)
    return reduced(loss if weight is None else loss * weight, reduction)


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """(x - t)² / 2β where |x - t| < β, else |x - t| - β/2."""
    if beta == 0:
        return l1_loss(input, target, reduction)
    x, t = same_size("smooth_l1_loss", input, target)
    size = abs(x - t)
    return reduced(
        where(size < beta, size * size * (0.5 / beta), size - 0.5 * beta), reduction, "SmoothL1Loss"
    )


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """(x - t)² / 2 where |x - t| <= δ, else δ·(|x - t| - δ/2)."""
    x, t = same_size("huber_loss", input, target)
    size = abs(x - t)
    return reduced(
        where(size <= delta, size * size * 0.5, (size - 0.5 * delta) * delta), reduction, "HuberLoss"
    )


# ---- classification ----------------------------------------------------------------------------------------


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target], input the logarithms of probabilities [N, C, …] (or [C]), target the classes [N, …].

    Targets equal to ignore_index do not count; the mean is weighted by the classes' weights.
    """
    x, t = (unsqueeze(input, 0), unsqueeze(target, 0)) if input.ndim == 1 else (input, target)
    t = checked_target("nll_loss", x, t)
    counted = t != ignore_index
    check_classes(x, t, ignore_index)
    safe = where(counted, t, 0)
    picked = neg(squeeze(gather(x, 1, unsqueeze(safe, 1)), 1))
    scale = cast(counted, x.dtype) if weight is None else where(counted, class_weights(weight, safe), 0.0)
    loss = where(counted, picked * scale if weight is not None else picked, 0.0)
    if reduction == "mean":
        return labelled(sum(loss) / sum(scale), "NllLoss")
    out = reduced(loss, reduction, "NllLoss")
    return squeeze(out, 0) if input.ndim == 1 and reduction == "none" else out


def class_weights(weight: Tensor, classes: Tensor) -> Tensor:
    from .indexing import index_axes

    return index_axes(weight, [classes], 0)


def checked_target(name: str, x: Tensor, t: Tensor) -> Tensor:
    shape, wanted = tuple(t.array.shape), (x.array.shape[0], *x.array.shape[2:])
    if shape != wanted:
        if shape and shape[0] != wanted[0]:
            raise ValueError(
                f"Expected input batch_size ({int(wanted[0])}) to match target batch_size ({int(shape[0])})."
            )
        raise RuntimeError(
            f"{name}: the target of an input {x.shape} has shape {list(map(int, wanted))}, got {t.shape}"
        )
    return int64_index(name, t)


def check_classes(x: Tensor, t: Tensor, ignore_index: int) -> None:
    """IndexError for a target that is no class of x [N, C, …], where its values are known now."""
    found = known_now(t)
    if found is not None:
        wrong = found[(found != ignore_index) & ((found < 0) | (found >= x.array.shape[1]))]
        if wrong.size:
            raise IndexError(f"Target {wrong[0]} is out of bounds.")


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target] for logits [N, C, …] (or [C]); target: classes [N, …], or probabilities like input.

    label_smoothing mixes the target with the uniform distribution.
    """
    along = 0 if input.ndim == 1 else 1
    logp = log_softmax(input, along)
    if tuple(target.array.shape) == tuple(input.array.shape) and target.array.dtype.kind not in "biu":
        return soft_cross_entropy(logp, target, weight, reduction, label_smoothing, along)
    if not label_smoothing:
        return nll_loss(logp, target, weight, None, ignore_index, None, reduction)
    return smoothed_cross_entropy(logp, target, weight, ignore_index, reduction, label_smoothing)


def soft_cross_entropy(
    logp: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float, along: int
) -> Tensor:
    """The target is a distribution."""
    classes = logp.array.shape[along]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    if weight is not None:
        target = target * reshape(weight, (classes, *(1,) * (logp.ndim - along - 1)))
    loss = neg(sum(logp * target, along))
    if reduction == "mean":
        return sum(loss) / (loss.numel() if along else 1)
    return reduced(loss, reduction)


def smoothed_cross_entropy(
    logp: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, smoothing: float
) -> Tensor:
    """(1 - s) · nll + s / classes · the (weighted) sum over all classes."""
    x, t = (unsqueeze(logp, 0), unsqueeze(target, 0)) if logp.ndim == 1 else (logp, target)
    t = checked_target("cross_entropy", x, t)
    counted, classes = t != ignore_index, x.array.shape[1]
    check_classes(x, t, ignore_index)
    safe = where(counted, t, 0)
    spread = x if weight is None else x * reshape(weight, (classes, *(1,) * (x.ndim - 2)))
    smooth = where(counted, neg(sum(spread, 1)), 0.0)
    scale = cast(counted, x.dtype) if weight is None else where(counted, class_weights(weight, safe), 0.0)
    exact = where(counted, neg(squeeze(gather(x, 1, unsqueeze(safe, 1)), 1)) * scale, 0.0)
    loss = exact * (1 - smoothing) + smooth * (smoothing / classes)
    if reduction == "mean":
        return sum(loss) / sum(scale)
    out = reduced(loss, reduction)
    return squeeze(out, 0) if logp.ndim == 1 and reduction == "none" else out


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t·log x + (1 - t)·log(1 - x)), the logarithms kept above -100."""
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
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(input), from the logits and without overflow."""
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
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """t · (log t - x), x the logarithms of probabilities; reduction "batchmean" divides the sum by the batch."""
    loss = exp(target) * (target - input) if log_target else xlogy(target, target) - target * input
    if reduction == "batchmean":
        return sum(loss) / input.array.shape[0]
    return reduced(loss, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(x) - t·x for log_input, else x - t·log(x + eps); full adds Stirling's term where t > 1."""
    loss = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        stirling = target * log(target) - target + 0.5 * log(target * (2 * pi))
        loss = loss + where(target > 1, stirling, 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log var + (x - t)² / var) / 2, var kept above eps (without a gradient for that)."""
    spread = var if isinstance(var, Tensor) else input.new_full(input.array.shape, var)
    spread = maximum(spread, spread.new_full((), eps))
    loss = 0.5 * (log(spread) + (input - target) ** 2 / spread)
    return reduced(loss + 0.5 * _log(2 * pi) if full else loss, reduction)


# ---- ranking and embedding ---------------------------------------------------------------------------------


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -t·(x1 - x2) + margin)."""
    return reduced(clamp(neg(target) * (input1 - input2) + margin, min=0.0), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """x where t is 1, max(0, margin - x) where it is -1."""
    return reduced(where(target == 1, input, clamp(margin - input, min=0.0)), reduction)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Tensor:
    """log(1 + exp(-t·x))."""
    from .pointwise import log1p

    return reduced(log1p(exp(neg(target) * input)), reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where t is 1, max(0, cos - margin) where it is -1."""
    from .attention import cosine_similarity

    near = cosine_similarity(input1, input2, -1)
    return reduced(where(target == 1, 1 - near, clamp(near - margin, min=0.0)), reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
    from .attention import pairwise_distance
    from .pointwise import minimum

    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(clamp(pairwise_distance(anchor, positive, p, eps) - far + margin, min=0.0), reduction)
