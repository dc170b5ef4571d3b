"""Medians, quantiles, covariance, and derivatives of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops.table import TABLE
from ..ops.types import is_floating
from ..tape import apply, labelled
from ..tensor import Tensor
from .base import axis, cast_to
from .creation import tensor
from .diagonals import diagonal
from .joining import cat
from .output import takes_out
from .pointwise import ceil, clamp, floor, floor_divide, isnan, lerp, round, sqrt, where
from .product import matmul
from .reduction import INT64, ValuesIndices, any, sum, take_along
from .shaping import expand, flatten, movedim, reshape, squeeze, unsqueeze
from .slicing import slice_axis
from .sorting import argsort

MEDIAN, MODE = TABLE["median"], TABLE["mode_index"]

# ---- medians -----------------------------------------------------------------------------------------------


@takes_out
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements, or of an axis with its position; nan where there is a nan."""
    return middle("median", input, dim, keepdim, ignore_nan=False)


@takes_out
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of the elements that are not nan, or of those of an axis with its position."""
    return middle("nanmedian", input, dim, keepdim, ignore_nan=True)


def middle(name: str, x: Tensor, dim: int | None, keepdim: bool, ignore_nan: bool) -> Any:
    if x.array.dtype.kind in "bc":
        raise RuntimeError(f'"{name}" not implemented for {x.dtype!r}; it wants integers or real floats')
    if dim is None:
        return apply(MEDIAN, flatten(x), ignore_nan=ignore_nan)
    d = axis(name, dim, x.ndim)
    rows = x if x.ndim else reshape(x, (1,))
    size = rows.array.shape[d]
    if not size:
        raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")
    order = argsort(rows, d)
    if is_floating(x.array.dtype):
        missing = sum(isnan(rows), d, True)
        place = clamp(floor_divide(size - missing - 1, 2), min=0)
        at = take_along(order, place if ignore_nan else where(missing > 0, size - missing, place), d)
    else:
        at = slice_axis(order, d, (size - 1) // 2, (size - 1) // 2 + 1)
    values = labelled(take_along(rows, at, d), name.capitalize())
    if not x.ndim:
        return ValuesIndices(reshape(values, ()), reshape(at, ()))
    return ValuesIndices(values, at) if keepdim else ValuesIndices(squeeze(values, d), squeeze(at, d))


@takes_out
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent value along an axis, the smallest of equally frequent ones, and the last place of it."""
    if input.array.dtype.kind == "c":
        raise RuntimeError(f'"mode" not implemented for {input.dtype!r}: complex numbers have no order')
    d = axis("mode", dim, input.ndim)
    rows = input if input.ndim else reshape(input, (1,))
    if not rows.array.shape[d]:
        raise IndexError(f"mode(): Expected reduction dim {d} to have non-zero size.")
    at = unsqueeze(apply(MODE, rows, dim=d), d)
    values = labelled(take_along(rows, at, d), "Mode")
    if not input.ndim:
        return ValuesIndices(reshape(values, ()), reshape(at, ()))
    return ValuesIndices(values, at) if keepdim else ValuesIndices(squeeze(values, d), squeeze(at, d))


# ---- quantiles ---------------------------------------------------------------------------------------------

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@takes_out
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-quantiles of all elements or of an axis; nan where there is a nan.

    q: a number in [0, 1], or a tensor of such [n], which gives the result a first axis of n. Between two elements
    `interpolation` decides: "linear", "lower", "higher", "midpoint" or "nearest".
    """
    return quantiles("quantile", input, q, dim, keepdim, interpolation, ignore_nan=False)


@takes_out
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """As `quantile`, of the elements that are not nan."""
    return quantiles("nanquantile", input, q, dim, keepdim, interpolation, ignore_nan=True)


def quantiles(
    name: str, x: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Tensor:
    points = checked_points(name, x, q, interpolation)
    d = None if dim is None else axis(name, dim, x.ndim)
    rows = reshape(x, (-1,)) if d is None or not x.ndim else movedim(x, d, -1)
    lead, count = tuple(rows.array.shape[:-1]), rows.array.shape[-1]
    if not count:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    found = picked(rows, reshape(points, (-1,)), interpolation, ignore_nan)
    if keepdim:
        shape = (1,) * x.ndim if d is None or not x.ndim else (*lead[:d], 1, *lead[d:])
    else:
        shape = lead
    return reshape(movedim(found, -1, 0), (*points.array.shape, *shape))


def checked_points(name: str, x: Tensor, q: Any, interpolation: str) -> Tensor:
    """q as a tensor of the input's dtype."""
    if x.array.dtype.name not in ("float32", "float64"):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype, got {x.dtype!r}")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of {', '.join(INTERPOLATIONS)}, but got {interpolation}"
        )
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        return tensor(float(q), dtype=x.dtype)
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor, got {q.ndim} axes")
    if q.array.dtype != x.array.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor, got {q.dtype!r}")
    return q


def picked(rows: Tensor, points: Tensor, interpolation: str, ignore_nan: bool) -> Tensor:
    """The quantiles of each row [..., count] at the points [n]: [..., n]."""
    last, size = rows.ndim - 1, rows.array.shape[-1]
    order = take_along(rows, argsort(rows, last), last)
    missing = isnan(rows)
    if ignore_nan:
        rank = points * cast_to(clamp(size - 1 - sum(missing, last, True), min=0), rows.array.dtype)
    else:
        # Of a row with a nan every quantile is the last element of its order, which is that nan.
        rank = where(any(missing, last, True), float(size - 1), points * (size - 1))
    if interpolation == "lower":
        rank = floor(rank)
    elif interpolation == "higher":
        rank = ceil(rank)
    elif interpolation == "nearest":
        rank = round(rank)
    low = floor(rank)
    below = element_at(order, low)
    if interpolation in ("lower", "higher", "nearest"):
        return below
    weight = rank - low if interpolation == "linear" else where(rank == low, 0.0, 0.5 + rank * 0)
    return lerp(below, element_at(order, ceil(rank)), weight)


def element_at(order: Tensor, rank: Tensor) -> Tensor:
    return take_along(order, cast_to(rank, INT64), order.ndim - 1)


# ---- covariance --------------------------------------------------------------------------------------------


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariance matrix of variables, one a row (of one variable: a number), divided by count - correction.

    fweights: how often each observation counts, integers; aweights: how much, floats.
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.array.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input if input.ndim == 2 else reshape(input, (1, -1))
    count = x.array.shape[1]
    weights = observation_weights(count, fweights, aweights)
    total: Any = count if weights is None else sum(weights)
    divisor = total - correction
    if aweights is not None and correction:
        divisor = total - correction * sum(weights * aweights) / total
    divisor = clamp(divisor, min=0) if isinstance(divisor, Tensor) else max(divisor, 0)
    centre = sum(x if weights is None else x * weights, 1) / total
    x = x - unsqueeze(centre, 1)
    other = (x if weights is None else x * weights).transpose(0, 1)
    if other.array.dtype.kind == "c":
        from .. import functional

        other = functional.conj(other)
    if other.array.dtype != x.array.dtype:
        x, other = cast_to(x, other.array.dtype), other
    return squeeze(matmul(x, other) / divisor)


def observation_weights(count: int, fweights: Tensor | None, aweights: Tensor | None) -> Tensor | None:
    """The product of both kinds of weights, checked."""
    for name, w, kinds, wanted in (
        ("fweights", fweights, "iu", "integral"),
        ("aweights", aweights, "fV", "floating point"),
    ):
        if w is None:
            continue
        if w.ndim > 1:
            raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {w.ndim}")
        if w.array.dtype.kind not in kinds:
            raise RuntimeError(f"cov(): expected {name} to have {wanted} dtype but got {name} with {w.dtype}")
        if w.numel() != count:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{w.numel()} != {count}"
            )
        if w.numel() and bool(any(w < 0)):
            raise RuntimeError(f"cov(): {name} cannot be negative")
    if fweights is None or aweights is None:
        return fweights if aweights is None else aweights
    return fweights * aweights


def corrcoef(input: Tensor) -> Tensor:
    """The correlation coefficients of variables, one a row."""
    if input.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    from .. import functional

    c = cov(input)
    if not c.ndim:
        return c / c
    spread = diagonal(c)
    whole = c.array.dtype.kind != "c"
    deviation = sqrt(spread if whole else functional.real(spread))
    c = c / unsqueeze(deviation, 1) / unsqueeze(deviation, 0)
    if whole:
        return clamp(c, -1, 1)
    return functional.complex(clamp(functional.real(c), -1, 1), clamp(functional.imag(c), -1, 1))


# ---- derivatives -------------------------------------------------------------------------------------------


def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The derivative of samples along each axis (or those of `dim`), second order inside, `edge_order` at the ends.

    spacing: the distance of samples, one number or one an axis; or their places, one tensor an axis.
    """
    dims = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    steps = checked_spacing(input, spacing, dims, dim is None)
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    axes = [axis("gradient", d, input.ndim) for d in dims]
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"gradient: dim {dims} names an axis twice")
    for d in axes:
        if input.array.shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1, got "
                f"{input.array.shape[d]} on axis {d}"
            )
    x = input if input.array.dtype.kind not in "biu" else input * 1.0
    return tuple(derivative(x, d, step, edge_order) for d, step in zip(axes, steps, strict=True))


def checked_spacing(x: Tensor, spacing: Any, dims: list[int], all_axes: bool) -> list[Any]:
    """The distance or the places of samples for each axis."""
    if spacing is None:
        spacing = 1
    if not isinstance(spacing, Sequence) or isinstance(spacing, str):
        if isinstance(spacing, Tensor) and spacing.ndim:
            spacing = [spacing]
        else:
            return [spacing] * len(dims)
    if len(spacing) != len(dims):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length {len(dims)} (one for "
            f"each {'dimension' if all_axes else 'dim'}), but got a list of length {len(spacing)}"
        )
    for d, places in zip(dims, spacing, strict=True):
        if isinstance(places, Tensor) and places.ndim:
            if places.ndim != 1 or places.array.shape[0] != x.array.shape[d]:
                raise RuntimeError(
                    "torch.gradient expected each element of spacing to have one dimension and as many elements "
                    f"as the axis ({x.array.shape[d]}), got {places.shape}"
                )
    return list(spacing)


def derivative(x: Tensor, d: int, step: Any, edge_order: int) -> Tensor:
    """Along one axis: weighted differences of three neighbours, and at the two ends one-sided ones."""
    size = x.array.shape[d]
    part = lambda start, stop: slice_axis(x, d, start, stop)  # noqa: E731
    if isinstance(step, Tensor) and step.ndim:
        gaps = cast_to(step[1:] - step[:-1], x.array.dtype)
    else:
        gaps = expand(x.new_full((1,), step), (size - 1,))
    along = lambda w: reshape(w, tuple(-1 if k == d else 1 for k in range(x.ndim)))  # noqa: E731
    parts = []
    if size > 2:
        before, after = along(gaps[:-1]), along(gaps[1:])
        inner = (
            part(0, size - 2) * (-after / (before * (before + after)))
            + part(1, size - 1) * ((after - before) / (before * after))
            + part(2, size) * (before / (after * (before + after)))
        )
        parts.append(inner)
    first = (part(1, 2) - part(0, 1)) / along(gaps[:1])
    last = (part(size - 1, size) - part(size - 2, size - 1)) / along(gaps[-1:])
    if edge_order == 2:
        first, last = one_sided(part, along, gaps, size)

    return cat([first, *parts, last], d)


def one_sided(part: Any, along: Any, gaps: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The derivative at both ends from the three samples there."""
    h, k = along(gaps[:1]), along(gaps[1:2])
    first = (
        part(0, 1) * (-(2 * h + k) / (h * (h + k)))
        + part(1, 2) * ((h + k) / (h * k))
        + part(2, 3) * (-h / (k * (h + k)))
    )
    h, k = along(gaps[-2:-1]), along(gaps[-1:])
    last = (
        part(size - 3, size - 2) * (k / (h * (h + k)))
        + part(size - 2, size - 1) * (-(h + k) / (h * k))
        + part(size - 1, size) * ((2 * k + h) / (k * (h + k)))
    )
    return first, last
