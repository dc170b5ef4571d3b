"""Memory handed to other libraries, and taken from them, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..device import cupy_module
from ..tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]

CUDA = 2
"""The number of a GPU among DLPack's kinds of device."""


class Capsule:
    """A DLPack capsule with the two methods by which it is taken over."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor in the memory of an array of another library, anything with `__dlpack__`, or of a capsule."""
    source = ext_tensor if hasattr(ext_tensor, "__dlpack__") else Capsule(ext_tensor, (1, 0))
    if source.__dlpack_device__()[0] == CUDA:
        return Tensor(cupy_module().from_dlpack(source))
    array = np.from_dlpack(source)
    if not array.flags.writeable:  # numpy marks as read-only what it was not told is free to be written to
        array = writable(array)
    return Tensor(array)


def writable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A view of the same memory that can be written to."""
    interface = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}

    class Holder:
        __array_interface__ = interface
        owner = array

    return np.asarray(Holder())


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of the tensor's memory, to be taken over once."""
    return tensor.__dlpack__()
