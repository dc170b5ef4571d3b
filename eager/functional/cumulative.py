"""Along an axis: running sums, products and extremes, differences and integrals."""

from __future__ import annotations

from typing import Any

from ..ops.table import TABLE
from ..tape import apply, labelled
from ..tensor import Tensor
from .base import as_float, axis
from .joining import cat
from .output import takes_out
from .pointwise import clone, logical_xor
from .reduction import ValuesIndices, sum, take_along, widened
from .shaping import expand, reshape
from .slicing import slice_axis

CUMSUM, CUMPROD, LOGCUMSUMEXP = TABLE["cumsum"], TABLE["cumprod"], TABLE["logcumsumexp"]
CUMMAX, CUMMIN, RECURRENCE = TABLE["cummax_indices"], TABLE["cummin_indices"], TABLE["recurrence"]


def running(op: Any, x: Tensor, dim: int) -> Tensor:
    """A running op along an axis; a zero-dimensional tensor counts as one element."""
    d = axis(op.name, dim, x.ndim)
    return apply(op, x, dim=d) if x.ndim else reshape(apply(op, reshape(x, (1,)), dim=0), ())


@takes_out
def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The running sum along an axis."""
    return running(CUMSUM, widened(input, dtype), dim)


@takes_out
def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The running product along an axis."""
    return running(CUMPROD, widened(input, dtype), dim)


@takes_out
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """The logarithm of the running sum of exp(x), without overflow."""
    if input.array.dtype.kind in "biu":
        raise RuntimeError(f'"logcumsumexp" not implemented for {input.dtype!r}; it wants a floating dtype')
    return running(LOGCUMSUMEXP, input, dim)


@takes_out
def cummax(input: Tensor, dim: int) -> ValuesIndices:
    """The largest element so far, and where it is (the last of equal ones)."""
    return cumulative_extreme(CUMMAX, input, dim)


@takes_out
def cummin(input: Tensor, dim: int) -> ValuesIndices:
    """The smallest element so far, and where it is (the last of equal ones)."""
    return cumulative_extreme(CUMMIN, input, dim)


def cumulative_extreme(op: Any, x: Tensor, dim: int) -> ValuesIndices:
    if x.array.dtype.kind == "c":
        raise RuntimeError(f'"{op.name}" not implemented for {x.dtype!r}: complex numbers have no order')
    places = running(op, x, dim)
    label = "Cummax" if op is CUMMAX else "Cummin"
    return ValuesIndices(labelled(take_along(x, places, dim), label), places)


def recurrence(a: Tensor, b: Tensor, dim: int) -> Tensor:
    """y[k] = a[k]·y[k - 1] + b[k] along an axis, y[-1] = 0."""
    return apply(RECURRENCE, a, b, dim=dim)


# ---- differences -------------------------------------------------------------------------------------------


@takes_out
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours along an axis, n times, of the tensor with what is put before and behind it.

    Of bools: whether neighbours differ.
    """
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    d = axis("diff", dim, input.ndim)
    if n == 0:
        return clone(input)
    if prepend is not None or append is not None:
        parts = [prepend, input, append]
        input = cat([extended(part, input, d) for part in parts if part is not None], d)
    size = input.array.shape[d]
    if n >= size:
        return slice_axis(input, d, 0, 0)
    subtract = logical_xor if input.array.dtype.kind == "b" else Tensor.__sub__
    for k in range(n):
        input = subtract(slice_axis(input, d, 1, size - k), slice_axis(input, d, 0, size - k - 1))
    return input


def extended(part: Tensor, like: Tensor, dim: int) -> Tensor:
    """What diff puts before or behind: it has the other axes' sizes; zero-dimensional, it is one slice."""
    if part is like:
        return part
    if not part.ndim:
        return expand(part, tuple(1 if d == dim else n for d, n in enumerate(like.array.shape)))
    if part.ndim != like.ndim:
        raise RuntimeError(
            "diff expects prepend or append to be the same dimension as input, got "
            f"{part.ndim} axes for an input of {like.ndim}"
        )
    for d, (n, m) in enumerate(zip(part.array.shape, like.array.shape, strict=True)):
        if d != dim and n != m:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along the "
                f"differencing dimension; input.size({d}) = {m}, but got tensor.size({d}) = {n}"
            )
    return part


# ---- integrals ---------------------------------------------------------------------------------------------


def trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral of samples y along an axis by the trapezoidal rule, at places x or dx apart."""
    d = axis("trapezoid", dim, y.ndim)
    x, dx = spacing("trapezoid", x, dx)
    if not y.array.shape[d]:
        out = sum(y, d)
        return out if out.array.dtype.kind not in "biu" else as_float("trapezoid", out)
    areas, step = trapezoids(y, x, dx, d)
    return sum(areas, d) * step


trapz = trapezoid


def cumulative_trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The running integral of samples along an axis: one element less than y there."""
    d = axis("cumulative_trapezoid", dim, y.ndim)
    x, dx = spacing("cumulative_trapezoid", x, dx)
    areas, step = trapezoids(y, x, dx, d)
    return cumsum(areas, d) * step


def spacing(name: str, x: Any, dx: Any) -> tuple[Tensor | None, Any]:
    if x is not None and dx is not None:
        raise TypeError(f"{name}() takes x or dx, got both")
    if x is not None and not isinstance(x, Tensor):
        return None, x
    return x, 1 if dx is None else dx


def trapezoids(y: Tensor, x: Tensor | None, dx: Any, d: int) -> tuple[Tensor, Any]:
    """The sum of each pair of neighbours, times their distance where places are given; what is left to multiply by."""
    size = y.array.shape[d]
    pairs = slice_axis(y, d, 1, size) + slice_axis(y, d, 0, size - 1)
    if x is None:
        return pairs, dx / 2.0
    if x.ndim < y.ndim:
        if x.ndim == 1:
            x = reshape(x, tuple(-1 if k == d else 1 for k in range(y.ndim)))
        else:
            x = reshape(x, (*(1,) * (y.ndim - x.ndim), *x.array.shape))
    along = d + x.ndim - y.ndim
    count = x.array.shape[along]
    steps = slice_axis(x, along, 1, count) - slice_axis(x, along, 0, count - 1)
    return pairs * steps, 0.5
