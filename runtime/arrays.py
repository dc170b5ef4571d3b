"""What a call needs of numpy: addresses, element types, arrays from whatever the caller has."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

DATA_OFFSET = 16
"""Where `PyArrayObject` keeps its data pointer: behind the reference count and the type (numpy's C API, ABI 1
and 2).
"""

DENSE = 0x0001 | 0x0100
"""NPY_ARRAY_C_CONTIGUOUS and NPY_ARRAY_ALIGNED, as in `array.flags.num`."""

WRITABLE = DENSE | 0x0400
"""Dense, and NPY_ARRAY_WRITEABLE."""

MEMORY = (ctypes.c_size_t * (1 << 44)).from_address(0)
"""All of memory as words of 64 bits: reading one by its number is the fastest way to it from Python."""

KDL_CPU = (1, 3)  # kDLCPU and kDLCUDAHost
_DEVICES = {2: "cuda", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda"}

Array = np.ndarray[Any, Any]


def address_at_offset(array: Array) -> int:
    """The address of the first element, read from the object itself: a tenth of the time of
    `array.ctypes.data`.
    """
    return MEMORY[id(array) + DATA_OFFSET >> 3]


def address_by_interface(array: Array) -> int:
    """The address of the first element by the documented way."""
    return int(array.__array_interface__["data"][0])


def layout_is_known() -> bool:
    """Whether this interpreter and numpy keep the pointer where DATA_OFFSET says, tried on several arrays."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or object.__basicsize__ != DATA_OFFSET:
        return False
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    return all(
        address_at_offset(a) == address_by_interface(a)
        for a in (base, base[1:], base.T[2:], np.zeros((), np.int8), np.zeros(3, np.complex128))
    )


LAYOUT_IS_KNOWN = layout_is_known()
address = address_at_offset if LAYOUT_IS_KNOWN else address_by_interface


def dtype_of(name: str) -> np.dtype[Any]:
    """numpy's element type. bfloat16 is there once `ml_dtypes` is imported; without it, uint16 holds the same
    bits.
    """
    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype(np.uint16)


def is_dtype(array: Array, name: str) -> bool:
    """Whether the elements are of the named type in this machine's byte order."""
    found = array.dtype
    if found == dtype_of(name):
        return True
    return found.isnative and (found.name == name or (name == "bfloat16" and found.name == "uint16"))


def dense(array: Array) -> Array:
    """The array itself if it is row-major, aligned and without gaps, else a copy that is."""
    if array.flags.num & DENSE == DENSE:
        return array
    return np.array(array, order="C", copy=True)


def to_array(value: Any, dtype: str) -> Array:
    """An array with the content of `value`, without a copy where the protocol allows.

    Raises TypeError, with a reason to complete a sentence, for what is no array on this machine. Python
    numbers and lists of them have no dtype of their own and take the wanted one if it holds such numbers."""
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if hasattr(value, "__dlpack_device__"):
        return _from_dlpack(value)
    if isinstance(value, (bool, int, float, complex, list, tuple)):
        return _from_numbers(value, dtype)
    if any(hasattr(value, name) for name in ("__array__", "__array_interface__", "__buffer__")):
        return np.asarray(value)
    raise TypeError(
        f"came {type(value).__name__}: give a numpy array, or an object with __dlpack__ or __array__"
    )


def _from_dlpack(value: Any) -> Array:
    kind, index = value.__dlpack_device__()
    if kind not in KDL_CPU:
        device = _DEVICES.get(int(kind), f"device type {int(kind)},")
        raise TypeError(
            f"came an array on {device}:{index}: move it to the host first, for example with .cpu()"
        )
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        # A tensor that requires a gradient refuses to be exported, and numpy has no bfloat16 to import.
        raise TypeError(
            f"came a {type(value).__name__} that cannot be read ({str(error).rstrip('.')})"
        ) from None


def _from_numbers(value: Any, dtype: str) -> Array:
    try:
        array = np.array(value)
    except ValueError as error:
        raise TypeError(f"came a list that is no array ({str(error).rstrip('.')})") from None
    if not np.can_cast(array.dtype, dtype_of(dtype), "same_kind"):
        raise TypeError(f"came numbers that are {array.dtype}: give them as {dtype}")
    return array.astype(dtype_of(dtype))
