"""The graph IR: one node per value, operands in order, typed; text for eyes and tests, networkx for passes.

A `Graph` is inputs, a topologically ordered list of immutable nodes, outputs, and the pairs of state it
carries (an input that an output replaces at the next call). Node kinds: an op of the table, `input`,
`const`, and `item`, which picks one output of an op that has several (`ITEM`, attribute `index`).

`text.py` prints a graph, `parse.py` reads it, `check.py` checks it, `evaluate.py` says what it means,
`build.py` makes nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np

from ..eager.ops.table import Op
from ..eager.ops.types import Aval
from .dims import dims_in, merge_ranges
from .expr import Range


def _picked(avals: tuple[Aval, ...], *, index: int) -> Aval:
    return avals[index]


SCALAR = Aval((), np.dtype("float32"))

#: Picks one output of an op that has several. No entry of the table: its operand is a tuple of values.
ITEM = Op("item", _picked, lambda xp, values, *, index: values[index], kind="item")


@dataclass(frozen=True, eq=False)
class Node:
    """A value. `op` is None for an input (`value` None) or a constant (`value`: the array).

    `line` is the user's source line ("model.py:12"), `scope` the module path ("layer1.0.conv"), `name` an
    input's or a parameter's name ("x", "layer1.0.conv.weight"). An op with several outputs has several avals.
    """

    op: Op | None
    inputs: tuple[Node, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    aval: Aval | tuple[Aval, ...] = SCALAR
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

    `state[i] = (input index, output index)`: the output is the input's next value. `name`: the entry point's.
    """

    inputs: tuple[Node, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    state: tuple[tuple[int, int], ...] = ()
    name: str = "forward"

    def nx(self) -> nx.MultiDiGraph:
        """A networkx view: nodes are `Node`s, an edge per operand with its position as `operand`.

        >>> g = graph.nx()
        >>> nx.ancestors(g, graph.outputs[0])                  # all the first output is computed from
        >>> [(u.label, d["operand"]) for u, _, d in g.in_edges(n, data=True)]   # the operands of node n
        [('x', 0), ('weight', 1)]

        A node that reads a value twice has two edges from it. Nodes come in topological order.
        """
        g = nx.MultiDiGraph()
        g.add_nodes_from(self.nodes)
        g.add_edges_from((i, n, {"operand": k}) for n in self.nodes for k, i in enumerate(n.inputs))
        return g

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """The range of every dynamic size that a shape or an attribute mentions, by name, sorted."""
        found = [d for n in self.nodes for attr in (*_shapes(n), *n.attrs.values()) for d in dims_in(attr)]
        return dict(sorted(merge_ranges(found).items()))

    def consumers(self) -> dict[Node, list[Node]]:
        """Who reads each node, in order of appearance; a node that reads twice stands twice."""
        users: dict[Node, list[Node]] = {n: [] for n in self.nodes}
        for n in self.nodes:
            for i in n.inputs:
                users[i].append(n)
        return users

    def rebuild(self, f: Callable[[Node, tuple[Node, ...]], Node]) -> Graph:
        """Map every node in order: `f(node, new operands) -> node`. Nodes that no output needs are kept."""
        new: dict[Node, Node] = {}
        for n in self.nodes:
            new[n] = f(n, tuple(new[i] for i in n.inputs))
        return self.with_outputs(tuple(new[o] for o in self.outputs), [new[n] for n in self.nodes])

    def with_outputs(self, outputs: tuple[Node, ...], roots: Iterable[Node] = ()) -> Graph:
        """The graph that computes `outputs` (and keeps `roots`), its nodes ordered afresh."""
        order = topological(self.inputs, [*roots, *outputs])
        return replace(self, nodes=tuple(order), outputs=outputs)

    def __str__(self) -> str:
        from .text import graph_text

        return graph_text(self)


def _shapes(n: Node) -> list[tuple[int, ...]]:
    return [n.aval.shape] if isinstance(n.aval, Aval) else [a.shape for a in n.aval]


def topological(inputs: Sequence[Node], roots: Iterable[Node]) -> list[Node]:
    """All nodes the roots need, operands before users, by first need; the inputs come first."""
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
