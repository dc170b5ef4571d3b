"""Is a graph well formed? Run after recording, after reading a text and after every pass."""

from __future__ import annotations

from collections import Counter

from ..eager.ops.types import Aval, aval_of
from .dims import same_shape
from .graph import ITEM, Graph, Node
from .text import type_text


class GraphError(ValueError):
    """A graph that breaks a rule of graphs: a defect of the pass that made it, not of the user's program."""


def check(graph: Graph) -> Graph:
    """The graph itself, once everything holds: order, types by each op's shape rule, outputs, state pairs.

    GraphError names the node, its user line, what the rule gives and what the node says.
    """
    _check_inputs(graph)
    defined: set[Node] = set()
    for n in graph.nodes:
        _check_order(n, defined)
        defined.add(n)
        check_node(n)
    for k, out in enumerate(graph.outputs):
        if out not in defined:
            raise GraphError(f"{graph.name}: output {k}, {described(out)}, is not among the nodes")
        out.single  # noqa: B018 (raises for a node with several outputs)
    _check_state(graph)
    return graph


def described(n: Node) -> str:
    """`conv2d at model.py:12 in layer1.0.conv`: how a message names a node."""
    return n.label + (f" at {n.line}" if n.line else "") + (f" in {n.scope}" if n.scope else "")


def _check_inputs(graph: Graph) -> None:
    declared, listed = list(graph.inputs), [n for n in graph.nodes if n.is_input]
    if Counter(declared) != Counter(listed):
        odd = next(n for n in declared + listed if declared.count(n) != 1 or listed.count(n) != 1)
        raise GraphError(f"{graph.name}: input {odd.label} must stand once among inputs and once among nodes")


def _check_order(n: Node, defined: set[Node]) -> None:
    if n in defined:
        raise GraphError(f"{described(n)} stands twice among the nodes")
    for i in n.inputs:
        if i not in defined:
            raise GraphError(f"{described(n)}: operand {described(i)} is used before it is defined")


def check_node(n: Node) -> None:
    """Compare the node's type with what its op's shape rule (or its array) gives."""
    if n.is_input:
        return
    wanted = aval_of(n.value) if n.op is None else _inferred(n)
    if not same_type(wanted, n.aval):
        raise GraphError(
            f"{described(n)}: it is {type_text(wanted)} by its rule, the node says {type_text(n.aval)}"
        )


def _inferred(n: Node) -> Aval | tuple[Aval, ...]:
    assert n.op is not None
    try:
        avals = (n.inputs[0].aval,) if n.op is ITEM else tuple(i.single for i in n.inputs)
        found: Aval | tuple[Aval, ...] = n.op.infer(*avals, **n.attrs)
    except Exception as error:
        raise GraphError(f"{described(n)}: {error}") from error
    return found


def same_type(a: Aval | tuple[Aval, ...], b: Aval | tuple[Aval, ...]) -> bool:
    """Equal dtypes and equal sizes, symbolic ones compared by formula."""
    if isinstance(a, Aval) and isinstance(b, Aval):
        return bool(a.dtype == b.dtype) and same_shape(a.shape, b.shape)
    if isinstance(a, Aval) or isinstance(b, Aval):
        return False
    return len(a) == len(b) and all(map(same_type, a, b))


def _check_state(graph: Graph) -> None:
    for i, o in graph.state:
        if not (0 <= i < len(graph.inputs) and 0 <= o < len(graph.outputs)):
            raise GraphError(
                f"{graph.name}: state pair ({i}, {o}) names an input or output that does not exist"
            )
        old, new = graph.inputs[i], graph.outputs[o]
        if not same_type(old.aval, new.aval):
            raise GraphError(f"{graph.name}: state {old.name} is {old.single}, its next value {new.single}")
    for end in (0, 1):
        if len({pair[end] for pair in graph.state}) != len(graph.state):
            raise GraphError(f"{graph.name}: an {('input', 'output')[end]} stands in two state pairs")
