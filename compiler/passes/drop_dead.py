"""Values that no output needs disappear; inputs stay, they are the signature."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx

from ...tracer.graph import Graph


def drop_dead(graph: Graph) -> Graph:
    """Keep the inputs and what the outputs are computed from.

    networkx: reachability, the ancestors of the outputs. It looks at every edge once, whatever the number of
    outputs: they are joined to one node first.
    """
    g = graph.nx()
    end = object()
    g.add_edges_from((out, end) for out in graph.outputs)
    live = (nx.ancestors(g, end) if graph.outputs else set()) | set(graph.inputs)
    return replace(graph, nodes=tuple(n for n in graph.nodes if n in live))
