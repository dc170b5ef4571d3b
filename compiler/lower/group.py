"""One kernel for one group: its root's value at every index, everything between it and buffers folded in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...eager.ops.types import dtype_name
from ...tracer.graph import Node
from ..loops import Body, Buffer, Const, Expr, For, Index, Kernel, Load, Store
from ..passes.fuse import Group
from ..sizes import size_expr, size_names
from .attention import attention
from .scalars import STATUS, LoopScalars, nest_allocs


class Place(NamedTuple):
    """Where a materialised value lives: its buffer's name, role, and the order its axes are stored in."""

    name: str
    role: str
    order: tuple[int, ...]


class Reader:
    """A value as a function of an index: a load where it has a place, its rule where it has not."""

    def __init__(self, lowering: _Lowering, node: Node) -> None:
        self.lowering, self.node = lowering, node
        self.shape, self.ndim = node.shape, len(node.shape)
        self.dtype = dtype_name(node.dtype)

    def __call__(self, *index: Expr) -> Expr:
        return self.lowering.read(self.node, index)


def lower_group(group: Group, places: Mapping[Node, Place], name: str) -> Kernel:
    """The canonical kernel of `group`. `places` has an entry for the root and every value read from a buffer."""
    return _Lowering(group, places).kernel(name)


class _Lowering:
    def __init__(self, group: Group, places: Mapping[Node, Place]) -> None:
        self.root, self.places, self.inside = group.root, places, set(group.nodes)
        self.s = LoopScalars()
        self.used: dict[str, Buffer] = {}

    def kernel(self, name: str) -> Kernel:
        place = self.places[self.root]
        if self.root.op is not None and self.root.op.name == "scaled_dot_product_attention":
            body = attention(self.root, self.read, place.name, place.order)
            return self.finished(name, body, place)
        index = tuple(Index(f"i{axis}") for axis in range(len(self.root.shape)))
        with self.s.block() as stmts:
            value = self.compute(self.root, index)
            self.s.emit(Store(place.name, tuple(index[a] for a in place.order), value))
        body = nest_allocs(stmts)
        for axis in reversed(place.order):
            body = (For(f"i{axis}", size_expr(self.root.shape[axis]), "serial", body),)
        return self.finished(name, body, place)

    def finished(self, name: str, body: Body, place: Place) -> Kernel:
        self.buffer(self.root, place)
        if self.s.reports:
            self.used[STATUS] = Buffer(STATUS, (Const(1),), "int32", "status")
        buffers = tuple(self.used.values())
        return Kernel(name, buffers, size_names(buffers, body), body)

    def buffer(self, node: Node, place: Place) -> None:
        shape = tuple(size_expr(node.shape[a]) for a in place.order)
        self.used[place.name] = Buffer(place.name, shape, dtype_name(node.dtype), place.role)

    def read(self, node: Node, index: tuple[Expr, ...]) -> Expr:
        """The value of `node` at `index`, computed once per block and index."""
        if node.is_const and node.shape == ():
            return self.s.const(node.value, dtype_name(node.dtype))
        if node in self.places and node is not self.root:
            return self.load(node, index)
        key = (node, index)
        known = self.s.recall(key)
        return known if known is not None else self.s.keep(key, self.compute(node, index))

    def load(self, node: Node, index: tuple[Expr, ...]) -> Expr:
        place = self.places[node]
        self.buffer(node, place)
        return Load(place.name, tuple(index[a] for a in place.order), dtype_name(node.dtype))

    def compute(self, node: Node, index: tuple[Expr, ...]) -> Expr:
        if node.op is None or node not in self.inside:
            raise KeyError(f"{node.label} is read by the group of {self.root.label} but has no buffer")
        readers = [Reader(self, i) for i in node.inputs]
        if node.op.kind == "elementwise" and node.op.scalar is not None:
            return self.elementwise(node, index, readers)
        if node.op.element is None:
            raise NotImplementedError(
                f"{node.op.name} (at {node.line or 'an unknown line'}) cannot be compiled: a numerical "
                f"library computes it as a whole; compute it outside the compiled model, or write it otherwise"
            )
        return node.op.element(self.s, index, *readers, **node.attrs)

    def elementwise(self, node: Node, index: tuple[Expr, ...], readers: list[Reader]) -> Expr:
        rule = node.op.scalar if node.op else None
        assert rule is not None
        return rule(self.s, *(r(*self.aligned(r, index)) for r in readers), **node.attrs)

    def aligned(self, reader: Reader, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        tail = index[len(index) - reader.ndim :]
        return tuple(Const(0) if n == 1 else i for n, i in zip(reader.shape, tail, strict=True))
