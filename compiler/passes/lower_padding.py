"""Padding becomes an operation of its own, so that the loops of a contraction or a window have no borders."""

from __future__ import annotations

from ...eager.ops.types import is_floating
from ...tracer.build import call
from ...tracer.graph import Graph, Node

#: The operand that is padded, and with what.
PADDED = {
    "conv2d": (0, 0.0),
    "conv2d_weight": (1, 0.0),
    "max_pool2d": (0, float("-inf")),
    "avg_pool2d": (0, 0.0),
}


def lower_padding(graph: Graph) -> Graph:
    """`conv2d(x, w) {padding=(1,1)}` becomes `conv2d(pad(x), w) {padding=(0,0)}`, and so for pooling.

    Exact: zeros add nothing to a sum, -inf is never a maximum. Not for a mean over the elements inside only,
    whose count depends on the border. No graph algorithm: one walk."""
    return graph.rebuild(lambda n, inputs: without_padding(n.with_inputs(inputs)))


def without_padding(n: Node) -> Node:
    if n.op is None or n.op.name not in PADDED or not any(n.attrs["padding"]) or depends_on_border(n):
        return n
    which, value = PADDED[n.op.name]
    border = (0, 0, *n.attrs["padding"])
    padded = call(
        "pad", n.inputs[which], line=n.line, scope=n.scope, before=border, after=border, value=value
    )
    inputs = (*n.inputs[:which], padded, *n.inputs[which + 1 :])
    return call(n.op, *inputs, line=n.line, scope=n.scope, **{**n.attrs, "padding": (0, 0)})


def depends_on_border(n: Node) -> bool:
    return n.attrs.get("count_include_pad") is False or not is_floating(n.dtype)
