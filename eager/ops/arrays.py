"""Small helpers of `run` rules that numpy and cupy spell differently or lack."""

from __future__ import annotations

from functools import cache, wraps
from importlib import import_module
from math import prod
from typing import Any

from .types import DTYPES

FLOAT32, BFLOAT16 = DTYPES["float32"], DTYPES["bfloat16"]


def is_half(dtype: Any) -> bool:
    """True for the two 16-bit floats."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def converted(x: Any, dtype: Any) -> Any:
    """The array in another dtype, bfloat16 by way of float32: ml_dtypes' own conversions from float64 round in one
    step or two, and to unsigned integers wrap around or stop at the ends, as its version has it."""
    if x.dtype == BFLOAT16 or (dtype == BFLOAT16 and x.dtype != dtype):
        return x.astype(FLOAT32).astype(dtype)
    return x.astype(dtype)


@cache
def _scipy_name(xp_name: str, module: str) -> Any:
    return import_module(f"{'cupyx.scipy' if xp_name == 'cupy' else 'scipy'}.{module}")


def special(xp: Any, name: str, x: Any) -> Any:
    """scipy.special's `name` of an array; half-precision arrays are computed in float32."""
    function = getattr(_scipy_name(xp.__name__, "special"), name)
    return function(x.astype(FLOAT32)).astype(x.dtype) if is_half(x.dtype) else function(x)


def in_single(run: Any) -> Any:
    """A `run` rule whose half-precision arrays are computed in float32 and whose result is rounded once."""

    @wraps(run)
    def inner(xp: Any, *arrays: Any, **attrs: Any) -> Any:
        dtype = arrays[0].dtype
        if not is_half(dtype):
            return run(xp, *arrays, **attrs)
        return run(xp, *(a.astype(FLOAT32) for a in arrays), **attrs).astype(dtype)

    return inner


def wide(x: Any) -> Any:
    """The array in the dtype that its sums are accumulated in: float32 for half precision, else its own."""
    return x.astype(FLOAT32) if is_half(x.dtype) else x


def accumulator(x: Any) -> Any:
    """The dtype that running sums and products are kept in: float64 for float32, float32 for half precision."""
    if x.dtype.kind == "f" and x.dtype.itemsize == 4:
        return DTYPES["float64"]
    if x.dtype.kind == "c":
        return DTYPES["complex128"]
    return FLOAT32 if is_half(x.dtype) else x.dtype


#: Terms that are added one after another; sums of more are sums of such sums.
RUN = 64


def sum_over(xp: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The sum over axes in the array's own dtype; half precision is added up in float32.

    numpy adds in pairs along the last axis alone. Along others it adds row after row, which for a million rows costs
    float32 five of its seven digits, and is slow where rows are short; `tall_sum` does those.
    """
    if is_half(x.dtype):
        return sum_over(xp, x.astype(FLOAT32), axes).astype(x.dtype)
    tall = axes and x.dtype.kind in "fc" and axes[-1] < x.ndim - 1 and xp.__name__ == "numpy"
    if tall and axes[-1] - axes[0] + 1 == len(axes) and x.flags.c_contiguous:
        count = prod(x.shape[axes[0] : axes[-1] + 1])
        if count > 2 * RUN:
            return tall_sum(xp, x.reshape(*x.shape[: axes[0]], count, *x.shape[axes[-1] + 1 :]), axes[0])
    return xp.add.reduce(x, axis=axes, dtype=x.dtype)


def tall_sum(xp: Any, x: Any, axis: int) -> Any:
    """The sum over an axis that is not the last: RUN rows far apart are added, then what is left, and so on."""
    while (count := x.shape[axis]) > RUN:
        step = count // RUN
        whole, rest = xp.split(x, [step * RUN], axis)
        x = whole.reshape(*x.shape[:axis], RUN, step, *x.shape[axis + 1 :]).sum(axis=axis)
        if rest.shape[axis]:
            x = xp.concatenate([x, rest], axis)
    return x.sum(axis=axis)


def windows(
    xp: Any,
    x: Any,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
) -> Any:
    """A view [N, C, OH, OW, KH, KW] of the windows of x [N, C, H, W]; x must be padded already."""
    n, c, row, col = x.strides
    return xp.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:2], *size, *kernel),
        (n, c, row * stride[0], col * stride[1], row * dilation[0], col * dilation[1]),
    )


def padded(xp: Any, x: Any, padding: tuple[int, int], value: float = 0) -> Any:
    """x [N, C, H, W] with `padding` rows and columns of `value` on each side; x itself for no padding."""
    top, left = padding
    if not (top or left):
        return x
    n, c, h, w = x.shape
    out = xp.full((n, c, h + 2 * top, w + 2 * left), value, x.dtype)
    out[:, :, top : top + h, left : left + w] = x
    return out
