"""The public transforms: along one axis, along two, along several."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from .. import functional as F
from ..dtypes import get_default_dtype
from ..functional.base import axis, cast_to
from ..linalg.checks import cpp_name
from ..ops.linalg import complex_dtype
from ..tensor import Tensor
from .transforms import Axes, c2c, c2r, fitted, r2c

Sizes = Sequence[int] | None

FORWARD = {None: "one", "backward": "one", "ortho": "root", "forward": "count"}
BACKWARD = {None: "count", "backward": "count", "ortho": "root", "forward": "one"}


def scale_of(norm: str | None, forward: bool) -> str:
    """What the sums are divided by: "forward" and "backward" name the transform that is divided by n."""
    try:
        return (FORWARD if forward else BACKWARD)[norm]
    except (KeyError, TypeError):
        raise RuntimeError(
            f'Invalid normalization mode: "{norm}"; wants "forward", "backward" or "ortho"'
        ) from None


# ---- operands ----------------------------------------------------------------------------------------------


def floating(name: str, x: Tensor) -> Tensor:
    """A float tensor as it is, integers as the default float; RuntimeError for half precision."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(x).__name__}")
    if x.array.dtype.kind in "biu":
        return cast_to(x, get_default_dtype().numpy)
    if x.array.dtype.itemsize == 2:
        raise RuntimeError(
            f"Unsupported dtype {cpp_name(x)}: {name} wants float32, float64 or a complex tensor"
        )
    return x


def as_complex(name: str, x: Tensor) -> Tensor:
    x = floating(name, x)
    return cast_to(x, complex_dtype(x.array.dtype))


def as_real(name: str, x: Tensor) -> Tensor:
    x = floating(name, x)
    if x.array.dtype.kind == "c":
        raise RuntimeError(
            f"{name} expects a real input tensor, but got {cpp_name(x)}; use .real or the fft of it"
        )
    return x


def check_size(n: Any) -> int:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({int(n)}) specified")
    return n


def one_axis(name: str, x: Tensor, dim: int) -> int:
    if x.ndim == 0:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    return axis(name, dim, x.ndim)


def several_axes(name: str, x: Tensor, s: Sizes, dim: Any) -> tuple[Axes, list[int]]:
    """The axes, and the size wanted along each: its own where s is not given or -1."""
    if isinstance(dim, int):
        dim = (dim,)
    if isinstance(s, int):
        s = (s,)
    over = None if dim is None else tuple(one_axis(name, x, d) for d in dim)
    if over is not None and len(set(over)) != len(over):
        raise RuntimeError(f"FFT dims must be unique, got {tuple(dim)}")
    if s is not None:
        if over is not None and len(over) != len(s):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(s) > x.ndim:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions."
            )
        over = tuple(range(x.ndim - len(s), x.ndim)) if over is None else over
    over = tuple(range(x.ndim)) if over is None else over
    given = [-1] * len(over) if s is None else list(s)
    return over, [x.array.shape[a] if n == -1 else check_size(n) for a, n in zip(over, given, strict=True)]


def fit(x: Tensor, over: Axes, sizes: Sequence[int]) -> Tensor:
    for a, n in zip(over, sizes, strict=True):
        x = fitted(x, a, check_size(n))
    return x


# ---- complex to complex ------------------------------------------------------------------------------------


def _complex(name: str, x: Tensor, s: Sizes, dim: Any, norm: str | None, forward: bool) -> Tensor:
    x = as_complex(name, x)
    over, sizes = several_axes(name, x, s, dim)
    return c2c(fit(x, over, sizes), over, forward, scale_of(norm, forward))


def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along an axis, cut or padded to n elements before.

    norm: "backward" (the default: not divided), "forward" (divided by n) or "ortho" (by its root).
    """
    one_axis("fft", input, dim)
    return _complex("fft", input, None if n is None else (check_size(n),), (dim,), norm, True)


def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft` for the same norm."""
    one_axis("ifft", input, dim)
    return _complex("ifft", input, None if n is None else (check_size(n),), (dim,), norm, False)


def fftn(input: Tensor, s: Sizes = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The transform along several axes (all, or the last len(s)), cut or padded to the sizes s before."""
    return _complex("fftn", input, s, dim, norm, True)


def ifftn(input: Tensor, s: Sizes = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of `fftn`."""
    return _complex("ifftn", input, s, dim, norm, False)


def fft2(input: Tensor, s: Sizes = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`fftn` along two axes."""
    return fftn(input, s, dim, norm)


def ifft2(input: Tensor, s: Sizes = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`ifftn` along two axes."""
    return ifftn(input, s, dim, norm)


# ---- real to half complex ----------------------------------------------------------------------------------


def _from_real(name: str, x: Tensor, s: Sizes, dim: Any, norm: str | None, forward: bool) -> Tensor:
    x = as_real(name, x)
    over, sizes = several_axes(name, x, s, dim)
    if not over:
        raise RuntimeError(f"{name} must transform at least one axis")
    return r2c(fit(x, over, sizes), over, forward, scale_of(norm, forward))


def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 elements of the transform of a real signal; the others are their conjugates."""
    one_axis("rfft", input, dim)
    return _from_real("rfft", input, None if n is None else (check_size(n),), (dim,), norm, True)


def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: the first half of the inverse transform of a real signal."""
    one_axis("ihfft", input, dim)
    return _from_real("ihfft", input, None if n is None else (check_size(n),), (dim,), norm, False)


def rfftn(input: Tensor, s: Sizes = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The transform of a real signal along several axes, the first half along the last of them."""
    return _from_real("rfftn", input, s, dim, norm, True)


def ihfftn(input: Tensor, s: Sizes = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of `hfftn`."""
    return _from_real("ihfftn", input, s, dim, norm, False)


def rfft2(input: Tensor, s: Sizes = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`rfftn` along two axes."""
    return rfftn(input, s, dim, norm)


def ihfft2(input: Tensor, s: Sizes = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`ihfftn` along two axes."""
    return ihfftn(input, s, dim, norm)


# ---- half complex to real ----------------------------------------------------------------------------------


def _to_real(name: str, x: Tensor, s: Sizes, dim: Any, norm: str | None, forward: bool) -> Tensor:
    x = as_complex(name, x)
    over, sizes = several_axes(name, x, s, dim)
    if not over:
        raise RuntimeError(f"{name} must transform at least one axis")
    last = 2 * (x.array.shape[over[-1]] - 1) if s is None or tuple_of(s)[-1] == -1 else sizes[-1]
    sizes = [*sizes[:-1], check_size(last) // 2 + 1]
    return c2r(fit(x, over, sizes), over, forward, scale_of(norm, forward), last)


def tuple_of(s: Any) -> tuple[int, ...]:
    return (s,) if isinstance(s, int) else tuple(s)


def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: n real elements, twice those given less 2 if n is not given."""
    one_axis("irfft", input, dim)
    return _to_real("irfft", input, None if n is None else (check_size(n),), (dim,), norm, False)


def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real transform of a Hermitian signal, of which the first half is given."""
    one_axis("hfft", input, dim)
    return _to_real("hfft", input, None if n is None else (check_size(n),), (dim,), norm, True)


def irfftn(input: Tensor, s: Sizes = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`; s are the sizes of the result."""
    return _to_real("irfftn", input, s, dim, norm, False)


def hfftn(input: Tensor, s: Sizes = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The real transform along several axes of a signal that is Hermitian along them."""
    return _to_real("hfftn", input, s, dim, norm, True)


def irfft2(input: Tensor, s: Sizes = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`irfftn` along two axes."""
    return irfftn(input, s, dim, norm)


def hfft2(input: Tensor, s: Sizes = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`hfftn` along two axes."""
    return hfftn(input, s, dim, norm)


# ---- frequencies and order ---------------------------------------------------------------------------------


def fftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequency of each element of `fft` of n samples a time d apart: 0, 1, … then the negative ones."""
    place = F.arange(n, device=device)
    out = F.cast(F.where(place < (n + 1) // 2, place, place - n), dtype or get_default_dtype()) / (n * d)
    return out.requires_grad_() if requires_grad else out


def rfftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequency of each element of `rfft` of n samples a time d apart."""
    out = F.cast(F.arange(n // 2 + 1, device=device), dtype or get_default_dtype()) / (n * d)
    return out.requires_grad_() if requires_grad else out


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Rolled so that frequency 0 is in the middle, along the axes given or all."""
    return shifted(input, dim, 1)


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    return shifted(input, dim, -1)


def shifted(x: Tensor, dim: Any, sign: int) -> Tensor:
    dims = tuple(range(x.ndim)) if dim is None else tuple_of(dim)
    steps = [
        x.array.shape[axis("fftshift", d, x.ndim)] // 2 if sign > 0 else -(x.array.shape[d] // 2)
        for d in dims
    ]
    return F.roll(x, steps, dims) if dims and prod(x.array.shape) else x.clone()
