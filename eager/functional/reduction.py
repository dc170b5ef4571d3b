"""Reductions, running sums, order, and the statistics built on them."""

from __future__ import annotations

import builtins
from math import prod as product
from typing import Any, NamedTuple

from ..dtypes import dtype_of
from ..ops.table import TABLE
from ..tape import apply, apply_unary, labelled
from ..tensor import Tensor
from .base import as_float, axes, axis, cast_to
from .pointwise import abs, cast, clamp, isnan, logical_not, maximum, minimum, pow, sqrt, where
from .shaping import flatten, reshape, squeeze, unsqueeze

SUM, PROD, AMAX, AMIN = TABLE["sum"], TABLE["prod"], TABLE["amax"], TABLE["amin"]
ANY, ALL, ARGMAX, ARGMIN = TABLE["any"], TABLE["all"], TABLE["argmax"], TABLE["argmin"]
CUMSUM, ARGSORT = TABLE["cumsum"], TABLE["argsort"]
MEAN, VAR, LOGSUMEXP = TABLE["mean"], TABLE["var"], TABLE["logsumexp"]
SOFTMAX, LOG_SOFTMAX = TABLE["softmax"], TABLE["log_softmax"]
INT64 = dtype_of("int64").numpy


class ValuesIndices(NamedTuple):
    """What max(dim), min(dim), sort, topk and median(dim) return."""

    values: Tensor
    indices: Tensor


def kept(out: Tensor, x: Tensor, over: tuple[int, ...]) -> Tensor:
    """`out` with the reduced axes back at size 1. The label of its node stays."""
    label = getattr(out.node, "label", "") or (out.node.name.removesuffix("Backward0") if out.node else "")
    shaped = reshape(out, tuple(1 if d in over else n for d, n in enumerate(x.array.shape)))
    return labelled(shaped, label) if label else shaped


def reduce_with(op: Any, x: Tensor, dim: Any, keepdim: bool, **attrs: Any) -> Tensor:
    over = axes(op.name, dim, len(x.array.shape))
    out = apply_unary(op, x, {"axes": over, **attrs})
    return kept(out, x, over) if keepdim else out


# ---- sums and products -------------------------------------------------------------------------------------


def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over axes (all if none are given). Integers are summed as int64."""
    x = widened(input, dtype)
    out = reduce_with(SUM, x, dim, keepdim)
    return out if dim is None else labelled(out, "SumBackward1")


def prod(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The product over an axis, or of all elements."""
    return reduce_with(PROD, widened(input, dtype), dim, keepdim)


def widened(x: Tensor, dtype: Any) -> Tensor:
    """In the dtype asked for; else integers and bool as int64."""
    if dtype is not None:
        return cast(x, dtype)
    return cast_to(x, INT64) if x.array.dtype.kind in "biu" else x


def mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean over axes; RuntimeError for integers without a dtype."""
    x = input if dtype is None else cast(input, dtype)
    if x.array.dtype.kind in "biu":
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {x.dtype.name}"
        )
    out = reduce_with(MEAN, x, dim, keepdim)
    return out if dim is None else labelled(out, "MeanBackward1")


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Tensor:
    """The variance over axes, divided by n - correction (1 by default; unbiased=False means 0)."""
    if isinstance(dim, bool):  # var(x, unbiased)
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return reduce_with(VAR, as_float("var", input), dim, keepdim, correction=correction)


def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Tensor:
    """The standard deviation over axes, with `var`'s arguments."""
    return labelled(sqrt(var(input, dim, unbiased, keepdim, correction=correction)), "Std")


def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> tuple[Tensor, Tensor]:
    """Variance and mean."""
    return var(input, dim, unbiased, keepdim, correction=correction), mean(input, dim, keepdim)


def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean."""
    return std(input, dim, unbiased, keepdim, correction=correction), mean(input, dim, keepdim)


def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum, nan counted as 0."""
    return sum(where(isnan(input), 0, input), dim, keepdim, dtype=dtype)


def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The mean of the elements that are not nan."""
    count = sum(logical_not(isnan(input)), dim, keepdim)
    return nansum(input, dim, keepdim) / count


def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """The number of nonzero elements."""
    return sum(cast(input, "bool"), dim)


def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False) -> Tensor:
    """The p-norm of the elements over axes; p a number, inf, -inf or "fro" (2)."""
    if p in ("fro", 2, 2.0):
        return labelled(sqrt(sum(input * input, dim, keepdim)), "LinalgVectorNorm")
    if p == float("inf"):
        return amax(abs(input), dim, keepdim)
    if p == float("-inf"):
        return amin(abs(input), dim, keepdim)
    if p == 0:
        return cast(sum(input != 0, dim, keepdim), input.dtype)
    if p == 1:
        return sum(abs(input), dim, keepdim)
    return pow(sum(pow(abs(input), p), dim, keepdim), 1.0 / p)


def dist(input: Tensor, other: Tensor, p: Any = 2) -> Tensor:
    """The p-norm of the difference."""
    return norm(input - other, p)


# ---- extremes ----------------------------------------------------------------------------------------------


def amax(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The maximum over axes; elements that tie share the gradient."""
    return reduce_with(AMAX, input, dim, keepdim)


def amin(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The minimum over axes; elements that tie share the gradient."""
    return reduce_with(AMIN, input, dim, keepdim)


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Minimum and maximum."""
    return amin(input, dim, keepdim), amax(input, dim, keepdim)


def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The maximum of all; max(x, dim) -> (values, indices); max(x, y) element by element."""
    return extreme("max", input, dim if other is None else other, keepdim, amax, argmax, maximum)


def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The minimum of all; min(x, dim) -> (values, indices); min(x, y) element by element."""
    return extreme("min", input, dim if other is None else other, keepdim, amin, argmin, minimum)


def extreme(name: str, x: Tensor, dim: Any, keepdim: bool, over_all: Any, position: Any, of_two: Any) -> Any:
    if isinstance(dim, Tensor):
        return of_two(x, dim)
    label = name.capitalize()
    if dim is None:
        if not product(x.array.shape):
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
                "dim with the 'dim' argument."
            )
        return labelled(over_all(x), f"{label}Backward1")
    at = position(x, dim, True)
    values = take_along(x, at, dim)
    if not keepdim:
        values, at = squeeze(values, dim), squeeze(at, dim)
    return ValuesIndices(labelled(values, label), at)


def take_along(x: Tensor, indices: Tensor, dim: int) -> Tensor:
    if not x.ndim:
        return reshape(x, ())
    return apply(TABLE["gather"], x, indices, dim=axis("gather", dim, x.ndim))


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The position of the maximum along an axis, or in the flattened tensor."""
    return position(ARGMAX, input, dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The position of the minimum along an axis, or in the flattened tensor."""
    return position(ARGMIN, input, dim, keepdim)


def position(op: Any, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if dim is None:
        out = apply(op, reshape(x, (-1,)) if product(x.array.shape) else flatten(x), dim=0)
        return reshape(out, (1,) * x.ndim) if keepdim else out
    d = axis(op.name, dim, x.ndim)
    if not x.ndim:
        return apply(op, reshape(x, (1,)), dim=0)
    out = apply(op, x, dim=d)
    return unsqueeze(out, d) if keepdim else out


def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether an element is nonzero."""
    return reduce_with(ANY, cast(input, "bool"), dim, keepdim)


def all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are nonzero."""
    return reduce_with(ALL, cast(input, "bool"), dim, keepdim)


# ---- along an axis -----------------------------------------------------------------------------------------


def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The running sum along an axis."""
    x = widened(input, dtype)
    d = axis("cumsum", dim, x.ndim)
    return apply(CUMSUM, x, dim=d) if x.ndim else x * 1


def diff(input: Tensor, n: int = 1, dim: int = -1) -> Tensor:
    """Differences of neighbours along an axis, n times."""
    from .shaping import slice_axis

    d = axis("diff", dim, input.ndim)
    for _ in range(n):
        size = input.array.shape[d]
        input = slice_axis(input, d, 1, size) - slice_axis(input, d, 0, size - 1)
    return input


def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """exp(x) normalised to sum to 1 along an axis."""
    return along(SOFTMAX, input, dim, dtype)


def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """The logarithm of softmax, computed without forming it."""
    return along(LOG_SOFTMAX, input, dim, dtype)


def along(op: Any, x: Tensor, dim: int, dtype: Any) -> Tensor:
    x = x if dtype is None else cast(x, dtype)
    if x.array.dtype.kind in "biu":
        raise RuntimeError(f'"{op.name}" not implemented for {x.dtype!r}; it wants a floating dtype')
    d = axis(op.name, dim, x.ndim)
    return apply(op, x, dim=d) if x.ndim else reshape(apply(op, reshape(x, (1,)), dim=0), ())


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over axes, without overflow."""
    return reduce_with(LOGSUMEXP, as_float("logsumexp", input), dim, keepdim)


# ---- order -------------------------------------------------------------------------------------------------


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions that sort an axis; equal elements keep their order."""
    d = axis("argsort", dim, input.ndim)
    if not input.ndim:
        return apply(ARGSORT, reshape(input, (1,)), dim=0, descending=descending).reshape(())
    return apply(ARGSORT, input, dim=d, descending=bool(descending))


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> ValuesIndices:
    """An axis in order, and the positions the elements came from."""
    order = argsort(input, dim, descending)
    return ValuesIndices(labelled(take_along(input, order, dim), "Sort"), order)


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """The k largest (or smallest) elements of an axis, in order, and their positions."""
    from .shaping import slice_axis

    d = axis("topk", dim, input.ndim)
    if input.ndim and not 0 <= k <= input.array.shape[d]:
        raise RuntimeError("selected index k out of range")
    order = argsort(input, dim, descending=largest)
    if input.ndim:
        order = slice_axis(order, d, 0, k)
    return ValuesIndices(labelled(take_along(input, order, dim), "Topk"), order)


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest element of an axis (k from 1), and its position."""
    from .shaping import slice_axis

    d = axis("kthvalue", dim, input.ndim)
    if not 1 <= k <= input.array.shape[d]:
        raise RuntimeError("selected number k out of range for dimension " + str(d))
    at = slice_axis(argsort(input, d), d, k - 1, k)
    values = take_along(input, at, d)
    return ValuesIndices(values, at) if keepdim else ValuesIndices(squeeze(values, d), squeeze(at, d))


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements, or of an axis with its position."""
    if dim is None:
        flat = flatten(input)
        return kthvalue(flat, (flat.array.shape[0] + 1) // 2, 0).values
    size = input.array.shape[axis("median", dim, input.ndim)]
    return kthvalue(input, (size + 1) // 2, dim, keepdim)


def quantile(input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The q-quantile of all elements or of an axis, between neighbours in proportion. q: a float."""
    from .shaping import slice_axis

    if dim is None:
        shape = (1,) * input.ndim
        out = quantile(flatten(input), q, 0, True)
        return reshape(out, shape if keepdim else ())
    d = axis("quantile", dim, input.ndim)
    ordered = sort(input, d).values
    place = float(q) * (input.array.shape[d] - 1)
    low = int(place)
    high = builtins.min(low + 1, input.array.shape[d] - 1)
    below, above = slice_axis(ordered, d, low, low + 1), slice_axis(ordered, d, high, high + 1)
    out = below + (above - below) * (place - low)
    return out if keepdim else squeeze(out, d)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice along an axis scaled down to a p-norm of at most maxnorm."""
    d = axis("renorm", dim, input.ndim)
    size = norm(input, p, [k for k in range(input.ndim) if k != d], keepdim=True)
    return input * clamp(maxnorm / (size + 1e-7), max=1.0)


def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    from .shaping import diagonal

    if input.ndim != 2:
        raise RuntimeError("trace: expected a matrix, but got tensor with dim " + str(input.ndim))
    return sum(diagonal(input))


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are the same (nan equals nothing). A Python bool: reads the contents."""
    if tuple(input.array.shape) != tuple(other.array.shape):
        return False
    return bool(all(input == other))


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (see isclose). A Python bool: reads the contents."""
    from .pointwise import isclose

    return bool(all(isclose(input, other, rtol, atol, equal_nan)))
