"""A batch norm with fixed statistics is a scale and a shift, which the layer before it can take into its
weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...eager.ops.types import aval_of
from ...tracer.build import call
from ...tracer.graph import Graph, Node


def fold_batch_norm(graph: Graph) -> Graph:
    """Fold `batch_norm` into a convolution, linear or matmul before it that nothing else reads.

    The new weights are computed in float64 and rounded once; results differ from those of the separate steps
    by rounding. Runs before `decompose`, which takes the batch norm apart. No graph algorithm: the pattern is
    a chain."""
    users = graph.consumers()
    kept = set(graph.outputs)

    def fold(n: Node, inputs: tuple[Node, ...]) -> Node:
        alone = n.op is not None and n.op.name == "batch_norm" and is_private(n.inputs[0], users, kept)
        return (folded(n, inputs) if alone else None) or n.with_inputs(inputs)

    return graph.rebuild(fold)


def is_private(n: Node, users: dict[Node, list[Node]], kept: set[Node]) -> bool:
    """Is `n`, and the layer below a bias, read once and no output?"""
    once = len(users[n]) == 1 and n not in kept
    below = (
        n.op is None
        or n.op.name != "add"
        or all(is_private(i, users, kept) for i in n.inputs if not i.is_const)
    )
    return once and below


class Layer(NamedTuple):
    """x -> op(x, weight) + bias. `channels`: the axis of the weight that batch norm sees as channels."""

    node: Node
    bias: Any
    channels: int


def folded(n: Node, inputs: tuple[Node, ...]) -> Node | None:
    """The layer with the batch norm in its weights; None where there is no such layer or it is not
    constant.
    """
    layer = layer_of(inputs[0])
    if layer is None or not all(i.is_const for i in (layer.node.inputs[1], *inputs[1:])):
        return None
    scale, shift = scale_and_shift(inputs[1:], n.attrs["eps"])
    weight = wide(layer.node.inputs[1])
    along = tuple(-1 if d == layer.channels else 1 for d in range(weight.ndim))
    new = weight * scale.reshape(along)
    bias = layer.bias * scale + shift
    return layer_with(layer.node, constant(new, layer.node.inputs[1]), bias, n)


def scale_and_shift(statistics: tuple[Node, ...], eps: float) -> tuple[Any, Any]:
    """`batch_norm(x) = x * scale + shift`, in float64."""
    mean, var, *affine = map(wide, statistics)
    scale = 1 / np.sqrt(var + eps)
    if affine:
        scale = scale * affine[0]
    return scale, (affine[1] if len(affine) == 2 else 0.0) - mean * scale


def layer_of(n: Node) -> Layer | None:
    """The layer that `n` is the output of, its bias included."""
    if n.op is None:
        return None
    if n.op.name == "add":
        return with_bias(n)
    bias = wide(n.inputs[2]) if n.op.name == "linear" and len(n.inputs) == 3 and n.inputs[2].is_const else 0.0
    fits = {"conv2d": True, "linear": len(n.shape) == 2, "matmul": len(n.shape) == 2}.get(n.op.name, False)
    if not fits or (n.op.name == "linear" and len(n.inputs) == 3 and not n.inputs[2].is_const):
        return None
    return Layer(n, bias, channels=1 if n.op.name == "matmul" else 0)


def with_bias(n: Node) -> Layer | None:
    """`add(layer, bias)` for a constant with one element per channel."""
    for below, bias in (n.inputs, n.inputs[::-1]):
        if bias.is_const and bias.single.size == n.shape[1] and bias_shape(n) == without_lead(bias.shape):
            layer = layer_of(below)
            return layer and layer._replace(bias=layer.bias + wide(bias).reshape(-1))
    return None


def bias_shape(n: Node) -> tuple[int, ...]:
    """The shape with which one element per channel is added: [C] for rows, [C, 1, 1] for images."""
    return (n.shape[1], *(1,) * (len(n.shape) - 2))


def without_lead(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without a batch axis of size 1."""
    return shape[1:] if len(shape) in (2, 4) and shape[0] == 1 else shape


def layer_with(layer: Node, weight: Node, bias: Any, n: Node) -> Node:
    """The layer with another weight and bias, in place of the batch norm `n`."""
    assert layer.op is not None
    at: dict[str, str] = {"line": layer.line, "scope": layer.scope}
    if layer.op.name == "linear":
        return call(layer.op, layer.inputs[0], weight, constant(bias, weight), **at)
    out = call(layer.op, layer.inputs[0], weight, **at, **layer.attrs)
    return call("add", out, constant(bias.reshape(bias_shape(n)), weight), line=n.line, scope=n.scope)


def wide(n: Node) -> Any:
    return np.asarray(n.value, "float64")


def constant(value: Any, like: Node) -> Node:
    """A constant of the dtype, line and scope of another."""
    array = np.asarray(value).astype(like.dtype)
    return Node(None, aval=aval_of(array), value=array, line=like.line, scope=like.scope)
