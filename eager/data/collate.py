"""From samples to batches: nested samples of tensors, arrays, numbers and text, with a batch axis in front."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from .. import functional as F
from ..ops.types import DTYPES
from ..tensor import Tensor

allocator: list[Callable[[tuple[int, ...], np.dtype[Any]], np.ndarray[Any, Any]]] = [np.empty]
"""What makes the arrays of batches."""

CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of samples: tensors and arrays stacked, numbers in a tensor, text in a list.

    Dicts, lists and named tuples keep their form, tuples become lists. TypeError for anything else.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """As `default_collate`, with a function for each type of leaf: `f(samples, collate_fn_map=...)`."""
    first = batch[0]
    if function := function_for(first, collate_fn_map or {}):
        return function(batch, collate_fn_map=collate_fn_map)

    def together(samples: Sequence[Any]) -> Any:
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return like_mapping(first, {key: together([sample[key] for sample in batch]) for key in first})
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return like_sequence(first, [together(samples) for samples in zip(*batch, strict=True)])
    raise TypeError(cannot_batch(type(first)))


def function_for(value: Any, functions: CollateMap) -> Callable[..., Any] | None:
    """The function for the value's own type, or else for the first type that it is an instance of."""
    if type(value) in functions:
        return functions[type(value)]
    return next((f for types, f in functions.items() if isinstance(value, types)), None)


def default_convert(data: Any) -> Any:
    """One sample with its numpy arrays and scalars as tensors; all else stays."""
    if isinstance(data, Tensor | str | bytes):
        return data
    if isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in "SUO" else F.as_tensor(data)
    if isinstance(data, Mapping):
        return like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence):
        return like_sequence(data, [default_convert(value) for value in data])
    return data


def like_mapping(original: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """`values` in a mapping of the original's type, with its other properties where it has any; else a dict."""
    try:
        if isinstance(original, MutableMapping):
            out = copy.copy(original)
            out.update(values)
            return out
        return type(original)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def like_sequence(original: Sequence[Any], values: list[Any]) -> Any:
    """`values` in a sequence of the original's type where that can be made; a plain tuple becomes a list."""
    if isinstance(original, tuple):
        return type(original)(*values) if hasattr(original, "_fields") else values
    try:
        if isinstance(original, MutableSequence):
            out = copy.copy(original)
            out[:] = values
            return out
        return type(original)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Tensors of one shape, stacked along a new first axis."""
    if all(type(t.array) is np.ndarray and t.node is None for t in batch):
        out = stacked([t.array for t in batch])
        if out is not None:
            return Tensor(out)
    return F.stack(list(batch), 0)


def stacked(arrays: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any] | None:
    """Arrays of one shape and dtype in one array, in memory of the `allocator`; None for others."""
    first = arrays[0]
    shape, dtype = first.shape, first.dtype
    if not shape or not first.size or not all(a.shape == shape and a.dtype == dtype for a in arrays):
        return None
    out = new_array((len(arrays), *shape), dtype)
    np.concatenate(
        arrays, out=out.reshape(-1, *shape[1:])
    )  # along their first axis: numpy's stack takes longer
    return out


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array for a batch: in a worker process it lies in memory that the loader sees as well."""
    return allocator[0](shape, dtype)


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Arrays of one shape, as `collate` treats tensors."""
    if batch[0].dtype.kind in "SUO":
        raise TypeError(cannot_batch(batch[0].dtype))
    if batch[0].dtype in DTYPES.values() and (out := stacked(list(batch))) is not None:
        return Tensor(out)
    return collate([F.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Numpy scalars, keeping their dtype."""
    return F.as_tensor(np.asarray(batch))


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Python floats, which are float64."""
    return F.as_tensor(np.asarray(batch, dtype=np.float64))


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Python ints as int64, bools as bool."""
    return F.tensor(list(batch))


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Sequence[Any]:
    """Text and bytes stay as they are."""
    return batch


def cannot_batch(kind: Any) -> str:
    return (
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {kind}; pass a collate_fn that knows it"
    )


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
