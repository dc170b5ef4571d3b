"""Composites that the backend does not take whole become the operations they stand for."""

from __future__ import annotations

from collections.abc import Callable

from ...tracer.build import express
from ...tracer.graph import ITEM, Graph, Node
from .drop_dead import drop_dead

#: How deep composites may be made of composites. One that is made of itself would never end.
DEPTH = 20


Whole = Callable[[Node], bool]


def nothing(n: Node) -> bool:
    """A backend that takes no composite whole."""
    return False


def decompose(graph: Graph, whole: Whole = nothing) -> Graph:
    """Replace composites by their `decompose` rule, and those it brings in, until none is left but those.

    `whole`: says which composites the backend has a kernel for. New nodes keep the line and scope of the composite.
    No graph algorithm: one walk in topological order a level, since a rule reads nothing but its operands.
    RuntimeError for a composite that is made of itself.
    """
    for _ in range(DEPTH):
        left = [n for n in graph.nodes if is_composite(n, whole)]
        if not left:
            return graph
        graph = drop_dead(one_level(graph, whole))
    raise RuntimeError(
        f"{left[0].label}: still a composite after {DEPTH} levels; its decompose rule uses itself"
    )


def is_composite(n: Node, whole: Whole) -> bool:
    return n.op is not None and n.op.decompose is not None and n.op.element is None and not whole(n)


def one_level(graph: Graph, whole: Whole) -> Graph:
    parts: dict[Node, tuple[Node, ...]] = {}  # what became of the composites with several outputs

    def replaced(n: Node, inputs: tuple[Node, ...]) -> Node:
        if n.op is ITEM and inputs[0] in parts:
            return parts[inputs[0]][n.attrs["index"]]
        if not is_composite(n, whole):
            return n.with_inputs(inputs)
        out = expressed(n, inputs)
        if isinstance(out, Node):
            return out
        parts[kept := n.with_inputs(inputs)] = out
        return kept

    return graph.rebuild(replaced)


def expressed(n: Node, inputs: tuple[Node, ...]) -> Node | tuple[Node, ...]:
    assert n.op is not None
    assert n.op.decompose is not None
    return express(n.op.decompose, *inputs, line=n.line, scope=n.scope, **n.attrs)
