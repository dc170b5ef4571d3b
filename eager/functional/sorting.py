"""Order: sorting, the largest and smallest, and the distinct elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.table import TABLE
from ..tape import apply, labelled
from ..tensor import Tensor
from .base import axis
from .output import takes_out
from .reduction import ValuesIndices
from .scattering import gather
from .shaping import reshape, squeeze
from .slicing import slice_axis

ARGSORT = TABLE["argsort"]


def ordered(name: str, x: Tensor) -> None:
    if x.array.dtype.kind == "c":
        raise RuntimeError(f"{name}(): input tensor must be of a type that has an order, not complex")


# ---- sort --------------------------------------------------------------------------------------------------


@takes_out
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The positions that sort an axis; equal elements keep their order, nan is the greatest."""
    ordered("argsort", input)
    d = axis("argsort", dim, input.ndim)
    if not input.ndim:
        return reshape(apply(ARGSORT, reshape(input, (1,)), dim=0, descending=descending), ())
    return apply(ARGSORT, input, dim=d, descending=bool(descending))


@takes_out
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = False
) -> ValuesIndices:
    """An axis in order, and the positions the elements came from. Equal elements keep their order."""
    ordered("sort", input)
    order = argsort(input, dim, descending)
    return ValuesIndices(labelled(gather(input, dim, order), "Sort"), order)


@takes_out
def msort(input: Tensor) -> Tensor:
    """The first axis in order."""
    return sort(input, 0).values


@takes_out
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """The k largest (or smallest) elements of an axis, in order, and their positions."""
    ordered("topk", input)
    d = axis("topk", dim, input.ndim)
    if not 0 <= k <= (input.array.shape[d] if input.ndim else 1):
        raise RuntimeError("topk(): selected index k out of range")
    if not input.ndim:
        order = argsort(input) if k else None
        if order is None:
            return ValuesIndices(input.new_zeros((0,)), Tensor(np.zeros(0, np.int64)))
    else:
        order = slice_axis(argsort(input, d, bool(largest)), d, 0, k)
    return ValuesIndices(labelled(gather(input, d, order), "Topk"), order)


@takes_out
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest element of an axis (k from 1), and its position."""
    ordered("kthvalue", input)
    d = axis("kthvalue", dim, input.ndim)
    size = input.array.shape[d] if input.ndim else 1
    if not size:
        raise IndexError(f"kthvalue(): Expected reduction dim {d} to have non-zero size.")
    if not 1 <= k <= size:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {d}")
    if not input.ndim:
        at = argsort(input)
        return ValuesIndices(gather(input, 0, at), at)
    at = slice_axis(argsort(input, d), d, k - 1, k)
    values = gather(input, d, at)
    return ValuesIndices(values, at) if keepdim else ValuesIndices(squeeze(values, d), squeeze(at, d))


# ---- distinct elements -------------------------------------------------------------------------------------


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements (or slices of an axis) in order; each nan is another.

    With `return_inverse`, where each element of the input is among them; with `return_counts`, how often each comes:
    int64 tensors.
    """
    array = plain_order(input, "unique()")
    rows = as_rows(array, axis_of_slices("unique", input, dim))
    order = lexical_order(rows)
    firsts = starts_of_runs(rows[order])
    places = np.empty(len(rows), np.int64)
    places[order] = np.cumsum(firsts) - 1
    chosen = order[firsts]
    shape = input.array.shape if dim is None else (len(rows),)
    return with_extras(
        input, dim, chosen, firsts, places.reshape(shape), (bool(return_inverse), bool(return_counts))
    )


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements (or slices of an axis) that differ from the one before; extras as `unique` has them."""
    array = plain_order(input, "unique_consecutive()")
    rows = as_rows(array, axis_of_slices("unique_consecutive", input, dim))
    firsts = starts_of_runs(rows)
    places = np.cumsum(firsts) - 1
    shape = input.array.shape if dim is None else (len(rows),)
    return with_extras(
        input,
        dim,
        np.flatnonzero(firsts),
        firsts,
        places.reshape(shape),
        (bool(return_inverse), bool(return_counts)),
    )


def plain_order(x: Tensor, reason: str) -> Any:
    """The contents in host memory, in a dtype numpy compares."""
    ordered(reason.removesuffix("()"), x)
    array = x._read_cpu(reason)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def axis_of_slices(name: str, x: Tensor, dim: int | None) -> int | None:
    if dim is None:
        return None
    d = axis(name, dim, x.ndim)
    if not x.numel() and not (x.array.shape and x.array.shape[d] == 0 and all_others(x, d)):
        raise RuntimeError(
            f"{name}(): There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    return d


def all_others(x: Tensor, d: int) -> bool:
    return all(n for k, n in enumerate(x.array.shape) if k != d)


def as_rows(array: Any, d: int | None) -> Any:
    """[n, width]: the elements, or the slices of an axis, to compare."""
    if d is None:
        return array.reshape(-1, 1)
    if not array.ndim:
        return array.reshape(1, 1)
    moved = np.moveaxis(array, d, 0)
    return moved.reshape(moved.shape[0], array.size // moved.shape[0] if moved.shape[0] else 1)


def lexical_order(rows: Any) -> Any:
    """The positions that put rows in order, the first column counting most; equal ones keep their order."""
    return np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))


def starts_of_runs(rows: Any) -> Any:
    """bool[n]: where a row differs from the one before; nan differs from nan."""
    out = np.ones(len(rows), bool)
    if len(rows):
        out[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return out


def with_extras(
    x: Tensor, dim: int | None, chosen: Any, firsts: Any, places: Any, wanted: tuple[bool, bool]
) -> Any:
    """The chosen elements of x, with the inverse and the counts where they are wanted."""
    from .scattering import index_select
    from .strides import on_device_of

    at = on_device_of(x, chosen)
    flat = reshape(x, (x.numel(),)) if dim is None else x
    out = [index_select(flat, 0 if dim is None else dim, at)]
    if wanted[0]:
        out.append(on_device_of(x, places))
    if wanted[1]:
        starts = np.flatnonzero(firsts)
        out.append(on_device_of(x, np.diff(np.append(starts, len(firsts)))))
    return tuple(out) if len(out) > 1 else out[0]
