"""Tensors and arrays in shared memory, and how they travel: what a queue or a pipe carries is a descriptor."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator
from multiprocessing import process, queues, reduction, resource_sharer, util
from typing import Any

import numpy as np

from ..dtypes import dtype_of
from ..nn.parameter import Buffer, Parameter
from ..tensor import Tensor
from . import segments
from .segments import Segment, create, segment_of

STRATEGIES = ("file_descriptor", "file_system")

mapped: weakref.WeakValueDictionary[tuple[int, int], Segment] = weakref.WeakValueDictionary()
"""The segments known here by the device and inode of their file, so that what arrives twice is mapped once."""


def get_all_sharing_strategies() -> set[str]:
    """The names `set_sharing_strategy` takes."""
    return set(STRATEGIES)


def get_sharing_strategy() -> str:
    """How shared memory is made now."""
    return segments.strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """How shared memory is made from now on.

    "file_descriptor" (the default): memory files without a name, bounded by memory alone. "file_system": files of
    /dev/shm, unlinked at once, for systems that lack the former. Neither leaves anything behind.
    """
    if new_strategy not in STRATEGIES:
        raise ValueError(
            f"unknown sharing strategy {new_strategy!r}; the strategies are {', '.join(STRATEGIES)}"
        )
    segments.strategy[0] = new_strategy


def shared_array(array: Any) -> np.ndarray[Any, Any]:
    """A copy of an array in shared memory: forked processes see one another's writes to it.

    Through a queue, a pipe or the arguments of a process it goes by handle, without a copy.
    """
    array = np.asarray(array)
    if array.dtype.hasobject:
        raise TypeError(f"an array of dtype {array.dtype} holds references, which mean nothing to others")
    out = np.asarray(create(array.nbytes))[: array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def share_memory_(self: Tensor) -> Tensor:
    """Move the tensor's memory to shared memory, with that of its views; nothing for a tensor already there.

    Returns the tensor. Forked processes, and those that get it through a queue or a pipe, see one memory. An
    error of the system is an OSError that gives the space asked for and the space there is.
    """
    array = self._read("share_memory_()")
    if self.is_cuda or segment_of(array) is not None:
        return self
    low, high = np.lib.array_utils.byte_bounds(root_of(array))
    segment = create(high - low)
    block = np.asarray(segment)
    block[: high - low] = bytes_at(low, high - low)
    for alias in {id(t): t for t in (*bases_of(self), *self.shared_storage().live_aliases())}.values():
        alias.array = moved(alias.array, low, high, block)
    return self


def bases_of(tensor: Tensor) -> Iterator[Tensor]:
    """The tensor, the one that it is a view of or was detached from, that one's base, and so on."""
    yield tensor
    while tensor.link is not None:
        tensor = tensor.link.base
        yield tensor


def root_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array whose memory this is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def bytes_at(address: int, size: int) -> np.ndarray[Any, Any]:
    """The memory at an address, which the caller keeps alive."""
    interface = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (address, False)}
    return np.asarray(type("Memory", (), {"__array_interface__": interface})())


def moved(array: Any, low: int, high: int, block: np.ndarray[Any, Any]) -> Any:
    """The same view of `block` as `array` is of the memory from `low` to `high`; others stay."""
    start = array.__array_interface__["data"][0]
    if not low <= start < max(high, low + 1):
        return array
    return np.ndarray(array.shape, array.dtype, block, start - low, array.strides)


def is_shared(self: Tensor) -> bool:
    """Whether the tensor lies in shared memory; so does whatever is on a GPU."""
    return self.is_cuda or segment_of(self.array) is not None


# ---- what queues and pipes do ----------------------------------------------------------------------------------

Handle = tuple[Any, int]
"""A descriptor on its way to another process, and the size of its segment in bytes."""


def handle_of(segment: Segment) -> Handle:
    assert segment.fd is not None
    mapped.setdefault(identity(segment.fd), segment)
    return reduction.DupFd(segment.fd), segment.size


def from_handle(handle: Handle) -> Segment:
    """The segment of a handle, mapped here unless it already is."""
    fd, size = handle[0].detach(), handle[1]
    key = identity(fd)
    known = mapped.get(key)
    if known is not None:
        os.close(fd)
        return known
    mapped[key] = segment = Segment(fd, size)
    return segment


def identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


Layout = tuple[str, tuple[int, ...], int, tuple[int, ...]]
"""Name of the dtype, shape, offset and strides in bytes: which part of a segment an array is."""


def layout_of(array: np.ndarray[Any, Any], segment: Segment, name: str) -> Layout:
    start = array.__array_interface__["data"][0] - segment.address
    return name, array.shape, start, array.strides


def placed(handle: Handle, layout: Layout, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    _, shape, start, strides = layout
    return np.ndarray(shape, dtype, np.asarray(from_handle(handle)), start, strides)


def reduce_tensor(tensor: Tensor) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What a queue carries of a tensor, whose memory becomes shared; RuntimeError for one on the tape."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries. If you just want to transfer the data, call detach() on the tensor "
            "before serializing (e.g., putting it on the queue)."
        )
    if tensor.is_cuda or tensor.numel() == 0:
        return tensor.__reduce_ex__(2)
    segment = segment_of(tensor.array)
    if segment is not None and segment.fd is None:  # of a loader's batch, whose memory is used again
        tensor = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    array = share_memory_(tensor).array
    segment = segment_of(array)
    assert segment is not None
    layout = layout_of(array, segment, tensor.dtype.name)
    return rebuild_tensor, (type(tensor), handle_of(segment), layout, tensor.requires_grad, tensor.__dict__)


def rebuild_tensor(
    cls: type[Tensor], handle: Handle, layout: Layout, requires_grad: bool, extra: dict[str, Any]
) -> Tensor:
    out = cls.__new__(cls)
    Tensor.__init__(out, placed(handle, layout, dtype_of(layout[0]).numpy), requires_grad)
    out.__dict__.update(extra)
    return out


def reduce_array(array: np.ndarray[Any, Any]) -> Any:
    """An array in shared memory goes by handle, any other as ever."""
    segment = segment_of(array)
    if segment is None or segment.fd is None:
        return array.__reduce_ex__(2)
    return placed, (handle_of(segment), layout_of(array, segment, ""), array.dtype)


def reduce_segment(segment: Segment) -> Any:
    return from_handle, (handle_of(segment),)


def wait_for_receivers(seconds: float = 5) -> None:
    """At the end of a process: let others fetch the descriptors that were sent to them and not asked for yet."""
    for finalize in list(util._finalizer_registry.values()):  # type: ignore[attr-defined]
        if getattr(finalize, "_callback", None) is queues.Queue._finalize_join:  # type: ignore[attr-defined]
            finalize()  # all that was put is written
    waiting: dict[Any, Any] = getattr(resource_sharer._resource_sharer, "_cache", {})  # type: ignore[attr-defined]
    parent = process.parent_process()
    end = time.monotonic() + seconds
    while waiting and time.monotonic() < end:
        if not (process.active_children() or (parent is not None and parent.is_alive())):
            return
        time.sleep(0.005)


def wait_at_exit() -> None:
    # After queues are closed, at 10; before the socket that hands out descriptors is, at 0.
    util.Finalize(None, wait_for_receivers, exitpriority=5)


def register() -> None:
    """Teach the queues, pipes and processes of the standard library to send memory by handle."""
    wait_at_exit()
    util.register_after_fork(
        wait_for_receivers, lambda _: wait_at_exit()
    )  # a child forgets what is to be done at exit
    for cls in (Tensor, Parameter, Buffer):
        reduction.ForkingPickler.register(cls, reduce_tensor)
    reduction.ForkingPickler.register(np.ndarray, reduce_array)
    reduction.ForkingPickler.register(Segment, reduce_segment)
