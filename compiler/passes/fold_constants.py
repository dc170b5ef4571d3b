"""What can be computed now is not computed at every call."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...eager.ops.types import Aval, aval_of
from ...tracer.check import same_type
from ...tracer.dims import dims_in
from ...tracer.graph import Graph, Node

#: Results of at most this many elements are always worth keeping, however small the operands are.
SMALL = 1024


def fold_constants(graph: Graph) -> Graph:
    """Run ops whose operands are all constants, with numpy, and keep the result as a constant.

    Not random or impure ops, not those that depend on a dynamic size, and not those whose result is larger
    than their operands: an expanded bias is cheaper to read than to store. A view of a large constant that is
    also read elsewhere stays too: it would be stored twice. No graph algorithm: topological order folds whole
    chains.
    """
    users = graph.consumers()
    outputs = set(graph.outputs)

    def fold(n: Node, inputs: tuple[Node, ...]) -> Node:
        shared = any(len(set(users[i])) > 1 or i in outputs for i in n.inputs)
        return computed(n, inputs) if is_foldable(n, inputs, shared) else n.with_inputs(inputs)

    return graph.rebuild(fold)


def is_foldable(n: Node, inputs: tuple[Node, ...], shared: bool) -> bool:
    if n.op is None or n.op.random or not n.op.pure or not all(i.is_const for i in inputs):
        return False
    if not isinstance(n.aval, Aval) or any(True for _ in dims_in((n.shape, *n.attrs.values()))):
        return False
    size, given = n.single.size, sum(i.single.size for i in inputs)
    if n.op.kind == "view":
        return size <= given and (size <= SMALL or not shared)
    return size <= max(given, SMALL)


def computed(n: Node, inputs: tuple[Node, ...]) -> Node:
    """The constant that `n` is."""
    assert n.op is not None
    with np.errstate(all="ignore"):
        value: Any = np.array(n.op.run(np, *(i.value for i in inputs), **n.attrs), order="C")
    if not same_type(aval_of(value), n.aval):
        raise TypeError(f"{n.label}: numpy gives {aval_of(value)}, the graph says {n.single}")
    return Node(None, aval=n.aval, value=value, line=n.line, scope=n.scope)
