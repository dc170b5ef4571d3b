"""Constants as bytes in the artifact: as they are, or rewritten in the panels a schedule reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .interpret import SCALAR_FUNCTIONS
from .loops import Const, Expr, Index, Kernel, Scalar
from .schedule import PANEL, Pack, Packs
from .unit import Location, Step, Unit

Array = np.ndarray[Any, Any]


def packed(source: Array, pack: Pack) -> Array:
    """`out[panel, k…, lane] = source[index(column = 16 * panel + lane, k…)]`, zeros past the last column."""
    panels = -(-pack.columns // PANEL)
    columns = np.arange(panels * PANEL).reshape(panels, *(1,) * len(pack.sums), PANEL)
    inside = columns < pack.columns
    env: dict[str, Array] = {pack.column: np.where(inside, columns, 0)}
    for axis, (var, n) in enumerate(pack.sums, 1):
        shape = [1] * (len(pack.sums) + 2)
        shape[axis] = n
        env[var] = np.arange(n).reshape(shape)
    index = tuple(_value(i, env) for i in pack.index)
    values = np.where(inside, source[index], np.zeros((), source.dtype))
    full = (panels, *(n for _, n in pack.sums), PANEL)
    return np.ascontiguousarray(np.broadcast_to(values, full))


def _value(e: Expr, env: dict[str, Array]) -> Any:
    match e:
        case Const(value):
            return int(value)
        case Index(var):
            return env[var]
        case Scalar(op, args):
            return SCALAR_FUNCTIONS[op](*(_value(a, env) for a in args))
    raise TypeError(f"a packed weight's index must be arithmetic on loop variables, got {e!r}")


class Weights:
    """The weights section: arrays at 64-byte offsets, equal ones stored once."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.size = 0
        self._known: dict[bytes, int] = {}

    def add(self, array: Array) -> int:
        """The byte offset of the array's dense row-major bytes."""
        data = np.ascontiguousarray(array).tobytes()
        if data not in self._known:
            self._known[data] = self.size
            padding = -len(data) % 64
            self.chunks.append(data + bytes(padding))
            self.size += len(data) + padding
        return self._known[data]

    def bytes(self) -> bytes:
        return b"".join(self.chunks)


def with_weights(unit: Unit, kernels: Mapping[str, Kernel], packs: Packs, weights: Weights) -> Unit:
    """The unit with each constant its (scheduled) kernels read put into the weights section, packed where a schedule
    asks for that."""

    def placed(step: Step) -> Step:
        where = dict(step.where)
        for p in packs[step.kernel]:
            where[p.packed] = Location("weight", weights.add(packed(constant(step.where[p.source]), p)))
        for b in kernels[step.kernel].buffers:
            if where[b.name].kind == "constant":
                where[b.name] = Location("weight", weights.add(constant(where[b.name])))
        return Step(step.kernel, where)

    def constant(where: Location) -> Array:
        assert isinstance(where.at, int)
        value: Array = unit.constants[where.at]
        return value

    return replace(unit, steps=tuple(map(placed, unit.steps)))
