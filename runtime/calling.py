"""One entry point as a Python function: the fast path of `fast.py`, and a full path that converts and
explains.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..serialized_models.format import Entry, Manifest
from ..serialized_models.sizes import compile_size, names_in, solve
from .arrays import MEMORY, Array, address, dense, dtype_of
from .checking import arrays_of, bind, describe, measure, outputs_for, outside, signature_of
from .fast import fast_source
from .library import function, grow_pool
from .state import Memory
from .threads import checked_threads

BAD_INDEX = -11
"""What the native function returns where an index among the data, a token id say, is out of range."""

ALIGNMENT = 64
"""Of the workspace, in bytes: what the ABI promises to the kernels."""


class Scratch:
    """What one running call owns: the argument block of int64, and a workspace that grows to the largest
    call's.
    """

    __slots__ = ("address", "block", "bytes", "memory")

    def __init__(self, words: int, threads: int) -> None:
        self.block = (ctypes.c_int64 * words)()
        self.address = ctypes.addressof(self.block)
        self.block[-1] = threads

    def reserve(self, size: int) -> None:
        """Have a workspace of at least `size` bytes."""
        self.memory = np.empty(size + ALIGNMENT, np.uint8)
        self.bytes = size
        self.block[-2] = -(-address(self.memory) // ALIGNMENT) * ALIGNMENT


class Entrypoint:
    """An entry of a loaded library, with the state that it finds in `memory`.

    Calls from several threads run at once, each with a scratch of its own; those with state one after
    another. `entry` is what the library takes, `front` what is left of it for the caller."""

    def __init__(
        self, library: ctypes.CDLL, manifest: Manifest, entry: Entry, threads: int, memory: Memory
    ) -> None:
        self.library, self.manifest, self.entry, self.threads, self.memory = (
            library,
            manifest,
            entry,
            threads,
            memory,
        )
        self.front = outside(entry, memory.slots)
        self.signature = signature_of(manifest.name, self.front, manifest.dims)
        self.inputs = [memory.slots.get(t.name) for t in entry.inputs]
        self.changed = {o: slot for i, o in entry.state if (slot := self.inputs[i]) is not None}
        self.outputs = [self.changed.get(k) for k in range(len(entry.outputs))]
        self.native = function(library, entry.symbol, ctypes.c_int32, ctypes.c_void_p)
        self.workspace = compile_size(entry.workspace, entry.sizes)
        self.words = len(entry.inputs) + len(entry.outputs) + len(entry.sizes) + 2
        self.head = struct.Struct(f"={self.words - 2}q")
        self.fixed = 0 if names_in(entry.workspace) else self.workspace(*(0 for _ in entry.sizes))
        self.free: list[Scratch] = [self.scratch()]

    def scratch(self) -> Scratch:
        """A new scratch; with its workspace, where that has one size for all calls."""
        new = Scratch(self.words, self.threads)
        new.reserve(self.fixed)
        return new

    def pure(self) -> Entrypoint:
        """The same entry, its state among inputs and outputs."""
        return Entrypoint(self.library, self.manifest, self.entry, self.threads, Memory())

    def function(self) -> Callable[..., Any]:
        """The entry as a function `(*inputs, out=None, threads=None)`."""
        names: dict[str, Any] = {
            "ndarray": np.ndarray,
            "empty": np.empty,
            "memory": MEMORY,
            "may_share_memory": np.may_share_memory,
            "address": address,
            "checked": self.checked,
            "failed": self.failed,
            "free": self.free,
            "here": self.memory.here,
            "there": self.memory.there,
            "lock": self.memory.lock,
            "native": self.native,
            "new_scratch": self.scratch,
            "pack": self.head.pack_into,
            "solve": solve,
        }
        arrays = (*self.front.inputs, *self.front.outputs)
        names |= {f"t{k}": dtype_of(t.dtype) for k, t in enumerate(arrays)}
        changed = tuple(self.changed.values())
        text = fast_source(self.front, self.manifest.dims, self.inputs, self.outputs, changed)
        exec(compile(text, f"<{self.signature.name}>", "exec"), names)
        made: Callable[..., Any] = names["call"]
        made.__name__ = made.__qualname__ = self.entry.name
        made.__doc__ = describe(self.front, self.manifest.dims)
        return made

    def checked(self, args: tuple[Any, ...], named: Mapping[str, Any], out: Any, threads: Any) -> Any:
        """The call with all its checks, conversions and options."""
        values = bind(self.signature.name, self.front.inputs, args, named)
        arrays = arrays_of(self.signature, values)
        sizes = measure(self.signature, arrays)
        results = outputs_for(self.signature, sizes, out)
        self.run([dense(a) for a in arrays], results, sizes, self._threads(threads))
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: list[Array], outputs: list[Array], sizes: tuple[int, ...], threads: int) -> None:
        """Call the native function on arrays that were checked. An output may overlap inputs."""
        apart = [np.empty_like(o) if any(np.may_share_memory(o, i) for i in inputs) else o for o in outputs]
        try:
            scratch = self.free.pop()
        except IndexError:
            scratch = self.scratch()
        if (size := self.workspace(*sizes)) > scratch.bytes:
            scratch.reserve(size)
        scratch.block[-1] = threads
        with self.memory.lock if self.changed or any(s is not None for s in self.inputs) else nullcontext():
            code = self._native_call(scratch, map(address, inputs), map(address, apart), sizes)
        scratch.block[-1] = self.threads
        self.free.append(scratch)
        if code:
            raise self.failed(code)
        for wanted, made in zip(outputs, apart, strict=True):
            if wanted is not made:
                wanted[...] = made

    def _native_call(
        self, scratch: Scratch, inputs: Iterator[int], outputs: Iterator[int], sizes: tuple[int, ...]
    ) -> int:
        here, there = self.memory.here, self.memory.there
        before = [next(inputs) if slot is None else here[slot] for slot in self.inputs]
        after = [next(outputs) if slot is None else there[slot] for slot in self.outputs]
        self.head.pack_into(scratch.block, 0, *before, *after, *sizes)
        code: int = self.native(scratch.address)
        if code == 0:
            self.memory.swap(self.changed.values())
        return code

    def _threads(self, threads: Any) -> int:
        if threads is None:
            return self.threads
        count = checked_threads(threads, f"{self.signature.name}: threads")
        grow_pool(count)
        return count

    def failed(self, code: int) -> Exception:
        """What a return code of the native function means."""
        name = self.signature.name
        if 0 < code <= len(self.entry.sizes):
            return ValueError(
                f"{name}: the size {self.entry.sizes[code - 1]} is outside the range it was compiled for"
            )
        if code == BAD_INDEX:
            return IndexError(
                f"{name}: an index in the inputs is out of range: check ids and positions before the call"
            )
        if code == -1:
            return RuntimeError(f"{name}: the CPU level in use was lost; load the model again")
        return RuntimeError(f"{name} returned the unknown code {code}: upgrade tapecast, or report this")
