"""Dropout: elements or channels zeroed at random in training."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

from ..ops.table import TABLE
from ..random import default_generator
from ..tape import apply
from ..tensor import Tensor
from ..writes import write
from .pointwise import mul, where

DROPOUT = TABLE["dropout"]


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training each element is zero with probability p, and else scaled by 1 / (1 - p)."""
    check_probability(p)
    if not training or p == 0:
        return input
    x = input._alias() if inplace else input
    out = mul(x, 0.0) if p == 1 else apply(DROPOUT, x, dropout_key(input.array.shape), p=float(p))
    return write(input, out) if inplace else out


def check_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout_key(shape: Any) -> Tensor:
    return default_generator.take(-(-prod(shape) // 2))


def feature_dropout(input: Tensor, p: float, training: bool, spatial: int) -> Tensor:
    """Whole channels dropped: one draw for each, the trailing `spatial` axes share it."""
    check_probability(p)
    if not training or p == 0:
        return input
    shape = tuple(input.array.shape)
    lead = (*shape[: len(shape) - spatial], *(1,) * spatial)
    mask = dropout(input.new_ones(lead), p)
    return mul(input, mask)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Channels of [N, C, L] dropped whole."""
    return feature_dropout(input, p, training, 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Channels of [N, C, H, W] dropped whole."""
    return feature_dropout(input, p, training, 2)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout to the negative saturation of selu, with mean and variance kept."""
    from .pointwise import lt
    from .randoms import rand

    check_probability(p)
    if not training or p == 0:
        return input
    if p == 1:
        return mul(input, 0.0)
    floor = -1.7580993408473766
    scale = 1 / sqrt((1 - p) * (1 + p * floor * floor))
    dropped = lt(rand(tuple(input.array.shape)), p)
    return where(dropped, floor, input) * scale - scale * p * floor


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Channels of [N, C, D, H, W] or [C, D, H, W] dropped whole."""
    out = feature_dropout(input, p, training, 3)
    return write(input, out) if inplace and out is not input else out


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """alpha_dropout of whole channels: one draw for each of the first two axes."""
    from .pointwise import lt
    from .randoms import rand

    check_probability(p)
    if not training or p == 0:
        return input
    if p == 1:
        out = mul(input, 0.0)
    else:
        floor = -1.7580993408473766
        scale = 1 / sqrt((1 - p) * (1 + p * floor * floor))
        lead = (*input.array.shape[:2], *(1,) * (input.ndim - 2))
        out = where(lt(rand(lead), p), floor, input) * scale - scale * p * floor
    return write(input, out) if inplace else out
