"""One workspace for all intermediate values: who lies where, as formulas of the dynamic sizes.

Values live from the step that writes them to the last that reads them. Two that are never live together may
share a *slot*. networkx: the values form an interval graph, and colouring it gives each a slot. Taken in
order of their start, a greedy colouring uses the fewest slots possible; taken by falling size it wastes fewer
bytes. Both are tried. A slot is as large as its largest member for whatever sizes the call has, so no order
of sizes needs to be known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import networkx as nx

from ..tracer import expr
from ..tracer.dims import expr_of
from ..tracer.graph import Node
from . import loops
from .passes.fuse import Fusion
from .sizes import byte_size, from_formula

#: Every value starts on a cache line, which is also the widest vector.
ALIGNMENT = 64


class Value(NamedTuple):
    """A value of `bytes` (int or Dim), written at step `start` and read last at step `end`, both included."""

    key: Hashable
    bytes: int
    start: int
    end: int


class Plan(NamedTuple):
    """Byte offsets in the workspace by key, and its size; `text` is the size as the manifest has it."""

    offsets: Mapping[Hashable, loops.Expr]
    total: loops.Expr
    text: str
    slots: Mapping[Hashable, int]


def live_values(fusion: Fusion, outputs: Sequence[Node], held: Sequence[Node] = ()) -> list[Value]:
    """The values that need workspace: roots that are neither an output (the caller's memory) nor in `held`.

    A value is read wherever an alias of it is. Step k is group number k.
    """
    elsewhere = {fusion.stored(n) for n in (*outputs, *held)}
    last = {fusion.stored(n): step for step, g in enumerate(fusion.groups) for n in g.inputs}
    return [
        Value(g.root, byte_size(g.root.single), step, last.get(g.root, step))
        for step, g in enumerate(fusion.groups)
        if g.root not in elsewhere
    ]


def plan(values: Sequence[Value], nominal: Mapping[str, int] | None = None) -> Plan:
    """Give every value a slot and every slot a place.

    `nominal`: sizes at which two ways of sharing are compared (default 64 for each); the plan is right for
    all sizes.
    """
    weigh = weights(values, nominal or {})
    graph = overlaps(values)
    choices = [colour(graph, order, weigh) for order in (by_start, by_size(weigh))]
    slots = min(choices, key=lambda c: slot_bytes(c, weigh))
    sizes = slot_sizes(slots)
    starts = offsets(sizes)
    return Plan(
        {v.key: from_formula(starts[slot]) for v, slot in slots.items()},
        from_formula(starts[-1]),
        expr.text(starts[-1]),
        {v.key: slot for v, slot in slots.items()},
    )


def weights(values: Sequence[Value], nominal: Mapping[str, int]) -> Mapping[Value, int]:
    """The bytes of each value at the nominal sizes."""
    names = {name for v in values for name in expr.names(expr_of(v.bytes))}
    sizes = {name: nominal.get(name, 64) for name in names}
    return {v: expr.evaluate(expr_of(v.bytes), sizes) for v in values}


def overlaps(values: Sequence[Value]) -> nx.Graph:
    """The interval graph: an edge between two values that are live at the same step."""
    g = nx.Graph()
    g.add_nodes_from(values)
    live: list[Value] = []
    for v in sorted(values, key=lambda v: v.start):
        live = [u for u in live if u.end >= v.start]
        g.add_edges_from((u, v) for u in live)
        live.append(v)
    return g


Order = Callable[[nx.Graph], list[Value]]


def by_start(g: nx.Graph) -> list[Value]:
    return sorted(g.nodes, key=lambda v: v.start)


def by_size(weigh: Mapping[Value, int]) -> Order:
    return lambda g: sorted(g.nodes, key=lambda v: (-weigh[v], v.start))


def colour(g: nx.Graph, order: Order, weigh: Mapping[Value, int]) -> dict[Value, int]:
    """Greedy colouring in the given order: the free slot that fits best, the smallest growth if none is large
    enough.

    networkx's `greedy_color` always takes the lowest free colour; which one is taken is what counts for
    bytes.
    """
    slots: dict[Value, int] = {}
    size: list[int] = []
    for v in order(g):
        taken = {slots[u] for u in g[v] if u in slots}
        free = [k for k in range(len(size)) if k not in taken]
        if free:
            slot = min(free, key=lambda k: (max(weigh[v] - size[k], 0), size[k], k))
        else:
            slot = len(size)
            size.append(0)
        slots[v] = slot
        size[slot] = max(size[slot], weigh[v])
    return slots


def slot_bytes(slots: Mapping[Value, int], weigh: Mapping[Value, int]) -> int:
    largest: dict[int, int] = {}
    for v, slot in slots.items():
        largest[slot] = max(largest.get(slot, 0), weigh[v])
    return sum(largest.values())


def slot_sizes(slots: Mapping[Value, int]) -> list[Any]:
    """The size of each slot as a formula: the largest of its members, each rounded up to the alignment."""
    members: dict[int, list[Any]] = {}
    for v, slot in slots.items():
        members.setdefault(slot, []).append(aligned(expr_of(v.bytes)))
    return [reduce(expr.maximum, largest(members[k])) for k in sorted(members)]


def largest(sizes: Sequence[Any]) -> list[Any]:
    """Those formulas that no other is sure to reach, dynamic sizes being no less than 0."""
    kept: list[Any] = []
    for size in dict.fromkeys(sizes):
        if not any(never_less(k, size) for k in kept):
            kept = [k for k in kept if not never_less(size, k)] + [size]
    return kept


def never_less(a: Any, b: Any) -> bool:
    difference = expr.sub(a, b)
    low, _ = expr.bounds(difference, {name: (0, None) for name in expr.names(difference)})
    return low is not None and low >= 0


def aligned(size: Any) -> Any:
    return expr.mul(expr.floordiv(expr.add(size, ALIGNMENT - 1), ALIGNMENT), ALIGNMENT)


def offsets(sizes: Sequence[Any]) -> list[Any]:
    """Where each slot begins, and the end of the last."""
    out: list[Any] = [0]
    for size in sizes:
        out.append(expr.add(out[-1], size))
    return out
