"""Padding, resizing and rearranging planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tape import labelled
from ..tensor import Tensor
from .arranging import flip, pad_axes
from .joining import cat
from .pooling import adaptive_avg_pool2d
from .scattering import index_select
from .shaping import expand, reshape
from .slicing import slice_axes, slice_axis


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Elements added at (or, where negative, taken from) both ends of the last axes.

    pad: (before, after) of the last axis, then of the one before it, … mode: constant, reflect, replicate, circular.
    """
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension, and even, but got padding "
            f"length {len(pad)} and input of dimension {input.ndim}"
        )
    pairs = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)]
    sides = [(0, 0)] * (input.ndim - len(pairs)) + pairs[::-1]
    if mode != "constant":
        for d, (before, after) in enumerate(sides):
            if before or after:
                input = wrapped_pad(input, d, before, after, mode)
        return input
    if any(a < 0 or b < 0 for a, b in sides):
        shape = input.array.shape
        starts = tuple(-a if a < 0 else 0 for a, _ in sides)
        stops = tuple(n + b if b < 0 else n for n, (_, b) in zip(shape, sides, strict=True))
        input = slice_axes(input, starts, stops, (1,) * input.ndim)
        sides = [(a if a > 0 else 0, b if b > 0 else 0) for a, b in sides]
    if not any(a or b for a, b in sides):
        return input
    fill = 0 if value is None else value
    return labelled(
        pad_axes(input, tuple(a for a, _ in sides), tuple(b for _, b in sides), fill), "ConstantPadNd"
    )


def wrapped_pad(x: Tensor, d: int, before: int, after: int, mode: str) -> Tensor:
    """Padding with the tensor's own elements along one axis."""
    n = x.array.shape[d]
    limit = {"reflect": n - 1, "circular": n, "replicate": max(before, after, 0)}.get(mode)
    if limit is None:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if before > limit or after > limit:
        raise RuntimeError(
            f"Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {after}) at dimension {d} of input {list(map(int, x.array.shape))}"
        )
    parts = [x]
    if before > 0:
        parts.insert(0, _edge(x, d, before, mode, first=True))
    if after > 0:
        parts.append(_edge(x, d, after, mode, first=False))
    out = cat(parts, d) if len(parts) > 1 else x
    if before < 0 or after < 0:
        size = out.array.shape[d]
        out = slice_axis(out, d, max(-before, 0), size + min(after, 0))
    return out


def _edge(x: Tensor, d: int, count: int, mode: str, first: bool) -> Tensor:
    n = x.array.shape[d]
    if mode == "circular":
        return slice_axis(x, d, n - count, n) if first else slice_axis(x, d, 0, count)
    if mode == "reflect":
        return flip(slice_axis(x, d, 1, count + 1) if first else slice_axis(x, d, n - 1 - count, n - 1), d)
    end = slice_axis(x, d, 0, 1) if first else slice_axis(x, d, n - 1, n)
    return expand(end, tuple(count if k == d else m for k, m in enumerate(x.array.shape)))


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    **_: Any,
) -> Tensor:
    """The planes of [N, C, H, W] (or [N, C, L]) resized: mode nearest, nearest-exact, linear, bilinear or area."""
    axes_ = range(2, input.ndim)
    old = [input.array.shape[d] for d in axes_]
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    factors = list(scale_factor) if isinstance(scale_factor, (tuple, list)) else [scale_factor] * len(old)
    if size is None:
        new = [int(n * f) for n, f in zip(old, factors, strict=True)]
    else:
        new, factors = ([size] * len(old) if isinstance(size, int) else list(size)), [None] * len(old)
    if mode == "area":
        return adaptive_avg_pool2d(input, new)
    for d, n, m, f in zip(axes_, old, new, factors, strict=True):
        input = resized(input, d, n, m, n / m if f is None else 1 / f, mode, bool(align_corners))
    return input


def resized(x: Tensor, d: int, n: int, m: int, ratio: float, mode: str, align: bool) -> Tensor:
    """One axis from n to m elements."""
    import numpy as np

    from .creation import from_numpy

    k = np.arange(m)
    if mode in ("nearest", "nearest-exact"):
        at = np.floor((k + (0.5 if mode == "nearest-exact" else 0.0)) * ratio).astype(np.int64)
        return index_select(x, d, from_numpy(np.clip(at, 0, n - 1)))
    if mode not in ("linear", "bilinear"):
        raise NotImplementedError(
            f"interpolate: mode {mode!r}; the modes are nearest, nearest-exact, linear, bilinear, area"
        )
    place = k * ((n - 1) / max(m - 1, 1)) if align else np.maximum((k + 0.5) * ratio - 0.5, 0)
    low = np.minimum(np.floor(place).astype(np.int64), n - 1)
    high = np.minimum(low + 1, n - 1)
    share = (place - low).astype(x.array.dtype).reshape((m,) + (1,) * (x.ndim - 1 - d))
    weight = from_numpy(share)
    return index_select(x, d, from_numpy(low)) * (1 - weight) + index_select(x, d, from_numpy(high)) * weight


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """[*, C·r², H, W] as [*, C, H·r, W·r]."""
    r = upscale_factor
    *lead, c, h, w = input.array.shape
    split = reshape(input, (*lead, c // (r * r), r, r, h, w))
    n = len(lead)
    order = [*range(n + 1), n + 3, n + 1, n + 4, n + 2]
    return reshape(split.permute(order), (*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """[*, C, H·r, W·r] as [*, C·r², H, W]."""
    r = downscale_factor
    *lead, c, h, w = input.array.shape
    split = reshape(input, (*lead, c, h // r, r, w // r, r))
    n = len(lead)
    order = [*range(n + 1), n + 2, n + 4, n + 1, n + 3]
    return reshape(split.permute(order), (*lead, c * r * r, h // r, w // r))
