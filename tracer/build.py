"""Making nodes without running anything: one op (`call`), or a rule written in public functions (`express`).

The public functions hand every op to the executor of the context. `Builder` is an executor that applies the
shape rule and makes a node, so rules written in public functions (`decompose`, `vjp`) build graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..eager import functional
from ..eager.modes import no_grad
from ..eager.ops import executor
from ..eager.ops.table import Op, lookup
from ..eager.ops.types import Aval, aval_of
from ..eager.tensor import Tensor
from .dims import no_floats
from .graph import ITEM, Node


class Symbol:
    """A value that stands for a node. It has a shape (sizes may be `Dim`s) and a dtype, and no contents."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape

    @property
    def dtype(self) -> Any:
        return self.node.dtype

    @property
    def ndim(self) -> int:
        return len(self.node.shape)

    @property
    def size(self) -> int:
        return self.node.single.size

    def concrete(self, reason: str) -> Any:
        """The contents, which a symbol has not: TypeError naming the node and the reader."""
        raise TypeError(
            f"{reason}: {self.node.label} has no contents while a graph is built; only its shape is known"
        )


class Builder:
    """An executor that makes a node of each op. `line` and `scope` go on every node it makes."""

    def __init__(self, line: str = "", scope: str = "") -> None:
        self.line, self.scope = line, scope
        self.constants: dict[int, Node] = {}

    def node_of(self, value: Any) -> Node:
        """The node of a symbol; for an array a constant, one for each array object."""
        if isinstance(value, Symbol):
            return value.node
        if id(value) not in self.constants:  # the node holds the array, so its id stays taken
            self.constants[id(value)] = self.constant(value)
        return self.constants[id(value)]

    def constant(self, array: Any) -> Node:
        return Node(None, aval=aval_of(array), value=array)

    def __call__(self, op: Op, values: Sequence[Any], attrs: dict[str, Any]) -> Any:
        node = call(op, *map(self.node_of, values), line=self.line, scope=self.scope, **attrs)
        return Symbol(node) if isinstance(node.aval, Aval) else tuple(map(Symbol, items(node)))


def call(op: Op | str, *nodes: Node, line: str = "", scope: str = "", **attrs: Any) -> Node:
    """One node: `op` (of the table, or its name) on `nodes`, typed by its shape rule, which may raise."""
    op = lookup(op) if isinstance(op, str) else op
    return Node(op, nodes, attrs, op.infer(*(n.single for n in nodes), **attrs), line=line, scope=scope)


def items(node: Node) -> tuple[Node, ...]:
    """A node for each output of an op that has several; the node itself for an op that has one."""
    if isinstance(node.aval, Aval):
        return (node,)
    return tuple(
        Node(ITEM, (node,), {"index": k}, aval, line=node.line, scope=node.scope)
        for k, aval in enumerate(node.aval)
    )


def express(
    rule: Callable[..., Any], *nodes: Node, line: str = "", scope: str = "", **attrs: Any
) -> Node | tuple[Node, ...]:
    """Run a rule in public functions, such as `op.decompose`, on nodes: `rule(F, *tensors, **attrs)`.

    Nothing is computed. Returns the node of the tensor that the rule returns; for several, a tuple.
    """
    builder = Builder(line, scope)
    with executor.use(builder), no_grad(), no_floats():
        out = rule(functional, *(tensor_of(Symbol(n)) for n in nodes), **attrs)
    if isinstance(out, (tuple, list)):
        return tuple(builder.node_of(t.array) for t in out)
    return builder.node_of(out.array)


def tensor_of(value: Any) -> Tensor:
    """A tensor that holds `value` (an array or a symbol) as it is, without a gradient."""
    return Tensor(value)
