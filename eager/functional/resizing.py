"""Axes resized: nearest, linear, cubic and area interpolation, with and without antialiasing."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..ops.types import DTYPES
from ..tensor import Tensor
from .adaptive import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .arithmetic import minimum
from .creation import from_numpy
from .functions import floor
from .ranges import arange
from .scattering import index_select
from .shaping import expand, reshape, unsqueeze

AREA = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)

#: The axes that each mode resizes.
AXES = {
    "nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "area": (1, 2, 3),
    "linear": (1,), "bilinear": (2,), "trilinear": (3,), "bicubic": (2,), "lanczos": (2,),
}  # fmt: skip

#: Keys' kernel (Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981): sharper without a filter.
CUBIC, CUBIC_ANTIALIAS = -0.75, -0.5


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """The last axes of [N, C, L], [N, C, H, W] or [N, C, D, H, W] resized.

    mode: nearest, nearest-exact, linear, bilinear, trilinear, bicubic, lanczos or area. scale_factor is used
    for positions as it is, unless recompute_scale_factor; align_corners maps ends to ends. antialias: bilinear, bicubic
    and lanczos, the last only with it.
    """
    check(mode, align_corners)
    old = list(input.array.shape[2:])
    new, factors = sizes(old, size, scale_factor, recompute_scale_factor)
    check_rank(input, mode, antialias)
    if mode != "area":
        check_elements(input, old, new)
    else:
        return AREA[len(old) - 1](input, new)
    whole = input.array.dtype.kind in "iu" and not mode.startswith("nearest")
    x = input.float() if whole else input
    axes = list(enumerate(zip(old, new, factors, strict=True), 2))
    for d, (n, m, factor) in (
        axes[::-1] if antialias else axes
    ):  # a filter runs along rows first, as PyTorch's does
        x = resized(x, d, n, m, factor, mode, bool(align_corners), antialias)
        x = x.round().clamp(0, 255) if whole and antialias else x
    return x.round().clamp(0, 255).to(input.dtype) if whole else x


def check(mode: str, align_corners: bool | None) -> None:
    """ValueError for align_corners where nothing lies between elements."""
    if align_corners is not None and AXES.get(mode) == (1, 2, 3):
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")


def check_rank(x: Tensor, mode: str, antialias: bool) -> None:
    """ValueError and NotImplementedError as PyTorch's for modes that do not go with the input."""
    if antialias and (mode not in FILTERS or x.ndim != 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode == "lanczos" and x.ndim == 4 and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if mode in AXES and x.ndim - 2 in AXES[mode]:
        return
    if mode in ("linear", "bilinear", "trilinear") and x.ndim in (3, 4, 5):
        raise NotImplementedError(f"Got {x.ndim}D input, but {mode} mode needs {AXES[mode][0] + 2}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {x.ndim}D) for the modes: nearest | "
        f"linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
    )


def check_elements(x: Tensor, old: list[Any], new: list[Any]) -> None:
    """RuntimeError for axes without elements; there may be no samples."""
    if any(type(n) is int and n <= 0 for n in (*old, *new)):
        names = ("D: ", "H: ", "W: ")[-len(old) :] if len(old) > 1 else ("W: ",)
        before, after = (
            ", ".join(f"{name}{int(n)}" for name, n in zip(names, each, strict=True)) for each in (old, new)
        )
        between = " and " if len(old) == 1 else " "
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({before}){between}output ({after})"
        )
    if type(x.array.shape[1]) is int and x.array.shape[1] == 0:
        raise RuntimeError(
            f"Non-empty {x.ndim}D data tensor expected but got a tensor with sizes {list(map(int, x.array.shape))}"
        )


def sizes(old: list[Any], size: Any, scale: Any, recompute: bool | None) -> tuple[list[Any], list[Any]]:
    """The new size of each axis, and the factor that positions are computed with, if it is not old / new."""
    if (size is None) == (scale is None):
        why = "either size or scale_factor should be defined" if size is None else (
            "only one of size or scale_factor should be defined")  # fmt: skip
        raise ValueError(why)
    given = scale if size is None else size
    each = list(given) if isinstance(given, (tuple, list)) else [given] * len(old)
    if len(each) != len(old):
        what, form, last = (
            ("output size of", "output size in (o1, o2, ...,oK)", tuple(each)) if scale is None else
            ("scale_factor of shape", "scale_factor in (s1, s2, ...,sK)", tuple(each)))  # fmt: skip
        raise ValueError(
            f"Input and {'output' if scale is None else 'scale_factor'} must have the same number of spatial "
            f"dimensions, but got input with spatial dimensions of {[int(n) for n in old]} and {what} {last}. Please "
            f"provide input tensor in (N, C, d1, d2, ...,dK) format and {form} format."
        )
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        new = each
    else:
        new = [scaled(n, f) for n, f in zip(old, each, strict=True)]
    return new, [None] * len(old) if size is not None or recompute else each


def scaled(n: Any, factor: float) -> Any:
    """floor(n * factor); a symbolic size times a fraction stays symbolic."""
    if type(n) is int:
        return math.floor(n * factor)
    numerator, denominator = float(factor).as_integer_ratio()
    return n * numerator // denominator


def resized(
    x: Tensor, d: int, n: Any, m: Any, factor: float | None, mode: str, align: bool, antialias: bool
) -> Tensor:
    """One axis from n to m elements; `factor` times as many where that is not m / n exactly."""
    if mode == "nearest" and (times := whole_factor(n, m, factor)):
        shape = x.array.shape
        spread = expand(unsqueeze(x, d + 1), (*shape[: d + 1], times, *shape[d + 1 :]))
        return reshape(spread, (*shape[:d], m, *shape[d + 1 :]))
    if antialias:
        ratio = n / m if factor is None else 1.0 / factor
        return filtered(x, d, n, m, (n - 1) / (m - 1) if align and m > 1 else ratio, mode)
    if mode.startswith("nearest"):
        at = floor(old_places(x, n, m, factor, 0.5 if mode == "nearest-exact" else 0.0, "float32"))
        return index_select(x, d, bounded(at.long(), n))
    dtype = "float64" if x.array.dtype == DTYPES["float64"] else "float32"
    if align:
        position = arange(m, dtype=dtype) * (n - 1) / (m - 1) if m > 1 else arange(m, dtype=dtype) * 0.0
    else:
        position = old_places(x, n, m, factor, 0.5, dtype) - 0.5
    if mode != "bicubic":
        position = position.clamp(min=0)
    low = floor(position)
    share, first = position - low, low.long()
    weights = cubic_weights(share) if mode == "bicubic" else [1 - share, share]
    begin = -1 if mode == "bicubic" else 0
    return combined(x, d, n, [first + (begin + k) for k in range(len(weights))], weights)


def whole_factor(n: Any, m: Any, factor: float | None) -> int:
    """How often each element is repeated, where that is all there is to do; 0 elsewhere."""
    if factor is not None:
        return int(factor) if float(factor).is_integer() else 0
    return m // n if type(n) is int and type(m) is int and m % n == 0 else 0


def old_places(x: Tensor, n: Any, m: Any, factor: float | None, shift: float, dtype: str) -> Tensor:
    """(k + shift) * n / m for each new element k, rounded as PyTorch does: a ratio in `dtype`, times k + shift."""
    place = arange(m, dtype=dtype) + shift
    if factor is None and not (type(n) is int and type(m) is int):
        return place * n / m
    ratio = n / m if factor is None else 1.0 / factor
    return place * float(DTYPES[dtype].type(ratio))


def bounded(index: Tensor, n: Any) -> Tensor:
    """Positions within an axis of n elements, those past an end at the end."""
    return index.clamp(0, n - 1) if type(n) is int else minimum(index.clamp(min=0), index * 0 + (n - 1))


def combined(x: Tensor, d: int, n: Any, indices: list[Tensor], weights: list[Tensor]) -> Tensor:
    """The weighted sum of elements along an axis; indices past an end are its last element."""
    total: Tensor | None = None
    tail = (1,) * (x.ndim - 1 - d)
    for at, weight in zip(indices, weights, strict=True):
        part = index_select(x, d, bounded(at, n)) * reshape(weight.to(x.dtype), (-1, *tail))
        total = part if total is None else total + part
    assert total is not None
    return total


def cubic_weights(t: Tensor) -> list[Tensor]:
    """Of the elements at -1, 0, 1, 2, for a position t beyond element 0."""
    return [far(t + 1, CUBIC), near(t, CUBIC), near(1 - t, CUBIC), far(2 - t, CUBIC)]


def near(x: Any, a: float) -> Any:
    """Keys' kernel for |x| <= 1."""
    return ((a + 2) * x - (a + 3)) * x * x + 1


def far(x: Any, a: float) -> Any:
    """Keys' kernel for 1 < |x| <= 2."""
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


#: The filter of each mode with antialiasing: where it ends, and its values at distances that numpy arrays hold.
FILTERS = {
    "bilinear": (1.0, lambda u: np.maximum(1 - u, 0)),
    "bicubic": (2.0, lambda u: np.where(
        u < 1, near(u, CUBIC_ANTIALIAS), np.where(u < 2, far(u, CUBIC_ANTIALIAS), 0))),
    "lanczos": (3.0, lambda u: np.where(u < 3, np.sinc(u) * np.sinc(u / 3), 0)),
}  # fmt: skip


def filtered(x: Tensor, d: int, n: int, m: int, ratio: float, mode: str) -> Tensor:
    """One axis resized with a filter as wide as the step, so that every element counts when it shrinks."""
    half, kernel = FILTERS[mode]
    stretch = max(ratio, 1.0)
    centre = ratio * (np.arange(m) + 0.5)
    first = np.maximum((centre - half * stretch + 0.5).astype(np.int64), 0)
    stop = np.minimum((centre + half * stretch + 0.5).astype(np.int64), n)
    k = np.arange(int((stop - first).max()))
    u = np.abs((k + first[:, None] - centre[:, None] + 0.5) / stretch)
    weight = kernel(u)
    weight = np.where(k < (stop - first)[:, None], weight, 0)
    weight /= weight.sum(1, keepdims=True)
    indices = [from_numpy(np.minimum(first + j, n - 1)) for j in k]
    return combined(x, d, n, indices, [from_numpy(np.ascontiguousarray(weight[:, j])) for j in k])


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The former name of interpolate."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate with mode nearest."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate with mode bilinear and corners aligned."""
    return interpolate(input, size, scale_factor, "bilinear", True)
