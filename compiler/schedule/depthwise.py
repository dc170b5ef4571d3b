"""The schedule of small sums in which every column has operands of its own: depthwise convolutions, channels last.

    cells = rows outside × pairs of rows × vectors of channels, cut in equal parts for the threads
      serial strips of 4 pixels:
        tile acc[2 rows][4 pixels]: unrolled over the window, so that a pixel loaded once feeds up to 6 accumulators
        store epilogue(acc)

The weights, at most WINDOW of them for a channel, are packed at build time as columns of vectors are read and stay in
registers along a row; a row of input is read for two rows of output.
"""

from __future__ import annotations

from .. import loops
from ..affine import stride
from ..loops import (
    Accumulate,
    Alloc,
    Body,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Load,
    Scalar,
    Size,
    add,
    const,
    floordiv,
    less,
    minimum,
    mod,
    mul,
    statements,
    substitute,
)
from .contract import Contraction, Pack, chain, packing, with_packed
from .machine import GRAIN, PANEL, Machine
from .steps import flatten, jam, parallel, strip, unwrap

#: Terms of a sum that is written out: 3 × 3 and 5 × 5 windows, not 7 × 7.
WINDOW = 25

ROWS, PIXELS = 2, 4


def match_depthwise(kernel: Kernel) -> Contraction | None:
    """`… for row: for pixel: for channel: acc = sum of x * w` with both operands side by side along the channels."""
    nest, body = unwrap(kernel.body)
    if len(nest) < 3 or len(body) != 1 or not isinstance(body[0], Alloc):
        return None
    acc, column = body[0], nest[-1]
    at = next((i for i, s in enumerate(acc.body) if isinstance(s, For)), None)
    if at is None or any(
        isinstance(s, (For, Alloc)) for s in (*acc.body[:at], *statements(acc.body[at + 1 :]))
    ):
        return None
    sums, term = chain(acc.body[at])
    buffers = {b.name: b for b in kernel.buffers}
    match term:
        case Accumulate(name, (), "add", Scalar("mul", (Load() as x, Load() as w), "float32")) if (
            name == acc.buffer
        ):
            pass
        case _:
            return None
    if not all(isinstance(k.extent, Const) for k in (*sums, column)) or _terms(sums) > WINDOW:
        return None
    if x.buffer not in buffers or w.buffer not in buffers or buffers[w.buffer].role != "weight":
        return None
    if stride(x, buffers, column.var) != const(1) or stride(w, buffers, column.var) in (None, const(0)):
        return None
    tail = acc.body[at + 1 :]
    c = Contraction(tuple(nest[:-2]), nest[-2], column, acc.body[:at], sums, term, tail, x, w, acc)
    return c if packing(c, buffers) is not None else None


def schedule_depthwise(kernel: Kernel, c: Contraction, machine: Machine) -> tuple[Kernel, tuple[Pack, ...]]:
    """The tiled kernel, and how its weights are to be packed."""
    pack = packing(c, {b.name: b for b in kernel.buffers})
    assert pack is not None
    return with_packed(kernel, pack, _Tiles(c, pack, machine).cells()), (pack,)


def _terms(sums: tuple[For, ...]) -> int:
    n = 1
    for k in sums:
        n *= int(k.extent.value) if isinstance(k.extent, Const) else WINDOW + 1
    return n


class _Tiles:
    def __init__(self, c: Contraction, pack: Pack, machine: Machine) -> None:
        assert c.row is not None
        self.c, self.pack, self.lanes = c, pack, machine.lanes
        *outer, self.rows = c.outer
        self.outer, self.pixels = outer, c.row
        self.vectors = -(-pack.columns // machine.lanes)

    def cells(self) -> Body:
        pairs = For("pair", loops.ceildiv(self.rows.extent, ROWS), "serial", ())
        vectors = For("v", const(self.vectors), "serial", ())
        extent, change = flatten([*self.outer, pairs, vectors], "cell")
        body = strip(self.rows.extent, ROWS, Index("pair"), self.pair)
        return parallel(extent, "cell", self.parts(extent), change(body))

    def parts(self, extent: Expr) -> Expr:
        """At most one part a thread, and none with less than GRAIN multiply-adds."""
        terms = ROWS * self.lanes * _terms(self.c.sums)
        worth = floordiv(mul(mul(extent, self.pixels.extent), const(terms)), const(GRAIN))
        return minimum(Size("threads"), loops.maximum(worth, const(1)))

    def pair(self, rows: int, first_row: Expr) -> Body:
        def tile(pixels: int, first: Expr) -> Body:
            return self.tile(rows, first_row, pixels, first)

        body = strip(self.pixels.extent, PIXELS, Index("s"), tile)
        return (For("s", loops.ceildiv(self.pixels.extent, PIXELS), "serial", body),)

    def tile(self, rows: int, first_row: Expr, pixels: int, first: Expr) -> Body:
        """`rows` × `pixels` accumulators for one vector of channels."""
        c, v = self.c, Index("v")
        column = add(mul(v, const(self.lanes)), Index("l"))
        per_panel = PANEL // self.lanes
        lane = add(mul(mod(v, const(per_panel)), const(self.lanes)), Index("l"))
        at = tuple(Index(k) for k, _ in self.pack.sums)
        packed = Load(self.pack.packed, (floordiv(v, const(per_panel)), *at, lane), "float32")
        body: Body = (c.term.replace(value=Scalar("mul", (c.broadcast, packed), "float32")),)
        for k in reversed(c.sums):
            body = (k.replace(kind="unroll", body=body),)
        tail = c.tail
        if self.pack.columns % self.lanes:
            inside = less(column, const(self.pack.columns))
            body, tail = (If(inside, body),), (If(inside, tail),)
        body = (c.acc.replace(body=(*c.head, *body, *tail)),)
        body = jam("q", pixels, substitute(body, self.pixels.var, add(first, Index("q"))))
        body = jam("p", rows, substitute(body, self.rows.var, add(first_row, Index("p"))))
        return (For("l", const(self.lanes), "vector", substitute(body, c.column.var, column)),)
