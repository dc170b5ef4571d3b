"""One entry point as a Python function: a fast path written for its signature, and a full path that explains.

A call that has exactly the arrays the entry takes costs about a microsecond besides the model's own work. So
the fast path is source text made when the model loads, as `dataclasses` does it: no loop over arguments is
left in it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..serialized_models.format import Entry, Manifest, Tensor
from ..serialized_models.sizes import Reading, compile_size, names_in, readings, rename, solve
from .arrays import DATA_OFFSET, DENSE, LAYOUT_IS_KNOWN, Array, address, dense, dtype_of
from .checking import Signature, arrays_of, bind, measure, outputs_for, signature_of
from .library import function, grow_pool
from .threads import checked_threads

ALIGNMENT = 64
"""Of the workspace, in bytes: what the ABI promises to the kernels."""


class Scratch:
    """What one running call owns: the argument block of int64 and a workspace, which grows to the largest
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
    """An entry of a loaded library. Calls from several threads run at once: each takes a scratch of its
    own.
    """

    def __init__(self, library: ctypes.CDLL, manifest: Manifest, entry: Entry, threads: int) -> None:
        self.entry, self.threads, self.library, self.manifest = entry, threads, library, manifest
        self.signature: Signature = signature_of(manifest.name, entry, manifest.dims)
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

    def function(self) -> Callable[..., Any]:
        """The entry as a function `(*inputs, out=None, threads=None)`."""
        names: dict[str, Any] = {
            "ndarray": np.ndarray,
            "empty": np.empty,
            "at": ctypes.c_size_t.from_address,
            "address": address,
            "checked": self.checked,
            "failed": self.failed,
            "free": self.free,
            "native": self.native,
            "new_scratch": self.scratch,
            "pack": self.head.pack_into,
            "solve": solve,
        }
        names |= {f"t{k}": dtype_of(t.dtype) for k, t in enumerate((*self.entry.inputs, *self.entry.outputs))}
        exec(compile(fast_source(self.entry, self.manifest.dims), f"<{self.signature.name}>", "exec"), names)
        made: Callable[..., Any] = names["call"]
        return made

    def checked(self, args: tuple[Any, ...], named: Mapping[str, Any], out: Any, threads: Any) -> Any:
        """The call with all its checks, conversions and options."""
        values = bind(self.signature.name, self.entry.inputs, args, named)
        arrays = arrays_of(self.signature, values)
        sizes = measure(self.signature, arrays)
        results = outputs_for(self.signature, sizes, out)
        self.run([dense(a) for a in arrays], results, sizes, threads)
        return results[0] if len(results) == 1 else tuple(results)

    def run(
        self, inputs: list[Array], outputs: list[Any], sizes: tuple[int, ...], threads: Any = None
    ) -> None:
        """Call the native function on arrays that were checked. An output may overlap inputs."""
        apart = [np.empty_like(o) if any(np.may_share_memory(o, i) for i in inputs) else o for o in outputs]
        try:
            scratch = self.free.pop()
        except IndexError:
            scratch = self.scratch()
        if (size := self.workspace(*sizes)) > scratch.bytes:
            scratch.reserve(size)
        self.head.pack_into(scratch.block, 0, *map(address, inputs), *map(address, apart), *sizes)
        scratch.block[-1] = self.threads if threads is None else self._threads(threads)
        code = self.native(scratch.address)
        scratch.block[-1] = self.threads
        self.free.append(scratch)
        if code:
            raise self.failed(code)
        for wanted, made in zip(outputs, apart, strict=True):
            if wanted is not made:
                wanted[...] = made

    def _threads(self, threads: Any) -> int:
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
        if code == -1:
            return RuntimeError(f"{name}: the CPU level in use was lost; load the model again")
        return RuntimeError(f"{name} returned the unknown code {code}: upgrade tapecast, or report this")


def fast_source(entry: Entry, dims: Mapping[str, tuple[int, int | None]]) -> str:
    """The text of `call`. `a0…` are inputs, `y0…` outputs, `h0…` shapes, `s0…` sizes, `t0…` dtypes."""
    inputs, outputs = range(len(entry.inputs)), range(len(entry.outputs))
    sizes = {name: f"s{k}" for k, name in enumerate(entry.sizes)}
    results = ", ".join(f"y{k}" for k in outputs)
    words = [*(_address(f"a{k}") for k in inputs), *(_address(f"y{k}") for k in outputs), *sizes.values()]
    lines = [
        "def call(*args, out=None, threads=None, **named):",
        "    try:",
        f"        {''.join(f'a{k}, ' for k in inputs) or '()'} = args",
        *(f"        h{k} = a{k}.shape" for k in inputs),
        *(
            f"        {sizes[r.size]} = {_read(r, sizes)}"
            for r in readings([t.shape for t in entry.inputs], entry.sizes)
        ),
        f"        right = {' and '.join(_conditions(entry, dims, sizes))}",
        "    except (AttributeError, IndexError, TypeError, ValueError):",
        "        right = False",
        "    if not right:",
        "        return checked(args, named, out, threads)",
        "    try:",
        "        scratch = free.pop()",
        "    except IndexError:",
        "        scratch = new_scratch()",
        *(_reserve(entry, sizes) if names_in(entry.workspace) else []),
        *(f"    y{k} = empty({_shape(entry.outputs[k], sizes)}, t{k + len(inputs)})" for k in outputs),
        f"    pack(scratch.block, 0, {', '.join(words)})" if words else "",
        "    code = native(scratch.address)",
        "    free.append(scratch)",
        "    if code:",
        "        raise failed(code)",
        f"    return {results if len(outputs) == 1 else f'({results})'}",
    ]
    return "\n".join(lines) + "\n"


def _address(name: str) -> str:
    return f"at(id({name}) + {DATA_OFFSET}).value" if LAYOUT_IS_KNOWN else f"address({name})"


def _read(reading: Reading, sizes: dict[str, str]) -> str:
    """The value of a size, from the shape of an input."""
    length = f"h{reading.input}[{reading.axis}]"
    if reading.text == reading.size:
        return length
    return f"solve({length}, {', '.join(rename(end, sizes) for end in reading.ends())})"


def _conditions(entry: Entry, dims: Mapping[str, tuple[int, int | None]], sizes: dict[str, str]) -> list[str]:
    """What the fast path takes: arrays of numpy's own class with the right dtype and layout, shapes that
    fit.
    """
    arrays = [
        f"a{k}.__class__ is ndarray and a{k}.dtype is t{k} and a{k}.flags.num & {DENSE} == {DENSE}"
        for k in range(len(entry.inputs))
    ]
    shapes = [f"h{k} == {_shape(t, sizes)}" for k, t in enumerate(entry.inputs)]
    ranges = [
        f"{low} <= {sizes[name]}" + ("" if high is None else f" <= {high}")
        for name, (low, high) in ((name, dims[name]) for name in entry.sizes)
    ]
    return [*arrays, *shapes, *ranges, "out is None and threads is None and not named"]


def _shape(tensor: Tensor, sizes: dict[str, str]) -> str:
    return f"({''.join(f'{rename(str(axis), sizes)}, ' for axis in tensor.shape)})"


def _reserve(entry: Entry, sizes: dict[str, str]) -> list[str]:
    return [
        f"    need = {rename(entry.workspace, sizes)}",
        "    if need > scratch.bytes:",
        "        scratch.reserve(need)",
    ]
