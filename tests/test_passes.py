"""Each graph pass on a small graph in text, against the text it must give, and with the same values.

The graphs are in GRAPHS; what a pass makes of them is in tests/golden/.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import networkx as nx
import numpy as np
import pytest

from tapecast.compiler.cost import profile, reads_once
from tapecast.compiler.debug import VIEWS, Debug, changes, from_environment
from tapecast.compiler.memory import live_values, plan
from tapecast.compiler.options import Options
from tapecast.compiler.passes import run_passes
from tapecast.compiler.passes.apply_rules import apply_rules
from tapecast.compiler.passes.decompose import decompose
from tapecast.compiler.passes.drop_dead import drop_dead
from tapecast.compiler.passes.drop_no_ops import drop_no_ops
from tapecast.compiler.passes.fold_batch_norm import fold_batch_norm
from tapecast.compiler.passes.fold_constants import fold_constants
from tapecast.compiler.passes.fuse import Fusion, fuse
from tapecast.compiler.passes.lower_padding import lower_padding
from tapecast.compiler.passes.merge_equal import merge_equal
from tapecast.compiler.passes.separate_outputs import separate_outputs
from tapecast.compiler.passes.sink_views import sink_views
from tapecast.compiler.pipeline import compile_graphs
from tapecast.eager.ops.table import lookup
from tapecast.tracer.build import call
from tapecast.tracer.check import check
from tapecast.tracer.evaluate import evaluate, shape_at
from tapecast.tracer.graph import Graph, Node
from tapecast.tracer.parse import parse

SIZES = {"n": 3, "b": 2, "t": 3}

GRAPHS: dict[str, tuple[Callable[[Graph], Graph], str]] = {
    "drop_no_ops": (
        drop_no_ops,
        """
graph f(%x: float32[n,4], %y: float32[4]) for n in 1..:
  %0: float32[n,4] = reshape(%x) {shape=(n,4)}
  %1: float32[n,4] = cast(%0) {dtype="float32"}
  %2: float32[n,4] = permute(%1) {dims=(0,1)}
  %3 = const float32[] 1.0
  %4: float32[n,4] = mul(%2, %3)
  %5 = const float32[] 0.0
  %6: float32[n,4] = add(%4, %5)
  %7: float32[n,4] = sub(%6, %5)
  %8 = const float32[] -0.0
  %9: float32[n,4] = add(%8, %7)
  %10 = const float32[1,4] (1.0,1.0,1.0,1.0)
  %11: float32[1,4] = mul(%y, %10)
  %12: float32[n,4] = mul(%9, %11)
  %13: float32[n,4] = slice(%12) {starts=(0,0), stops=(n,4), steps=(1,1)}
  %14: float32[n,4] = clone(%13)
  return %14
""",
    ),
    "fold_constants": (
        fold_constants,
        """
graph f(%x: float32[n,3], %key: int64[2]) for n in 1..:
  %0 = const float32[3] (1.0,2.0,4.0)
  %1: float32[3] = sqrt(%0)
  %2: float32[3] = reciprocal(%1)
  %3: float32[1,3] = reshape(%2) {shape=(1,3)}
  %4: float32[n,3] = expand(%3) {shape=(n,3)}
  %5: float32[2048,3] = expand(%3) {shape=(2048,3)}
  %6: float32[3] = sum(%5) {axes=(0,)}
  %7: float32[n,3] = full() {shape=(n,3), value=2.0, dtype="float32"}
  %8: int64[3] = arange() {size=3, start=0, step=1, dtype="int64"}
  %9: float32[3] = cast(%8) {dtype="float32"}
  %10: float32[n,3] = mul(%x, %4)
  %11: float32[n,3] = add(%10, %6)
  %12: float32[n,3] = add(%11, %7)
  %13: float32[n,3] = add(%12, %9)
  return %13
""",
    ),
    "merge_equal": (
        merge_equal,
        """
graph f(%x: float32[n,n], %key: int64[2]) for n in 1..:
  %0 = const float32[] 0.0
  %1 = const float32[] -0.0
  %2 = const float32[] 0.0
  %3: float32[n,n] = add(%x, %0)
  %4: float32[n,n] = add(%x, %1)
  %5: float32[n,n] = add(%x, %2)
  %6: float32[n] = sum(%3) {axes=(0,)}
  %7: float32[n] = sum(%5) {axes=(0,)}
  %8: float32[n] = sum(%5) {axes=(1,)}
  %9: float32[n] = uniform(%key) {shape=(n,), dtype="float32"}
  %10: float32[n] = uniform(%key) {shape=(n,), dtype="float32"}
  %11: float32[n] = add(%6, %7)
  %12: float32[n] = add(%8, %11)
  %13: float32[n] = add(%9, %10)
  return %12, %13, %4
""",
    ),
    "drop_dead": (
        drop_dead,
        """
graph f(%x: float32[n], %unused: float32[2]) for n in 1..:
  %0: float32[n] = exp(%x)
  %1: float32[n] = log(%0)
  %2: float32[n] = neg(%0)
  return %2, %x
""",
    ),
    "decompose": (
        decompose,
        """
graph f(%x: float32[n,3]) for n in 1..:
  %0: float32[n,3] = log_softmax(%x) {dim=1}  # model.py:3 head
  %1: float32[] = mean(%0) {axes=(0,1)}  # model.py:4
  return %1
""",
    ),
    "decompose_keeping": (
        partial(decompose, whole=lambda n: n.op.name == "log_softmax"),
        """
graph f(%x: float32[n,3]) for n in 1..:
  %0: float32[n,3] = log_softmax(%x) {dim=1}
  %1: float32[] = mean(%0) {axes=(0,1)}
  return %1
""",
    ),
    "lower_padding": (
        lower_padding,
        """
graph f(%x: float32[n,2,6,6], %w: float32[2,2,3,3]) for n in 1..:
  %0: float32[n,2,6,6] = conv2d(%x, %w) {stride=(1,1), padding=(1,1), dilation=(1,1), groups=1}  # m.py:1 a.conv
  %1: float32[n,2,3,3] = max_pool2d(%0) {kernel=(3,3), stride=(2,2), padding=(1,1), dilation=(1,1)}
  %2: float32[n,2,3,3] = avg_pool2d(%1) {kernel=(3,3), stride=(1,1), padding=(1,1), count_include_pad=True}
  %3: float32[n,2,3,3] = avg_pool2d(%2) {kernel=(3,3), stride=(1,1), padding=(1,1), count_include_pad=False}
  %4: float32[n,2,1,1] = conv2d(%3, %w) {stride=(1,1), padding=(0,0), dilation=(1,1), groups=1}
  return %4
""",
    ),
    "separate_outputs": (
        separate_outputs,
        """
graph f(%x: float32[n,4]) for n in 1..:
  %0: float32[n,4] = exp(%x)
  %1: float32[n*4] = reshape(%0) {shape=(n*4,)}
  %2: float32[n*4] = reshape(%x) {shape=(n*4,)}
  %3 = const float32[] 1.0
  %4: float32[4,n] = permute(%0) {dims=(1,0)}
  %5: float32[4,n] = neg(%4)
  return %1, %0, %5, %5, %x, %2, %3
""",
    ),
    "sink_views": (
        sink_views,
        """
graph f(%x: float32[b*t,8], %r: float32[b,t,4], %z: float32[b,t,2,2]) for b in 1.., t in 1..:
  %w = const float32[8,4] "w"
  %b = const float32[4] "b"
  %0: float32[b*t,4] = matmul(%x, %w)
  %1: float32[b,t,4] = reshape(%0) {shape=(b,t,4)}
  %2: float32[b,t,4] = add(%1, %b)
  %3: float32[b,t,4] = relu(%2)
  %4: float32[b,t,4] = add(%r, %3)
  %5: float32[b,t] = sum(%4) {axes=(2,)}
  %6: float32[b,t,1] = reshape(%5) {shape=(b,t,1)}
  %7: float32[b,t,4] = sub(%4, %6)
  %8: float32[b,t,2,2] = reshape(%7) {shape=(b,t,2,2)}
  %9: float32[b,2,t,2] = permute(%8) {dims=(0,2,1,3)}
  %10 = const float32[] 2.0
  %11: float32[b,2,t,2] = mul(%9, %10)
  %12: float32[b,2,t,2] = permute(%z) {dims=(0,2,1,3)}
  %13: float32[b,2,t,2] = relu(%12)
  %14: float32[b,2,t,2] = add(%11, %13)
  return %14
""",
    ),
}


def arrays_for(graph: Graph, sizes: dict[str, int] = SIZES) -> list[Any]:
    """An array for each input: awkward numbers for floats, a key for an int64 pair."""
    rng = np.random.default_rng(0)
    return [array_for(n, sizes, rng) for n in graph.inputs]


def array_for(n: Node, sizes: dict[str, int], rng: np.random.Generator) -> Any:
    shape = shape_at(n.single, sizes)
    if n.dtype.kind in "iu":
        return rng.integers(0, 5, shape, n.dtype)
    values = rng.normal(size=shape)
    values[rng.random(shape) < 0.1] = -0.0
    return values.astype(n.dtype)


def bits(x: Any) -> bytes:
    return np.ascontiguousarray(x).tobytes()


@pytest.mark.parametrize("name", GRAPHS)
def test_golden(name: str, golden: Any):
    apply, text = GRAPHS[name]
    assert golden == str(check(apply(parse(text))))


@pytest.mark.parametrize("name", [n for n in GRAPHS if not n.startswith("decompose")])
def test_values_stay_the_same_bit_for_bit(name: str):
    apply, text = GRAPHS[name]
    graph = parse(text)
    arrays = arrays_for(graph)
    with np.errstate(all="ignore"):
        before, after = evaluate(graph, arrays), evaluate(apply(graph), arrays)
    assert list(map(bits, before)) == list(map(bits, after))


@pytest.mark.parametrize("name", [n for n in GRAPHS if n.startswith("decompose")])
def test_a_composite_and_its_parts_agree(name: str):
    apply, text = GRAPHS[name]
    graph = parse(text)
    arrays = arrays_for(graph)
    for before, after in zip(evaluate(graph, arrays), evaluate(apply(graph), arrays), strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-5)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_pass_leaves_its_input_alone(name: str):
    apply, text = GRAPHS[name]
    graph = parse(text)
    before = str(graph)
    apply(graph)
    assert str(graph) == before


@pytest.mark.parametrize("name", GRAPHS)
def test_a_pass_has_nothing_to_do_the_second_time(name: str):
    apply, text = GRAPHS[name]
    once = apply(parse(text))
    assert str(apply(once)) == str(once)


# ---- fold_constants -----------------------------------------------------------------------------------------


def test_a_view_of_a_large_constant_read_elsewhere_is_not_stored_twice():
    text = """
graph f(%x: float32[40], %i: int64[2]):
  %w = const float32[40,40] "w"
  %0: float32[40,40] = permute(%w) {dims=(1,0)}
  %1: float32[2,40] = embedding(%w, %i)
  %2: float32[2,40] = matmul(%1, %0)
  return %2
"""
    weights = {"w": np.arange(1600, dtype="float32").reshape(40, 40)}
    assert [n.label for n in fold_constants(parse(text, weights)).nodes if n.op] == [
        "permute",
        "embedding",
        "matmul",
    ]
    alone = parse(
        text.replace("embedding(%w, %i)", 'full() {shape=(2,40), value=1.0, dtype="float32"}'), weights
    )
    assert "permute" not in str(drop_dead(fold_constants(alone)))


# ---- fold_batch_norm ----------------------------------------------------------------------------------------

BATCH_NORM = """
graph f(%x: float32[n,3,5,5]) for n in 1..:
  %conv.weight = const float32[4,3,3,3] "conv.weight"
  %bn.mean = const float32[4] "bn.mean"
  %bn.var = const float32[4] "bn.var"
  %bn.weight = const float32[4] "bn.weight"
  %bn.bias = const float32[4] "bn.bias"
  %conv.bias = const float32[4,1,1] "conv.bias"
  %0: float32[n,4,5,5] = conv2d(%x, %conv.weight) {stride=(1,1), padding=(1,1), dilation=(1,1), groups=1}  # m.py:1 conv
  %1: float32[n,4,5,5] = add(%0, %conv.bias)  # m.py:1 conv
  %2: float32[n,4,5,5] = batch_norm(%1, %bn.mean, %bn.var, %bn.weight, %bn.bias) {eps=1e-05}  # m.py:2 bn
  %3: float32[n,4,5,5] = relu(%2)
  return %3
"""
LINEAR_BN = """
graph f(%x: float32[n,3]) for n in 1..:
  %fc.weight = const float32[4,3] "fc.weight"
  %fc.bias = const float32[4] "fc.bias"
  %bn.mean = const float32[4] "bn.mean"
  %bn.var = const float32[4] "bn.var"
  %0: float32[n,4] = linear(%x, %fc.weight, %fc.bias)
  %1: float32[n,4] = batch_norm(%0, %bn.mean, %bn.var) {eps=1e-05}
  return %1
"""
MATMUL_BN = LINEAR_BN.replace("linear(%x, %fc.weight, %fc.bias)", "matmul(%x, %fc.weight)").replace(
    "float32[4,3]", "float32[3,4]"
)


def with_weights(text: str) -> Graph:
    rng = np.random.default_rng(1)
    shapes = {n.name: n.shape for n in parse(text).nodes if n.is_const and n.name}
    return parse(text, {k: rng.uniform(0.5, 2, s).astype("float32") for k, s in shapes.items()})


@pytest.mark.parametrize("text", [BATCH_NORM, LINEAR_BN, MATMUL_BN], ids=["conv", "linear", "matmul"])
def test_batch_norm_goes_into_the_weights(text: str):
    graph = with_weights(text)
    folded = drop_dead(check(fold_batch_norm(graph)))
    assert "batch_norm" not in {n.label for n in folded.nodes}
    assert len(folded.nodes) < len(graph.nodes)
    arrays = arrays_for(graph)
    for before, after in zip(evaluate(graph, arrays), evaluate(folded, arrays), strict=True):
        np.testing.assert_allclose(before, after, rtol=2e-5, atol=2e-5)


def test_folded_weights_are_rounded_once():
    graph = with_weights(MATMUL_BN)
    w, _, var = (np.asarray(n.value, "float64") for n in graph.nodes if n.is_const and n.name != "fc.bias")
    folded = drop_dead(fold_batch_norm(graph))
    new = next(n for n in folded.nodes if n.op and n.op.name == "matmul").inputs[1].value
    assert (new == (w * (1 / np.sqrt(var + 1e-5))).astype("float32")).all()


@pytest.mark.parametrize(
    "text",
    [
        BATCH_NORM.replace("return %3", "return %3, %0"),
        BATCH_NORM.replace("return %3", "return %3, %1"),
        BATCH_NORM.replace("relu(%2)", "add(%2, %0)"),
        LINEAR_BN.replace("%x: float32[n,3]", "%x: float32[n,3], %w: float32[4,3]").replace(
            "%x, %fc.weight", "%x, %w"
        ),
        LINEAR_BN.replace("[n,3]", "[n,4,3]").replace("[n,4] =", "[n,4,4] ="),
    ],
    ids=["conv is an output", "sum is an output", "two readers", "weights not constant", "channels not last"],
)
def test_batch_norm_stays_where_folding_would_be_wrong(text: str):
    assert "batch_norm" in {n.label for n in fold_batch_norm(with_weights(text)).nodes}


# ---- fuse ---------------------------------------------------------------------------------------------------

FUSION = {
    "epilogue": """
graph f(%x: float32[n,8], %r: float32[n,4]) for n in 1..:
  %w = const float32[8,4] "w"
  %b = const float32[4] "b"
  %0: float32[n,4] = matmul(%x, %w)
  %1: float32[n,4] = add(%0, %b)
  %2: float32[n,4] = sigmoid(%1)
  %3: float32[n,4] = mul(%1, %2)
  %4: float32[n,4] = add(%3, %r)
  return %4
""",
    "softmax": """
graph f(%x: float32[n,8]) for n in 1..:
  %0: float32[n] = amax(%x) {axes=(1,)}
  %1: float32[n,1] = reshape(%0) {shape=(n,1)}
  %2: float32[n,8] = sub(%x, %1)
  %3: float32[n,8] = exp(%2)
  %4: float32[n] = sum(%3) {axes=(1,)}
  %5: float32[n,1] = reshape(%4) {shape=(n,1)}
  %6: float32[n,8] = div(%3, %5)
  return %6
""",
    "variance": """
graph f(%x: float32[n,8]) for n in 1..:
  %0: float32[n] = sum(%x) {axes=(1,)}
  %1 = const float32[] 8.0
  %2: float32[n] = div(%0, %1)
  %3: float32[n,1] = reshape(%2) {shape=(n,1)}
  %4: float32[n,8] = sub(%x, %3)
  %5: float32[n,8] = mul(%4, %4)
  %6: float32[n] = sum(%5) {axes=(1,)}
  %7: float32[n] = div(%6, %1)
  %8: float32[n] = rsqrt(%7)
  %9: float32[n,1] = reshape(%8) {shape=(n,1)}
  %10: float32[n,8] = mul(%4, %9)
  return %10
""",
    "attention": """
graph f(%q: float32[b,s,2,4], %k: float32[b,s,2,4], %v: float32[b,s,2,4]) for b in 1.., s in 1..:
  %w = const float32[8,8] "w"
  %0: float32[b,2,s,4] = permute(%q) {dims=(0,2,1,3)}
  %1: float32[b,2,4,s] = permute(%k) {dims=(0,2,3,1)}
  %2: float32[b,2,s,s] = matmul(%0, %1)
  %3 = const float32[] 0.5
  %4: float32[b,2,s,s] = mul(%2, %3)
  %5: float32[b,2,s,4] = permute(%v) {dims=(0,2,1,3)}
  %6: float32[b,2,s,4] = matmul(%4, %5)
  %7: float32[b,s,2,4] = permute(%6) {dims=(0,2,1,3)}
  %8: float32[b,s,8] = reshape(%7) {shape=(b,s,8)}
  %9: float32[b,s,8] = matmul(%8, %w)
  return %9
""",
    "residual block": """
graph f(%x: float32[n,4,6,6], %w: float32[4,4,3,3]) for n in 1..:
  %0: float32[n,4,8,8] = pad(%x) {before=(0,0,1,1), after=(0,0,1,1), value=0.0}
  %1: float32[n,4,6,6] = conv2d(%0, %w) {stride=(1,1), padding=(0,0), dilation=(1,1), groups=1}
  %2: float32[n,4,6,6] = relu(%1)
  %3: float32[n,4,8,8] = pad(%2) {before=(0,0,1,1), after=(0,0,1,1), value=0.0}
  %4: float32[n,4,6,6] = conv2d(%3, %w) {stride=(1,1), padding=(0,0), dilation=(1,1), groups=1}
  %5: float32[n,4,6,6] = add(%4, %x)
  %6: float32[n,4,6,6] = relu(%5)
  %7: float32[n,4] = sum(%6) {axes=(2,3)}
  return %6, %7
""",
    "two products": """
graph f(%x: float32[n,8], %h: float32[n,8], %w: float32[8,8], %u: float32[8,8]) for n in 1..:
  %0: float32[n,8] = matmul(%x, %w)
  %1: float32[n,8] = matmul(%h, %u)
  %2: float32[n,8] = add(%0, %1)
  %3: float32[n,8] = tanh(%2)
  return %3
""",
    "shared": """
graph f(%x: float32[n,8], %y: float32[n,8]) for n in 1..:
  %0: float32[n,8] = add(%x, %y)
  %1: float32[n,8] = exp(%0)
  %2: float32[n] = sum(%1) {axes=(1,)}
  %3: float32[8] = sum(%1) {axes=(0,)}
  %4: float32[n] = amax(%0) {axes=(1,)}
  return %2, %3, %4
""",
    "reshapes": """
graph f(%x: float32[n,8]) for n in 1..:
  %0: float32[n,8] = exp(%x)
  %1: float32[n,2,4] = reshape(%0) {shape=(n,2,4)}
  %2: float32[4,2] = full() {shape=(4,2), value=1.0, dtype="float32"}
  %3: float32[n,2,2] = matmul(%1, %2)
  %4: float32[n*4] = reshape(%3) {shape=(n*4,)}
  %5: float32[n*8] = reshape(%x) {shape=(n*8,)}
  %6: float32[n*8] = neg(%5)
  return %4, %6
""",
    "broadcast work": """
graph f(%x: float32[n,1], %y: float32[n,8], %m: float32[8,3]) for n in 1..:
  %0: float32[n,1] = exp(%x)
  %1: float32[n,1] = neg(%x)
  %2: float32[n,8] = mul(%y, %0)
  %3: float32[n,8] = add(%2, %1)
  %4: float32[8,n] = permute(%3) {dims=(1,0)}
  %5: float32[n,8] = permute(%4) {dims=(1,0)}
  %6: float32[n,3] = matmul(%5, %m)
  return %6
""",
}


def prepared(text: str) -> Graph:
    return drop_dead(separate_outputs(with_weights(text)))


@pytest.mark.parametrize("name", FUSION)
def test_fusion(name: str, golden: Any):
    assert golden == str(fuse(prepared(FUSION[name])))


@pytest.mark.parametrize("name", FUSION)
def test_groups_compute_the_graph(name: str):
    graph = prepared(FUSION[name])
    sizes = {"n": 3, "b": 2, "s": 5}
    arrays = arrays_for(graph, sizes)
    wanted = evaluate(graph, arrays)
    assert list(map(bits, run_groups(graph, fuse(graph), arrays))) == list(map(bits, wanted))


def run_groups(graph: Graph, fusion: Fusion, arrays: list[Any]) -> list[Any]:
    """Run group after group, giving each only what it says it reads; at the end the outputs."""
    stored: dict[Node, Any] = dict(zip(graph.inputs, arrays, strict=True))
    stored.update({n: n.value for n in graph.nodes if n.is_const})

    def run(root: Node, nodes: tuple[Node, ...], inputs: tuple[Node, ...]) -> Any:
        """The graph's inputs stay inputs, since the dynamic sizes are read from them."""
        at = {n: Node(None, aval=n.aval, name=n.label) for n in inputs}
        small = Graph((*graph.inputs, *at.values()), (), ())
        for n in nodes:
            at[n] = n if n.op is None else n.with_inputs(tuple(at[i] for i in n.inputs))
        return evaluate(small.with_outputs((at[root],)), [*arrays, *(stored[n] for n in inputs)])[0]

    def share() -> None:
        for n, base in fusion.aliases.items():
            if base in stored:
                stored[n] = run(n, (n,), (base,))

    share()
    for group in fusion.groups:
        stored[group.root] = run(group.root, group.nodes, group.inputs)
        share()
    return [stored[o] for o in graph.outputs]


@pytest.mark.parametrize("name", FUSION)
def test_groups_are_legal(name: str):
    """No path leaves a group and comes back, and every group comes after those it reads."""
    graph = prepared(FUSION[name])
    fusion = fuse(graph)
    reach = graph.nx()
    done: set[Node] = set()
    for g in fusion.groups:
        inside = set(g.nodes)
        for out in inside:
            outside = {n for n in reach.successors(out) if n not in inside}
            assert out is g.root or not outside or all_recomputed(out, fusion)
        assert not any(n in inside for n in nx.descendants(reach, g.root))
        assert all(fusion.stored(i).op is None or fusion.stored(i) in done for i in g.inputs)
        done.add(g.root)


def all_recomputed(n: Node, fusion: Fusion) -> bool:
    """A value in several groups is computed in each of them, so its readers do not wait for one of these."""
    return all(n not in g.inputs for g in fusion.groups)


COSTS = """
graph f(%x: float32[n,8], %y: float32[8], %i: int64[5], %key: int64[2]) for n in 1..:
  %0: float32[n,8] = relu(%x)
  %1: float32[n,8] = exp(%x)
  %2: float32[n,8] = add(%x, %y)
  %3: float32[8,n] = permute(%x) {dims=(1,0)}
  %4: float32[n,2,4] = reshape(%x) {shape=(n,2,4)}
  %5: float32[n] = sum(%x) {axes=(1,)}
  %6: float32[n,n] = matmul(%x, %3)
  %7: int64[n] = argmax(%x) {dim=1}
  %8: float32[5,8] = embedding(%x, %i)
  %9: float32[n,10] = pad(%x) {before=(0,1), after=(0,1), value=0.0}
  %10: float32[n,16] = cat(%x, %0) {dim=1}
  return %10
"""


def test_costs_are_read_from_the_rules():
    """(arithmetic, functions, is there a loop), and for each operand whether its elements are read once."""
    graph = parse(COSTS)
    found = {}
    for n in graph.nodes:
        if n.op is not None and (known := profile(n)) is not None:
            found[n.label] = (*known.cost, *(reads_once(n, k, reads) for k, reads in enumerate(known.reads)))
    assert found == {
        "relu": (1, 0, False, True),
        "exp": (0, 1, False, True),
        "add": (1, 0, False, True, False),
        "permute": (0, 0, False, True),
        "reshape": (0, 0, False, True),
        "sum": (0, 0, True, True),
        "matmul": (1, 0, True, False, False),
        "argmax": (4, 0, True, False),
        "embedding": (0, 0, False, False, False),
        "pad": (1, 0, False, True),
        "cat": (1, 0, False, True, True),
    }


def test_fuse_refuses_outputs_without_a_buffer():
    graph = parse(GRAPHS["separate_outputs"][1])
    with pytest.raises(ValueError, match="run separate_outputs"):
        fuse(graph)


def test_what_is_taken_whole_reads_and_writes_buffers():
    graph = with_weights(
        """
graph f(%x: float32[n,8]) for n in 1..:
  %0: float32[n,8] = neg(%x)
  %1: float32[n,8] = softmax(%0) {dim=1}
  %2: float32[n,8] = neg(%1)
  return %2
"""
    )
    assert [[n.label for n in g.nodes] for g in fuse(graph).groups] == [["neg"], ["softmax"], ["neg"]]


def test_workspace_of_a_graph():
    graph = prepared(FUSION["softmax"])
    fusion = fuse(graph)
    values = live_values(fusion, graph.outputs)
    assert [(v.start, v.end) for v in values] == [(0, 1), (1, 3), (2, 3)]
    assert set(plan(values).offsets) == {v.key for v in values}


# ---- run_passes and debugging -------------------------------------------------------------------------------


def test_run_passes_checks_and_reports():
    seen: list[str] = []
    graph = parse(GRAPHS["drop_no_ops"][1])
    after = run_passes(
        graph, [drop_no_ops, drop_dead], lambda name, old, new: seen.append(f"{name}: {changes(old, new)}")
    )
    assert [n.label for n in after.nodes if n.op] == ["add", "mul", "mul"]
    assert (
        seen[0]
        == "drop_no_ops: 17 -> 9 nodes: -1 add -1 cast -1 clone -1 mul -1 permute -1 reshape -1 slice -1 sub"
    )
    early = run_passes(graph, [drop_dead, drop_no_ops], stop_after="drop_dead")
    assert "reshape" in {n.label for n in early.nodes}


def test_a_pass_that_breaks_a_graph_is_named():
    def halve(graph: Graph) -> Graph:
        return graph.rebuild(
            lambda n, inputs: (
                Node(lookup("neg"), inputs, {}, n.aval) if len(inputs) == 2 else n.with_inputs(inputs)
            )
        )

    with pytest.raises(Exception) as info:
        run_passes(parse(GRAPHS["drop_no_ops"][1]), [halve])
    assert any("graph pass halve" in note for note in info.value.__notes__)


def test_debug_switches(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(ValueError, match="'loop' is not one of passes, graph"):
        from_environment({"TAPECAST_DEBUG": "passes, loop"})
    assert from_environment({}) == Debug()
    debug = from_environment({"TAPECAST_DEBUG": "passes", "TAPECAST_STOP_AFTER": "fuse"})
    assert debug.stop_after == "fuse"
    graph = parse(GRAPHS["drop_dead"][1])
    run_passes(graph, [drop_dead], debug.watch)
    assert capsys.readouterr().err == "--- passes: drop_dead\n5 -> 4 nodes: -1 log\n"
    files = from_environment({"TAPECAST_DEBUG": "all", "TAPECAST_DEBUG_DIR": str(tmp_path)})
    run_passes(graph, [drop_dead], files.watch)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "000-passes-drop_dead.txt",
        "001-graph-f_after_drop_dead.txt",
    ]


def test_every_debug_view_shows_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TAPECAST_DEBUG", "all")
    monkeypatch.setenv("TAPECAST_DEBUG_DIR", str(tmp_path))
    graph = parse(GRAPHS["drop_dead"][1])
    compile_graphs({"f": graph}, Options(target="x86-64-v2"))
    assert {p.name.split("-")[1] for p in tmp_path.iterdir()} == set(VIEWS)
    assert all(p.read_text().strip() for p in tmp_path.iterdir())


def test_bfloat16_constants_fold():
    value = np.array([1.0, 3.0], ml_dtypes.bfloat16)
    c = Node(
        None,
        aval=call("neg", Node(None, name="x")).single._replace(shape=(2,), dtype=value.dtype),
        value=value,
    )
    graph = fold_constants(Graph((), (), ()).with_outputs((call("neg", c),)))
    assert graph.outputs[0].value.tolist() == [-1.0, -3.0]


def test_rules_and_constants_together():
    """A division by 8 becomes a product with 0.125 once the reciprocal is folded."""
    graph = parse(
        """
graph f(%x: float32[n]) for n in 1..:
  %0 = const float32[] 8.0
  %1: float32[n] = div(%x, %0)
  return %1
"""
    )
    after = run_passes(graph, [apply_rules, fold_constants, drop_dead])
    assert [n.label for n in after.nodes] == ["x", "const", "mul"]
    assert after.nodes[1].value == 0.125
