"""Channels and places exchanged for each other."""

from __future__ import annotations

from ..tensor import Tensor
from .shaping import permute, reshape


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """[*, C·r², H, W] as [*, C, H·r, W·r]."""
    r = upscale_factor
    check_shuffle("pixel_shuffle", input, "upscale_factor", r)
    channels = input.array.shape[-3]
    if type(channels) is int and channels % (r * r):
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    *lead, c, h, w = input.array.shape
    split = reshape(input, (*lead, c // (r * r), r, r, h, w))
    n = len(lead)
    order = [*range(n + 1), n + 3, n + 1, n + 4, n + 2]
    return reshape(permute(split, order), (*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """[*, C, H·r, W·r] as [*, C·r², H, W]."""
    r = downscale_factor
    check_shuffle("pixel_unshuffle", input, "downscale_factor", r)
    for d, axis in ((-2, "height"), (-1, "width")):
        n = input.array.shape[d]
        if type(n) is int and n % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {axis} to be divisible by downscale_factor, but input.size({d})={n} is not "
                f"divisible by {r}"
            )
    *lead, c, h, w = input.array.shape
    split = reshape(input, (*lead, c, h // r, r, w // r, r))
    n = len(lead)
    order = [*range(n + 1), n + 2, n + 4, n + 1, n + 3]
    return reshape(permute(split, order), (*lead, c * r * r, h // r, w // r))


def check_shuffle(name: str, x: Tensor, setting: str, factor: int) -> None:
    """RuntimeError for an input without planes, and for a factor below 1."""
    if x.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {x.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {setting}, but got {factor}")


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
