"""Operations that give their operand back, bit for bit, disappear."""

from __future__ import annotations

from collections.abc import Callable

from ...eager.ops.types import is_floating
from ...tracer.check import same_type
from ...tracer.graph import Graph, Node
from ..constants import is_uniform


def drop_no_ops(graph: Graph) -> Graph:
    """Remove views and casts that change nothing, copies, dropout outside training, and x*1, x/1, x-0 and the
    like.

    Only what is exact for every operand: `x + 0.0` is kept, since it makes -0.0 a 0.0. An op that broadcasts
    its operand is no no-op. No graph algorithm: one walk in topological order sees chains, as operands come
    first.
    """
    return graph.rebuild(lambda n, inputs: same_as(n, inputs) or n.with_inputs(inputs))


def same_as(n: Node, inputs: tuple[Node, ...]) -> Node | None:
    """The operand that `n` equals; None where it does something."""
    rule = NO_OPS.get(n.op.name) if n.op else None
    k = rule(n, inputs) if rule else None
    return inputs[k] if k is not None and same_type(inputs[k].aval, n.aval) else None


# ---- one rule for each op: the number of the operand that the result is equal to ---------------------------

Rule = Callable[[Node, tuple[Node, ...]], int | None]


def same_shape_suffices(n: Node, inputs: tuple[Node, ...]) -> int | None:
    return 0


def identity_permutation(n: Node, inputs: tuple[Node, ...]) -> int | None:
    return 0 if n.attrs["dims"] == tuple(range(len(n.shape))) else None


def whole_slice(n: Node, inputs: tuple[Node, ...]) -> int | None:
    """A slice of the operand's own size begins at 0; with a step of 1 it is the operand."""
    return 0 if all(step == 1 for step in n.attrs["steps"]) else None


def neutral(value: float, either: bool = False) -> Rule:
    """The second operand is `value` everywhere (`either`: or the first is)."""

    def rule(n: Node, inputs: tuple[Node, ...]) -> int | None:
        if is_uniform(inputs[1], value):
            return 0
        return 1 if either and is_uniform(inputs[0], value) else None

    return rule


def adding_nothing(n: Node, inputs: tuple[Node, ...]) -> int | None:
    """For floats the zero that changes nothing is the negative one."""
    zero = -0.0 if is_floating(n.dtype) else 0
    return neutral(zero, either=True)(n, inputs) if n.dtype.kind != "c" else None


def no_dropout(n: Node, inputs: tuple[Node, ...]) -> int | None:
    return 0 if n.attrs.get("training") is False or n.attrs.get("p") == 0 else None


NO_OPS: dict[str, Rule] = {
    "expand": same_shape_suffices,
    "reshape": same_shape_suffices,
    "cast": same_shape_suffices,
    "clone": same_shape_suffices,
    "contiguous": same_shape_suffices,
    "sum_to": same_shape_suffices,
    "permute": identity_permutation,
    "slice": whole_slice,
    "dropout": no_dropout,
    "add": adding_nothing,
    "sub": neutral(0),
    "mul": neutral(1, either=True),
    "div": neutral(1),
    "pow": neutral(1),
}
