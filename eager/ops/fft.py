"""Discrete Fourier transforms over several axes, computed as a whole by scipy.fft in the operands' precision.

Three kinds, as in PyTorch: complex to complex, real to complex (the half of the last axis that determines the rest)
and that half back to real. `forward` is the sign of the exponent; `scale` what the sums are divided by: "one",
"root" (the square root of the number n of elements summed) or "count" (n). Every transform is linear, and its
gradient is the transform with the other sign and the same scale.
"""

from __future__ import annotations

from typing import Any

from .lapack import on_host
from .linalg import complex_dtype, real_dtype
from .table import library
from .types import Aval

Axes = tuple[int, ...]

#: scipy's name of a scale, for forward and for backward transforms.
NORMS = {
    (True, "one"): "backward",
    (True, "root"): "ortho",
    (True, "count"): "forward",
    (False, "one"): "forward",
    (False, "root"): "ortho",
    (False, "count"): "backward",
}


def resized(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def half(size: int) -> int:
    """How many of `size` coefficients of a real signal determine the others."""
    return size // 2 + 1


# ---- complex to complex ------------------------------------------------------------------------------------


def _c2c(x: Any, *, axes: Axes, forward: bool, scale: str) -> Any:
    from scipy import fft

    if not x.size:
        return x
    return (fft.fftn if forward else fft.ifftn)(x, axes=axes, norm=NORMS[forward, scale])


library(
    "fft_c2c",
    lambda x, **attrs: x,
    on_host(_c2c),
    vjp=(lambda F, g, out, x, *, axes, forward, scale: F.fft.transforms.c2c(g, axes, not forward, scale),),
)

# ---- real to half complex ----------------------------------------------------------------------------------


def _r2c_infer(x: Aval, *, axes: Axes, forward: bool, scale: str) -> Aval:
    return Aval(resized(x.shape, axes[-1], half(x.shape[axes[-1]])), complex_dtype(x.dtype))


def _r2c(x: Any, *, axes: Axes, forward: bool, scale: str) -> Any:
    import numpy as np
    from scipy import fft

    if not x.size:
        shape = resized(x.shape, axes[-1], half(x.shape[axes[-1]]))
        return np.zeros(shape, complex_dtype(x.dtype))
    # The backward transform of a real signal is the conjugate of the forward one.
    out = fft.rfftn(x, axes=axes, norm=NORMS[True, scale])
    return out if forward else out.conj()


def _r2c_vjp(F: Any, g: Any, out: Any, x: Any, *, axes: Axes, forward: bool, scale: str) -> Any:
    """The other half of the coefficients has no gradient."""
    last = axes[-1]
    missing = x.shape[last] - g.shape[last]
    whole = F.fft.transforms.padded(g, last, missing)
    return F.real(F.fft.transforms.c2c(whole, axes, not forward, scale))


library("fft_r2c", _r2c_infer, on_host(_r2c), vjp=(_r2c_vjp,))

# ---- half complex to real ----------------------------------------------------------------------------------


def _c2r_infer(x: Aval, *, axes: Axes, forward: bool, scale: str, size: int) -> Aval:
    return Aval(resized(x.shape, axes[-1], size), real_dtype(x.dtype))


def _c2r(x: Any, *, axes: Axes, forward: bool, scale: str, size: int) -> Any:
    from scipy import fft

    shape = [x.shape[a] for a in axes[:-1]] + [size]
    return fft.irfftn(x.conj() if forward else x, s=shape, axes=axes, norm=NORMS[False, scale])


def _c2r_vjp(F: Any, g: Any, out: Any, x: Any, *, axes: Axes, forward: bool, scale: str, size: int) -> Any:
    """A coefficient that stands for its conjugate as well counts twice."""
    last = axes[-1]
    return F.fft.transforms.doubled(F.fft.transforms.r2c(g, axes, not forward, scale), last, size)


library("fft_c2r", _c2r_infer, on_host(_c2r), vjp=(_c2r_vjp,))
