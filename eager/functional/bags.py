"""Bags of rows of a table, each bag reduced to one row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import float32
from ..ops.arrays import is_half
from ..tensor import Tensor
from .choice import where
from .creation import from_numpy
from .network import embedding
from .reduction import max
from .scattering import index_select
from .shaping import reshape, unsqueeze

MODES = ("sum", "mean", "max")


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Rows of weight [rows, width] looked up and reduced bag by bag: [bags, width]. An empty bag gives zeros.

    input: [bags, n], or the indices of all bags one after another, which begin at `offsets` (include_last_offset: the
    last of those is the end). mode: sum (weighted by per_sample_weights), mean or max. Entries equal to padding_idx do
    not count.
    """
    check(input, weight, offsets, mode, per_sample_weights)
    indices = input.array
    if input.ndim == 2:
        starts = np.arange(indices.shape[0]) * indices.shape[1]
        stops = starts + indices.shape[1]
    else:
        assert offsets is not None
        starts = np.asarray(offsets.array, np.int64)
        check_offsets(starts, indices.size, include_last_offset)
        stops = starts[1:] if include_last_offset else np.append(starts[1:], indices.size)
        starts = starts[:-1] if include_last_offset else starts
    flat = reshape(input, (-1,))
    weights = None if per_sample_weights is None else reshape(per_sample_weights, (-1,))
    rows = embedding(flat, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    counted = np.ones(flat.array.size, bool)
    if padding_idx is not None:
        counted = np.asarray(flat.array != padding_idx % weight.array.shape[0])
    if mode == "max":
        return largest(rows, starts, stops, counted)
    bag = np.repeat(np.arange(len(starts)), stops - starts)
    sums = float32 if is_half(weight.array.dtype) else weight.dtype
    share = counted.astype(sums.numpy)
    if mode == "mean":
        share = share / np.maximum(np.bincount(bag, counted, len(starts)), 1)[bag].astype(share.dtype)
    scale = from_numpy(share)
    rows = rows.to(sums) * unsqueeze(scale if weights is None else scale * weights.to(sums), -1)
    out = rows.new_zeros((len(starts), weight.array.shape[1]))
    return out.index_add(0, from_numpy(bag), rows).to(weight.dtype)


def largest(rows: Tensor, starts: Any, stops: Any, counted: Any) -> Tensor:
    """The maximum of each bag and column, over bags filled up to the longest."""
    longest = int((stops - starts).max(initial=0))
    if not longest or not rows.array.shape[0]:
        return rows.new_zeros((len(starts), rows.array.shape[1]))
    at = starts[:, None] + np.arange(longest)
    inside = at < stops[:, None]
    at = np.minimum(at, rows.array.shape[0] - 1)
    inside &= counted[at]
    picked = reshape(index_select(rows, 0, from_numpy(at.ravel())), (*at.shape, rows.array.shape[1]))
    kept = where(from_numpy(inside[..., None]), picked, float("-inf"))
    return where(from_numpy(inside.any(1)[:, None]), max(kept, 1).values, 0.0)


def check(x: Tensor, weight: Tensor, offsets: Tensor | None, mode: str, weights: Tensor | None) -> None:
    """ValueError and RuntimeError as PyTorch's for arguments that do not go together."""
    if mode not in MODES:
        raise ValueError(f"mode has to be one of sum, mean or max, got {mode!r}")
    if x.array.dtype.kind not in "iu":
        raise RuntimeError(f"embedding_bag: expected indices of an integer dtype, but got {x.dtype}")
    if weight.ndim != 2:
        raise RuntimeError(f"embedding_bag: weight must be 2-D, got {weight.ndim}-D")
    if x.ndim not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {x.ndim}")
    if x.ndim == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, offsets has to be None, as input is a mini-batch of bags of one length"
        )
    if x.ndim == 1 and (offsets is None or offsets.ndim != 1):
        found = "None" if offsets is None else f"a {offsets.ndim}D Tensor"
        raise ValueError(f"offsets has to be a 1D Tensor, but got {found}")
    if weights is not None:
        check_weights(x, weight, mode, weights)


def check_weights(x: Tensor, weight: Tensor, mode: str, weights: Tensor) -> None:
    """The like for per_sample_weights."""
    if tuple(weights.array.shape) != tuple(x.array.shape):
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({list(weights.shape)}) is not None, then it must have the same "
            f"shape as the input ({list(x.shape)})"
        )
    if mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            f"mode='{mode}')"
        )
    if weights.array.dtype != weight.array.dtype:
        raise RuntimeError(
            f"Expected per_sample_weights of dtype {weight.dtype}, the table's, but got {weights.dtype}"
        )


def check_offsets(starts: Any, count: int, last: bool) -> None:
    """RuntimeError for offsets that do not begin at 0 or end behind the indices."""
    if last and not len(starts):
        raise RuntimeError("include_last_offset: number of offsets should be at least 1")
    if len(starts) and starts[0] != 0:
        raise RuntimeError(
            f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
            f"However, got {int(starts[0])}"
        )
    if len(starts) and starts[-1] > count:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length({count}), but got offsets[-1] of {int(starts[-1])}"
        )
