"""Counts of elements: in bins, in boxes, and of small whole numbers."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor
from .base import cpp_name
from .output import takes_out
from .shaping import reshape

HISTOGRAM, BINCOUNT = TABLE["histogram"], TABLE["bincount"]


class Histogram(NamedTuple):
    """What histogram returns: the counts, and the bins' edges, one more than counts."""

    hist: Tensor
    bin_edges: Tensor


class HistogramDD(NamedTuple):
    """What histogramdd returns: the counts of boxes, and the edges along each axis."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def floating(name: str, x: Tensor) -> Tensor:
    if x.array.dtype.kind not in "fV":
        raise RuntimeError(
            f'"{name}" not implemented for {cpp_name(x.array.dtype)!r}: wants a floating-point tensor'
        )
    return x.detach()


def outer_edges(name: str, x: Tensor, low: float, high: float) -> tuple[float, float]:
    """The ends of the bins: those given, or the data's where they are equal; moved apart where those are too."""
    if low == high and x.numel():
        array = x._read(f"{name}() without a range")
        low, high = float(array.min()), float(array.max())
    if not (isfinite(low) and isfinite(high)):
        raise RuntimeError(f"{name}(): range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"{name}(): max must be larger than min, got [{low}, {high}]")
    return (
        (low - 1, high + 1)
        if name == "histc" and low == high
        else (low - 0.5, high + 0.5)
        if low == high
        else (low, high)
    )


@takes_out
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """The numbers of elements in bins of equal width between min and max; those of the data where they are equal.

    Elements outside are not counted. The counts have the dtype of the data.
    """
    if bins <= 0:
        raise RuntimeError("histc(): bins must be > 0")
    x = reshape(input.detach(), (input.numel(), 1))
    low, high = outer_edges("histc", x, float(min), float(max))
    edges = Tensor(np.linspace(low, high, bins + 1).astype(x.array.dtype))
    return count(x, None, (edges,), uniform=True, local=False, density=False)


def count(
    x: Tensor, weight: Tensor | None, edges: Sequence[Tensor], *, uniform: bool, local: bool, density: bool
) -> Tensor:
    if weight is None:
        weight = x.new_ones((x.array.shape[0],))
    return apply(HISTOGRAM, x, weight.detach(), *edges, uniform=uniform, local=local, density=bool(density))


@takes_out
def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """The elements' weights (1 each by default) summed in bins: that many of equal width, or between given edges.

    `range`: the ends of the bins, the data's extremes by default. `density`: the sums over all weights and the bins'
    widths.
    """
    x = floating("histogram", input)
    flat = reshape(x, (x.numel(), 1))
    flat_weight = None if weight is None else reshape(checked_weight("histogram", x, weight), (x.numel(),))
    edges, uniform = bin_edges("histogram", flat, bins, range)
    hist = count(flat, flat_weight, (edges,), uniform=uniform, local=True, density=density)
    return Histogram(hist, edges)


def checked_weight(name: str, x: Tensor, weight: Tensor) -> Tensor:
    if weight.array.dtype != x.array.dtype:
        raise RuntimeError(
            f"{name}(): if weight tensor is provided, input tensor and weight tensor should have the same dtype, but "
            f"got input({cpp_name(x.array.dtype)}), and weight({cpp_name(weight.array.dtype)})"
        )
    return weight


def bin_edges(name: str, x: Tensor, bins: Any, ends: Sequence[float] | None) -> tuple[Tensor, bool]:
    """The edges of the bins, and whether they are of equal width."""
    if isinstance(bins, Tensor):
        if bins.ndim != 1 or not bins.numel():
            raise RuntimeError(f"{name}(): bins tensor should have one dimension, and one element at least")
        if bins.array.dtype != x.array.dtype:
            raise RuntimeError(
                f"{name}(): input tensor and bins tensors should have the same dtype, but got input with dtype "
                f"{cpp_name(x.array.dtype)} and bins with dtype {cpp_name(bins.array.dtype)}"
            )
        return bins.detach(), False
    if bins <= 0:
        raise RuntimeError(f"{name}(): bins must be > 0, but got {bins} for dimension 0")
    low, high = (0.0, 0.0) if ends is None else (float(ends[0]), float(ends[1]))
    if ends is None and not x.numel():
        low, high = 0.0, 1.0
    elif ends is None:
        low, high = outer_edges(name, x, 0.0, 0.0)
    else:
        low, high = outer_edges(name, x.new_zeros((0,)), low, high)
    from .ranges import linspace

    return linspace(low, high, bins + 1, dtype=x.dtype, device=x.device), True


def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> HistogramDD:
    """Points [..., d] summed, with their weights, in the boxes of a grid of d axes.

    `bins`: one number for all axes, one for each, or the edges along each. `range`: lower and upper end of each axis in
    turn.
    """
    x = floating("histogramdd", input)
    if x.ndim < 2:
        raise RuntimeError(f"histogramdd(): input tensor should have at least 2 dimensions, but got {x.ndim}")
    width = x.array.shape[-1]
    points = reshape(x, (x.numel() // width if width else 0, width))
    along = [bins] * width if isinstance(bins, int) else list(bins)
    if len(along) != width:
        raise RuntimeError(
            f"histogramdd(): The size of bins must be equal to the innermost dimension of the input, {int(width)}, got "
            f"{len(along)}"
        )
    if range is not None and len(range) != 2 * width:
        raise RuntimeError(
            f"histogramdd(): range should have {2 * int(width)} elements, but got {len(range)}"
        )
    ends = [None if range is None else range[2 * d : 2 * d + 2] for d in builtins.range(width)]
    found = [bin_edges("histogramdd", points[:, d : d + 1], along[d], ends[d]) for d in builtins.range(width)]
    edges = tuple(e for e, _ in found)
    uniform = all(u for _, u in found)
    flat = (
        None
        if weight is None
        else reshape(checked_weight("histogramdd", x, weight), (points.array.shape[0],))
    )
    return HistogramDD(count(points, flat, edges, uniform=uniform, local=True, density=density), edges)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2 … comes in a vector of whole numbers, or the sums of their weights.

    int64 counts, or sums in the weights' dtype (float64 for whole numbers).
    """
    if input.ndim != 1 or input.array.dtype.kind not in "iu":
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    array = input._read("bincount()")
    if array.size and array.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    size = max(int(array.max()) + 1 if array.size else 0, minlength)
    if weights is None:
        return apply(BINCOUNT, input, size=size)
    if weights.ndim != 1 or weights.array.shape != input.array.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    heavy = weights.detach() if weights.array.dtype == np.float32 else weights.detach().double()
    return apply(BINCOUNT, input, heavy, size=size)
