"""Random streams: a generator hands out keys (seed, offset), and the random ops are pure functions of a key.

The stream is Philox 4x32-10 (`ops/random.py`): the same key gives the same bits in eager, recorded and compiled
programs, on every device.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .device import device as place
from .ops.table import TABLE
from .tape import apply
from .tensor import Tensor

DEFAULT_SEED = 67280421310721


class Generator:
    """A stream of random numbers. `state` is an int64 tensor (seed, offset); every draw advances the offset.

    While a program is recorded with the generator as state, `state` is a traced value and the keys follow from it.
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = place(device)
        self.state = _state(DEFAULT_SEED, 0)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of this seed, of 64 bits, from its beginning."""
        seed = int(seed)
        if not -(1 << 63) <= seed < 1 << 64:
            raise RuntimeError(f"Overflow when unpacking long: a seed has 64 bits, got {seed}")
        self.state = _state(seed, 0)
        return self

    def seed(self) -> int:
        """Start a stream of a seed from the system; returns the seed."""
        seed = int.from_bytes(os.urandom(7), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return int(self.state._read("initial_seed()")[0]) & (1 << 64) - 1

    def get_state(self) -> Tensor:
        """Seed and offset, to go back to with `set_state`."""
        return Tensor(self.state._read("get_state()").copy())

    def set_state(self, state: Tensor) -> Generator:
        """Go on from a place that `get_state` gave."""
        if tuple(state.array.shape) != (2,) or state.array.dtype != np.int64:
            raise TypeError(
                f"a generator's state is an int64 tensor (seed, offset), got {state.dtype} {state.shape}"
            )
        self.state = Tensor(state._read("set_state()").copy())
        return self

    def clone_state(self) -> Generator:
        """Another generator at the same place of the same stream."""
        return Generator(self.device).set_state(self.get_state())

    def get_offset(self) -> int:
        """How many blocks of the stream are used up."""
        return int(self.state._read("get_offset()")[1]) & (1 << 64) - 1

    def set_offset(self, offset: int) -> None:
        """Go to a place of the stream."""
        self.state = _state(self.initial_seed(), int(offset))

    def __getstate__(self) -> dict[str, Any]:
        return {"device": str(self.device), "state": self.state._read("pickle").tolist()}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.device = place(saved["device"])
        self.state = _state(*saved["state"])

    def take(self, blocks: int) -> Tensor:
        """The key of the next draw; the stream advances by `blocks` blocks of four 32-bit words."""
        key = self.state
        if type(key.array) is np.ndarray and type(blocks) is int:
            self.state = Tensor(key.array + np.array([0, blocks]))
        else:
            zero = apply(TABLE["full"], shape=(1,), value=0, dtype="int64")
            step = apply(TABLE["full"], shape=(1,), value=blocks, dtype="int64")
            self.state = apply(TABLE["add"], key, apply(TABLE["cat"], zero, step, dim=0))
        return key


def _state(seed: int, offset: int) -> Tensor:
    words = [(word + (1 << 63)) % (1 << 64) - (1 << 63) for word in (seed, offset)]  # as two's complement
    return Tensor(np.array(words, np.int64))


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator; returns it."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the system; returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The default generator's seed."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state."""
    return default_generator.get_state()


def set_rng_state(state: Tensor) -> None:
    """Set the default generator's state."""
    default_generator.set_state(state)


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Within the block random numbers are drawn as ever; after it the stream goes on as if none had been.

    One stream serves all devices, so which of them are named makes no difference.
    """
    if not enabled:
        yield
        return
    before = default_generator.state
    try:
        yield
    finally:
        default_generator.state = before
