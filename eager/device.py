"""Devices: `cpu` is numpy; `cuda[:i]` is cupy, imported only when it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np


class device:
    """Where a tensor lives: `device("cpu")`, `device("cuda:1")`, `device("cuda", 1)`."""

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | device, index: int | None = None) -> None:
        if isinstance(type, device):
            self.type, self.index = type.type, type.index if index is None else index
            return
        kind, colon, number = str(type).partition(":")
        if kind not in ("cpu", "cuda"):
            raise RuntimeError(f"Expected one of cpu, cuda device type at start of device string: {kind}")
        if colon and not number.isdigit():
            raise RuntimeError(f"Invalid device string: '{type}'")
        self.type = kind
        self.index = int(number) if colon else index

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + ("" if self.index is None else f", index={self.index}") + ")"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type, self.index)


CPU = device("cpu")


def device_of(array: Any) -> device:
    """The device of a value: cupy arrays say which GPU, everything else is on the CPU."""
    array = getattr(array, "array", array)  # a traced value holds the array it was recorded with
    if type(array).__module__.startswith("cupy"):
        return device("cuda", array.device.id)
    return CPU


def cupy_module() -> Any:
    """cupy, when it is installed and sees a GPU; RuntimeError with what to do otherwise."""
    try:
        import cupy
    except ImportError:
        raise RuntimeError(
            "a CUDA device was asked for, but cupy is not installed; install tapecast[cuda], or use device 'cpu'"
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"a CUDA device was asked for, but no driver answers ({error}); use device 'cpu'"
        ) from None
    if not count:
        raise RuntimeError("a CUDA device was asked for, but this machine has none; use device 'cpu'")
    return cupy


def move(array: Any, to: device) -> Any:
    """The array on another device; the same object when it is there already."""
    here = device_of(array)
    if here.type == to.type and to.index in (None, here.index):
        return array
    if to.type == "cpu":
        return array.get()
    cupy = cupy_module()
    with cupy.cuda.Device(to.index or 0):
        return cupy.asarray(array)


def scalar_array(value: Any, dtype: np.dtype[Any], like: Any) -> Any:
    """A 0-d array of `value`, on the device of the array `like`."""
    try:
        array = np.array(value, dtype)
    except OverflowError:  # numbers wrap around in arithmetic, as in PyTorch
        array = np.array(value & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(dtype)
    if type(like) is np.ndarray:
        return array
    where = device_of(like)
    return array if where is CPU else move(array, where)


def fitted(value: int, dtype: np.dtype[Any]) -> int:
    """A negative number as the unsigned one of its bits; RuntimeError for one that does not fit in size either."""
    limits = np.iinfo(dtype)
    if limits.min <= value <= limits.max:
        return value
    if limits.min == 0 and -limits.max <= value < 0:
        return value + int(limits.max) + 1
    raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: {value}")
