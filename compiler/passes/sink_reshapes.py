"""Reshapes move below elementwise operations, so that they end where they cost nothing: next to a buffer."""

from __future__ import annotations

from ...eager.ops.table import lookup
from ...tracer.build import call
from ...tracer.dims import same_shape
from ...tracer.graph import Graph, Node


def sink_reshapes(graph: Graph) -> Graph:
    """`f(reshape(x), reshape(y), c)` becomes `reshape(f(x, y, c))`: x and y of one shape, c without axes.

    Exact for every f that works element by element. No graph algorithm: in topological order a reshape moves
    below a whole chain in one walk, as each operation sees its operands' reshapes already moved.
    """
    return graph.rebuild(lambda n, inputs: sunk(n, inputs) or n.with_inputs(inputs))


def sunk(n: Node, inputs: tuple[Node, ...]) -> Node | None:
    """`n` computed before the reshape; None where its operands do not allow that."""
    if n.op is None or n.op.kind != "elementwise":
        return None
    arrays = [i for i in inputs if i.shape != ()]
    if not arrays or not all(is_reshape_to(i, n.shape) for i in arrays):
        return None
    first = arrays[0].inputs[0]
    if first.shape == () or not all(same_shape(i.inputs[0].shape, first.shape) for i in arrays):
        return None
    inner = call(
        n.op, *(i if i.shape == () else i.inputs[0] for i in inputs), line=n.line, scope=n.scope, **n.attrs
    )
    return call(lookup("reshape"), inner, line=n.line, scope=n.scope, shape=n.shape)


def is_reshape_to(i: Node, shape: tuple[int, ...]) -> bool:
    return i.op is not None and i.op.name == "reshape" and same_shape(i.shape, shape)
