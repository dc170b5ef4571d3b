"""The dtype objects of the public surface (`tapecast.float32`) and PyTorch's rules of type promotion.

Below the functional layer dtypes are numpy's; these objects are what users see, compare and print.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .ops.types import DTYPES

BOOL, INTEGER, FLOATING, COMPLEX = range(4)
"""Categories in order of promotion: a scalar changes a tensor's dtype only from a higher one."""


class dtype:
    """A dtype: `tapecast.float32`. One object per dtype, so `is` and `==` agree."""

    __slots__ = ("category", "is_signed", "itemsize", "name", "numpy")

    def __init__(self, name: str) -> None:
        self.name = name
        self.numpy = DTYPES[name]
        self.itemsize = self.numpy.itemsize
        self.category = _category(self.numpy)
        self.is_signed = name != "bool" and not name.startswith("uint")

    @property
    def is_floating_point(self) -> bool:
        return self.category == FLOATING

    @property
    def is_complex(self) -> bool:
        return self.category == COMPLEX

    def __repr__(self) -> str:
        return f"tapecast.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype_of, (self.name,)


def _category(numpy_dtype: np.dtype[Any]) -> int:
    return {"b": BOOL, "i": INTEGER, "u": INTEGER, "c": COMPLEX}.get(numpy_dtype.kind, FLOATING)


_OBJECTS = {name: dtype(name) for name in DTYPES}
_BY_NUMPY = {d.numpy: d for d in _OBJECTS.values()}
_BY_TYPE = {bool: _OBJECTS["bool"], int: _OBJECTS["int64"]}

bool_ = _OBJECTS["bool"]
uint8, int8, int16 = _OBJECTS["uint8"], _OBJECTS["int8"], _OBJECTS["int16"]
int32, int64 = _OBJECTS["int32"], _OBJECTS["int64"]
uint16, uint32, uint64 = _OBJECTS["uint16"], _OBJECTS["uint32"], _OBJECTS["uint64"]
float16, bfloat16 = _OBJECTS["float16"], _OBJECTS["bfloat16"]
float32, float64 = _OBJECTS["float32"], _OBJECTS["float64"]
complex64, complex128 = _OBJECTS["complex64"], _OBJECTS["complex128"]
cfloat, cdouble = complex64, complex128
short, int_, long, half, float_, double = int16, int32, int64, float16, float32, float64

_default = float32


def dtype_of(value: Any) -> dtype:
    """The dtype object for a dtype object, a name, a numpy dtype or a Python type; TypeError for anything else."""
    if isinstance(value, dtype):
        return value
    if value is float:
        return _default
    if isinstance(value, type) and value in _BY_TYPE:
        return _BY_TYPE[value]
    try:
        return _BY_NUMPY[np.dtype(value)]
    except (KeyError, TypeError):
        raise TypeError(
            f"{value!r} is not a dtype; the dtypes are {', '.join(map(repr, _OBJECTS.values()))}"
        ) from None


def get_default_dtype() -> dtype:
    """The dtype of a float without one, float32 unless set otherwise."""
    return _default


def set_default_dtype(value: Any) -> None:
    """Make `value`, a floating dtype, the dtype of Python floats and of creation functions."""
    global _default
    wanted = dtype_of(value)
    if not wanted.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _default = wanted


class finfo:
    """Limits of a floating dtype (of a complex one's parts): bits, eps, max, min, tiny, smallest_normal, resolution."""

    def __init__(self, of: Any = None) -> None:
        wanted = _default if of is None else dtype_of(of)
        if wanted.category == COMPLEX:
            wanted = dtype_of(f"float{wanted.itemsize * 4}")
        if not wanted.is_floating_point:
            raise TypeError(f"finfo wants a floating dtype, got {wanted}; use iinfo for integers")
        info = ml_dtypes.finfo(wanted.numpy)
        self.dtype, self.bits = wanted.name, wanted.itemsize * 8
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = float(info.resolution)


class iinfo:
    """Limits of an integer dtype: bits, max, min."""

    def __init__(self, of: Any) -> None:
        wanted = dtype_of(of)
        if wanted.category != INTEGER:
            raise TypeError(f"iinfo wants an integer dtype, got {wanted}; use finfo for floats")
        info = np.iinfo(wanted.numpy)
        self.dtype, self.bits, self.max, self.min = wanted.name, info.bits, int(info.max), int(info.min)


# ---- promotion ---------------------------------------------------------------------------------------------


#: PyTorch has these for storage and promotes them to floats alone.
_WIDE_UNSIGNED = (uint16, uint32, uint64)


def _promote_pair(a: dtype, b: dtype) -> dtype:
    """PyTorch's lattice: the higher category wins; float16 with bfloat16 is float32; complex widens with float64."""
    for one, other in ((a, b), (b, a)):
        if one in _WIDE_UNSIGNED and other is not one and not other.is_floating_point:
            raise RuntimeError(
                "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
                f"{a.name} and {b.name}"
            )
    if a.category != b.category:
        low, high = sorted((a, b), key=lambda d: d.category)
        return complex128 if high is complex64 and low is float64 else high
    if {a, b} == {float16, bfloat16}:
        return float32
    if bfloat16 in (a, b):
        return b if a is bfloat16 else a
    return _BY_NUMPY[np.promote_types(a.numpy, b.numpy)]


_PROMOTED: dict[tuple[np.dtype[Any], np.dtype[Any]], np.dtype[Any]] = {}


def promote(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """The numpy dtype that holds both; RuntimeError where PyTorch has none."""
    found = _PROMOTED.get((a, b))
    if found is None:
        found = _PROMOTED[a, b] = _promote_pair(_BY_NUMPY[a], _BY_NUMPY[b]).numpy
    return found


def promote_types(a: Any, b: Any) -> dtype:
    """The smallest dtype that holds both, as `torch.promote_types`."""
    return _promote_pair(dtype_of(a), dtype_of(b))


def scalar_dtype(value: Any) -> np.dtype[Any]:
    """The dtype a Python number has by itself: bool, int64, the default float or the matching complex."""
    if isinstance(value, bool):
        return bool_.numpy
    if isinstance(value, int):
        return int64.numpy
    if isinstance(value, float):
        return _default.numpy
    return (complex128 if _default is float64 else complex64).numpy


def complex_of(numpy_dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex dtype of a floating one's precision; half precision has none and takes complex64."""
    return (complex128 if numpy_dtype == float64.numpy else complex64).numpy


def category(numpy_dtype: np.dtype[Any]) -> int:
    return _BY_NUMPY[numpy_dtype].category


def result_dtype(shaped: list[Any], zero_dim: list[Any], scalars: list[Any]) -> np.dtype[Any]:
    """The dtype of an op on tensors with axes, zero-dimensional tensors and Python numbers.

    Each group is the numpy dtypes of its members. A later group counts only where its category is higher.
    """
    result: np.dtype[Any] | None = None
    for group in (shaped, zero_dim, scalars):
        for one in group[1:]:
            group = [promote(group[0], one), *group[2:]] if group else group
        if not group:
            continue
        own = group[0]
        if result is None:
            result = own
        elif category(own) > category(result):
            # The precision of what has axes stays: a complex number makes float32 complex64, whatever its own.
            result = (
                complex_of(result)
                if (category(own), category(result)) == (COMPLEX, FLOATING)
                else promote(own, result)
            )
    if result is None:
        raise ValueError("result_type: at least one operand is needed")
    return result
