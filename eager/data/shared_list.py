"""`SharedList`: many Python objects held once for all processes."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np

T = TypeVar("T")
ALIGNMENT = 64


class SharedList(Sequence[T], Generic[T]):
    """A list that cannot be changed, whose objects lie in shared memory.

    An object is made anew each time it is asked for; its arrays are views of the shared memory, not writable. A list
    of Python objects is copied bit by bit in every worker of a loader, since reading an object counts references
    in it; of this one there is one copy, in forked processes and in those that are sent it.
    """

    def __init__(self, items: Iterable[T]) -> None:
        from ..multiprocessing.sharing import shared_array

        data, ends, starts = bytearray(), [], [0]
        for item in items:
            buffers: list[pickle.PickleBuffer] = []
            raw = pickle.dumps(item, protocol=5, buffer_callback=buffers.append)
            for piece in (memoryview(raw), *(buffer.raw() for buffer in buffers)):
                data += bytes(-len(data) % ALIGNMENT)
                begin = len(data)
                data += piece
                ends.append((begin, len(data)))
            starts.append(len(ends))
        self._data = shared_array(np.frombuffer(data, np.uint8))
        self._pieces = shared_array(np.array(ends, np.int64).reshape(-1, 2))
        self._starts = shared_array(np.array(starts, np.int64))
        self._data.flags.writeable = False

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of range for a SharedList of {n} objects")
        first, last = self._starts[index % n], self._starts[index % n + 1]
        pieces: list[Any] = [self._data[begin:end] for begin, end in self._pieces[first:last].tolist()]
        return pickle.loads(pieces[0], buffers=pieces[1:])

    def __iter__(self) -> Iterator[T]:
        return map(self.__getitem__, range(len(self)))

    @property
    def nbytes(self) -> int:
        """Bytes of shared memory."""
        return self._data.nbytes + self._pieces.nbytes + self._starts.nbytes

    def __repr__(self) -> str:
        return f"SharedList({len(self)} objects, {self.nbytes} bytes)"
