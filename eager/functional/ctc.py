"""The CTC loss of unaligned sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops.table import TABLE
from ..tape import apply, labelled
from ..tensor import Tensor
from .creation import as_tensor, from_numpy
from .loss import reduced
from .moving import to
from .pointwise import cast, clamp
from .reduction import mean
from .shaping import reshape, squeeze, unsqueeze

CTC, SLOPE = TABLE["ctc_loss"], TABLE["ctc_loss_slope"]
Lengths = Tensor | Sequence[int]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability that the steps of log_probs [T, N, C] (or [T, C]) spell the targets.

    targets: labels [N, S], or all of them in a row [sum of target_lengths]. "mean" divides each loss by its target's
    length first. zero_infinity: targets too long for their input count as 0.
    """
    single = log_probs.ndim == 2
    lp = unsqueeze(log_probs, 1) if single else log_probs
    check_kinds(lp, targets, blank)
    steps, lengths = lengths_of(input_lengths, single), lengths_of(target_lengths, single)
    check_lengths(lp, steps, lengths)
    labels = padded(reshape(targets, (1, -1)) if single else targets, lengths)
    loss = apply(CTC, lp, labels, steps, lengths, blank=int(blank), zero_infinity=bool(zero_infinity))
    if reduction == "mean":
        return labelled(mean(loss / cast(clamp(lengths, min=1), loss.dtype)), "CtcLoss")
    out = reduced(loss, reduction, "CtcLoss")
    return squeeze(out, 0) if single and reduction == "none" else out


def ctc_loss_slope(g: Tensor, *operands: Tensor, **attrs: Any) -> Tensor:
    """The gradient of `ctc_loss` by log_probs, times g [N]."""
    return apply(SLOPE, g, *operands, **attrs)


def check_kinds(lp: Tensor, targets: Tensor, blank: int) -> None:
    if lp.ndim != 3 or lp.dtype.name not in ("float32", "float64"):
        raise RuntimeError(
            f"ctc_loss: log_probs is [T, N, C] or [T, C] in float32 or float64, got {lp.dtype} {lp.shape}"
        )
    if targets.array.dtype.kind not in "iu":
        raise RuntimeError(f"ctc_loss: targets are integers, got {targets.dtype!r}")
    if not 0 <= blank < lp.array.shape[2]:
        raise RuntimeError(f"blank must be in label range: 0 to {lp.array.shape[2] - 1}, got {blank}")


def lengths_of(given: Lengths, single: bool) -> Tensor:
    """Lengths as int64 [N]."""
    out = to(given, "int64") if isinstance(given, Tensor) else as_tensor(list(given) if not single else given)
    return reshape(to(out, "int64"), (-1,))


def check_lengths(lp: Tensor, steps: Tensor, lengths: Tensor) -> None:
    batch = lp.array.shape[1]
    for name, found in (("input_lengths", steps), ("target_lengths", lengths)):
        if found.numel() != batch:
            raise RuntimeError(f"{name} must be of size batch_size: {batch}, got {found.numel()}")
        if batch and int(found.min()) < 0:
            raise RuntimeError(f"ctc_loss: {name} must be non-negative, got {int(found.min())}")
    if batch and int(steps.max()) > lp.array.shape[0]:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {lp.array.shape[0]}, but got value {int(steps.max())}"
        )


def padded(targets: Tensor, lengths: Tensor) -> Tensor:
    """The labels as int64 [N, S], S the longest; those behind a target's end do not count and are 0."""
    labels, sizes = targets._read("ctc_loss()"), lengths._read("ctc_loss()")
    longest = int(sizes.max(initial=0))
    inside = np.arange(longest) < sizes[:, None]
    out = np.zeros(inside.shape, np.int64)
    if labels.ndim == 1:
        if labels.size < sizes.sum():
            raise RuntimeError(
                f"ctc_loss: targets has {labels.size} labels, target_lengths sum to {int(sizes.sum())}"
            )
        out[inside] = labels[: int(sizes.sum())]
    elif labels.shape[1] < longest:
        raise RuntimeError(f"Expected target_lengths to be at most {labels.shape[1]}, but got {longest}")
    else:
        out[inside] = labels[:, :longest][inside]
    return to(from_numpy(out), targets.device)
