"""Losses of margins: of ranks, of pairs, of triplets, and of many classes."""

from __future__ import annotations

from collections.abc import Callable

from ..tensor import Tensor
from .activation import logsigmoid
from .base import known_now
from .loss import legacy, reduced
from .pointwise import clamp, exp, log1p, logical_and, logical_not, minimum, neg, sqrt, where
from .reduction import any, sum
from .scattering import gather
from .shaping import reshape, unsqueeze
from .similarity import pairwise_distance


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -t·(x1 - x2) + margin)."""
    reduction = legacy(size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape}"
        )
    return reduced(clamp(neg(target) * (input1 - input2) + margin, min=0.0), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x where t is 1, max(0, margin - x) where it is -1; for another t both count."""
    reduction = legacy(size_average, reduce, reduction)
    loss = where(target != 1, clamp(margin - input, min=0.0), 0.0) + where(target != -1, input, 0.0)
    return reduced(loss, reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-t·x))."""
    reduction = legacy(size_average, reduce, reduction)
    return reduced(log1p(exp(neg(target) * input)), reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where t is 1, max(0, cos - margin) where it is -1. Inputs [N, D] with targets [N], or [D] with []."""
    reduction = legacy(size_average, reduce, reduction)
    if target.ndim not in (0, 1):
        raise RuntimeError(
            f"cosine_embedding_loss: 0D or 1D target tensor expected, multi-target not supported, got {target.shape}"
        )
    if input1.ndim != target.ndim + 1 or input2.ndim != target.ndim + 1:
        raise RuntimeError(
            f"cosine_embedding_loss: {target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found "
            f"inputs with sizes {input1.shape} and {input2.shape}."
        )
    tiny = 1e-12  # under the root, as PyTorch has it
    sizes = (sum(input1 * input1, -1) + tiny) * (sum(input2 * input2, -1) + tiny)
    near = sum(input1 * input2, -1) / sqrt(sizes)
    apart = where(target == -1, clamp(near - margin, min=0.0), 0.0)
    return reduced(where(target == 1, 1 - near, apart), reduction)


# ---- triplets ----------------------------------------------------------------------------------------------


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d the p-norm of the difference + eps."""
    reduction = legacy(size_average, reduce, reduction)
    check_triplet(anchor, positive, negative, margin)
    return triplet(
        anchor, positive, negative, lambda a, b: pairwise_distance(a, b, p, eps), margin, swap, reduction
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """As `triplet_margin_loss` with a distance of one's own."""
    check_triplet(anchor, positive, negative, margin)
    distance = pairwise_distance if distance_function is None else distance_function
    return triplet(anchor, positive, negative, distance, margin, swap, reduction)


def check_triplet(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )


def triplet(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clamp(margin + near - far, min=0.0), reduction)


# ---- many classes ------------------------------------------------------------------------------------------


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes i but the target y of max(0, margin - x[y] + x[i])^p, times weight[y].

    input [N, C] or [C], target [N] or [], int64.
    """
    reduction = legacy(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
    rows = as_rows("multi_margin_loss", input)
    count, classes = rows.array.shape
    if target.ndim > 1 or target.numel() != count:
        raise RuntimeError(
            f"multi_margin_loss: target tensor should be 1-D with size equal to the batch. Expected target size "
            f"[{count}], but got {list(target.shape)}"
        )
    weights = None if weight is None else checked_weight(weight, classes)
    if target.dtype.name != "int64":
        raise RuntimeError(f"expected scalar type Long but found {target.dtype!r}")
    chosen = reshape(target, (-1, 1))
    check_classes(chosen, classes)
    terms = clamp(margin - gather(rows, 1, chosen) + rows, min=0.0)
    if p == 2:
        terms = terms * terms
    if weights is not None:
        terms = terms * unsqueeze(weights[target.reshape(-1)], 1)
    others = chosen != class_numbers(rows)
    loss = sum(where(others, terms, 0.0), 1) / classes
    return reduced(loss if target.ndim and input.ndim > 1 else reshape(loss, target.array.shape), reduction)


def as_rows(name: str, x: Tensor) -> Tensor:
    """An input as [N, C]."""
    if x.ndim > 2 or (x.ndim and not x.array.shape[-1]):
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(x.shape)}"
        )
    return x if x.ndim == 2 else reshape(x, (1, -1))


def class_numbers(rows: Tensor) -> Tensor:
    from .ranges import arange

    return arange(rows.array.shape[1], device=rows.device)


def check_classes(target: Tensor, classes: int) -> None:
    """RuntimeError for a target that is no class, where its values are known now."""
    found = known_now(target)
    if found is not None and ((found < 0) | (found >= classes)).any():
        raise RuntimeError(f"multi_margin_loss: target out of range, the classes are 0 to {classes - 1}")


def checked_weight(weight: Tensor, classes: int) -> Tensor:
    if weight.ndim != 1:
        raise ValueError(f"weight must be one-dimensional, got {weight.ndim} axes")
    if weight.array.shape[0] != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    return weight


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum over target classes y and others i of max(0, 1 - x[y] + x[i]), over the number of classes.

    input [N, C] or [C]; target of the same shape, int64: the classes of each row, -1 behind the last.
    """
    reduction = legacy(size_average, reduce, reduction)
    rows = as_rows("multilabel_margin_loss", input)
    if tuple(target.array.shape) != tuple(input.array.shape) and (input.ndim or target.numel() != 1):
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    given = reshape(target, rows.array.shape)
    before_end = sum_along(given < 0) == 0
    safe = where(before_end, given, 0)
    hits = logical_and(unsqueeze(safe, 2) == class_numbers(rows), unsqueeze(before_end, 2))
    others = logical_not(any(hits, 1, True))
    terms = clamp(1 - unsqueeze(gather(rows, 1, safe), 2) + unsqueeze(rows, 1), min=0.0)
    counted = logical_and(unsqueeze(before_end, 2), others)
    loss = sum(where(counted, terms, 0.0), (1, 2)) / rows.array.shape[1]
    return reduced(loss if input.ndim == 2 else reshape(loss, ()), reduction)


def sum_along(x: Tensor) -> Tensor:
    from .cumulative import cumsum

    return cumsum(x, 1)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes, the last axis, of -(t·log σ(x) + (1 - t)·log σ(-x))."""
    reduction = legacy(size_average, reduce, reduction)
    loss = neg(target * logsigmoid(input) + (1 - target) * logsigmoid(neg(input)))
    if weight is not None:
        loss = loss * weight
    return reduced(sum(loss, -1) / input.array.shape[-1], reduction)
