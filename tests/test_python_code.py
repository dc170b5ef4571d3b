"""`traced.code` is Python that computes what the graph means."""

import numpy as np
import pytest
from samples import SAMPLES

import tapecast as tc
from tapecast import nn
from tapecast.eager.ops.table import TABLE
from tapecast.eager.ops.types import aval_of
from tapecast.tracer.evaluate import evaluate
from tapecast.tracer.graph import ITEM, Graph, Node
from tapecast.tracer.python import python_code

CASES = [pytest.param(name, s, id=f"{name}-{k}") for name, v in SAMPLES.items() for k, s in enumerate(v[:2])]


def functions(code):
    scope = {}
    exec(code, scope)
    return scope


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_the_code_of_an_op_computes_the_op(name, sample):
    inputs = tuple(Node(None, aval=aval_of(a), name=f"x{k}") for k, a in enumerate(sample.args))
    op = TABLE[name]
    node = Node(op, inputs, sample.attrs, op.infer(*map(aval_of, sample.args), **sample.attrs))
    many = not hasattr(node.aval, "shape")
    outputs = (node,)
    if many:
        outputs = tuple(Node(ITEM, (node,), {"index": k}, aval) for k, aval in enumerate(node.aval))
    graph = Graph(inputs, (*inputs, node, *(outputs if many else ())), outputs)
    out = functions(python_code({"forward": graph}))["forward"]({}, *map(tc.tensor, sample.args))
    for found, wanted in zip(out if many else [out], evaluate(graph, sample.args), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_sizes_weights_and_state_of_a_model():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
    x = tc.randn(2, 1, 8, 8)
    traced = tc.jit.trace(model, (x,), dynamic={0: {0: "batch"}}, modes=("eval", "train"))
    state = [model[1].running_mean, model[1].running_var]
    code = functions(traced.code)
    bigger = tc.randn(5, 1, 8, 8)
    assert tc.equal(code["forward"](traced.weights, bigger, *state), traced(bigger))
    out, mean, _, count = code["forward_train"](traced.weights, bigger, *state, tc.tensor(0))
    traced.train()
    assert tc.equal(out, traced(bigger))
    assert tc.equal(mean, traced.program.tensors["1.running_mean"])
    assert count.item() == 1


def test_constants_and_formulas_of_sizes():
    def f(x, y):
        return x[:, ::2].softmax(-1) + float("inf") * (y > 0), x.reshape(-1, 2)

    dims = {0: {0: "b", 1: 2 * tc.Dim("n")}, 1: {0: "b", 1: "n"}}
    traced = tc.jit.trace(f, (tc.randn(3, 8), tc.randn(3, 4)), dynamic=dims)
    x, y = tc.randn(5, 6), -tc.rand(5, 3)
    for found, wanted in zip(functions(traced.code)["forward"]({}, x, y), traced(x, y), strict=True):
        assert tc.allclose(found, wanted, equal_nan=True)
    with pytest.raises(ValueError, match="the program wants 6"):
        functions(traced.code)["forward"]({}, tc.randn(5, 7), y)
