"""Windows of signals. A periodic one is a symmetric one of one sample more, its last left out."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import pi
from typing import Any

from ..dtypes import dtype_of, get_default_dtype
from ..tensor import Tensor
from .base import cast_to
from .creation import finished, ones, strided
from .pointwise import abs, clamp, cos, sqrt
from .ranges import arange
from .slicing import slice_axis


def window(shape: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A window from its shape: a function of the place of each sample, 0 to 1, and of parameters."""
    name = f"{shape.__name__}_window"

    @strided
    @wraps(shape)
    def made(
        window_length: int,
        periodic: bool = True,
        *parameters: float,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **named: float,
    ) -> Tensor:
        wanted = get_default_dtype() if dtype is None else dtype_of(dtype)
        if not wanted.is_floating_point:
            raise RuntimeError(f"{name} expects floating point dtypes, got: {wanted!r}")
        if window_length < 0:
            raise RuntimeError(
                f"{name} requires non-negative window_length, got window_length={window_length}"
            )
        if window_length <= 1:
            return finished(ones(window_length, dtype=wanted), device, requires_grad)
        size = window_length + periodic
        samples = shape(arange(size, dtype="float64") / (size - 1), *parameters, **named)
        return finished(
            cast_to(slice_axis(samples, 0, 0, window_length), wanted.numpy), device, requires_grad
        )

    made.__name__ = made.__qualname__ = name
    return made


@window
def bartlett(x: Tensor) -> Tensor:
    """A triangle. (window_length, periodic=True): [window_length] in the default float or `dtype`."""
    return 1 - abs(2 * x - 1)


@window
def hann(x: Tensor) -> Tensor:
    """1/2 - 1/2·cos(2πx). (window_length, periodic=True): [window_length] in the default float or `dtype`."""
    return 0.5 - 0.5 * cos(x * (2 * pi))


@window
def hamming(x: Tensor, alpha: float = 0.54, beta: float = 0.46) -> Tensor:
    """α - β·cos(2πx). (window_length, periodic=True, alpha, beta): [window_length]."""
    return alpha - beta * cos(x * (2 * pi))


@window
def blackman(x: Tensor) -> Tensor:
    """0.42 - 1/2·cos(2πx) + 0.08·cos(4πx). (window_length, periodic=True): [window_length]."""
    return clamp(0.42 - 0.5 * cos(x * (2 * pi)) + 0.08 * cos(x * (4 * pi)), min=0.0)


@window
def kaiser(x: Tensor, beta: float = 12.0) -> Tensor:
    """I₀(β·√(1 - (2x - 1)²)) / I₀(β). (window_length, periodic=True, beta=12): [window_length]."""
    from .. import functional

    outer = functional.i0(x * 0 + beta)
    return functional.i0(beta * sqrt(clamp(1 - (2 * x - 1) ** 2, min=0.0))) / outer


bartlett_window, hann_window, hamming_window = bartlett, hann, hamming
blackman_window, kaiser_window = blackman, kaiser
