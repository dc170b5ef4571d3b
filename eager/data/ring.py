"""Batches in shared memory: a worker writes them into segments that it uses again once nobody refers to them.

The worker allocates (`Ring`), the loader maps (`Mapped`). Large arrays get a segment each, small ones share some; a
segment is free when no array of the worker and no tensor of the loader lies in it. What travels is a message with
places: the number of a segment, an offset and a size.
"""

from __future__ import annotations

import io
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..dtypes import dtype_of
from ..multiprocessing import segments
from ..multiprocessing.segments import Segment
from ..tensor import Tensor

Place = tuple[int, int, int]
"""Number of the segment, offset and size in bytes."""

ALIGNMENT = 64
SMALL = 1 << 16  # arrays below this many bytes share segments
COMMON = 1 << 18  # of this size
INLINE = 1 << 13  # messages up to this length go through the socket, longer ones through a segment


class Slot:
    """A segment of the worker: `users` counts the arrays in it, here and at the loader; `used` bytes are taken."""

    __slots__ = ("number", "segment", "used", "users")

    def __init__(self, number: int, segment: Segment) -> None:
        self.number, self.segment = number, segment
        self.used = self.users = 0


class Block:
    """Memory of a slot that a worker's array lies in; the slot loses a user with the last array of it."""

    def __init__(self, ring: Ring, slot: Slot, offset: int, size: int) -> None:
        address = slot.segment.address + offset
        self.ring, self.slot = ring, slot
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
        }

    def __del__(self) -> None:
        self.ring.released.append(self.slot.number)


class Ring:
    """The segments of one worker. `announce(number, segment)` tells the loader of a new one, with None of one gone."""

    def __init__(self, announce: Callable[[int, Segment | None], None]) -> None:
        self.announce = announce
        self.slots: dict[int, Slot] = {}
        self.released: deque[int] = deque()
        self.common: Slot | None = None  # where small arrays go now
        self.count = 0
        self.thread = threading.get_ident()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An array of any contents in shared memory. OSError where there is no more of it.

        In other threads that a dataset may have, it is one in ordinary memory.
        """
        if threading.get_ident() != self.thread:
            return np.empty(shape, dtype)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self.allocate(size)[:size].view(dtype).reshape(shape)

    def allocate(self, size: int) -> np.ndarray[Any, Any]:
        """At least `size` bytes."""
        self.collect()
        size = max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
        slot = self.shared_slot(size) if size < SMALL else self.own_slot(size)
        offset = slot.used
        slot.used += size
        slot.users += 1
        return np.asarray(Block(self, slot, offset, size))

    def collect(self) -> None:
        """Take note of what nobody refers to any more."""
        while self.released:
            slot = self.slots[self.released.popleft()]
            slot.users -= 1
            if slot.users == 0:
                slot.used = 0

    def shared_slot(self, size: int) -> Slot:
        """The segment for small arrays, or another when that is full."""
        slot = self.common
        if slot is None or slot.used + size > COMMON:
            free = (s for s in self.slots.values() if s.users == 0 and s.segment.size == COMMON)
            slot = self.common = next(free, None) or self.new(COMMON)
        return slot

    def own_slot(self, size: int) -> Slot:
        """A free segment that fits, or a new one; then one that does not fit is given up."""
        free = [s for s in self.slots.values() if s.users == 0 and s is not self.common]
        fitting = [s for s in free if size <= s.segment.size <= 2 * size]
        if fitting:
            return min(fitting, key=lambda s: s.segment.size)
        if free:
            slot = min(free, key=lambda s: s.segment.size)
            del self.slots[slot.number]
            self.announce(slot.number, None)
        step = max(4096, 1 << (size.bit_length() - 4))  # sizes that are nearly the same become the same
        return self.new(-(-size // step) * step)

    def new(self, size: int) -> Slot:
        segment = segments.create(size)
        self.count += 1
        slot = self.slots[self.count] = Slot(self.count, segment)
        self.announce(slot.number, segment)
        segment.close()
        return slot

    def place(self, raw: np.ndarray[Any, Any]) -> Place:
        """Where the bytes are, which count as used by the loader from now on; they are copied unless they lie here."""
        owner = segments.owner(raw)
        if not (isinstance(owner, Block) and owner.ring is self):
            block = self.allocate(raw.size)
            block[: raw.size] = raw
            raw, owner = block[: raw.size], segments.owner(block)
        owner.slot.users += 1
        return owner.slot.number, raw.__array_interface__["data"][0] - owner.slot.segment.address, raw.size

    def pack(self, value: Any) -> tuple[Any, list[Place]]:
        """A batch as the body of a message, and its places: the body is bytes, or the place of a long one."""
        pickler = BatchPickler(self)
        try:
            pickler.dump(value)
            body = pickle.dumps((pickler.file.getvalue(), pickler.places), protocol=5)
            if len(body) <= INLINE:
                return body, pickler.places
            return self.place(np.frombuffer(body, np.uint8)), pickler.places
        except BaseException:
            self.released.extend(number for number, _, _ in pickler.places)
            raise


class BatchPickler(pickle.Pickler):
    """Pickles a batch, of whose tensors and arrays only the places are written."""

    def __init__(self, ring: Ring) -> None:
        self.file = io.BytesIO()
        self.places: list[Place] = []
        places = self.places  # not `self`: in a cycle the arrays would live until the next collection
        super().__init__(
            self.file, protocol=5, buffer_callback=lambda b: places.append(ring.place(bytes_of(b)))
        )

    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            if value.dtype.hasobject or not value.nbytes:
                return NotImplemented
            return (rebuild_array, (*self.parts(value), value.dtype))
        if isinstance(value, Tensor) and type(value.array) is np.ndarray and value.array.nbytes:
            return self.reduce_tensor(value)
        return NotImplemented

    def reduce_tensor(self, tensor: Tensor) -> Any:
        if not tensor.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not "
                "support crossing process boundaries. If you just want to transfer the data, call detach() on the "
                "tensor before serializing (e.g., putting it on the queue)."
            )
        extra = tensor.__dict__ or None
        parts = self.parts(tensor.array)
        return (rebuild_tensor, (*parts, tensor.dtype.name, type(tensor), tensor.requires_grad, extra))

    def parts(self, array: np.ndarray[Any, Any]) -> tuple[pickle.PickleBuffer, tuple[int, ...], Any]:
        """The bytes of an array in the order they lie in memory, its shape in that order, the order of its axes."""
        order = None
        if not array.flags.c_contiguous:
            axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
            array = np.ascontiguousarray(array.transpose(axes))
            order = tuple(np.argsort(axes).tolist())
        flat: Any = array.reshape(-1).view(np.uint8)
        return pickle.PickleBuffer(flat), array.shape, order


def bytes_of(buffer: pickle.PickleBuffer) -> np.ndarray[Any, Any]:
    """The memory of a buffer as an array, the very one that the buffer is of where that is one of bytes."""
    raw: Any = buffer.raw()
    flat = isinstance(raw.obj, np.ndarray) and raw.obj.dtype == np.uint8 and raw.obj.shape == (raw.nbytes,)
    return raw.obj if flat else np.frombuffer(raw, np.uint8)


def rebuild_array(
    buffer: Any, shape: tuple[int, ...], order: Any, dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    out = np.asarray(buffer).view(dtype).reshape(shape)
    return out if order is None else out.transpose(order)


def rebuild_tensor(
    buffer: Any, shape: tuple[int, ...], order: Any, name: str, cls: Any, requires_grad: bool, extra: Any
) -> Tensor:
    out = cls.__new__(cls)
    Tensor.__init__(out, rebuild_array(buffer, shape, order, dtype_of(name).numpy), requires_grad)
    if extra is not None:
        out.__dict__.update(extra)
    return out


class Lease:
    """The loader's hold on a place: with the last array over it, the worker is told with the next task."""

    def __init__(self, segment: Segment, place: Place, released: deque[int]) -> None:
        number, offset, size = place
        self.segment, self.number, self.released = segment, number, released
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (segment.address + offset, False),
        }

    def __del__(self) -> None:
        self.released.append(self.number)


class Mapped:
    """The segments of one worker as the loader sees them, and the places that have become free."""

    def __init__(self) -> None:
        self.segments: dict[int, Segment] = {}
        self.released: deque[int] = deque()

    def take_released(self) -> list[int]:
        out = []
        while self.released:
            out.append(self.released.popleft())
        return out

    def unpack(self, body: Any) -> Any:
        """The batch of a message; its tensors lie in the segments."""
        raw, places = self.open(body)
        return pickle.loads(raw, buffers=[self.lease(place) for place in places])

    def discard(self, body: Any) -> None:
        """Give a batch back that nobody wants."""
        self.released.extend(number for number, _, _ in self.open(body)[1])

    def open(self, body: Any) -> tuple[bytes, Iterable[Place]]:
        raw: Any = body if isinstance(body, bytes) else self.lease(body)
        return pickle.loads(raw)

    def lease(self, place: Place) -> np.ndarray[Any, Any]:
        return np.asarray(Lease(self.segments[place[0]], place, self.released))
