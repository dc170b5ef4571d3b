"""Complex numbers and their parts. Their gradients are PyTorch's: for a real loss, ∂L/∂re + i·∂L/∂im.

The parts and the conversions between a complex array and one of pairs are views.
"""

from __future__ import annotations

from typing import Any

from .table import library
from .types import Aval, broadcast_shapes, complex_dtype, real_dtype, same_dtype


def _part(x: Aval) -> Aval:
    return Aval(x.shape, real_dtype(x.dtype))


library("conj", lambda x: x, lambda xp, x: xp.conj(x), vjp=(lambda F, g, out, x: F.conj(g),))
library(
    "real",
    _part,
    lambda xp, x: x.real,
    vjp=(lambda F, g, out, x: F.cast(g, x.dtype),),
    put=lambda F, base, value: F.complex(value, F.imag(base)),
)
library(
    "imag",
    _part,
    lambda xp, x: x.imag,
    vjp=(lambda F, g, out, x: F.complex(F.zeros_like(g), g),),
    put=lambda F, base, value: F.complex(F.real(base), value),
)


def _complex_infer(re: Aval, im: Aval) -> Aval:
    return Aval(broadcast_shapes("complex", re, im), complex_dtype(same_dtype("complex", re, im)))


def _complex_run(xp: Any, re: Any, im: Any) -> Any:
    """Filled part by part: re + 1j·im would make an infinite part of one a nan in the other."""
    out = xp.empty(xp.broadcast_shapes(re.shape, im.shape), complex_dtype(re.dtype))
    out.real, out.imag = re, im
    return out


library(
    "complex",
    _complex_infer,
    _complex_run,
    vjp=(lambda F, g, out, re, im: F.real(g), lambda F, g, out, re, im: F.imag(g)),
    arity=(2, 2),
)
library(
    "view_as_real",
    lambda x: Aval((*x.shape, 2), real_dtype(x.dtype)),
    lambda xp, x: x[..., None].view(real_dtype(x.dtype)),
    vjp=(lambda F, g, out, x: F.pairs_as_complex(g),),
    put=lambda F, base, value: F.pairs_as_complex(value),
)
library(
    "view_as_complex",
    lambda x: Aval(x.shape[:-1], complex_dtype(x.dtype)),
    lambda xp, x: x.view(complex_dtype(x.dtype))[..., 0],
    vjp=(lambda F, g, out, x: F.view_as_real(g),),
    put=lambda F, base, value: F.view_as_real(value),
)
