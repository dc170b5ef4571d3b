"""Elements chosen by a mask, and where a tensor is not zero: results whose sizes depend on the contents."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tape import labelled
from ..tensor import Tensor
from .base import known_now
from .indexing import getitem, index_put
from .output import takes_out
from .pointwise import cast
from .shaping import broadcast_tensors, reshape, unsqueeze


def boolean(name: str, mask: Tensor) -> Tensor:
    if mask.array.dtype.kind != "b":
        raise RuntimeError(f"{name}: expected BoolTensor for mask, got {mask.dtype}")
    return mask


@takes_out
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, as a vector."""
    x, m = broadcast_tensors(input, boolean("masked_select", mask))
    return labelled(
        getitem(x if x.ndim else reshape(x, (1,)), m if m.ndim else reshape(m, (1,))), "MaskedSelect"
    )


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of the tensor with the elements of `source`, in order, where the mask holds."""
    if mask.array.dtype.kind != "b":
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype}"
        )
    if source.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"masked_scatter_: expected self and source to have same dtypes but got {input.dtype} and {source.dtype}"
        )
    x, m = broadcast_tensors(input, mask)
    count = int(m._read("masked_scatter()").sum())
    if count > source.numel():
        raise RuntimeError(
            f"masked_scatter: expected number of elements of source ({source.numel()}) to be at least the number of "
            f"ones in mask ({count})"
        )
    flat = getitem(reshape(source, (source.numel(),)), slice(0, count))
    if not x.ndim:
        return reshape(index_put(reshape(x, (1,)), (reshape(m, (1,)),), flat), ())
    return index_put(x, (m,), flat)


@takes_out
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The positions of nonzero elements: a matrix of one row each, or a vector per axis."""
    array = input._read("nonzero()")
    if as_tuple:
        found = (array if array.shape else array.reshape(1)).nonzero()
        return tuple(Tensor(a.astype("int64")) for a in found)
    if not array.shape:
        return Tensor(np.zeros((int(bool(array)), 0), np.int64))
    found = array.nonzero()
    rows = np.stack(found, 1) if isinstance(array, np.ndarray) else _stack_on_device(found)
    return Tensor(rows.astype("int64"))


def _stack_on_device(found: Any) -> Any:
    import cupy

    return cupy.stack(found, 1)


def argwhere(input: Tensor) -> Tensor:
    """The positions of nonzero elements, one row each."""
    out: Tensor = nonzero(input)
    return out


@takes_out
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """int64[size, ndim]: the positions of the first `size` nonzero elements, then rows of `fill_value`."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    found: Tensor = nonzero(input)
    have = min(found.array.shape[0], size)
    rest = found.new_full((size - have, found.array.shape[1]), fill_value)
    from .joining import cat

    return cat([found[:have], rest]) if input.ndim else found.new_full((size, 0), fill_value)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last axis with 1 at the position each element names, else 0."""
    from .pointwise import eq
    from .ranges import arange

    if tensor.array.dtype.kind not in "iu" or tensor.array.dtype.itemsize != 8:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        found = tensor._read("one_hot() without num_classes")
        if not found.size:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(found.max()) + 1
    classes = known_now(tensor)
    if classes is not None and classes.size:
        if classes.min() < 0:
            raise RuntimeError("Class values must be non-negative.")
        if classes.max() >= num_classes:
            raise RuntimeError("Class values must be smaller than num_classes.")
    return cast(eq(unsqueeze(tensor, -1), arange(num_classes)), "int64")
