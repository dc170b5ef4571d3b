"""A compiled entry point before it is machine code: kernels in order, and where each of their buffers is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .library import Spec
from .loops import Expr, Kernel, expr_text


class Location(NamedTuple):
    """Where a value is at a call.

    `kind` and `at`: input, output: its position; temp: its byte offset in the workspace; constant: its position in
    the unit's constants, until it has a place in the weights section; weight: its byte offset there.
    """

    kind: str
    at: int | Expr

    def __str__(self) -> str:
        return f"{self.kind} {self.at if isinstance(self.at, int) else expr_text(self.at)}"


class Step(NamedTuple):
    """One kernel call; `where` has a location for each buffer of the (scheduled) kernel by name."""

    kernel: str
    where: Mapping[str, Location]


@dataclass(frozen=True)
class Unit:
    """One entry point: canonical kernels by name, the steps that call them, the workspace they need.

    `lines` are the user's source lines of each kernel. `workspace` is in bytes, `workspace_text` the same as text.
    `status` is the place in it of an int32 that kernels set where an index from data is out of range.
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
    status: Expr | None = None

    def calls_text(self) -> str:
        """The kernel calls in order, each with the memory behind its buffers, and the workspace they share."""
        calls = [
            f"{s.kernel}({', '.join(f'{name}: {where}' for name, where in s.where.items())})"
            for s in self.steps
        ]
        return "\n".join([*calls, f"workspace: {self.workspace_text} bytes"])
