"""Random graphs for property tests: what the text, the passes and the backends must cope with."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tapecast.eager.ops.table import TABLE
from tapecast.eager.ops.types import DTYPES, Aval
from tapecast.tracer.dims import Dim, size_text
from tapecast.tracer.graph import Graph, Node

FLOAT = DTYPES["float32"]
BATCH = Dim("batch", max=64)
SHAPES = [(), (3,), (2, 3), (BATCH, 3), (BATCH, 2, 3), (BATCH * 2, 1), (1, 3), (0, 3)]

UNARY = ["neg", "abs", "exp", "tanh", "sigmoid", "relu", "floor"]
BINARY = ["add", "sub", "mul", "maximum", "minimum"]


def node(op: str, *inputs: Node, line: str = "", scope: str = "", **attrs) -> Node:
    entry = TABLE[op]
    return Node(
        entry, inputs, attrs, entry.infer(*(n.single for n in inputs), **attrs), line=line, scope=scope
    )


@st.composite
def graphs(draw, max_nodes: int = 12, symbolic: bool = True) -> Graph:
    """A graph of elementwise ops, views and sums over a few inputs and constants, with names and lines."""
    shapes = SHAPES if symbolic else [s for s in SHAPES if not any(isinstance(n, Dim) for n in s)]
    names = st.sampled_from(["x", "y", "conv1.weight", "0", "a b", "const0", "x.1", ""])
    nodes = [
        Node(None, aval=Aval(draw(st.sampled_from(shapes)), FLOAT), name=draw(names))
        for _ in range(draw(st.integers(1, 3)))
    ]
    inputs = tuple(nodes)
    for _ in range(draw(st.integers(0, max_nodes))):
        nodes.append(draw(grown(nodes)))
    outputs = draw(st.lists(st.sampled_from(nodes), max_size=3))
    return Graph(inputs, tuple(nodes), tuple(outputs), draw(state_pairs(inputs, outputs)))


@st.composite
def state_pairs(draw, inputs, outputs):
    """At most one pair: an input and an output of the same type."""
    fits = [(i, o) for i, a in enumerate(inputs) for o, b in enumerate(outputs) if same(a, b)]
    return (draw(st.sampled_from(fits)),) if fits and draw(st.booleans()) else ()


def same(a: Node, b: Node) -> bool:
    return [size_text(n) for n in a.shape] == [size_text(n) for n in b.shape] and a.dtype == b.dtype


@st.composite
def grown(draw, nodes):
    """A further node over the given ones."""
    where = {"line": draw(LINES), "scope": draw(SCOPES)}
    x = draw(st.sampled_from(nodes))
    kind = draw(st.sampled_from(["unary", "binary", "const", "permute", "reshape", "sum"]))
    partners = [y for y in nodes if y is x or same(x, y)]
    match kind:
        case "unary":
            return node(draw(st.sampled_from(UNARY)), x, **where)
        case "binary":
            return node(draw(st.sampled_from(BINARY)), x, draw(st.sampled_from(partners)), **where)
        case "permute":
            return node("permute", x, dims=tuple(draw(st.permutations(range(len(x.shape))))), **where)
        case "reshape":
            return node("reshape", x, shape=(x.single.size,), **where)
        case "sum":
            axes = draw(st.sets(st.sampled_from(range(len(x.shape)))) if x.shape else st.just(set()))
            return node("sum", x, axes=tuple(sorted(axes)), **where)
    return draw(constants())


LINES = st.sampled_from(["", "model.py:12", "my model.py:3", "<stdin>:1", 'a"b#c.py:7'])
SCOPES = st.sampled_from(["", "conv1", "layer1.0.conv", "blocks.my key"])
VALUES = st.floats(width=32) | st.sampled_from([0.1, -0.0, 1e30, 1e-45])


@st.composite
def constants(draw):
    shape = draw(st.sampled_from([(), (3,), (1, 3), (0, 3), (4, 3)]))
    values = draw(st.lists(VALUES, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    value = np.array(values, np.float32).reshape(shape)
    return Node(
        None, aval=Aval(shape, FLOAT), value=value, name=draw(st.sampled_from(["", "w", "conv1.bias"]))
    )
