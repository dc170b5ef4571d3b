"""`tapecast.cuda`: GPUs, by PyTorch's names. The functions after the first two want cupy and a GPU, and say so."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .. import random
from ..device import cupy_module, device


def __getattr__(name: str) -> Any:
    if name == "amp":
        return import_module(f"{__name__}.amp")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_available() -> bool:
    """Whether tensors can be put on `cuda`: cupy is installed and sees a GPU."""
    return device_count() > 0


def device_count() -> int:
    """The number of GPUs that can be used, 0 without cupy or a driver."""
    try:
        return int(cupy_module().cuda.runtime.getDeviceCount())
    except RuntimeError:
        return 0


def current_device() -> int:
    """The index that `cuda` without one stands for."""
    return int(cupy_module().cuda.runtime.getDevice())


def get_device_name(of: Any = None) -> str:
    """The name of a GPU, by default the current one, e.g. "NVIDIA H100 PCIe"."""
    return str(cupy_module().cuda.runtime.getDeviceProperties(_index(of))["name"].decode())


def get_device_capability(of: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU as (major, minor): (9, 0) for sm_90."""
    properties = cupy_module().cuda.runtime.getDeviceProperties(_index(of))
    return int(properties["major"]), int(properties["minor"])


def synchronize(of: Any = None) -> None:
    """Wait until all work of a GPU is done, as timing needs."""
    cupy_module().cuda.Device(_index(of)).synchronize()


def memory_allocated(of: Any = None) -> int:
    """Bytes in use by arrays on a GPU."""
    cupy = cupy_module()
    with cupy.cuda.Device(_index(of)):
        return int(cupy.get_default_memory_pool().used_bytes())


def empty_cache() -> None:
    """Give memory that no array uses any more back to the current GPU."""
    cupy_module().get_default_memory_pool().free_all_blocks()


def manual_seed(seed: int) -> None:
    """As `tapecast.manual_seed`: one stream serves all devices, so that a program computes the same on each."""
    random.manual_seed(seed)


manual_seed_all = manual_seed


def _index(of: Any) -> int:
    """The index of a GPU given as None, an index, a device or its text."""
    if of is None or isinstance(of, int):
        return current_device() if of is None else of
    wanted = device(of)
    if wanted.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {wanted}")
    return current_device() if wanted.index is None else wanted.index
