"""Reshapes and permutations move below elementwise operations, towards a buffer, where they cost nothing.

What stood between a product and its bias, activation or residual is then out of the way of fusing them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...tracer.build import call
from ...tracer.dims import same_shape, same_size
from ...tracer.graph import Graph, Node
from ..strides import common_prefix

Shape = tuple[int, ...]


def sink_views(graph: Graph) -> Graph:
    """`f(reshape(x), y)` becomes `reshape(f(x, reshape(y)))`, and `f(permute(x))` becomes `permute(f(x))`.

    Only where the view is of a computed value, as one of an input or constant is free already; and where the
    other operands follow: for a permutation they have no axes, for a reshape all or none of the axes it changes.
    Reductions let a reshape of other axes than theirs pass, too. Exact: the same elements are computed in the
    same order. No graph algorithm: in topological order a view moves below a whole chain in one walk, as each
    operation sees the views of its operands already moved.
    """
    heavy: dict[Node, bool] = {}

    def sink(n: Node, inputs: tuple[Node, ...]) -> Node:
        made = sunk(n, inputs, heavy) or n.with_inputs(inputs)
        carries(made, heavy)
        return made

    return graph.rebuild(sink)


def carries(n: Node, heavy: dict[Node, bool]) -> bool:
    """Is `n` a reduction or contraction, or what elementwise operations and views make of one? `heavy`: known."""
    if n not in heavy:
        kind = n.op.kind if n.op else ""
        passes_on = kind in ("elementwise", "view") and any(carries(i, heavy) for i in n.inputs)
        heavy[n] = kind in ("reduce", "contract") or passes_on
    return heavy[n]


def sunk(n: Node, inputs: tuple[Node, ...], heavy: dict[Node, bool]) -> Node | None:
    """`n` computed above the views of an operand; None where its operands do not allow that."""
    if n.op is None or n.op.kind not in ("elementwise", "reduce"):
        return None
    if n.op.kind == "reduce":
        return reduced_before(n, inputs[0])
    full = [k for k, i in enumerate(inputs) if is_view_of_computed(i) and same_shape(i.shape, n.shape)]
    return next((made for k in full if (made := sunk_below(n, inputs, k, heavy))), None)


def sunk_below(n: Node, inputs: Sequence[Node], k: int, heavy: dict[Node, bool]) -> Node | None:
    """Move the views of operand k, as many as there are one upon the other, below `n`."""
    assert n.op is not None
    views: list[Node] = []
    operands = list(inputs)
    while is_view_of_computed(operands[k]):
        moved = [before(i, operands[k], heavy) for i in operands]
        if None in moved:
            break
        views.append(operands[k])
        operands = [i for i in moved if i is not None]
    if not views:
        return None
    out = call(n.op, *operands, line=n.line, scope=n.scope, **n.attrs)
    for view in reversed(views):
        assert view.op is not None
        out = call(view.op, out, line=n.line, scope=n.scope, **view.attrs)
    return out


def reduced_before(n: Node, view: Node) -> Node | None:
    """A reduction over axes that the reshape keeps, taken before it."""
    if n.op is None or "axes" not in n.attrs or not (is_reshape(view) and is_view_of_computed(view)):
        return None
    inner, outer = view.inputs[0].shape, view.shape
    kept = common_prefix(inner[::-1], outer[::-1])
    if any(axis < len(outer) - kept for axis in n.attrs["axes"]):
        return None
    axes = tuple(axis - len(outer) + len(inner) for axis in n.attrs["axes"])
    total = call(n.op, view.inputs[0], line=n.line, scope=n.scope, axes=axes)
    return call("reshape", total, line=n.line, scope=n.scope, shape=n.shape)


def is_reshape(n: Node) -> bool:
    return n.op is not None and n.op.name == "reshape"


def is_view_of_computed(n: Node) -> bool:
    return n.op is not None and n.op.name in ("reshape", "permute") and n.inputs[0].op is not None


def before(i: Node, view: Node, heavy: dict[Node, bool]) -> Node | None:
    """The operand as it is read above the view instead of below it; None where it cannot be."""
    if i is view:
        return view.inputs[0]
    if i.shape == ():
        return i
    if not is_reshape(view):
        return i.inputs[0] if i.op is view.op and i.attrs == view.attrs else None
    inner, outer = view.inputs[0].shape, view.shape
    if is_reshape(i) and same_shape(i.shape, outer) and same_shape(i.inputs[0].shape, inner):
        return i.inputs[0]
    shape = shape_before(i.shape, inner, outer)
    if shape is None or same_shape(shape, i.shape):
        return None if shape is None else i
    # A reshape of a computed value costs a buffer: worth it to bring a reduction and what follows it together.
    costly = i.op is not None and not is_reshape(i)
    if costly and (carries(i, heavy) or not carries(view, heavy)):
        return None
    return call("reshape", i, line=i.line, scope=i.scope, shape=shape)


def shape_before(shape: Shape, inner: Shape, outer: Shape) -> Shape | None:
    """The shape in which an operand of `shape`, broadcast to `outer`, broadcasts to `inner`, with equal elements.

    The last axes, which inner and outer share, stay as the operand has them. Of the axes before, which the
    reshape divides differently, it must have all or none.
    """
    kept = common_prefix(inner[::-1], outer[::-1])
    cut = max(len(shape) - kept, 0)
    lead, tail = shape[:cut], shape[cut:]
    if all(same_size(n, 1) for n in lead):
        return tail
    if same_shape(lead, outer[: len(outer) - kept]):
        return (*inner[: len(inner) - kept], *tail)
    return None
