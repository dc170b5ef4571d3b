"""One kernel for one group: its root's value at every index, everything between it and buffers folded in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...eager.ops.types import dtype_name
from ...tracer.graph import Node
from ..loops import Body, Buffer, Const, Expr, For, If, Index, Kernel, Load, Scalar, Store, add, const, less
from ..passes.fuse import Group
from ..sizes import size_expr, size_names
from ..winograd import Winograd
from .attention import attention
from .scalars import STATUS, LoopScalars, nest_allocs
from .winograd import KERNELS, SUMS, TILES, winograd


class Place(NamedTuple):
    """Where a materialised value lives: its buffer's name, role, and the order its axes are stored in.

    In a buffer larger than itself: the shape of that one, and how far into it the value begins along each axis.
    """

    name: str
    role: str
    order: tuple[int, ...]
    before: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()

    def at(self, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The index of an element in the buffer."""
        moved = tuple(map(add, index, map(const, self.before))) if self.before else index
        return tuple(moved[a] for a in self.order)


class Reader:
    """A value as a function of an index: a load where it has a place, its rule where it has not."""

    def __init__(self, lowering: _Lowering, node: Node) -> None:
        self.lowering, self.node = lowering, node
        self.shape, self.ndim = node.shape, len(node.shape)
        self.dtype = dtype_name(node.dtype)

    def __call__(self, *index: Expr) -> Expr:
        return self.lowering.read(self.node, index)


def lower_group(
    group: Group, places: Mapping[Node, Place], name: str, tiles: Winograd | None = None
) -> Kernel:
    """The canonical kernel of `group`. `places` has an entry for the root and every value read from a buffer.

    `tiles`: the group's convolution is computed by F(2×2, 3×3), in workspace of the kernel's own (TILES, SUMS).
    """
    return _Lowering(group, places, tiles).kernel(name)


def copy_kernel(node: Node, source: Place, target: Place, name: str) -> Kernel:
    """A kernel that moves a value from one place to another, whose axes may lie in another order."""
    index = tuple(Index(f"i{axis}") for axis in range(len(node.shape)))
    dtype = dtype_name(node.dtype)
    body: Body = (Store(target.name, target.at(index), Load(source.name, source.at(index), dtype)),)
    for axis in reversed(target.order):
        body = (For(f"i{axis}", size_expr(node.shape[axis]), "serial", body),)
    buffers = tuple(
        Buffer(p.name, tuple(size_expr((p.shape or node.shape)[a]) for a in p.order), dtype, p.role)
        for p in (source, target)
    )
    return Kernel(name, buffers, size_names(buffers, body), body)


class _Lowering:
    def __init__(self, group: Group, places: Mapping[Node, Place], tiles: Winograd | None = None) -> None:
        self.root, self.places, self.inside, self.tiles = group.root, places, set(group.nodes), tiles
        self.given: Expr | None = None  # the value of the convolution that `tiles` computes, where it is read
        self.s = LoopScalars()
        self.used: dict[str, Buffer] = {}

    def kernel(self, name: str) -> Kernel:
        root, place = self.root, self.places[self.root]
        if root.op is not None and root.op.name == "scaled_dot_product_attention":
            body = attention(root, self.read, self.store)
        elif self.tiles is not None:
            body = self.by_tiles(self.tiles)
        else:
            index = tuple(Index(f"i{axis}") for axis in range(len(root.shape)))
            body = self.border(index) if self.is_border() else self.value(index)
            for axis in reversed(place.order):
                body = (For(f"i{axis}", size_expr(root.shape[axis]), "serial", body),)
        self.buffer(root, place)
        if self.s.reports:
            self.used[STATUS] = Buffer(STATUS, (Const(1),), "int32", "status")
        buffers = tuple(self.used.values())
        return Kernel(name, buffers, size_names(buffers, body), body)

    def store(self, index: tuple[Expr, ...], value: Expr) -> Store:
        place = self.places[self.root]
        return Store(place.name, place.at(index), value)

    def by_tiles(self, w: Winograd) -> Body:
        """The group with its convolution by F(2×2, 3×3)."""

        def result(index: tuple[Expr, ...], value: Expr) -> Body:
            self.given = value
            return self.value(index)

        (x, weight) = w.conv.inputs
        out, channels = map(int, weight.shape[:2])
        body = winograd(w, lambda index: self.read(x, index), result)
        for name, role, shape in (
            (TILES, "temp", (w.parts, 16, w.block, channels)),
            (SUMS, "temp", (w.parts, 16, w.block, out)),
            (KERNELS, "weight", (16, channels, out)),
        ):
            self.used[name] = Buffer(name, tuple(map(const, shape)), "float32", role)
        return body

    def value(self, index: tuple[Expr, ...]) -> Body:
        """The root's value at `index`, stored."""
        with self.s.block() as stmts:
            self.s.emit(self.store(index, self.compute(self.root, index)))
        return nest_allocs(stmts)

    def is_border(self) -> bool:
        """Whether the root is a pad in whose middle its operand is already (`hosts.py`)."""
        inputs = self.root.inputs
        inner = self.places.get(inputs[0]) if inputs else None
        return inner is not None and inner.name == self.places[self.root].name

    def border(self, index: tuple[Expr, ...]) -> Body:
        """What a pad puts around its operand, which is left alone."""
        (inner,), attrs = self.root.inputs, self.root.attrs
        outside: list[Expr] = []
        for i, size, before, after in zip(index, inner.shape, attrs["before"], attrs["after"], strict=True):
            if before:
                outside.append(less(i, const(before)))
            if after:
                outside.append(less(add(size_expr(size), const(before - 1)), i))
        cond: Expr = Const(False, "bool")
        for side in outside:
            cond = Scalar("logical_or", (cond, side), "bool")
        return (If(cond, (self.store(index, self.s.const(attrs["value"], dtype_name(self.root.dtype))),)),)

    def buffer(self, node: Node, place: Place) -> None:
        whole = place.shape or node.shape
        shape = tuple(size_expr(whole[a]) for a in place.order)
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
        return Load(place.name, place.at(index), dtype_name(node.dtype))

    def compute(self, node: Node, index: tuple[Expr, ...]) -> Expr:
        if self.tiles is not None and node is self.tiles.conv:
            assert self.given is not None
            return self.given
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
