"""Losses of classes: negative log-likelihood, cross-entropy, and cross-entropy of a linear layer."""

from __future__ import annotations

import warnings
from typing import Any

from ..ops.table import TABLE
from ..tape import apply, labelled
from ..tensor import Tensor
from .base import known_now
from .loss import legacy, reduced
from .pointwise import cast, neg, where
from .reduction import log_softmax, sum
from .scattering import gather, int64_index
from .shaping import reshape, squeeze, unsqueeze

LINEAR_NLL = TABLE["linear_nll"]


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target], input the logarithms of probabilities [N, C, …] (or [C]), target the classes [N, …].

    Targets equal to ignore_index do not count; the mean is weighted by the classes' weights.
    """
    reduction = legacy(size_average, reduce, reduction)
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
    check_below(t, x.array.shape[1], ignore_index)


def check_below(t: Tensor, classes: int, ignore_index: int) -> None:
    found = known_now(t)
    if found is not None:
        wrong = found[(found != ignore_index) & ((found < 0) | (found >= classes))]
        if wrong.size:
            raise IndexError(f"Target {wrong[0]} is out of bounds.")


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target] for logits [N, C, …] (or [C]); target: classes [N, …], or probabilities like input.

    label_smoothing mixes the target with the uniform distribution.
    """
    reduction = legacy(size_average, reduce, reduction)
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


# ---- of a linear layer -------------------------------------------------------------------------------------


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """cross_entropy of the logits input @ linear_weight.T + linear_bias.

    input [N, D] or [D], linear_weight [C, D], or [C, d1, …, D] for a loss at d1·… places; target as cross_entropy
    has it. With `options` (`nn.LinearCrossEntropyOptions`) the batch is done in pieces, so that the logits [N, C]
    never exist at once and none of them are kept for the gradient, which computes them again.
    """
    places = checked_linear(input, linear_weight, target, linear_bias, ignore_index)
    ignored = -100 if ignore_index is None else ignore_index
    if options is not None:
        if reduction in ("mean", "sum", "none") and not label_smoothing and not places and whole(target):
            return chunked_entropy(
                input, linear_weight, target, linear_bias, weight, reduction, ignored, options
            )
        warnings.warn(
            "linear_cross_entropy: options are ignored; pieces need reduction 'mean', 'sum' or 'none', "
            "label_smoothing 0, int64 classes as target and a weight of two axes.",
            stacklevel=2,
        )
    from .network import linear

    flat = linear_weight if not places else reshape(linear_weight, (-1, linear_weight.array.shape[-1]))
    bias = linear_bias if linear_bias is None or not places else reshape(linear_bias, (-1,))
    logits = linear(input, flat, bias)
    if places:
        logits = reshape(logits, (input.array.shape[0], linear_weight.array.shape[0], *places))
    return cross_entropy(logits, target, weight, None, ignored, None, reduction, label_smoothing)


def whole(target: Tensor) -> bool:
    return target.dtype.name == "int64"


def checked_linear(
    x: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None, ignore_index: int | None
) -> tuple[int, ...]:
    """The axes of places between the classes and the features of the weight; RuntimeError where sizes differ."""
    if x.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {x.ndim}")
    if weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {weight.ndim}")
    if x.array.shape[-1] != weight.array.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{x.array.shape[-1]} and {weight.array.shape[-1]}, respectively"
        )
    classes, *places = tuple(weight.array.shape[:-1])
    if bias is not None and tuple(bias.array.shape) != (classes, *places):
        raise RuntimeError(
            f"expected linear_bias shape {(classes, *places)}, got {tuple(map(int, bias.array.shape))}"
        )
    if places and x.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(map(int, weight.array.shape))} requires batched "
            f"input, (N, {x.array.shape[-1]}), got unbatched input with shape {tuple(map(int, x.array.shape))}"
        )
    soft = tuple(target.array.shape) == (*x.array.shape[:-1], classes, *places)
    if soft and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    return tuple(places)


def chunked_entropy(
    x: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    options: Any,
) -> Tensor:
    """The loss of each sample by one op that keeps no logits."""
    rows, t = (unsqueeze(x, 0), unsqueeze(target, 0)) if x.ndim == 1 else (x, target)
    if t.ndim != 1 or t.array.shape[0] != rows.array.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({int(rows.array.shape[0])}) to match target batch_size "
            f"({list(map(int, t.array.shape))})."
        )
    classes, features = linear_weight.array.shape
    check_below(t, classes, ignore_index)
    counted = t != ignore_index
    safe = where(counted, t, 0)
    chunk = options.rows(rows.array.shape[0], features, classes)
    losses = apply(LINEAR_NLL, rows, linear_weight, safe, *([] if bias is None else [bias]), chunk=chunk)
    scale = cast(counted, x.dtype) if weight is None else where(counted, class_weights(weight, safe), 0.0)
    losses = where(counted, losses * scale, 0.0)
    if reduction == "mean":
        return sum(losses) / sum(scale)
    out = reduced(losses, reduction)
    return squeeze(out, 0) if x.ndim == 1 and reduction == "none" else out
