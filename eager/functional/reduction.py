"""Reductions over axes, and the softmax family."""

from __future__ import annotations

import warnings
from math import prod as product
from typing import Any, NamedTuple

from ..dtypes import dtype_of
from ..ops.table import TABLE
from ..tape import apply, apply_unary, labelled
from ..tensor import Tensor
from .base import as_float, axes, axis, cast_to
from .output import takes_out
from .pointwise import cast, exp, isinf, isnan, log, logical_not, maximum, minimum, sqrt, where
from .shaping import flatten, permute, reshape, squeeze, unsqueeze

SUM, PROD, OTHERS = TABLE["sum"], TABLE["prod"], TABLE["product_of_others"]
AMAX, AMIN = TABLE["amax"], TABLE["amin"]
ANY, ALL, ARGMAX, ARGMIN = TABLE["any"], TABLE["all"], TABLE["argmax"], TABLE["argmin"]
ARGSORT = TABLE["argsort"]
MEAN, VAR, LOGSUMEXP = TABLE["mean"], TABLE["var"], TABLE["logsumexp"]
SOFTMAX, LOG_SOFTMAX = TABLE["softmax"], TABLE["log_softmax"]
HASH = TABLE["hash_tensor"]
INT64 = dtype_of("int64").numpy


class ValuesIndices(NamedTuple):
    """What max(dim), min(dim), sort, topk, median(dim) and cummax return."""

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


@takes_out
def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over axes (all if none are given). Integers are summed as int64."""
    x = widened(input, dtype)
    out = reduce_with(SUM, x, dim, keepdim)
    return out if dim is None else labelled(out, "SumBackward1")


@takes_out
def prod(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The product over an axis, or of all elements."""
    return reduce_with(PROD, widened(input, dtype), dim, keepdim)


def product_of_others(x: Tensor, over: tuple[int, ...]) -> Tensor:
    """For each element the product of those it shares the reduced axes with, itself left out."""
    ndim, shape = x.ndim, x.array.shape
    order = [*(d for d in range(ndim) if d not in over), *over]
    moved = permute(x, order) if order != list(range(ndim)) else x
    rows = reshape(
        moved, (*(shape[d] for d in range(ndim) if d not in over), product(shape[d] for d in over))
    )
    out = reshape(apply_unary(OTHERS, rows), tuple(shape[d] for d in order))
    return permute(out, [order.index(d) for d in range(ndim)]) if moved is not x else out


def widened(x: Tensor, dtype: Any) -> Tensor:
    """In the dtype asked for; else integers and bool as int64."""
    if dtype is not None:
        return cast(x, dtype)
    return cast_to(x, INT64) if x.array.dtype.kind in "biu" else x


@takes_out
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


@takes_out
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum, nan counted as 0."""
    if input.array.dtype.kind == "c":
        raise RuntimeError("nansum does not support complex inputs")
    return sum(where(isnan(input), 0, input), dim, keepdim, dtype=dtype)


@takes_out
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean of the elements that are not nan."""
    if input.array.dtype.kind in "biu":
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype.name}"
        )
    missing = isnan(input)
    total = sum(where(missing, 0, input), dim, keepdim, dtype=dtype)
    return total / sum(logical_not(missing), dim, keepdim)


def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """The number of nonzero elements."""
    return sum(cast(input, "bool"), dim)


@takes_out
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over axes, without overflow."""
    x = as_float("logsumexp", input)
    if x.array.dtype.kind != "c":
        return reduce_with(LOGSUMEXP, x, dim, keepdim)
    top = amax(real(x).detach(), dim, True)
    top = where(isinf(top), 0.0, top)
    out = log(sum(exp(x - top), dim, keepdim))
    return out + (top if keepdim else reshape(top, out.array.shape))


def real(x: Tensor) -> Tensor:
    from .. import functional

    return functional.real(x)


# ---- variance ----------------------------------------------------------------------------------------------


@takes_out
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Tensor:
    """The variance over axes, divided by n - correction (1 by default; unbiased=False means 0).

    That of complex numbers is real: the sum of those of the two parts.
    """
    x = checked_moments("var", input)
    over, lost = moment_axes(dim, unbiased, correction)
    if x.array.dtype.kind == "c":
        from .. import functional

        parts = (functional.real(x), functional.imag(x))
        first, second = (reduce_with(VAR, part, over, keepdim, correction=lost) for part in parts)
        return first + second
    return reduce_with(VAR, x, over, keepdim, correction=lost)


def checked_moments(name: str, x: Tensor) -> Tensor:
    if x.array.dtype.kind in "biu":
        raise RuntimeError(f"{name} only support floating point and complex dtypes, got {x.dtype.name}")
    return x


def moment_axes(dim: Any, unbiased: bool | None, correction: Any) -> tuple[Any, Any]:
    """The axes, None for all, and the correction: var(x, unbiased) names no axis."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction


@takes_out
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Tensor:
    """The standard deviation over axes, with `var`'s arguments."""
    x = checked_moments("std", input)
    return labelled(root(var(x, dim, unbiased, keepdim, correction=correction)), "Std")


def root(x: Tensor) -> Tensor:
    """The square root, with a gradient of 0 at 0, as PyTorch's of a standard deviation."""
    flat = x == 0
    return where(flat, 0.0, sqrt(where(flat, 1.0, x)))


def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> tuple[Tensor, Tensor]:
    """Variance and mean."""
    over, lost = moment_axes(dim, unbiased, correction)
    return var(input, over, None, keepdim, correction=lost), mean(input, over, keepdim)


def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean."""
    over, lost = moment_axes(dim, unbiased, correction)
    return std(input, over, None, keepdim, correction=lost), mean(input, over, keepdim)


# ---- extremes ----------------------------------------------------------------------------------------------


class MinMax(NamedTuple):
    """What aminmax returns."""

    min: Tensor
    max: Tensor


@takes_out
def amax(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The maximum over axes; elements that tie share the gradient."""
    return checked_extreme(AMAX, input, dim, keepdim)


@takes_out
def amin(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The minimum over axes; elements that tie share the gradient."""
    return checked_extreme(AMIN, input, dim, keepdim)


def checked_extreme(op: Any, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if x.array.dtype.kind == "c":
        raise RuntimeError(f'"{op.name}" not implemented for {x.dtype!r}: complex numbers have no order')
    if (dim is None or dim in ((), [])) and not product(x.array.shape):
        raise RuntimeError(
            f"{op.name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
            "dim with the 'dim' argument."
        )
    return reduce_with(op, x, dim, keepdim)


@takes_out(exact=True)
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """Minimum and maximum, over one axis or all."""
    return MinMax(amin(input, dim, keepdim), amax(input, dim, keepdim))


@takes_out
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The maximum of all; max(x, dim) -> (values, indices); max(x, y) element by element."""
    return extreme("max", input, dim if other is None else other, keepdim, amax, argmax, maximum)


@takes_out
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The minimum of all; min(x, dim) -> (values, indices); min(x, y) element by element."""
    return extreme("min", input, dim if other is None else other, keepdim, amin, argmin, minimum)


def extreme(name: str, x: Tensor, dim: Any, keepdim: bool, over_all: Any, position: Any, of_two: Any) -> Any:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(x).__name__}")
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


@takes_out
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The position of the maximum along an axis, or in the flattened tensor."""
    return position(ARGMAX, input, dim, keepdim)


@takes_out
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


@takes_out
def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether an element is nonzero, as bool (of uint8, as uint8)."""
    return truth(ANY, input, dim, keepdim)


@takes_out
def all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are nonzero, as bool (of uint8, as uint8)."""
    return truth(ALL, input, dim, keepdim)


def truth(op: Any, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    out = reduce_with(op, cast(x, "bool"), dim, keepdim)
    return cast_to(out, x.array.dtype) if x.dtype.name == "uint8" else out


def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    from .diagonals import diagonal

    if input.ndim != 2:
        raise RuntimeError("trace: expected a matrix, but got tensor with dim " + str(input.ndim))
    return sum(diagonal(input))


@takes_out
def hash_tensor(input: Tensor, dim: Any = None, keepdim: bool = False, *, mode: int = 0) -> Tensor:
    """A hash, uint64: the exclusive or over axes of the elements as 64-bit integers or floats. mode: 0."""
    if mode != 0:
        raise RuntimeError(f"hash_tensor: only mode 0, exclusive or, is supported, got {mode}")
    if input.array.dtype.kind == "c":
        raise RuntimeError(f'"hash_tensor" not implemented for {input.dtype!r}')
    return reduce_with(HASH, input, dim, keepdim)


# ---- along an axis -----------------------------------------------------------------------------------------


@takes_out
def softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """exp(x) normalised to sum to 1 along an axis."""
    return along(SOFTMAX, input, dim, dtype)


@takes_out
def log_softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """The logarithm of softmax, computed without forming it."""
    return along(LOG_SOFTMAX, input, dim, dtype)


def along(op: Any, x: Tensor, dim: int | None, dtype: Any) -> Tensor:
    """A softmax along `dim`. Left out, it is 0 for one or three axes and 1 for others, and a warning says so."""
    if dim is None:
        dim = 0 if x.ndim in (0, 1, 3) else 1
        warnings.warn(
            f"Implicit dimension choice for {op.name} has been deprecated. Change the call to include dim={dim}.",
            stacklevel=4,
        )
    x = x if dtype is None else cast(x, dtype)
    if x.array.dtype.kind in "biu":
        raise RuntimeError(f'"{op.name}" not implemented for {x.dtype!r}; it wants a floating dtype')
    d = axis(op.name, dim, x.ndim)
    return apply(op, x, dim=d) if x.ndim else reshape(apply(op, reshape(x, (1,)), dim=0), ())
