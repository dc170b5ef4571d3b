"""What a model keeps between calls: running statistics, optimiser moments, the parameters of a training
step.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..serialized_models.format import State
from .arrays import Array, address, dtype_of
from .checking import shown


class Memory:
    """The state of one loaded model. `section` is state.bin, which has the first values.

    Each value has a slot with two arrays: a call reads the one at address `here[slot]` and writes the one at
    `there[slot]`, then the two swap, so that a call that fails leaves the state as it was. Calls with state
    hold the lock."""

    def __init__(self, states: Sequence[State] = (), section: bytes | memoryview = b"") -> None:
        self.lock = threading.Lock()
        self.slots = {s.name: k for k, s in enumerate(states)}
        self.initial = {s.name: _initial(s, section) for s in states}
        pairs = [(array.copy(), np.empty_like(array)) for array in self.initial.values()]
        self.here = [address(a) for a, _ in pairs]
        self.there = [address(b) for _, b in pairs]
        self.arrays = {address(array): array for pair in pairs for array in pair}

    def now(self, name: str) -> Array:
        """The present value itself, not a copy."""
        return self.arrays[self.here[self.slots[name]]]

    def read(self) -> dict[str, Array]:
        """A copy of every value."""
        with self.lock:
            return {name: self.now(name).copy() for name in self.slots}

    def write(self, values: Mapping[str, Any]) -> None:
        """Replace values. Raises KeyError or ValueError, before anything is replaced, if one does not fit."""
        for name, value in values.items():
            if name not in self.slots:
                raise KeyError(f"no state is named {name}: there are {', '.join(self.slots) or 'none'}")
            array, wanted = np.asarray(value), self.initial[name]
            if array.shape != wanted.shape or array.dtype != wanted.dtype:
                raise ValueError(
                    f"the state {name} should be {shown(wanted)}, and {shown(array)} came: convert it"
                )
        with self.lock:
            for name, value in values.items():
                self.now(name)[...] = value

    def reset(self) -> None:
        """Go back to the values in the file."""
        self.write(self.initial)

    def swap(self, slots: Iterable[int]) -> None:
        """Make what a call wrote the present value. The caller holds the lock."""
        for k in slots:
            self.here[k], self.there[k] = self.there[k], self.here[k]


def _initial(state: State, section: bytes | memoryview) -> Array:
    array = np.empty(state.shape, dtype_of(state.dtype))
    data = section[state.offset : state.offset + array.nbytes]
    array.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8)
    return array
