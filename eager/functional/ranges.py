"""Evenly spaced numbers, and the identity matrix."""

from __future__ import annotations

import warnings
from math import ceil, isfinite
from typing import Any

import numpy as np

from ..dtypes import COMPLEX, FLOATING, dtype_of, get_default_dtype
from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor
from .base import cast_to
from .creation import finished, strided
from .output import takes_out

ARANGE = TABLE["arange"]


def plain(name: str, value: Any) -> Any:
    """A bound as a Python number; tensors have no axes."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, but got a tensor with {value.ndim} "
                "dimension(s)."
            )
        return value.item()
    return value.item() if isinstance(value, np.generic) else value


@takes_out
@strided
def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, … below end. Integers give int64, floats the default float."""
    start, end = (0, start) if end is None else (start, end)
    start, end, step = (plain("arange", v) for v in (start, end, step))
    check_range(start, end, step)
    whole = all(isinstance(v, int) for v in (start, end, step))
    wanted = dtype_of("int64" if whole else get_default_dtype()) if dtype is None else dtype_of(dtype)
    if wanted.name == "int64" and not whole:  # int64 takes the bounds as integers before it counts
        start, end, step, whole = int(start), int(end), int(step), True
        if step == 0:
            raise ValueError("step must be nonzero")
    size = (end - start if step == 1 else -((start - end) // step)) if whole else ceil((end - start) / step)
    if not whole and wanted.category < FLOATING:
        start, step, whole = int(start), int(step), True
    if not whole:
        start, step = float(start), float(step)
    return finished(
        apply(ARANGE, size=size, start=start, step=step, dtype=wanted.name), device, requires_grad
    )


def check_range(start: Any, end: Any, step: Any) -> None:
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not all(isinstance(v, int) or isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * (1 if step > 0 else -1) < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


@takes_out
@strided
def range(start: Any, end: Any = None, step: Any = 1, **options: Any) -> Tensor:
    """start, start + step, … up to and with end, floats unless a dtype is named. Deprecated as in PyTorch."""
    warnings.warn(
        "range is deprecated because its behavior is inconsistent with Python's range builtin. Instead, use arange, "
        "which produces values in [start, end).",
        stacklevel=3,
    )
    start, end = (0, start) if end is None else (start, end)
    check_range(start, end, step)
    options.setdefault("dtype", get_default_dtype())
    last = start + step * int((end - start) / step)
    whole = isinstance(start, int) and isinstance(step, int)
    return arange(start, last + (step if whole else step * 0.5), step, **options)


@takes_out
@strided
def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`steps` evenly spaced numbers from start to end, both included."""
    a, b = plain("linspace", start), plain("linspace", end)
    wanted = spaced_dtype(a, b, dtype)
    return finished(spaced("linspace", a, b, steps, wanted, wanted.name), device, requires_grad)


@takes_out
@strided
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` powers of base whose exponents are evenly spaced from start to end."""
    from .pointwise import pow

    a, b = plain("logspace", start), plain("logspace", end)
    wanted = spaced_dtype(a, b, dtype)
    working = "complex128" if wanted.category == COMPLEX else "float64"
    exponents = spaced("logspace", a, b, steps, wanted, working)
    return finished(cast_to(pow(base, exponents), wanted.numpy), device, requires_grad)


def spaced_dtype(a: Any, b: Any, dtype: Any) -> Any:
    if dtype is not None:
        return dtype_of(dtype)
    default = get_default_dtype()
    if isinstance(a, complex) or isinstance(b, complex):
        return dtype_of("complex128" if default.name == "float64" else "complex64")
    return default


def spaced(name: str, a: Any, b: Any, steps: int, wanted: Any, working: str) -> Tensor:
    """The numbers themselves, the bounds first rounded to the dtype `wanted`."""
    if isinstance(steps, bool) or not hasattr(steps, "__index__"):
        raise TypeError(f"{name}(): steps is an integer, got {type(steps).__name__} {steps!r}")
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if steps > 1:
        a, b = (np.array(v).astype(wanted.numpy).astype(working).item() for v in (a, b))
    else:
        a, b = (np.array(v).astype(working).item() for v in (a, b))
    a, b = (v if isinstance(v, complex) else float(v) for v in (a, b))
    step = (b - a) / (steps - 1) if steps > 1 else 0.0
    # Counted from the nearer end, so that both ends are exact.
    rest = steps - steps // 2 if steps > 1 else 0
    first = apply(ARANGE, size=steps - rest, start=a, step=step, dtype=working)
    if not rest:
        return first
    second = apply(ARANGE, size=rest, start=b, step=-step, dtype=working)
    return apply(TABLE["cat"], first, apply(TABLE["flip"], second, axes=(0,)), dim=0)


@takes_out
@strided
def eye(
    n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones on the diagonal of an n by m matrix (m = n if not given), else zeros."""
    from .pointwise import cast, eq
    from .shaping import unsqueeze

    m = n if m is None else m
    if n < 0 or m < 0:
        raise RuntimeError(f"n and m must be greater or equal to 0, got {n} and {m}")
    same = eq(unsqueeze(arange(n), 1), arange(m))
    return finished(cast(same, get_default_dtype() if dtype is None else dtype), device, requires_grad)
