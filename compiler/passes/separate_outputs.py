"""Each output becomes a value of its own, so that it can have the caller's memory as its buffer."""

from __future__ import annotations

from ...eager.ops.table import lookup
from ...tracer.build import call
from ...tracer.graph import Graph, Node


def separate_outputs(graph: Graph) -> Graph:
    """Copy an output that is an input, a constant, another output, or the same bytes as one of these,
    reshaped.

    No graph algorithm: what a value is a reshape of is found by walking up one operand at a time.
    """
    claimed: set[Node] = set()

    def own(out: Node) -> Node:
        home = unshaped(out)
        if home.op is not None and home not in claimed:
            claimed.add(home)
            return out
        return call(lookup("clone"), out, line=out.line, scope=out.scope)

    return graph.with_outputs(tuple(map(own, graph.outputs)), graph.nodes)


def unshaped(n: Node) -> Node:
    """What `n` is a reshape of, through any number of them."""
    while n.op is not None and n.op.name == "reshape":
        n = n.inputs[0]
    return n
