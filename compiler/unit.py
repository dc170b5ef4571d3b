"""A compiled entry point before it is machine code: kernels in order, and where each of their buffers is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .library import Spec
from .loops import Expr, Kernel


class Location(NamedTuple):
    """Where a value is at a call.

    `kind` and `at`: input, output: its position; temp: its byte offset in the workspace; constant: its position in
    the unit's constants, until it has a place in the weights section; weight: its byte offset there.
    """

    kind: str
    at: int | Expr


class Step(NamedTuple):
    """One kernel call; `where` has a location for each buffer of the (scheduled) kernel by name."""

    kernel: str
    where: Mapping[str, Location]


@dataclass(frozen=True)
class Unit:
    """One entry point: canonical kernels by name, the steps that call them, the workspace they need.

    `lines` are the user's source lines of each kernel. `workspace` is in bytes, `workspace_text` the same as text.
    """

    name: str
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    sizes: tuple[str, ...]
    steps: tuple[Step, ...]
    kernels: Mapping[str, Kernel]
    lines: Mapping[str, tuple[str, ...]]
    workspace: Expr
    workspace_text: str
    constants: tuple[Any, ...] = ()
    state: tuple[tuple[int, int], ...] = ()
