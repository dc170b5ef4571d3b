"""Channels and places exchanged for each other."""

from __future__ import annotations

from ..tensor import Tensor
from .shaping import permute, reshape


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """[*, C·r², H, W] as [*, C, H·r, W·r]."""
    r = upscale_factor
    *lead, c, h, w = input.array.shape
    split = reshape(input, (*lead, c // (r * r), r, r, h, w))
    n = len(lead)
    order = [*range(n + 1), n + 3, n + 1, n + 4, n + 2]
    return reshape(permute(split, order), (*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """[*, C, H·r, W·r] as [*, C·r², H, W]."""
    r = downscale_factor
    *lead, c, h, w = input.array.shape
    split = reshape(input, (*lead, c, h // r, r, w // r, r))
    n = len(lead)
    order = [*range(n + 1), n + 2, n + 4, n + 1, n + 3]
    return reshape(permute(split, order), (*lead, c * r * r, h // r, w // r))


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """[N, C, *] with its channels dealt out: those of `groups` groups in turn."""
    if input.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    n, c, *rest = input.array.shape
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if c % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    split = reshape(input, (n, groups, c // groups, *rest))
    order = (0, 2, 1, *range(3, split.ndim))
    return reshape(permute(split, order), (n, c, *rest))
