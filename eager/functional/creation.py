"""Tensors made from data and from sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np

from ..device import CPU, device, fitted, move
from ..dtypes import dtype_of, get_default_dtype
from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor
from .base import sizes
from .moving import to
from .output import takes_out
from .shaping import laid_out

FULL = TABLE["full"]


def strided(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which also takes PyTorch's `layout`, `pin_memory` and `memory_format`, and `*size` by its name.

    Every tensor here is strided and in ordinary memory; a sparse layout is refused.
    """
    variadic = any(
        p.kind is p.VAR_POSITIONAL and p.name == "size" for p in signature(function).parameters.values()
    )

    @wraps(function)
    def lenient(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            layout = kwargs.pop("layout", None)
            if layout is not None and "strided" not in str(layout):
                raise NotImplementedError(
                    f"{function.__name__}(): only the strided layout exists, got {layout}"
                )
            kwargs.pop("pin_memory", None)
            order = kwargs.pop("memory_format", None)
            if variadic and "size" in kwargs:
                args = (*args, kwargs.pop("size"))
            out = function(*args, **kwargs)
            return out if order is None else Tensor(laid_out(out.detach(), order).array, out.requires_grad)
        return function(*args, **kwargs)

    return lenient


# ---- from data ---------------------------------------------------------------------------------------------


@strided
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new leaf holding a copy of numbers, nested sequences, an array or a tensor."""
    array = to_array(data, None if dtype is None else dtype_of(dtype).numpy)
    return placed(array.copy() if array is getattr(data, "array", data) else array, device, requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of the data, sharing memory with an array or tensor where dtype and device allow."""
    if isinstance(data, Tensor):
        return to(data, device, dtype)
    wanted = None if dtype is None else dtype_of(dtype).numpy
    array = np.asarray(data, wanted) if isinstance(data, np.ndarray) else to_array(data, wanted)
    return placed(array, device, False)


def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """A tensor that shares the array's memory; TypeError for a dtype tensors do not have."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dtype_of(ndarray.dtype)
    return Tensor(ndarray)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of the object; copy=True never shares its memory, copy=False is an error where it cannot be shared."""
    out = as_tensor(obj, dtype, device)
    shared = out is obj or shares(out, obj)
    if copy is False and not shared:
        raise ValueError("asarray(): copy=False, but the object cannot be shared as it is; give copy=None")
    if copy and shared:
        out = Tensor(out._read("asarray()").copy())
    elif out is obj and requires_grad:
        out = out.detach()
    return out.requires_grad_() if requires_grad else out


def shares(out: Tensor, obj: Any) -> bool:
    array = obj.array if isinstance(obj, Tensor) else obj
    return (
        isinstance(array, np.ndarray)
        and isinstance(out.array, np.ndarray)
        and np.may_share_memory(array, out.array)
    )


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A tensor [count] that shares the memory of an object with a buffer; count -1 takes all of it."""
    array = np.frombuffer(buffer, dtype_of(dtype).numpy, count, offset)
    return placed(array, None, requires_grad)


def to_array(data: Any, dtype: np.dtype[Any] | None) -> Any:
    """Numbers or nested sequences as an array: Python floats as the default float, ints as int64."""
    if isinstance(data, Tensor):
        array = data._read("tensor()")
        return array if dtype is None else array.astype(dtype)
    if hasattr(data, "dtype") and hasattr(data, "shape"):
        dtype_of(data.dtype)
        return np.array(data, dtype) if not hasattr(data, "get") else data.astype(dtype or data.dtype)
    array = nested_array(data, dtype)
    if dtype is None and array.dtype == "float64" and not _holds_numpy(data):
        array = array.astype(get_default_dtype().numpy)
    if dtype is None and array.dtype == "complex128":
        array = array.astype("complex64" if get_default_dtype().name != "float64" else "complex128")
    return array


def _holds_numpy(data: Any) -> bool:
    """Whether the first element of nested sequences is a numpy value, which has a dtype of its own."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (np.ndarray, np.generic))


def nested_array(data: Any, dtype: np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    try:
        array = np.array(plain(data), dtype)
    except OverflowError:
        array = None
    except ValueError as error:
        if "inhomogeneous" in str(error):
            raise ValueError(
                f"expected sequences of equal length at each level of nesting ({error})"
            ) from None
        raise
    if array is None:
        assert dtype is not None  # only a dtype can be too small
        values = [fitted(int(v), dtype) for v in np.ravel(plain(data))]
        return np.array(values, dtype).reshape(np.shape(data))
    if array.dtype == object or (
        array.dtype.kind in "USV" and dtype is None and array.dtype.name != "bfloat16"
    ):
        raise TypeError(
            f"new(): invalid data type '{type(first_odd(data)).__name__}'; tensors hold numbers and bools"
        )
    if dtype is None and array.size == 0 and not hasattr(data, "dtype"):
        array = array.astype(get_default_dtype().numpy)
    return array


def plain(data: Any) -> Any:
    """Nested sequences with the tensors in them as arrays."""
    if isinstance(data, Tensor):
        return data._read("tensor()")
    if isinstance(data, (list, tuple)) and any(isinstance(x, (Tensor, list, tuple)) for x in data):
        return [plain(x) for x in data]
    return data


def first_odd(data: Any) -> Any:
    """The first element of nested sequences that is not a number, for a message."""
    if isinstance(data, (list, tuple)):
        for x in data:
            odd = first_odd(x)
            if odd is not None and not isinstance(odd, (bool, int, float, complex)):
                return odd
    return data


def placed(array: Any, where: Any, requires_grad: bool) -> Tensor:
    if not hasattr(array, "shape"):
        array = np.asarray(array)
    return Tensor(array if where is None else move(array, device(where)), requires_grad)


def scalar_tensor(
    value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A zero-dimensional tensor of a number, of the default float."""
    return tensor(value, dtype=dtype or get_default_dtype(), device=device, requires_grad=requires_grad)


# ---- from sizes --------------------------------------------------------------------------------------------


def checked_shape(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple; RuntimeError for a negative size or more axes than arrays have."""
    shape = tuple(shape)
    if any(n < 0 for n in shape):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {next(n for n in shape if n < 0)}: {list(shape)}"
        )
    if len(shape) > 64:
        raise RuntimeError(f"only tensors with up to 64 dims are supported, got {len(shape)}")
    return shape


def filled(shape: Any, value: Any, dtype: Any, where: Any, requires_grad: bool) -> Tensor:
    name = (get_default_dtype() if dtype is None else dtype_of(dtype)).name
    if type(value) is int and value < 0 and name.startswith("uint"):
        value = fitted(value, dtype_of(name).numpy)
    out = apply(FULL, shape=checked_shape(shape), value=value, dtype=name)
    return finished(out, where, requires_grad)


def finished(out: Tensor, where: Any, requires_grad: bool) -> Tensor:
    """Moved to its device and made a leaf, if asked for."""
    if where is not None:
        out.array = move(out.array, device(where))
    return out.requires_grad_() if requires_grad else out


@takes_out
@strided
def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of a shape."""
    return filled(sizes(size), 0, dtype, device, requires_grad)


@takes_out
@strided
def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of a shape."""
    return filled(sizes(size), 1, dtype, device, requires_grad)


@takes_out
@strided
def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor whose contents are not to be relied on (they are zeros)."""
    return filled(sizes(size), 0, dtype, device, requires_grad)


@takes_out
@strided
def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One value throughout; its kind gives the dtype where none is named."""
    shape = sizes((size,)) if not isinstance(size, int) else (size,)
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    if dtype is None:
        dtype = kind_of(fill_value)
    return filled(shape, fill_value, dtype, device, requires_grad)


def kind_of(value: Any) -> Any:
    from ..dtypes import scalar_dtype

    return scalar_dtype(value)


def like(input: Tensor, value: Any, dtype: Any, where: Any, requires_grad: bool) -> Tensor:
    wanted = input.array.dtype if dtype is None else dtype
    place = input.device if where is None else device(where)
    return filled(input.array.shape, value, wanted, None if place == CPU else place, requires_grad)


@strided
def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros of another tensor's shape, dtype and device."""
    return like(input, 0, dtype, device, requires_grad)


@strided
def ones_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of another tensor's shape, dtype and device."""
    return like(input, 1, dtype, device, requires_grad)


empty_like = zeros_like


@strided
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """One value, in another tensor's shape, dtype and device."""
    return like(input, fill_value, dtype, device, requires_grad)


@strided
def new_zeros(
    input: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros of a shape, in this tensor's dtype and device."""
    return new_full(input, sizes(size), 0, dtype=dtype, device=device, requires_grad=requires_grad)


@strided
def new_ones(
    input: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones of a shape, in this tensor's dtype and device."""
    return new_full(input, sizes(size), 1, dtype=dtype, device=device, requires_grad=requires_grad)


new_empty = new_zeros


@strided
def new_full(
    input: Tensor,
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """One value in a shape, in this tensor's dtype and device."""
    place = input.device if device is None else device
    wanted = input.array.dtype if dtype is None else dtype
    return filled(tuple(size), fill_value, wanted, None if place == CPU else place, requires_grad)


def new_tensor(
    input: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A copy of data, in this tensor's dtype and device."""
    return tensor(
        data, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad
    )
