"""Every op of the table, on every sample: what is recorded, printed, read back and evaluated is what eager gives."""

from typing import Any

import numpy as np
import pytest
from samples import SAMPLES, Sample

from tapecast.eager import tape
from tapecast.eager.autograd import grad
from tapecast.eager.ops.executor import run_eagerly
from tapecast.eager.ops.table import TABLE
from tapecast.eager.ops.types import aval_of, is_differentiable
from tapecast.eager.tensor import Tensor
from tapecast.tracer.build import express
from tapecast.tracer.check import check
from tapecast.tracer.dims import Dim, size_text
from tapecast.tracer.evaluate import evaluate as run_graph, shape_at
from tapecast.tracer.graph import Graph, Node, topological
from tapecast.tracer.parse import parse
from tapecast.tracer.text import graph_text, weights_of
from tapecast.tracer.trace import trace

CASES = [pytest.param(name, s, id=f"{name}-{s!r}") for name, group in SAMPLES.items() for s in group]
pytestmark = pytest.mark.filterwarnings("ignore::tapecast.tracer.record.TracerWarning")


def same(found: Any, wanted: Any) -> None:
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def call(name: str, attrs: dict[str, Any]) -> Any:
    return lambda *xs: tape.apply(TABLE[name], *xs, **attrs)


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_recorded_is_eager(name: str, sample: Sample) -> None:
    wanted = run_eagerly(TABLE[name], sample.args, sample.attrs)
    traced = trace(call(name, sample.attrs), sample.args, check=False)
    text = graph_text(traced.graph)
    graph = check(parse(text, weights_of(traced.graph)))
    assert graph_text(graph) == text
    assert [n.op.name for n in graph.nodes if n.op] == [name]
    for found in (run_graph(graph, sample.args)[0], traced(*sample.args).array):
        same(found, wanted)


DIFFERENTIABLE = [
    pytest.param(name, s, id=f"{name}-{s!r}")
    for name, group in SAMPLES.items()
    for s in group[:2]
    if (TABLE[name].vjp or TABLE[name].decompose)
    and is_differentiable(run_eagerly(TABLE[name], s.args, s.attrs).dtype)
]


@pytest.mark.parametrize(("name", "sample"), DIFFERENTIABLE)
def test_a_recorded_gradient_is_eagers(name: str, sample: Sample) -> None:
    def gradients(*xs: Tensor) -> Any:
        wanted = [x for x in xs if x.requires_grad]
        out = tape.apply(TABLE[name], *xs, **sample.attrs)
        if not out.requires_grad:
            return out
        found = grad([out], wanted, [out.detach() * 0.5 + 1], allow_unused=True)
        return [g for g in found if g is not None]

    xs = [Tensor(a.copy(), requires_grad=is_differentiable(a.dtype)) for a in sample.args]
    traced = trace(gradients, tuple(xs), check=False)
    found, wanted = traced(*xs), gradients(*xs)
    for f, w in zip(*([v] if isinstance(v, Tensor) else v for v in (found, wanted)), strict=True):
        same(f.array, w.array)


ELEMENTWISE = [
    name
    for name, op in TABLE.items()
    if op.kind == "elementwise" and SAMPLES[name] and all(a.ndim for a in SAMPLES[name][0].args)
]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_ops_keep_a_dynamic_size(name: str) -> None:
    sample = SAMPLES[name][0]
    out = run_eagerly(TABLE[name], sample.args, sample.attrs)
    full = [k for k, a in enumerate(sample.args) if a.ndim == out.ndim and a.shape[0] == out.shape[0]]
    dynamic = {k: {0: Dim("n", min=0, max=64)} for k in full}
    names = [f"xs.{k}" for k in dynamic]
    traced = trace(
        call(name, sample.attrs), sample.args, dynamic=dict(zip(names, dynamic.values(), strict=True))
    )
    assert size_text(traced.graph.outputs[0].shape[0]) == "n"
    bigger = [np.concatenate([a, a]) if k in dynamic else a for k, a in enumerate(sample.args)]
    same(traced(*bigger).array, run_eagerly(TABLE[name], bigger, sample.attrs))


COMPOSITES = [
    pytest.param(name, s, id=f"{name}-{s!r}")
    for name, g in SAMPLES.items()
    for s in g
    if TABLE[name].decompose
]


@pytest.mark.parametrize(("name", "sample"), COMPOSITES)
def test_a_composite_expressed_in_nodes_is_its_run(name: str, sample: Sample) -> None:
    op = TABLE[name]
    inputs = [Node(None, aval=aval_of(a), name=f"x{k}") for k, a in enumerate(sample.args)]
    out = express(op.decompose, *inputs, line="model.py:3", scope="layer", **sample.attrs)
    assert isinstance(out, Node)
    graph = check(Graph(tuple(inputs), tuple(topological(inputs, [out])), (out,)))
    assert all((n.line, n.scope) == ("model.py:3", "layer") for n in graph.nodes if n.op)
    found, wanted = run_graph(graph, sample.args)[0], run_eagerly(op, sample.args, sample.attrs)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


def symbolic_inputs(sample: Sample) -> list[Node]:
    """Inputs like the sample's operands, with a symbolic first axis of the first."""
    shapes = [(Dim("n", max=64), *sample.args[0].shape[1:]), *(a.shape for a in sample.args[1:])]
    return [Node(None, aval=aval_of(a)._replace(shape=s)) for a, s in zip(sample.args, shapes, strict=True)]


def has_free_axis(name: str, sample: Sample) -> bool:
    """Whether the first operand has a first axis that no other operand and no attribute is tied to."""
    if not sample.args[0].ndim or not sample.args[0].shape[0]:
        return False
    try:
        TABLE[name].infer(*(i.single for i in symbolic_inputs(sample)), **sample.attrs)
    except (ValueError, RuntimeError, IndexError):
        return False
    return True


FREE = [p for p in COMPOSITES if has_free_axis(*p.values)]


def test_most_composites_have_a_free_axis() -> None:
    assert len(FREE) > len(COMPOSITES) / 2


@pytest.mark.parametrize(("name", "sample"), FREE)
def test_a_composite_is_expressed_for_every_size(name: str, sample: Sample) -> None:
    """With a symbolic axis the parts, which no size of an example entered, evaluate to what the op gives."""
    op, inputs = TABLE[name], symbolic_inputs(sample)
    if sample.attrs.get("correction") == 0.5:
        with pytest.raises(TypeError, match="needs the number behind the size n"):
            express(op.decompose, *inputs, **sample.attrs)
        return
    out = express(op.decompose, *inputs, **sample.attrs)
    assert isinstance(out, Node)
    graph = check(Graph(tuple(inputs), tuple(topological(inputs, [out])), (out,)))
    sizes = {"n": sample.args[0].shape[0]}
    found, wanted = run_graph(graph, sample.args, sizes=sizes)[0], run_eagerly(op, sample.args, sample.attrs)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    assert shape_at(out.single, sizes) == found.shape
