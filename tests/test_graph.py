"""Graphs as data: text and back, the checker, evaluation, the networkx view."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from random_graph import FLOAT, graphs, node

from tapecast.eager.ops import activation, elementwise, reduce, view  # noqa: F401 (the ops the graphs use)
from tapecast.eager.ops.table import TABLE, Op
from tapecast.eager.ops.types import DTYPES, Aval
from tapecast.tracer.check import GraphError, check
from tapecast.tracer.dims import Dim, same_shape
from tapecast.tracer.evaluate import evaluate, sizes_of
from tapecast.tracer.graph import ITEM, Graph, Node
from tapecast.tracer.parse import ParseError, parse, parse_all
from tapecast.tracer.text import graph_text, weights_of

BATCH = Dim("batch", max=64)


def small() -> Graph:
    x = Node(None, aval=Aval((BATCH, 3), FLOAT), name="x")
    w = Node(None, aval=Aval((3,), FLOAT), value=np.array([1, 2, 3], np.float32), name="fc.bias")
    half = Node(None, aval=Aval((), FLOAT), value=np.array(0.1, np.float32))
    a = node("add", x, w, line="model.py:12", scope="fc")
    b = node("mul", a, half, line="model.py:13")
    c = node("reshape", b, shape=(BATCH * 3,))
    return Graph((x,), (x, w, half, a, b, c), (c, b))


SMALL = """\
graph forward(%x: float32[batch,3]) for batch in 1..64:
  %fc.bias = const float32[3] "fc.bias"
  %0 = const float32[] 0.1
  %1: float32[batch,3] = add(%x, %fc.bias)  # model.py:12 fc
  %2: float32[batch,3] = mul(%1, %0)  # model.py:13
  %3: float32[batch*3] = reshape(%2) {shape=(batch*3,)}
  return %3, %2
"""


def test_the_text_is_readable():
    assert str(small()) == SMALL


def test_parsing_gives_the_same_graph():
    graph = parse(SMALL, weights_of(small()))
    check(graph)
    assert str(graph) == SMALL
    (x,) = graph.inputs
    assert same_shape(x.shape, (BATCH, 3)) and x.shape[0].ranges == {"batch": (1, 64)}
    add = graph.nodes[3]
    assert (add.op, add.line, add.scope) == (TABLE["add"], "model.py:12", "fc")
    array = np.ones((2, 3), np.float32)
    for a, b in zip(evaluate(graph, [array]), evaluate(small(), [array]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_without_weights_the_constants_are_zeros():
    graph = parse(SMALL)
    assert str(check(graph)) == SMALL
    assert evaluate(graph, [np.ones((1, 3), np.float32)])[0].tolist() == pytest.approx([0.1] * 3)


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_print_parse_print_is_the_identity(graph):
    text = graph_text(check(graph))
    again = parse(text, weights_of(graph))
    assert graph_text(check(again)) == text
    assert [n.op for n in again.nodes if n.op] == [n.op for n in graph.nodes if n.op]
    assert [(n.line, n.scope) for n in again.nodes if n.op] == [
        (n.line, n.scope) for n in graph.nodes if n.op
    ]
    assert again.state == graph.state


@settings(max_examples=50, deadline=None)
@given(graphs(max_nodes=6))
def test_a_parsed_graph_computes_the_same(graph):
    again = parse(graph_text(graph), weights_of(graph))
    sizes = {"batch": 4}
    arrays = [
        np.random.default_rng(k).normal(
            size=[int(n.bind(sizes)) if isinstance(n, Dim) else n for n in x.shape]
        )
        for k, x in enumerate(graph.inputs)
    ]
    arrays = [np.asarray(a, np.float32) for a in arrays]
    with np.errstate(all="ignore"):
        left, right = (evaluate(graph, arrays, sizes=sizes), evaluate(again, arrays, sizes=sizes))
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


ATTRIBUTES = [
    {"a": (1, 2), "b": (3,), "c": ()},
    {"a": True, "b": None, "c": "mean", "d": 'say "}" # no\n'},
    {"a": 1.5, "b": float("inf"), "c": -float("inf"), "d": -0.0, "e": 1e-300, "f": -3},
    {"a": complex(1, -2), "b": np.dtype("float32"), "c": DTYPES["bfloat16"]},
    {"a": BATCH * 2 + 1, "b": (BATCH // 2, (1, BATCH.at_least(4)), "x")},
]


@pytest.fixture
def anything(monkeypatch):
    """An op that takes any attributes."""
    op = Op("anything", lambda x, **attrs: x, lambda xp, x, **attrs: x)
    monkeypatch.setitem(TABLE, "anything", op)
    return op


@pytest.mark.parametrize("attrs", ATTRIBUTES, ids=str)
def test_attributes_read_back(anything, attrs):
    x = Node(None, aval=Aval((BATCH,), FLOAT), name="x")
    y = Node(anything, (x,), attrs, x.aval)
    graph = Graph((x,), (x, y), (y,))
    again = parse(str(graph))
    assert str(again) == str(graph)
    assert repr(again.nodes[1].attrs) == repr(attrs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_written_out_constants_are_exact(dtype):
    values = {"b": [True, False], "c": [1 + 2j, -0.0, complex("nan")], "i": [-128, 127, 0], "u": [0, 255]}
    special = [0.1, 1 / 3, -0.0, float("inf"), -float("inf"), float("nan"), 1e-7, 65504.0]
    array = np.array(values.get(DTYPES[dtype].kind, special)).astype(DTYPES[dtype])
    const = Node(None, aval=Aval(array.shape, array.dtype), value=array)
    again = parse(str(Graph((), (const,), (const,))))
    assert again.nodes[0].value.dtype == array.dtype
    wide = complex if array.dtype.kind == "c" else float
    np.testing.assert_array_equal(again.nodes[0].value.astype(wide), array.astype(wide))
    assert (
        np.signbit(again.nodes[0].value.real.astype(float)).tolist()
        == np.signbit(array.real.astype(float)).tolist()
    )


def test_an_op_with_several_outputs(monkeypatch):
    def infer(x, **attrs):
        return x, Aval(x.shape, DTYPES["int64"])

    two = Op("two", infer, lambda xp, x: (x * 2, x.astype("int64")))
    monkeypatch.setitem(TABLE, "two", two)
    x = Node(None, aval=Aval((2,), FLOAT), name="x")
    pair = Node(two, (x,), {}, two.infer(x.single))
    second = Node(ITEM, (pair,), {"index": 1}, pair.aval[1])
    graph = check(Graph((x,), (x, pair, second), (second,)))
    assert "%0: (float32[2], int64[2]) = two(%x)" in str(graph)
    assert str(check(parse(str(graph)))) == str(graph)
    assert evaluate(graph, [np.array([1.5, 2.5], np.float32)])[0].tolist() == [1, 2]
    with pytest.raises(TypeError, match="pick one with item"):
        _ = pair.shape


def test_state_pairs_are_in_the_text():
    x, count = (Node(None, aval=Aval((), FLOAT), name=name) for name in ("x", "count"))
    total = node("add", count, x)
    graph = check(Graph((x, count), (x, count, total), (total, total), ((1, 1),)))
    assert "return %0, %count <- %0" in str(graph)
    assert parse(str(graph)).state == ((1, 1),)


def test_several_graphs_in_one_text():
    text = str(small()) + "\n" + str(replace(small(), name="other"))
    assert list(parse_all(text)) == ["forward", "other"]
    with pytest.raises(ParseError, match="2 graphs, forward, other"):
        parse(text)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("add(%x", "add(%y", "line 4: %y is used before it is defined"),
        ("add(", "ad(", "line 4: no operator is called 'ad'; did you mean"),
        ("%1: float32[batch,3] =", "%1: float32[batch,3", "line 4: expected %name: type"),
        ("(batch*3,)}", "(n*3,)}", "line 6: size n\\*3: 'n' is not declared"),
        ("%1: float32", "%1: float33", "line 4: float33 is not one of the dtypes"),
        ("  return %3, %2\n", "", "ends before a return line"),
        ("graph forward", "forward", 'begins with "graph"'),
        ("%2: ", "%1: ", "line 5: %1 is defined twice"),
    ],
)
def test_parse_errors_name_the_line(old, new, message):
    with pytest.raises(ParseError, match=message):
        parse(SMALL.replace(old, new))


def test_a_missing_weight_is_named():
    with pytest.raises(ParseError, match=r"'fc.bias' is not among the weights"):
        parse(SMALL, {})


def test_check_finds_what_is_wrong():
    g = small()
    x, w, half, a, b, c = g.nodes
    wrong = replace(a, aval=Aval((BATCH, 4), FLOAT))
    with pytest.raises(GraphError, match=r"add at model.py:12 in fc: it is float32\[batch,3\] by its rule"):
        check(replace(g, nodes=(x, w, half, wrong), outputs=(wrong,)))
    with pytest.raises(GraphError, match=r"operand add at model.py:12 in fc is used before"):
        check(replace(g, nodes=(x, w, half, b, a, c)))
    with pytest.raises(GraphError, match=r"output 0, .* is not among the nodes"):
        check(replace(g, nodes=(x, w, half, a, b)))
    with pytest.raises(GraphError, match="stands twice"):
        check(replace(g, nodes=(x, w, half, a, a, b, c)))
    with pytest.raises(GraphError, match="input x must stand once"):
        check(replace(g, inputs=()))
    with pytest.raises(GraphError, match=r"state x is .*its next value"):
        check(replace(g, state=((0, 0),)))
    with pytest.raises(GraphError, match="names an input or output that does not exist"):
        check(replace(g, state=((0, 7),)))
    with pytest.raises(GraphError, match="output stands in two state pairs"):
        y = Node(None, aval=x.aval, name="y")
        check(Graph((x, y), (x, y), (x,), ((0, 0), (1, 0))))


def test_a_symbolic_size_is_not_its_example_value():
    x = Node(None, aval=Aval((BATCH, 3), FLOAT), name="x")
    y = replace(node("neg", x), aval=Aval((int(BATCH), 3), FLOAT))
    with pytest.raises(GraphError, match=r"float32\[batch,3\] by its rule"):
        check(Graph((x,), (x, y), (y,)))


def test_evaluation_checks_its_inputs():
    g = small()
    with pytest.raises(TypeError, match=r"1 inputs are wanted \(x: float32\[batch,3\]\), 2 came"):
        evaluate(g, [1, 2])
    with pytest.raises(TypeError, match=r"input x must be float32\[batch,3\], it is float64\[2,3\]"):
        evaluate(g, [np.ones((2, 3))])
    with pytest.raises(ValueError, match="axis 1 must have 3 elements, it has 4"):
        evaluate(g, [np.ones((2, 4), np.float32)])
    with pytest.raises(ValueError, match=r"size batch is 65, the program was made for 1\.\.64"):
        evaluate(g, [np.ones((65, 3), np.float32)])


def test_sizes_are_solved_from_formulas():
    n, m = Dim("n"), Dim("m")
    x = Node(None, aval=Aval((2 * n + 1, n * m), FLOAT), name="x")
    graph = Graph((x,), (x,), (x,))
    assert sizes_of(graph, [np.ones((7, 12), np.float32)]) == {"n": 3, "m": 4}
    with pytest.raises(ValueError, match=r"axis 1 must have 12 \(m\*n\) elements, it has 13"):
        sizes_of(Graph((x,), (x,), (x,)), [np.ones((7, 13), np.float32)])


def test_networkx_view():
    x = Node(None, aval=Aval((2,), FLOAT), name="x")
    square = node("mul", x, x)
    graph = Graph((x,), (x, square), (square,))
    g = graph.nx()
    assert sorted(d["operand"] for _, _, d in g.in_edges(square, data=True)) == [0, 1]
    assert list(nx.topological_sort(g)) == list(graph.nodes)
    assert graph.consumers()[x] == [square, square]


def test_rebuild_keeps_the_old_graph():
    g = small()
    twice = g.rebuild(
        lambda n, inputs: n.with_inputs(inputs) if n.op is not TABLE["add"] else node("sub", *inputs)
    )
    assert "sub(" in str(check(twice)) and str(g) == SMALL
