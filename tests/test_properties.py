"""Random graphs through every pass: a pass changes how a graph computes, not what."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from test_passes import arrays_for, bits, run_groups

from tapecast.compiler.memory import live_values, plan
from tapecast.compiler.passes import run_passes
from tapecast.compiler.passes.apply_rules import apply_rules
from tapecast.compiler.passes.drop_dead import drop_dead
from tapecast.compiler.passes.drop_no_ops import drop_no_ops
from tapecast.compiler.passes.fold_constants import fold_constants
from tapecast.compiler.passes.fuse import fuse
from tapecast.compiler.passes.lower_padding import lower_padding
from tapecast.compiler.passes.merge_equal import merge_equal
from tapecast.compiler.passes.separate_outputs import separate_outputs
from tapecast.compiler.passes.sink_views import sink_views
from tapecast.compiler.strides import dense, through_view
from tapecast.eager.ops.types import DTYPES, Aval
from tapecast.tracer.build import call
from tapecast.tracer.check import check
from tapecast.tracer.dims import Dim, same_shape
from tapecast.tracer.evaluate import evaluate
from tapecast.tracer.graph import Graph, Node

FLOAT = DTYPES["float32"]
N = Dim("n", max=9)
SIZES = [{"n": 1}, {"n": 4}]
SHAPES = [(), (4,), (1, 4), (N, 4), (N, 2, 2), (2, N), (N, 1)]
VALUES = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0]

UNARY = ["neg", "abs", "exp", "relu", "floor", "sigmoid", "clone"]
BINARY = ["add", "sub", "mul", "div", "maximum", "pow"]

Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def graphs(draw: Draw, size: int = 14) -> Graph:
    """Elementwise chains, views, reductions, products, padding and constants, over dynamic sizes."""
    inputs = tuple(
        Node(None, aval=Aval(draw(st.sampled_from(SHAPES)), FLOAT), name=name)
        for name in "xyz"[: draw(st.integers(1, 3))]
    )
    # One input always tells the dynamic size.
    sized = Node(None, aval=Aval((N, 4), FLOAT), name="sized")
    nodes = [*inputs, sized]
    for _ in range(draw(st.integers(1, size))):
        grow = draw(st.sampled_from([unary, binary, constant, view, reduction, product, border]))
        made = grow(draw, nodes)
        nodes += [] if made is None else [made]
    outputs = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=4))
    return Graph((*inputs, sized), (), ()).with_outputs(tuple(outputs), nodes)


def some(draw: Draw, nodes: list[Node], fits: Callable[[Node], bool] = lambda n: True) -> Node | None:
    found = [n for n in nodes if fits(n)]
    return draw(st.sampled_from(found)) if found else None


def unary(draw: Draw, nodes: list[Node]) -> Node | None:
    x = some(draw, nodes)
    return x and call(draw(st.sampled_from(UNARY)), x)


def binary(draw: Draw, nodes: list[Node]) -> Node | None:
    x = some(draw, nodes)
    y = x and some(
        draw,
        nodes,
        lambda n: n.shape == () or same_shape(n.shape, x.shape) or n.shape == (4,) == x.shape[-1:],
    )
    return x and y and call(draw(st.sampled_from(BINARY)), x, y)


def constant(draw: Draw, nodes: list[Node]) -> Node | None:
    shape = draw(st.sampled_from([(), (4,), (1, 4)]))
    same = draw(st.booleans())
    count = 1 if same else int(np.prod(shape))
    values = np.array(draw(st.lists(st.sampled_from(VALUES), min_size=count, max_size=count)), "float32")
    value = np.full(shape, values[0]) if same else values.reshape(shape)
    return Node(None, aval=Aval(shape, FLOAT), value=value)


def view(draw: Draw, nodes: list[Node]) -> Node | None:
    x = some(draw, nodes, lambda n: n.shape != ())
    if x is None:
        return None
    rank = len(x.shape)
    match draw(st.sampled_from(["permute", "flat", "squeeze", "expand", "slice", "cast"])):
        case "permute":
            return call("permute", x, dims=tuple(draw(st.permutations(range(rank)))))
        case "flat":
            return call("reshape", x, shape=(x.single.size,))
        case "squeeze":
            return call("reshape", x, shape=(*x.shape, 1) if draw(st.booleans()) else (1, *x.shape))
        case "expand":
            return call("expand", x, shape=(2, *x.shape))
        case "slice":
            step = draw(st.sampled_from([1, 2]))
            return call("slice", x, starts=(0,) * rank, stops=x.shape, steps=(*[1] * (rank - 1), step))
    return call("cast", call("cast", x, dtype="float64"), dtype="float32")


def reduction(draw: Draw, nodes: list[Node]) -> Node | None:
    x = some(draw, nodes, lambda n: n.shape != ())
    return x and call(
        draw(st.sampled_from(["sum", "amax"])), x, axes=(draw(st.integers(0, len(x.shape) - 1)),)
    )


def product(draw: Draw, nodes: list[Node]) -> Node | None:
    x = some(draw, nodes, lambda n: len(n.shape) >= 2)
    y = x and some(draw, nodes, lambda n: len(n.shape) == 2 and same_shape(n.shape[:1], x.shape[-1:]))
    if x is not None and y is None:
        y = call("permute", x, dims=(*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2))
    return x and y and call("matmul", x, y)


def border(draw: Draw, nodes: list[Node]) -> Node | None:
    x = some(draw, nodes, lambda n: n.shape != ())
    width = (*[0] * (len(x.shape) - 1), 1) if x else ()
    return x and call("pad", x, before=width, after=width, value=draw(st.sampled_from([0.0, float("-inf")])))


EXACT = [
    drop_no_ops, fold_constants, merge_equal, drop_dead, lower_padding, sink_views, apply_rules, separate_outputs
]  # fmt: skip


def values(graph: Graph, sizes: dict[str, int]) -> list[bytes]:
    with np.errstate(all="ignore"):
        return [
            bits(np.where(np.isnan(x), np.float32(np.nan), x))
            for x in evaluate(graph, arrays_for(graph, sizes))
        ]


@pytest.mark.parametrize("apply", EXACT, ids=lambda p: p.__name__)
@settings(max_examples=30, deadline=None)
@given(graph=graphs())
def test_a_pass_keeps_the_values(apply: Callable[[Graph], Graph], graph: Graph):
    after = check(apply(graph))
    assert same_signature(graph, after)
    for sizes in SIZES:
        assert values(graph, sizes) == values(after, sizes)


def same_signature(a: Graph, b: Graph) -> bool:
    return a.inputs == b.inputs and [str(o.single) for o in a.outputs] == [str(o.single) for o in b.outputs]


@settings(max_examples=40, deadline=None)
@given(graph=graphs())
def test_all_passes_and_fusion_keep_the_values(graph: Graph):
    after = run_passes(graph, [*EXACT, merge_equal, separate_outputs, drop_dead])
    fusion = fuse(after)
    for sizes in SIZES:
        arrays = arrays_for(graph, sizes)
        with np.errstate(all="ignore"):
            made = run_groups(after, fusion, arrays)
        assert [bits(np.where(np.isnan(x), np.float32(np.nan), x)) for x in made] == values(graph, sizes)


@settings(max_examples=40, deadline=None)
@given(graph=graphs())
def test_fusion_stores_what_is_read(graph: Graph):
    after = run_passes(graph, [separate_outputs, drop_dead])
    fusion = fuse(after)
    done = {*after.inputs, *(n for n in after.nodes if n.is_const)}
    for group in fusion.groups:
        assert all(i in group.nodes or i in group.inputs for n in group.nodes for i in n.inputs)
        assert all(fusion.stored(i) in done for i in group.inputs)
        assert group.anchor is None or group.anchor in group.nodes
        done.add(group.root)
    assert {fusion.stored(o) for o in after.outputs} <= done
    assert len({fusion.stored(o) for o in after.outputs}) == len(after.outputs)


@settings(max_examples=30, deadline=None)
@given(graph=graphs())
def test_the_plan_covers_every_value_while_it_is_read(graph: Graph):
    after = run_passes(graph, [separate_outputs, drop_dead])
    fusion = fuse(after)
    live = {v.key: v for v in live_values(fusion, after.outputs)}
    outputs = {fusion.stored(o) for o in after.outputs}
    for step, group in enumerate(fusion.groups):
        for i in map(fusion.stored, group.inputs):
            assert i.op is None or i in outputs or live[i].start < step <= live[i].end
    assert set(plan(list(live.values())).offsets) == set(live)


@settings(max_examples=30, deadline=None)
@given(graph=graphs())
def test_passes_are_deterministic(graph: Graph):
    passes = [*EXACT, partial(apply_rules, fast_math=True), drop_dead]
    assert str(run_passes(graph, passes)) == str(run_passes(graph, passes))
    once = run_passes(graph, [separate_outputs, drop_dead])
    assert str(fuse(once)) == str(fuse(once))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_strides_of_views_are_numpys(data: st.DataObject):
    """As long as numpy makes no copy; where it has to, there is no single stride for some axis."""
    shape = data.draw(st.sampled_from([(4, 6), (2, 3, 4), (1, 4, 1), (2, 2, 2, 3)]))
    node, strides = Node(None, aval=Aval(shape, FLOAT), name="x"), dense(shape)
    memory = array = np.zeros(shape, "float32")
    for _ in range(data.draw(st.integers(1, 4))):
        node = data.draw(st.sampled_from([stepped, transposed, flattened, split, grown]))(data.draw, node)
        strides = through_view(node, strides)
        array = node.op.run(np, array, **node.attrs)
        if not np.shares_memory(array, memory):
            assert None in strides
            return
        known = zip(array.shape, strides, array.strides, strict=True)
        assert all(n == 1 or s is None or 4 * s == real for n, s, real in known)


def stepped(draw: Draw, x: Node) -> Node:
    rank = len(x.shape)
    steps = tuple(draw(st.sampled_from([1, 2])) for _ in range(rank))
    return call("slice", x, starts=(0,) * rank, stops=x.shape, steps=steps)


def transposed(draw: Draw, x: Node) -> Node:
    return call("permute", x, dims=tuple(draw(st.permutations(range(len(x.shape))))))


def flattened(draw: Draw, x: Node) -> Node:
    at = draw(st.integers(0, len(x.shape) - 1))
    merged = int(np.prod(x.shape[at : at + 2]))
    return call("reshape", x, shape=(*x.shape[:at], merged, *x.shape[at + 2 :]))


def split(draw: Draw, x: Node) -> Node:
    at = draw(st.integers(0, len(x.shape) - 1))
    n = x.shape[at]
    pair = (2, n // 2) if n % 2 == 0 and n else (n, 1)
    return call("reshape", x, shape=(*x.shape[:at], *pair, *x.shape[at + 1 :]))


def grown(draw: Draw, x: Node) -> Node:
    return call("expand", x, shape=(2, *x.shape))
