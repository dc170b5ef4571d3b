"""Composites that the backend does not take whole become the operations they stand for."""

from __future__ import annotations

from collections.abc import Collection

from ...tracer.build import express
from ...tracer.graph import Graph, Node


def decompose(graph: Graph, whole: Collection[str] = ()) -> Graph:
    """Replace composites by their `decompose` rule, and those it brings in, until none is left but `whole`.

    `whole`: names of composites the backend has a kernel for. New nodes keep the line and scope of the
    composite. No graph algorithm: one walk in topological order, since a rule reads nothing but its operands.
    """
    while any(is_wanted(n, whole) for n in graph.nodes):
        graph = graph.rebuild(
            lambda n, inputs: expanded(n, inputs) if is_wanted(n, whole) else n.with_inputs(inputs)
        )
    return graph


def is_wanted(n: Node, whole: Collection[str]) -> bool:
    return n.op is not None and n.op.decompose is not None and n.op.element is None and n.op.name not in whole


def expanded(n: Node, inputs: tuple[Node, ...]) -> Node:
    assert n.op is not None
    assert n.op.decompose is not None
    out = express(n.op.decompose, *inputs, line=n.line, scope=n.scope, **n.attrs)
    if not isinstance(out, Node):
        raise TypeError(f"{n.op.name}: decompose gave {len(out)} values; a composite has one output")
    return out
