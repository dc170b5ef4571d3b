"""One workspace for all intermediate values: who lies where, as formulas of the dynamic sizes.

Values live from the step that writes them to the last that reads them; two that are never live together may share
memory. networkx: the values form an interval graph. Three layouts are made from it and the smallest is taken:

* slots, a colouring of the graph in order of starts, where greedy colouring uses the fewest colours possible;
* slots, coloured by falling size, which wastes fewer bytes;
* where all sizes are multiples of one formula (all fixed, or all of them `batch` times a number): places of any
  height, each value in the tightest gap between its neighbours in the graph.

A slot is as large as its largest member for whatever sizes a call has, so no order of sizes needs to be known.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
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

Formula = Any  # a size of tracer.expr


class Value(NamedTuple):
    """A value of `bytes` (int or Dim), written at step `start` and read last at step `end`, both included."""

    key: Hashable
    bytes: int
    start: int
    end: int


class Layout(NamedTuple):
    """Where each value begins, and where the last one ends."""

    offsets: Mapping[Value, Formula]
    total: Formula


class Plan(NamedTuple):
    """Byte offsets in the workspace by key, and its size; `text` is the size as the manifest has it."""

    offsets: Mapping[Hashable, loops.Expr]
    total: loops.Expr
    text: str


def live_values(
    fusion: Fusion,
    outputs: Sequence[Node],
    held: Sequence[Node] = (),
    hosts: Mapping[Node, Node] | None = None,
) -> list[Value]:
    """The values that need workspace: roots that are neither an output (the caller's memory) nor in `held`.

    A value is read wherever an alias of it is. Step k is group number k. `hosts`: value -> the value it lives inside
    of, whose memory is then live from the first of the two on to the last reader of either.
    """
    homes = hosts or {}
    elsewhere = {fusion.stored(n) for n in (*outputs, *held)}
    first: dict[Node, int] = {}
    last: dict[Node, int] = {}
    for step, g in enumerate(fusion.groups):
        for n in (*map(fusion.stored, g.inputs), g.root):
            last[homes.get(n, n)] = step
        first.setdefault(homes.get(g.root, g.root), step)
    return [
        Value(root, byte_size(root.single), step, last[root])
        for root, step in first.items()
        if root not in elsewhere
    ]


def plan(values: Sequence[Value], nominal: Mapping[str, int] | None = None) -> Plan:
    """Give every value a place.

    `nominal`: sizes at which layouts are compared (default 64 for each); the plan is right for all sizes.
    """
    weigh = weights(values, nominal or {})
    graph = overlaps(values)
    by_size = sorted(values, key=lambda v: (-weigh[v], v.start))
    layouts = [
        in_slots(colour(graph, sorted(values, key=lambda v: v.start), weigh)),
        in_slots(colour(graph, by_size, weigh)),
        *packed(graph, by_size),
    ]
    best = min(layouts, key=lambda made: at_nominal(made.total, nominal or {}))
    offsets = {v.key: from_formula(offset) for v, offset in best.offsets.items()}
    return Plan(offsets, from_formula(best.total), expr.text(best.total))


def weights(values: Iterable[Value], nominal: Mapping[str, int]) -> dict[Value, int]:
    """The bytes of each value at the nominal sizes."""
    return {v: at_nominal(expr_of(v.bytes), nominal) for v in values}


def at_nominal(e: Formula, nominal: Mapping[str, int]) -> int:
    return expr.evaluate(e, {name: nominal.get(name, 64) for name in expr.names(e)})


def overlaps(values: Iterable[Value]) -> nx.Graph:
    """The interval graph: an edge between two values that are live at the same step."""
    g = nx.Graph()
    live: list[Value] = []
    for v in sorted(values, key=lambda v: v.start):
        g.add_node(v)
        live = [u for u in live if u.end >= v.start]
        g.add_edges_from((u, v) for u in live)
        live.append(v)
    return g


def aligned(size: Formula) -> Formula:
    """The size rounded up to the alignment."""
    return expr.mul(expr.floordiv(expr.add(size, ALIGNMENT - 1), ALIGNMENT), ALIGNMENT)


# ---- slots --------------------------------------------------------------------------------------------------


def colour(g: nx.Graph, order: Iterable[Value], weigh: Mapping[Value, int]) -> dict[Value, int]:
    """Greedy colouring in the given order: the free slot that fits best, or that has to grow least.

    networkx's `greedy_color` always takes the lowest free colour; which one is taken is what counts for bytes.
    """
    slots: dict[Value, int] = {}
    size: list[int] = []
    for v in order:
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


def in_slots(slots: Mapping[Value, int]) -> Layout:
    """One slot after the other."""
    starts: list[Formula] = [0]
    for size in slot_sizes(slots):
        starts.append(expr.add(starts[-1], size))
    return Layout({v: starts[slot] for v, slot in slots.items()}, starts[-1])


def slot_sizes(slots: Mapping[Value, int]) -> list[Formula]:
    """The size of each slot: the largest of its members, each rounded up to the alignment."""
    members: dict[int, list[Formula]] = {}
    for v, slot in slots.items():
        members.setdefault(slot, []).append(expr_of(v.bytes))
    return [reduce(expr.maximum, map(aligned, largest(members[k]))) for k in sorted(members)]


def largest(sizes: Iterable[Formula]) -> list[Formula]:
    """Those formulas that no other is sure to reach, dynamic sizes being no less than 0."""
    kept: list[Formula] = []
    for size in dict.fromkeys(sizes):
        if not any(never_less(k, size) for k in kept):
            kept = [*(k for k in kept if not never_less(size, k)), size]
    return kept


def never_less(a: Formula, b: Formula) -> bool:
    difference = expr.sub(a, b)
    low, _ = expr.bounds(difference, {name: (0, None) for name in expr.names(difference)})
    return low is not None and low >= 0


# ---- places of any height -----------------------------------------------------------------------------------


def packed(g: nx.Graph, order: Sequence[Value]) -> list[Layout]:
    """The layout of sizes that are all multiples of one formula; nothing where they are not.

    Nor where the multiples of a dynamic unit are not themselves aligned: rounding up each would cost too much.
    """
    unit = common_unit([expr_of(v.bytes) for v in order])
    counts = {} if unit is None else {v: expr.floordiv(expr_of(v.bytes), unit) for v in order}
    if unit is None or (unit != 1 and any(n % ALIGNMENT for n in counts.values())):
        return []
    heights = {v: aligned(n) for v, n in counts.items()}
    offsets: dict[Value, int] = {}
    for v in order:
        below = sorted((offsets[u], offsets[u] + heights[u]) for u in g[v] if u in offsets)
        offsets[v] = tightest_gap(below, heights[v])
    total = max((offsets[v] + heights[v] for v in order), default=0)
    return [Layout({v: expr.mul(unit, at) for v, at in offsets.items()}, expr.mul(unit, total))]


def common_unit(sizes: Sequence[Formula]) -> Formula | None:
    """1 if all sizes are numbers; a formula of which all of them are multiples; None if there is none."""
    units = {size_unit(s) for s in sizes}
    return (units.pop() if units else 1) if len(units) <= 1 else None


def size_unit(size: Formula) -> Formula:
    """`batch` for `batch*48`, 1 for a number, and a sum as a whole."""
    match size:
        case int():
            return 1
        case ("mul", unit, int()):
            return unit
    return size


def tightest_gap(taken: Sequence[tuple[int, int]], height: int) -> int:
    """The start of the smallest gap between intervals (sorted) that has room; the end of all if none has."""
    best, best_gap, end = None, None, 0
    for low, high in taken:
        gap = low - end
        if gap >= height and (best_gap is None or gap < best_gap):
            best, best_gap = end, gap
        end = max(end, high)
    return end if best is None else best
