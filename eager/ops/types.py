"""What a value is, without its data: shapes, dtypes and the abstract value that pairs them.

Shapes are tuples of int. While a program is recorded some of those ints are `tracer.dims.Dim`, an int
subclass that carries an expression; everything here is ordinary integer arithmetic, so both work.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

Shape = tuple[int, ...]

#: The dtypes an operator may see, by the name that text, files and messages use.
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name)
    for name in (
        "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
    ).split()
}
DTYPES["bfloat16"] = np.dtype(ml_dtypes.bfloat16)

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_name(dtype: Any) -> str:
    """`float32` for `np.dtype("float32")`; TypeError, naming the known ones, for anything outside DTYPES."""
    try:
        return _NAMES[np.dtype(dtype)]
    except KeyError:
        raise TypeError(f"dtype {dtype} is not one of {', '.join(DTYPES)}") from None


def is_floating(dtype: Any) -> bool:
    """True for the real floating-point dtypes (bfloat16 included, which numpy itself files under 'V')."""
    return dtype.kind == "f" or dtype == DTYPES["bfloat16"]


def is_differentiable(dtype: Any) -> bool:
    """True where a gradient makes sense: real and complex floating point."""
    return dtype.kind in "fc" or dtype == DTYPES["bfloat16"]


def real_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype of the parts and the absolute value: float32 for complex64; of a real dtype, itself."""
    return DTYPES[f"float{dtype.itemsize * 4}"] if dtype.kind == "c" else dtype


def complex_dtype(dtype: Any) -> np.dtype[Any]:
    """The complex dtype whose parts are of a real one: complex64 for float32; of a complex dtype, itself."""
    return dtype if dtype.kind == "c" else DTYPES["complex128" if dtype.itemsize == 8 else "complex64"]


class Aval(NamedTuple):
    """An abstract value: the shape and dtype of an array that need not exist. Prints as `float32[batch,3]`."""

    shape: Shape
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def __str__(self) -> str:
        return f"{dtype_name(self.dtype)}[{','.join(map(str, self.shape))}]"


def aval_of(array: Any) -> Aval:
    """The abstract value of anything with `shape` and `dtype` (an array, a traced value, a tensor's data)."""
    return Aval(tuple(array.shape), array.dtype)


def size_same(a: int, b: int) -> bool:
    """Whether two sizes are equal; a symbolic one only to the same formula, whatever its value in this run."""
    if type(a) is int and type(b) is int:
        return a == b
    symbolic, other = (b, a) if type(a) is int else (a, b)
    found: bool = symbolic.same(other)  # type: ignore[attr-defined]
    return found


def size_min(a: int, b: int) -> int:
    """The smaller size. A symbolic one (an int subclass with `at_most`) keeps its formula."""
    if type(a) is int and type(b) is int:
        return min(a, b)
    symbolic, other = (b, a) if type(a) is int else (a, b)
    found: int = symbolic.at_most(other)  # type: ignore[attr-defined]
    return found


def size_max(a: int, b: int) -> int:
    """The larger size. A symbolic one (an int subclass with `at_least`) keeps its formula."""
    if type(a) is int and type(b) is int:
        return max(a, b)
    symbolic, other = (b, a) if type(a) is int else (a, b)
    found: int = symbolic.at_least(other)  # type: ignore[attr-defined]
    return found


def broadcast_shapes(op: str, *avals: Aval) -> Shape:
    """The common shape under numpy's rules, keeping symbolic sizes. RuntimeError names `op` and all shapes."""
    ndim = max(len(a.shape) for a in avals)
    out = [1] * ndim
    for aval in avals:
        for axis, size in enumerate(aval.shape, ndim - len(aval.shape)):
            if out[axis] == 1:
                out[axis] = size
            elif size != 1 and size != out[axis]:
                shapes = " and ".join(f"[{', '.join(map(str, a.shape))}]" for a in avals)
                raise RuntimeError(
                    f"The size of tensor a ({out[axis]}) must match the size of tensor b ({size}) at "
                    f"non-singleton dimension {axis}; {op}: shapes {shapes} do not broadcast, make the sizes "
                    "equal or one of them 1"
                )
    return tuple(out)


def same_dtype(op: str, *avals: Aval) -> np.dtype[Any]:
    """The dtype all operands share; RuntimeError naming `op` and the operands otherwise."""
    first = avals[0].dtype
    if any(a.dtype != first for a in avals):
        raise RuntimeError(f"{op}: operands must share a dtype, got {' and '.join(map(str, avals))}")
    return first


def normalize_axes(op: str, axes: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """A sorted tuple of axes in 0..ndim-1; None means all. IndexError for one out of range or named twice."""
    if axes is None:
        return tuple(range(ndim))
    wanted = [axes] if isinstance(axes, int) else list(axes)
    out = sorted(normalize_axis(op, axis, ndim) for axis in wanted)
    if len(set(out)) != len(out):
        raise RuntimeError(f"{op}: dim {wanted} names an axis twice")
    return tuple(out)


def normalize_axis(op: str, axis: int, ndim: int) -> int:
    """`axis` counted from the front. A zero-dimensional value counts as one-dimensional, as in PyTorch."""
    limit = max(ndim, 1)
    if not -limit <= axis < limit:
        raise IndexError(
            f"{op}: Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {axis})"
        )
    return int(axis) % limit
