"""The schedule of everything that is not a sum of products: element-wise chains, reductions, pooling, gathers.

Element-wise work runs in vectors along the axis stored last, after neighbouring axes that every operand walks
alike were merged into one. A reduction along a contiguous axis keeps one partial sum a lane and adds the lanes
at the end; any other reduction runs a vector of results side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from .. import loops
from ..affine import stride
from ..loops import (
    Access,
    Accumulate,
    Alloc,
    Body,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Load,
    Scalar,
    Size,
    Stmt,
    Store,
    add,
    const,
    floordiv,
    less,
    map_access,
    minimum,
    mod,
    mul,
    statements,
    sub,
    substitute,
)
from .machine import GRAIN, Machine
from .steps import flatten, parallel, unwrap, wrap

#: Elements of one cell of work: small enough to share out evenly, long enough to stream.
CELL = 1024


def schedule_stream(kernel: Kernel, machine: Machine) -> Kernel:
    kernel = collapse(kernel)
    nest, body = unwrap(kernel.body)
    buffers = {b.name: b for b in kernel.buffers}
    nest = _best_last(nest, body, buffers, machine.lanes)
    sums = _reductions(body)
    if not nest:
        return kernel.replace(body=_lane_sums(body, buffers, machine.lanes))
    if sums and along_sum(body, sums, buffers, nest[-1].var):
        cells = nest
        body = _lane_sums(body, buffers, machine.lanes)
    else:
        chunks, body = _vectors(nest[-1], body, machine.lanes)
        cells = [*nest[:-1], chunks]
    extent, change = flatten(cells, "cell")
    parts = _parts(extent, _cost(body))
    sizes = tuple(sorted({*kernel.sizes, *(["threads"] if parts != const(1) else [])}))
    return kernel.replace(body=parallel(extent, "cell", parts, change(body)), sizes=sizes)


def _parts(extent: Expr, cost: int) -> Expr:
    worth = floordiv(mul(extent, const(cost)), const(GRAIN))
    if isinstance(worth, Const):
        return const(1) if worth.value < 2 else minimum(Size("threads"), worth)
    return minimum(Size("threads"), loops.maximum(worth, const(1)))


def _best_last(nest: list[For], body: Body, buffers: Mapping[str, Buffer], lanes: int) -> list[For]:
    """The nest with the loop innermost that most accesses go through element by element: the one for vectors.

    A transposed copy so gathers on the side where there is less. Without a clear winner the last axis stays.
    """

    def score(loop: For) -> float:
        accesses = [(b, i) for b, i in _places(body) if b in buffers]
        unit = sum(stride(Load(b, i, ""), buffers, loop.var) == const(1) for b, i in accesses)
        filled = min(int(loop.extent.value), lanes) / lanes if isinstance(loop.extent, Const) else 1.0
        return unit * filled

    if not nest:
        return nest
    best = max(reversed(nest), key=score)
    return [x for x in nest if x is not best] + [best]


#: What a scalar function costs in multiply-adds, roughly.
_COSTS = {
    "exp": 12,
    "log": 14,
    "tanh": 20,
    "sigmoid": 16,
    "erf": 24,
    "sin": 20,
    "cos": 20,
    "pow": 40,
    "div": 4,
    "sqrt": 6,
}


def _cost(body: Body) -> int:
    """Multiply-adds one run of `body` is worth: loops multiply, a dynamic extent counts as CELL."""
    total = 0
    for s in body:
        match s:
            case For(_, extent, kind, inner):
                n = int(extent.value) if isinstance(extent, Const) else CELL // 16
                total += max(1, n // 8 if kind == "vector" else n) * _cost(inner)
            case If() | Alloc():
                total += _cost(s.body)
            case _:
                for e in loops.expressions((s,)):
                    total += _COSTS.get(e.op, 1) if isinstance(e, Scalar) else int(isinstance(e, Load))
    return max(total, 1)


# ---- element-wise: vectors along the last axis --------------------------------------------------------------------


def _vectors(last: For, body: Body, lanes: int) -> tuple[For, Body]:
    """The loop over chunks of the last axis, and the vectors (and the masked rest) of one chunk `m`."""
    n = last.extent
    if isinstance(n, Const) and n.value <= CELL:
        return For("m", const(1), "serial", ()), _vector_range(last, body, const(0), n, lanes)
    start = mul(Index("m"), const(CELL))
    count = minimum(const(CELL), sub(n, start))
    return For("m", loops.ceildiv(n, CELL), "serial", ()), _vector_range(last, body, start, count, lanes)


def _vector_range(last: For, body: Body, start: Expr, count: Expr, lanes: int) -> Body:
    """`body` for start .. start+count-1 of the last axis: whole vectors, then a masked one."""
    full, rest = floordiv(count, const(lanes)), mod(count, const(lanes))

    def vector(first: Expr, guard: Expr | None) -> Body:
        inner = substitute(body, last.var, add(add(start, first), Index("l")))
        inner = inner if guard is None else (If(less(Index("l"), guard), inner),)
        return (For("l", const(lanes), "vector", inner),)

    out: Body = ()
    if full != const(0):
        out = (For("v", full, "serial", vector(mul(Index("v"), const(lanes)), None)),)
    if rest != const(0):
        tail = vector(mul(full, const(lanes)), rest)
        out = (*out, *(tail if isinstance(rest, Const) else (If(less(const(0), rest), tail),)))
    return out


# ---- reductions along a contiguous axis: a partial sum a lane --------------------------------------------------


def _reductions(body: Body) -> list[For]:
    return [s for s in statements(body) if isinstance(s, For)]


def along_sum(body: Body, sums: list[For], buffers: Mapping[str, Buffer], column: str) -> bool:
    """Do the reduced operands lie along a loop of the reduction rather than along the output's last axis?"""
    loads = [e for e in loops.expressions(tuple(sums)) if isinstance(e, Load) and e.buffer in buffers]
    inner = {k.var for k in sums}
    across = any(stride(x, buffers, column) == const(1) for x in loads)
    along = any(stride(x, buffers, k) == const(1) for x in loads for k in inner)
    return along and not across


def _lane_sums(body: Body, buffers: Mapping[str, Buffer], lanes: int) -> Body:
    """Every innermost reduction loop with a contiguous operand as `lanes` partial sums, added at the end."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case For(var, _, "serial", (Accumulate(acc, (), op, _),)) if _contiguous(s, buffers):
                out.extend(_lane_sum(s, acc, op, lanes, var))
            case For() | If() | Alloc():
                out.append(s.replace(body=_lane_sums(s.body, buffers, lanes)))
            case _:
                out.append(s)
    return tuple(out)


def _contiguous(loop: For, buffers: Mapping[str, Buffer]) -> bool:
    loads = [e for e in loops.expressions(loop.body) if isinstance(e, Load) and e.buffer in buffers]
    return any(stride(x, buffers, loop.var) == const(1) for x in loads)


def _lane_sum(loop: For, acc: str, op: str, lanes: int, var: str) -> Body:
    from ..lower.scalars import identity

    (term,) = loop.body
    assert isinstance(term, Accumulate)
    n, dtype, part = loop.extent, term.value.dtype, f"lane_{acc}"
    full = floordiv(n, const(lanes))
    at = add(mul(Index(f"{var}v"), const(lanes)), Index("l"))
    step = substitute((term.replace(buffer=part),), var, at)
    inner: Body = (
        Store(part, (), Const(identity(op, dtype), dtype)),
        For(f"{var}v", full, "serial", step),
        Accumulate(acc, (), op, Load(part, (), dtype)),
    )
    out: Body = ()
    if full != const(0):
        out = (For("l", const(lanes), "vector", (Alloc(part, (), dtype, "register", inner),)),)
    rest = mod(n, const(lanes))
    if rest != const(0):
        tail = substitute((term,), var, add(mul(full, const(lanes)), Index(f"{var}r")))
        out = (*out, For(f"{var}r", rest, "serial", tail))
    return out


# ---- merging axes ---------------------------------------------------------------------------------------------


def collapse(kernel: Kernel) -> Kernel:
    """Merge neighbouring loops that every buffer is walked by alike, in full, or not at all: the fewer axes, the
    longer the vectors. Loops of one iteration go."""
    kernel = kernel.replace(body=_without_single(kernel.body))
    while True:
        nest, _ = unwrap(kernel.body)
        for outer, inner in pairwise(nest):
            merged = _merge(kernel, outer, inner)
            if merged is not None:
                kernel = merged
                break
        else:
            return kernel


def _without_single(body: Body) -> Body:
    nest, inner = unwrap(body)
    for loop in nest:
        if loop.extent == const(1):
            inner = substitute(inner, loop.var, const(0))
    return wrap([x for x in nest if x.extent != const(1)], inner)


def _merge(kernel: Kernel, outer: For, inner: For) -> Kernel | None:
    nest, body = unwrap(kernel.body)
    places = _places(body)
    shapes = {b.name: b.shape for b in kernel.buffers}
    axes: dict[str, int] = {}
    for buffer, index in places:
        at = _pair(index, shapes.get(buffer, ()), outer, inner)
        if at is None or axes.setdefault(buffer, at) != at:
            return None
    both = {e.var for e in loops.expressions(body) if isinstance(e, Index)} & {outer.var, inner.var}
    if both and _used_elsewhere(body, outer.var, inner.var):
        return None
    extent = mul(outer.extent, inner.extent)
    fused = _rewrite(body, axes, inner.var)
    loops_left = [For(inner.var, extent, "serial", ()) if x is inner else x for x in nest if x is not outer]
    for loop in reversed(loops_left):
        fused = (loop.replace(body=fused),)
    buffers = tuple(
        b.replace(shape=(*b.shape[:k], extent, *b.shape[k + 2 :])) if (k := axes.get(b.name, -1)) >= 0 else b
        for b in kernel.buffers
    )
    return kernel.replace(buffers=buffers, body=fused)


def _places(body: Body) -> list[Access]:
    """Every (buffer, index) that is read or written."""
    out = [(e.buffer, e.index) for e in loops.expressions(body) if isinstance(e, Load)]
    for s in statements(body):
        if isinstance(s, (Store, Accumulate)):
            out.append((s.buffer, s.index))
    return out


def _pair(index: tuple[Expr, ...], shape: tuple[Expr, ...], outer: For, inner: For) -> int | None:
    """Where `outer, inner` stand side by side and in full in an index; -1: neither stands anywhere; None: otherwise."""
    used = [k for k, e in enumerate(index) if loops.depends_on(e, {outer.var, inner.var})]
    if not used:
        return -1
    k = used[0]
    whole = index[k : k + 2] == (Index(outer.var), Index(inner.var)) and len(used) == 2
    return k if whole and shape[k : k + 2] == (outer.extent, inner.extent) else None


def _used_elsewhere(body: Body, outer: str, inner: str) -> bool:
    """Are the variables used other than as whole indices (in a comparison, a value, another index)?"""
    stripped = map_access(body, lambda b, index: (b, ()))
    return any(isinstance(e, Index) and e.var in (outer, inner) for e in loops.expressions(stripped))


def _rewrite(body: Body, axes: Mapping[str, int], inner: str) -> Body:
    """Every access with the loop `inner` in place of the two axes that were merged, where a buffer has them."""

    def merged(buffer: str, index: tuple[Expr, ...]) -> Access:
        k = axes.get(buffer, -1)
        return buffer, (*index[:k], Index(inner), *index[k + 2 :]) if k >= 0 else index

    return map_access(body, merged)
