"""What the code generator hands to the artifact writer: machine code, weights, and the description of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Spec(NamedTuple):
    """An argument or result. A size is an int, or the text of an expression over the entry's sizes: `2*batch+1`."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


class Entry(NamedTuple):
    """An entry point, symbol `<library>_<name>`. `workspace` is the text of its size in bytes.

    `state` pairs (input position, output position): the output replaces the input at the next call.
    """

    name: str
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    sizes: tuple[str, ...]
    workspace: str
    state: tuple[tuple[int, int], ...] = ()


class KernelInfo(NamedTuple):
    """A kernel of the library, for people: which entry calls it and the user's lines it came from."""

    name: str
    entry: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Library:
    """A compiled program. `objects` are relocatable ELF files; `weights` fills the data symbol `<name>_weights`.

    `dims` gives each dynamic size its (smallest, largest) value; None: no upper bound.
    `levels` are the CPU levels in the file, best last ("x86-64-v2", "x86-64-v3", "x86-64-v4").
    `state` gives inputs that the model keeps for the caller between calls their first content, by input name.
    """

    name: str
    objects: tuple[bytes, ...]
    weights: bytes
    entries: tuple[Entry, ...]
    dims: Mapping[str, tuple[int, int | None]]
    levels: tuple[str, ...]
    kernels: tuple[KernelInfo, ...]
    graph_text: str
    options: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, bytes] = field(default_factory=dict)
