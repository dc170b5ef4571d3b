"""The graph IR: one node per value, operands in order, typed; text for eyes and tests, networkx for passes.

A `Graph` is inputs, a topologically ordered list of immutable nodes, outputs, and the pairs of state it carries
(an input that an output replaces at the next call). Node kinds: an op of the table, `input`, `const`, and
`item`, which picks one output of an op that has several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import networkx as nx
import numpy as np

from ..eager.ops.table import Op
from ..eager.ops.types import Aval


@dataclass(frozen=True, eq=False)
class Node:
    """A value. `op` is None for an input (`value` None) or a constant (`value` the array).

    `line` is the user's source line ("model.py:12 in forward"), `scope` the module path ("layer1.0.conv"),
    `name` an input's or a parameter's name ("x", "layer1.0.conv.weight").
    """

    op: Op | None
    inputs: tuple[Node, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    aval: Aval | tuple[Aval, ...] = Aval((), np.dtype("float32"))
    value: Any = None
    name: str = ""
    line: str = ""
    scope: str = ""

    @property
    def is_input(self) -> bool:
        return self.op is None and self.value is None

    @property
    def is_const(self) -> bool:
        return self.op is None and self.value is not None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.single.shape

    @property
    def dtype(self) -> Any:
        return self.single.dtype

    @property
    def single(self) -> Aval:
        """The aval of a node with one output."""
        if not isinstance(self.aval, Aval):
            raise TypeError(f"{self.label} has {len(self.aval)} outputs; pick one with item")
        return self.aval

    @property
    def label(self) -> str:
        """What to call the node in a message."""
        return self.op.name if self.op else self.name or ("input" if self.is_input else "const")

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """The same operation on other operands; itself when nothing changed."""
        return self if inputs == self.inputs else replace(self, inputs=inputs)


@dataclass(frozen=True, eq=False)
class Graph:
    """Inputs, nodes in topological order (inputs and constants included), outputs, state pairs.

    `state[i] = (input index, output index)`: the output is the input's next value. `name` is the entry point's.
    """

    inputs: tuple[Node, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    state: tuple[tuple[int, int], ...] = ()
    name: str = "forward"

    def nx(self) -> nx.MultiDiGraph:
        """A networkx view: nodes are `Node`s, an edge per operand with its position as `operand`."""
        g = nx.MultiDiGraph()
        g.add_nodes_from(self.nodes)
        g.add_edges_from((i, n, {"operand": k}) for n in self.nodes for k, i in enumerate(n.inputs))
        return g

    def consumers(self) -> dict[Node, list[Node]]:
        """Who reads each node, in order of appearance; a node that reads twice stands twice."""
        users: dict[Node, list[Node]] = {n: [] for n in self.nodes}
        for n in self.nodes:
            for i in n.inputs:
                users[i].append(n)
        return users

    def rebuild(self, f: Callable[[Node, tuple[Node, ...]], Node]) -> Graph:
        """Map every node in order: `f(node, new operands) -> node`. Nodes no output needs are kept if still listed."""
        new: dict[Node, Node] = {}
        for n in self.nodes:
            new[n] = f(n, tuple(new[i] for i in n.inputs))
        return self.with_outputs(tuple(new[o] for o in self.outputs), [new[n] for n in self.nodes])

    def with_outputs(self, outputs: tuple[Node, ...], roots: Iterable[Node] = ()) -> Graph:
        """The graph that computes `outputs` (and keeps `roots`), its nodes ordered afresh. Inputs stay as they are."""
        order = topological(self.inputs, [*roots, *outputs])
        return replace(self, nodes=tuple(order), outputs=outputs)

    def __str__(self) -> str:
        from .text import graph_text

        return graph_text(self)


def topological(inputs: Sequence[Node], roots: Iterable[Node]) -> list[Node]:
    """All nodes the roots need, operands before users, in order of first need; the inputs come first."""
    order: dict[Node, None] = dict.fromkeys(inputs)
    for root in roots:
        stack = [(root, False)]
        while stack:
            n, ready = stack.pop()
            if n in order:
                continue
            if ready:
                order[n] = None
            else:
                stack.append((n, True))
                stack.extend((i, False) for i in reversed(n.inputs) if i not in order)
    return list(order)
