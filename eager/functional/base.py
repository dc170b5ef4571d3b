"""What all public functions share: operands made tensors of one dtype, axes made positive."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import wraps
from typing import Any

import numpy as np

from ..device import scalar_array
from ..dtypes import category, get_default_dtype, result_dtype, scalar_dtype
from ..ops.arrays import FLOAT32, is_half
from ..ops.table import TABLE
from ..ops.types import normalize_axes, normalize_axis
from ..tape import apply
from ..tensor import Tensor

NUMBER = (bool, int, float, complex)

ADD, CAST, FULL = TABLE["add"], TABLE["cast"], TABLE["full"]
_NAMES: dict[Any, str] = {}


def name_of(dtype: np.dtype[Any]) -> str:
    """The name of a numpy dtype, for attributes."""
    name = _NAMES.get(dtype)
    if name is None:
        from ..dtypes import dtype_of

        name = _NAMES[dtype] = dtype_of(dtype).name
    return name


def cpp_name(dtype: np.dtype[Any]) -> str:
    """The name PyTorch's messages use: Long for int64."""
    names = {
        "bool": "Bool",
        "uint8": "Byte",
        "int8": "Char",
        "int16": "Short",
        "int32": "Int",
        "int64": "Long",
    }
    names |= {"float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double"}
    names |= {"complex64": "ComplexFloat", "complex128": "ComplexDouble"}
    name = name_of(dtype)
    return names.get(name, name)


def known_now(x: Tensor) -> np.ndarray[Any, Any] | None:
    """The elements where looking at them is cheap and final: not while recording, and not on a GPU."""
    return x.array if isinstance(x.array, np.ndarray) else None


def number(value: Any) -> Any:
    """A Python number as it is, a numpy scalar as one; None for anything else."""
    if isinstance(value, NUMBER):
        return value
    return value.item() if isinstance(value, np.generic) else None


def constant(value: Any, dtype: np.dtype[Any], like: Tensor) -> Tensor:
    """A Python number as a zero-dimensional tensor, where `like` lives. A symbolic size stays symbolic."""
    if isinstance(value, int) and type(value) not in (int, bool):
        return apply(FULL, shape=(), value=value, dtype=name_of(dtype))
    return Tensor(scalar_array(value, dtype, like.array))


def check_range(value: Any, dtype: np.dtype[Any]) -> None:
    """RuntimeError for an integer that an integer dtype does not hold; a negative one wraps where none is signed."""
    if dtype.kind in "iu" and type(value) is int:
        limits = np.iinfo(dtype)
        low = limits.min if limits.min else -int(limits.max)
        if not low <= value <= limits.max:
            raise RuntimeError(f"value cannot be converted to type {name_of(dtype)}_t without overflow")


def cast_to(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """x itself, or converted."""
    return x if x.array.dtype == dtype else apply(CAST, x, dtype=name_of(dtype))


def tensor_argument(name: str, x: Any, which: str = "input") -> Tensor:
    """The argument, which must be a tensor: TypeError for anything else."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument '{which}' must be Tensor, not {type(x).__name__}")
    return x


def two_tensors(name: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two arguments that must be tensors: a number is not taken."""
    return tensor_argument(name, x), tensor_argument(name, y, "other")


def refuse(name: str, x: Tensor, kinds: str) -> None:
    """NotImplementedError for a dtype of one of numpy's kinds: b bool, i and u integers, f floats, c complex.

    It is a RuntimeError too, as PyTorch's is.
    """
    kind = "f" if is_half(x.array.dtype) else x.array.dtype.kind
    if kind in kinds:
        raise NotImplementedError(f"\"{name}\" not implemented for '{cpp_name(x.array.dtype)}'")


def in_single(function: Any) -> Any:
    """A composed function whose half-precision tensors are computed in float32, and whose result is rounded once."""

    @wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        halves = [a for a in args if isinstance(a, Tensor) and is_half(a.array.dtype)]
        if not halves:
            return function(*args, **kwargs)
        tensors = [a.array for a in args if isinstance(a, Tensor)]
        shaped = [a.dtype for a in tensors if a.shape]
        plain = [scalar_dtype(n) for a in args if not isinstance(a, Tensor) and (n := number(a)) is not None]
        dtype = result_dtype(shaped, [a.dtype for a in tensors if not a.shape], plain)
        if not is_half(dtype):
            return function(*args, **kwargs)
        single = [
            cast_to(a, FLOAT32) if isinstance(a, Tensor) and is_half(a.array.dtype) else a for a in args
        ]
        return cast_to(function(*single, **kwargs), dtype)

    return inner


def cannot(name: str, value: Any) -> TypeError:
    return TypeError(f"{name}(): argument must be Tensor or Number, not {type(value).__name__}")


def common(name: str, *values: Any, floating: bool = False) -> list[Tensor]:
    """Tensors, arrays and numbers as tensors of their promoted dtype. `floating`: integers become the default float."""
    values = tuple(Tensor(v) if type(v) is np.ndarray else v for v in values)
    tensors = [v for v in values if isinstance(v, Tensor)]
    if not tensors:
        raise TypeError(
            f"{name}(): wants at least one Tensor, got {', '.join(type(v).__name__ for v in values)}"
        )
    numbers = [None if isinstance(v, Tensor) else number(v) for v in values]
    for v, n in zip(values, numbers, strict=True):
        if n is None and not isinstance(v, Tensor):
            raise cannot(name, v)
    dtype = result_dtype(
        [t.array.dtype for t in tensors if t.array.shape],
        [t.array.dtype for t in tensors if not t.array.shape],
        [scalar_dtype(n) for n in numbers if n is not None],
    )
    if floating and category(dtype) < 2:
        dtype = get_default_dtype().numpy
    return [
        cast_to(v, dtype) if isinstance(v, Tensor) else constant(n, dtype, tensors[0])
        for v, n in zip(values, numbers, strict=True)
    ]


def pair(name: str, x: Any, y: Any) -> Sequence[Tensor]:
    """Two operands of one dtype; quick where they are tensors of one dtype, or a float tensor and a number."""
    if isinstance(x, Tensor):
        if isinstance(y, Tensor):
            if x.array.dtype == y.array.dtype:
                return x, y
        elif type(y) is float or type(y) is int:
            dtype = x.array.dtype
            if dtype.kind == "f" or (dtype.kind == "i" and type(y) is int):
                return x, Tensor(scalar_array(y, dtype, x.array))
    return common(name, x, y)


def as_float(name: str, x: Any) -> Tensor:
    """A tensor whose integers have become the default float."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(x).__name__}")
    return x if x.array.dtype.kind not in "biu" else cast_to(x, get_default_dtype().numpy)


def axis(name: str, dim: int, ndim: int) -> int:
    """An axis counted from the front; IndexError when there is no such axis."""
    if type(dim) is int and 0 <= dim < ndim:
        return dim
    return normalize_axis(name, operator.index(dim), ndim)


def axes(name: str, dim: Any, ndim: int) -> tuple[int, ...]:
    """Sorted axes; None and, as in PyTorch, an empty list mean all of them."""
    if dim is None:
        return tuple(range(ndim))
    if type(dim) is int and 0 <= dim < ndim:
        return (dim,)
    if not isinstance(dim, int) and len(dim) == 0:
        return tuple(range(ndim))
    out = normalize_axes(name, dim, ndim)
    return out if ndim else ()


def spelled(given: tuple[Any, ...], keyword: Any) -> tuple[int, ...]:
    """Sizes or axes given one by one, as a sequence, or by keyword."""
    return sizes(given if keyword is None else (keyword,))


def sizes(shape: Any) -> tuple[int, ...]:
    """The shape given as f(2, 3), f((2, 3)) or f(Size)."""
    if len(shape) == 1 and not hasattr(shape[0], "__index__"):
        shape = shape[0]
    for n in shape:
        if type(n) is not int:
            return tuple(n if isinstance(n, int) else operator.index(n) for n in shape)
    return tuple(shape)
