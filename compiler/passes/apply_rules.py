"""Algebra: the rewrite rules, applied until none fits any more."""

from __future__ import annotations

from collections.abc import Sequence

from ...tracer.graph import Graph, Node
from ..rewrite import Rule, by_op, rewritten
from ..rules import RULES
from .drop_dead import drop_dead

#: Rules shrink or simplify, so few rounds are needed; two that undo each other would need this many.
ROUNDS = 50


def apply_rules(graph: Graph, fast_math: bool = False, rules: Sequence[Rule] = RULES) -> Graph:
    """Rewrite with the exact rules, and under `fast_math` with the others too.

    A rule that applies to what another made is found in the next round. No graph algorithm: patterns are
    trees that end a few operands up, so matching at each node is linear; rules are looked up by their
    outermost op.
    """
    index = by_op([r for r in rules if r.exact or fast_math])

    def apply(n: Node, inputs: tuple[Node, ...]) -> Node:
        n = n.with_inputs(inputs)
        made = rewritten(index.get(n.op, ()), n) if n.op else None
        return made[1] if made else n

    for _ in range(ROUNDS):
        after = drop_dead(graph.rebuild(apply))
        if after.nodes == graph.nodes:
            return graph
        graph = after
    raise RuntimeError(
        f"graph {graph.name}: rewrite rules still apply after {ROUNDS} rounds; two undo each other"
    )
