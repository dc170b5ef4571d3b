"""Tensors joined along an axis, and the grids, products and choices of their elements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..ops.table import TABLE
from ..tape import apply, labelled
from ..tensor import Tensor
from .base import axis, cast_to
from .output import takes_out
from .shaping import atleast_1d, atleast_2d, atleast_3d, expand, reshape, unsqueeze

CAT, INDEX = TABLE["cat"], TABLE["index"]


@takes_out
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after another along an axis. An empty vector may stand among tensors of any shape."""
    if isinstance(tensors, Tensor):
        raise TypeError("cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    given = list(tensors)
    if not given:
        raise ValueError("cat(): expected a non-empty list of Tensors")
    for k, x in enumerate(given):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(x).__name__}")
        if not x.array.shape:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
    parts = [x for x in given if x.array.shape != (0,)] or given[:1]
    dtype = parts[0].array.dtype
    if any(x.array.dtype != dtype for x in given):
        from ..dtypes import promote

        for x in given:
            dtype = promote(dtype, x.array.dtype)
        parts = [cast_to(x, dtype) for x in parts]
    return apply(CAT, *parts, dim=axis("cat", dim, parts[0].ndim))


concat = concatenate = cat


@takes_out
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors, all of one shape, along a new axis."""
    if isinstance(tensors, Tensor):
        raise TypeError("stack(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    given = list(tensors)
    if not given:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = given[0].array.shape
    for k, x in enumerate(given):
        if x.array.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(map(int, first))} at entry 0 and "
                f"{list(map(int, x.array.shape))} at entry {k}"
            )
    d = axis("stack", dim, given[0].ndim + 1)
    return labelled(cat([unsqueeze(x, d) for x in given], d), "Stack")


def some(name: str, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    if not len(tensors):
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


@takes_out
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the second axis (vectors along their only one)."""
    parts = [atleast_1d(x) for x in some("hstack", tensors)]
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


@takes_out
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the first axis, vectors as rows."""
    return cat([atleast_2d(x) for x in some("vstack", tensors)], 0)


row_stack = vstack


@takes_out
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the third axis, which tensors of fewer axes get."""
    return cat([atleast_3d(x) for x in some("dstack", tensors)], 2)


@takes_out
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the second axis, vectors and numbers as columns."""
    parts = [x if x.ndim > 1 else reshape(x, (x.numel(), 1)) for x in some("column_stack", tensors)]
    return cat(parts, 1)


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of a grid: each vector expanded over the axes of all.

    `indexing`: "ij" (the default), the axes in the order of the vectors, or "xy", the first two swapped.
    """
    given = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    vectors(some("meshgrid", given))
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'.removeprefix(
                "torch."
            )
        )
    if indexing == "xy" and len(given) > 1:
        swapped = meshgrid(given[1], given[0], *given[2:])
        return (swapped[1], swapped[0], *swapped[2:])
    shape = tuple(prod(x.array.shape) for x in given)
    return tuple(
        expand(reshape(x, tuple(shape[d] if d == k else 1 for d in range(len(shape)))), shape)
        for k, x in enumerate(given)
    )


def vectors(given: Sequence[Tensor]) -> None:
    """Check that a grid can be made of these."""
    for x in given:
        if x.ndim > 1:
            raise RuntimeError(
                f"meshgrid: Expected scalar or 1D tensor in the tensor list but got: {list(map(int, x.array.shape))}"
            )
        if x.array.dtype != given[0].array.dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
        if x.device != given[0].device:
            raise RuntimeError("meshgrid expects all tensors to have the same device")


def cartesian_prod(*tensors: Any) -> Tensor:
    """[n, k]: every choice of one element of each of k vectors; a vector itself if it is the only one."""
    given = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    for x in some("cartesian_prod", given):
        if x.ndim != 1:
            raise RuntimeError(
                f"cartesian_prod: Expect a 1D vector, but got shape {list(map(int, x.array.shape))}"
            )
    if len(given) == 1:
        return given[0]
    return stack(
        [reshape(grid, (-1,)) if grid.numel() else reshape(grid, (0,)) for grid in meshgrid(*given)], 1
    )


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """[n, r]: every choice of r elements of a vector, in order, of different ones or with replacement."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(map(int, input.array.shape))}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_zeros((0,))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = list(choose(range(input.array.shape[0]), r))
    places = np.array(chosen, np.int64).reshape(len(chosen), r)
    return apply(INDEX, input, Tensor(places), dim=0)
