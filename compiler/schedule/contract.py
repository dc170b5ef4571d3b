"""The schedule of sums of products: one register tile for matrix products, convolutions and matrix-vector.

    cells = rows outside × groups of columns × strips of rows, cut in equal parts for the threads
      tile: acc[P rows][C vectors] in registers
        serial k, unrolled by 4, in sums of 128 terms:
          acc[p][c] += a[p, k] (broadcast, read in place) * w[panel c][k] (one vector, packed)
        store epilogue(acc[p][c]), the last column masked

Constant operands are packed at build time in panels of 16 columns `[N/16][K…][16]`, zero-padded, which every
vector width reads. Sizes, orders and the reasons for them are in docs/design/register_tile.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...eager.ops.scalars import FUNCTIONS
from .. import loops
from ..affine import stride
from ..loops import (
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
    Prefetch,
    Scalar,
    Size,
    Stmt,
    Store,
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
from .machine import GRAIN, PANEL, Machine
from .steps import chunk, flatten, interleave, jam_tile, let, parallel, strip, unroll, unwrap

#: Terms of one running sum; longer sums are sums of these (docs/design/register_tile.md, "Rounding").
SUM_LENGTH = 128

#: What is still one sum: a row of three taps of 64 channels. Cut in two taps and one it ran at two thirds of the speed.
LONGEST_SUM = 192

ROWS = 6

#: Terms between asking for a line of a panel and using it: some 100 cycles, the way to the second-level cache.
AHEAD = 8

#: Bytes of panels that pass by all rows at once: half of a small second-level cache.
PANEL_BYTES = 512 << 10

#: How much fuller tiles must become for rows to be merged.
WORTH_MERGING = 1.1

#: Strips of rows that pass by one group of panels: together they stay in the second-level cache for the next group.
BLOCK = 64


@dataclass(frozen=True)
class Pack:
    """A weight rewritten at build time: `packed[panel, k…, lane] = source[index(j = 16*panel + lane, k…)]`, where k…
    are the loops of the sum, behind those of a batch of weights."""

    source: str
    packed: str
    index: tuple[Expr, ...]
    column: str
    columns: int
    sums: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Contraction:
    """The parts of a canonical kernel `… for row: for column: acc = sum of a * w; out = epilogue(acc)`."""

    outer: tuple[For, ...]
    row: For | None
    column: For
    head: Body
    sums: tuple[For, ...]
    term: Accumulate
    tail: Body
    broadcast: Load
    vector: Load
    acc: Alloc


def match(kernel: Kernel, any_layout: bool = False) -> Contraction | None:
    """The contraction in a canonical kernel, or None when it is not one this schedule covers.

    `any_layout`: also with columns that lie apart or whose number is dynamic, for schedules that copy operands.
    """
    nest, body = unwrap(kernel.body)
    buffers = {b.name: b for b in kernel.buffers}
    if not nest or len(body) != 1 or not isinstance(body[0], Alloc):
        return None
    acc = body[0]
    at = next((i for i, s in enumerate(acc.body) if isinstance(s, For)), None)
    if at is None or any(isinstance(s, (For, Alloc)) for s in acc.body[:at]):
        return None
    if any(isinstance(s, For) for s in statements(acc.body[at + 1 :])):
        return None
    sums, inner = chain(acc.body[at])
    operands = _operands(inner, acc.buffer, buffers, nest[-1].var, any_layout)
    if operands is None or not isinstance(inner, Accumulate):
        return None
    if not any_layout and not isinstance(nest[-1].extent, Const):
        return None
    broadcast, vector = operands
    row = nest[-2] if len(nest) > 1 and stride(vector, buffers, nest[-2].var) == const(0) else None
    outer = tuple(nest[:-1] if row is None else nest[:-2])
    head, tail = acc.body[:at], acc.body[at + 1 :]
    return Contraction(outer, row, nest[-1], head, sums, inner, tail, broadcast, vector, acc)


def chain(s: Stmt) -> tuple[tuple[For, ...], Stmt]:
    """The loops that hold nothing but each other, from `s` inwards, and what is in the last."""
    out: list[For] = []
    while isinstance(s, For) and len(s.body) == 1:
        out.append(s)
        s = s.body[0]
    return tuple(out), s


def _operands(
    s: Stmt, acc: str, buffers: Mapping[str, Buffer], column: str, any_layout: bool
) -> tuple[Load, Load] | None:
    """(the operand that is the same in all columns, the one with a value a column) of `acc += a * b`."""
    match s:
        case Accumulate(b, (), "add", Scalar("mul", (Load() as x, Load() as y), "float32")) if b == acc:
            for a, w in ((x, y), (y, x)):
                if a.buffer not in buffers or w.buffer not in buffers:
                    return None
                unit = stride(w, buffers, column)
                packable = buffers[w.buffer].role == "weight" and unit is not None and unit != const(0)
                apart = any_layout and unit != const(0)
                if stride(a, buffers, column) == const(0) and (packable or unit == const(1) or apart):
                    return a, w
    return None


def schedule_contraction(kernel: Kernel, c: Contraction, machine: Machine) -> tuple[Kernel, tuple[Pack, ...]]:
    """The tiled kernel, and how its constant operand is to be packed (nothing when it is read in place)."""
    buffers = {b.name: b for b in kernel.buffers}
    c = merged_rows(ordered(c, buffers))
    pack = packing(c, buffers)
    body = _Tiles(c, machine, pack).cells()
    if pack is None:
        return kernel.replace(body=body, sizes=_with_threads(kernel)), ()
    return with_packed(kernel, pack, body), (pack,)


def block_of_products(c: Contraction, machine: Machine, pack: Pack) -> Body:
    """The tiles of a contraction one after another, for a kernel in which they are one step among others."""
    return _Tiles(c, machine, pack).serial()


def with_packed(kernel: Kernel, pack: Pack, body: Body) -> Kernel:
    """The kernel with another body, which reads the packed weight in the place of the one it is made from."""
    panels = -(-pack.columns // PANEL)
    shape = (const(panels), *(const(n) for _, n in pack.sums), const(PANEL))
    kept = tuple(b for b in kernel.buffers if b.name != pack.source)
    packed = Buffer(pack.packed, shape, "float32", "weight")
    return kernel.replace(buffers=(*kept, packed), body=body, sizes=_with_threads(kernel))


def _with_threads(kernel: Kernel) -> tuple[str, ...]:
    return tuple(sorted({*kernel.sizes, "threads"}))


def ordered(c: Contraction, buffers: Mapping[str, Buffer]) -> Contraction:
    """The loops of the sum, the one that walks through the broadcast operand in the smallest steps innermost."""

    def step(loop: For) -> int:
        s = stride(c.broadcast, buffers, loop.var)
        return int(s.value) if isinstance(s, Const) and s.value else 1 << 60

    order = tuple(sorted(c.sums, key=step, reverse=True))
    return Contraction(**{**c.__dict__, "sums": order})


def merged_rows(c: Contraction) -> Contraction:
    """Short rows, as of a 7 × 7 image, as one long one with those of the loop around them, if that fills tiles better.

    7 rows make tiles of 4 and 3; 49 make 9 of 5 or 6. What it costs is a division for each row of a tile.
    """
    if c.row is None or not c.outer:
        return c
    row, outer = c.row.extent, c.outer[-1].extent
    if not isinstance(row, Const) or not isinstance(outer, Const) or not row.value or not outer.value:
        return c
    few, many = int(row.value), int(row.value) * int(outer.value)
    if filling(many) < WORTH_MERGING * filling(few):
        return c
    both = For("m", const(many), "serial", ())
    index = {c.row.var: mod(Index("m"), row), c.outer[-1].var: floordiv(Index("m"), row)}

    def moved(body: Body) -> Body:
        return loops.map_body(body, lambda e: index.get(e.var, e) if isinstance(e, Index) else e)

    term = moved((c.term,))[0]
    assert isinstance(term, Accumulate) and isinstance(term.value, Scalar)
    broadcast = next(e for e in term.value.args if isinstance(e, Load) and e.buffer == c.broadcast.buffer)
    changes = {"outer": c.outer[:-1], "row": both, "head": moved(c.head), "tail": moved(c.tail)}
    return Contraction(**{**c.__dict__, **changes, "term": term, "broadcast": broadcast})


def filling(rows: int) -> float:
    """Rows in an average tile."""
    return rows / -(-rows // ROWS)


def packing(c: Contraction, buffers: Mapping[str, Buffer]) -> Pack | None:
    """How the vector operand is packed, if it is a weight that columns, sums and a batch of known size index."""
    if buffers[c.vector.buffer].role != "weight":
        return None
    used = {e.var for e in loops.expressions((Store("", c.vector.index, const(0)),)) if isinstance(e, Index)}
    inner = (*(loop for loop in c.outer if loop.var in used), *c.sums)
    if not all(isinstance(k.extent, Const) for k in inner) or used - {c.column.var, *(k.var for k in inner)}:
        return None
    assert isinstance(c.column.extent, Const)
    sums = tuple((k.var, int(k.extent.value)) for k in inner if isinstance(k.extent, Const))
    return Pack(
        c.vector.buffer,
        f"{c.vector.buffer}.panels",
        c.vector.index,
        c.column.var,
        int(c.column.extent.value),
        sums,
    )


def _terms(c: Contraction) -> int:
    """Terms of a sum, those along a dynamic axis counted as 64."""
    n = 1
    for k in c.sums:
        n *= int(k.extent.value) if isinstance(k.extent, Const) else 64
    return n


class Late(NamedTuple):
    """An epilogue in two steps: `sums` stores the accumulator in the output, `rest` finishes it from there."""

    sums: Body
    rest: Body


class _Tiles:
    """Builds the loops around and inside the register tile."""

    def __init__(self, c: Contraction, machine: Machine, pack: Pack | None) -> None:
        self.c, self.m, self.pack = c, machine, pack
        assert isinstance(c.column.extent, Const)
        self.columns = int(c.column.extent.value)
        self.terms = _terms(c)
        vectors = -(-self.columns // machine.lanes)
        self.rows = c.row.extent if c.row else const(1)
        self.height = _height(self.rows)
        self.width = min(vectors, self._width())
        self.ragged = self.columns % machine.lanes != 0
        # Full groups of columns come unmasked; the group with the ragged vector is the last, on its own.
        self.full = (vectors - self.ragged) // self.width
        self.last = vectors - self.full * self.width
        self.blocks = self._blocks_of_terms()
        if self.blocks > 1:
            outermost = c.sums[0].replace(extent=floordiv(c.sums[0].extent, const(self.blocks)))
            self.c = Contraction(**{**c.__dict__, "sums": (outermost, *c.sums[1:])})

    def _blocks_of_terms(self) -> int:
        """How many blocks a long sum is cut in, each a pass over all rows: a group's panels for one block then stay in
        the second-level cache. The sums wait in the output meanwhile."""
        out = [s for s in statements(self.c.tail) if isinstance(s, Store)][-1]
        several = not isinstance(self.rows, Const) or self.rows.value > self.height or bool(self.c.outer)
        if self.pack is None or not several or out.value.dtype != self.c.acc.dtype:
            return 1
        fewest = -(-self.terms * self.width * self.m.lanes * 4 // PANEL_BYTES)
        n = self.c.sums[0].extent
        size = int(n.value) if isinstance(n, Const) else 1
        return next((b for b in range(fewest, 2 * fewest + 1) if size % b == 0), 1)

    def _width(self) -> int:
        """Vectors in a tile: as many as the accumulators allow, whole panels or a whole part of one."""
        per_panel = PANEL // self.m.lanes
        most = min(4, self.m.accumulators // max(self.height, 3))
        if most >= per_panel:
            return most // per_panel * per_panel
        return max(w for w in (1, 2, 4) if w <= most and per_panel % w == 0)

    def cells(self) -> Body:
        """All tiles: outer loops × groups of columns × strips of rows as one range, cut for the threads."""
        columns = For("g", const(self.full + bool(self.last)), "serial", ())
        strips = loops.ceildiv(self.rows, self.height)
        body = self.groups()
        if not self._columns_first():
            nest = [*self.c.outer, columns, For("s", strips, "serial", ())]
        else:
            blocks, inside = _blocks(strips)
            nest = [blocks, columns, *self.c.outer, inside]
            s = add(mul(Index(blocks.var), inside.extent), Index(inside.var))
            exact = isinstance(strips, Const) and mul(blocks.extent, inside.extent) == strips
            body = let("s", s, body if exact else (If(less(Index("s"), strips), body),))
        extent, change = flatten(nest, "cell")
        rounds = For("block_of_terms", const(self.blocks), "serial", ()) if self.blocks > 1 else None
        return parallel(extent, "cell", self._parts(extent), change(body), rounds)

    def serial(self) -> Body:
        """All tiles in plain loops, strips innermost."""
        columns = For("g", const(self.full + bool(self.last)), "serial", ())
        body = self.groups()
        for loop in (
            For("s", loops.ceildiv(self.rows, self.height), "serial", ()),
            columns,
            *reversed(self.c.outer),
        ):
            body = (loop.replace(body=body),)
        return body

    def groups(self) -> Body:
        """The tile of column group `g`: the usual one, or the narrower or ragged one at the end."""
        g, full = Index("g"), const(self.full)
        out: Body = ()
        if self.full:
            usual = self.strip(self.width, False)
            out = (If(less(g, full), usual),) if self.last else usual
        if self.last:
            narrow = self.strip(self.last, self.ragged)
            out = (*out, If(less(const(self.full - 1), g), narrow)) if self.full else narrow
        return out

    def _columns_first(self) -> bool:
        """A group's panels stay in the second-level cache while rows pass by. Where all panels fit there and there are
        rows enough to read them often, rows come first: they and the results then pass through the cache once."""
        panels = self.terms * self.columns * 4
        if self.c.outer:
            return panels > 512 << 10
        many = isinstance(self.rows, Const) and self.rows.value >= 256
        return not (many and panels <= 1 << 20)

    def _parts(self, extent: Expr) -> Expr:
        """At most one part a thread, and none with less than GRAIN multiply-adds."""
        cell = self.height * self.width * self.m.lanes * self.terms
        worth = floordiv(mul(extent, const(cell)), const(GRAIN))
        if isinstance(worth, Const):
            return const(1) if worth.value < 2 else minimum(Size("threads"), worth)
        return minimum(Size("threads"), loops.maximum(worth, const(1)))

    def strip(self, width: int, masked: bool) -> Body:
        """The tile at strip `s`, in whatever height is left there."""
        return strip(self.rows, self.height, Index("s"), lambda h, first: self.tile(h, width, first, masked))

    def tile(self, height: int, width: int, first: Expr, masked: bool) -> Body:
        """acc[height][width vectors] for the rows from `first` and the columns of group `g`.

        An epilogue with functions in it would stand here once for each accumulator. It gets loops of its own instead,
        over the sums, which wait where the results go.
        """
        vector = add(mul(Index("g"), const(self.width)), Index("c"))
        late = self.late_epilogue()
        body = self.lane_body(height, vector, masked, self.c.tail if late is None else late.sums)
        if self.c.row is not None:
            body = substitute(body, self.c.row.var, add(first, Index("p")))
        body = jam_tile(height, width, self.m.registers, body)
        tile = For("l", const(self.m.lanes), "vector", body)
        return (
            (tile,)
            if late is None or not late.rest
            else (tile, *self.finish(late, height, width, first, vector, masked))
        )

    def lane_body(self, height: int, vector: Expr, masked: bool, tail: Body) -> Body:
        """One row, one column: the accumulator, its sum, and what follows, guarded at the ragged end."""
        c = self.c
        column = add(mul(vector, const(self.m.lanes)), Index("l"))
        inner: Body = self.panel_term(vector, height) if self.pack else (c.term,)
        if self.blocks > 1:
            k = c.sums[0]
            inner = substitute(inner, k.var, add(mul(Index("block_of_terms"), k.extent), Index(k.var)))
        summed = self.sum(inner, height)
        if masked and self.pack is None:
            summed = self.inside(column, summed)
        tail = self.inside(column, tail) if masked else tail
        body: Body = (c.acc.replace(body=(*self.output_ahead(height), *c.head, *summed, *tail)),)
        return substitute(body, c.column.var, column)

    def output_ahead(self, height: int) -> Body:
        """The hint for where the results go: a large output is in no cache, and the sum is long enough to fetch it."""
        if height < 4 or self.terms < SUM_LENGTH:
            return ()
        return tuple(Prefetch(s.buffer, s.index) for s in statements(self.c.tail) if isinstance(s, Store))[
            -1:
        ]

    def inside(self, column: Expr, body: Body) -> Body:
        return (If(less(column, const(self.columns)), body),)

    def finish(self, late: Late, height: int, width: int, first: Expr, vector: Expr, masked: bool) -> Body:
        """The epilogue of a tile, row by row and vector by vector, from the sums stored in the output."""
        column = add(mul(vector, const(self.m.lanes)), Index("l"))
        body = substitute(self.inside(column, late.rest) if masked else late.rest, self.c.column.var, column)
        body = (For("l", const(self.m.lanes), "vector", body),)
        body = (For("c", const(width), "serial", body),)
        if self.c.row is not None:
            body = substitute(body, self.c.row.var, add(first, Index("p")))
            body = (For("p", const(height), "serial", body),)
        return body

    def late_epilogue(self) -> Late | None:
        """The epilogue in two steps, if it is worth that and the output can hold the sums in between."""
        stores = [s for s in statements(self.c.tail) if isinstance(s, Store)]
        out, acc = stores[-1], self.c.acc
        if self.blocks > 1:
            return self.blocked_epilogue(out)
        functions = any(isinstance(e, Scalar) and e.op in FUNCTIONS for e in loops.expressions(self.c.tail))
        if not functions or out.value.dtype != acc.dtype or self.height * self.width == 1:
            return None
        return Late((Store(out.buffer, out.index, Load(acc.buffer, (), acc.dtype)),), self.from_output(out))

    def from_output(self, out: Store) -> Body:
        """The epilogue, reading the sum where the result goes."""
        acc = self.c.acc
        held = Load(out.buffer, out.index, acc.dtype)
        return loops.map_body(
            self.c.tail, lambda e: held if isinstance(e, Load) and e.buffer == acc.buffer else e
        )

    def blocked_epilogue(self, out: Store) -> Late:
        """The first block of terms stores its sums, the others add theirs; the last is followed by the epilogue."""
        total, block = Load(self.c.acc.buffer, (), self.c.acc.dtype), Index("block_of_terms")
        sums: Body = (
            If(less(block, const(1)), (Store(out.buffer, out.index, total),)),
            If(less(const(0), block), (Accumulate(out.buffer, out.index, "add", total),)),
        )
        plain = self.c.tail == (out,) and out.value == total
        last = If(less(const(self.blocks - 2), block), self.from_output(out))
        return Late(sums, () if plain else (last,))

    def panel_term(self, vector: Expr, height: int) -> Body:
        """The term with the packed operand, `w[panel, k…, lane]`, and the hint for what comes AHEAD terms later.

        A tile of few rows has no time to wait for hints: its loads are the next level's bandwidth as they are.
        """
        assert self.pack is not None
        per_panel = PANEL // self.m.lanes
        panel = floordiv(vector, const(per_panel))
        lane = add(mul(mod(vector, const(per_panel)), const(self.m.lanes)), Index("l"))
        at = tuple(Index(k) for k, _ in self.pack.sums)
        packed = Load(self.pack.packed, (panel, *at, lane), "float32")
        term = self.c.term.replace(value=Scalar("mul", (self.c.broadcast, packed), "float32"))
        if height < 4:
            return (term,)
        return (Prefetch(self.pack.packed, (panel, *at[:-1], add(at[-1], const(AHEAD)), lane)), term)

    def sum(self, term: Body, height: int) -> Body:
        """The loops of the sum: short sums added up, several side by side for a single row, unrolled by 4."""
        body = term
        length = 1
        sums = list(self.c.sums)
        split = False
        while sums:
            loop = sums.pop().replace(body=body)
            size = int(loop.extent.value) if isinstance(loop.extent, Const) else SUM_LENGTH
            if not split and length * size > LONGEST_SUM:
                body, split = self.long_sum(loop, length, height), True
            else:
                body = self.short_loop(loop) if length == 1 else (loop,)
            length *= size
        return body

    def long_sum(self, loop: For, length: int, height: int) -> Body:
        """`loop` runs past LONGEST_SUM terms (each `length` terms itself): sum its chunks apart, all of one size."""
        if length > 1:
            n = int(loop.extent.value) if isinstance(loop.extent, Const) else 1
            fitting = (d for d in range(2, n + 1) if n % d == 0 and d * length <= SUM_LENGTH)
            return chunk(loop, max(fitting, default=1), "q", 1)
        ways = 2 if height == 1 else 1
        return map_innermost(chunk(loop, SUM_LENGTH, "q", 8), lambda k: self.short_loop(k, ways))

    def short_loop(self, loop: For, ways: int = 1) -> Body:
        if isinstance(loop.extent, Const) and loop.extent.value <= 4:
            return (loop.replace(kind="unroll"),)
        if ways > 1:
            return map_innermost(interleave(loop, ways), lambda k: unroll(k, 4 // ways, "v"))
        return unroll(loop, 4, "v")


def map_innermost(body: Body, f: Callable[[For], Body]) -> Body:
    """Every innermost serial loop replaced by `f(loop)`."""
    out: list[Stmt] = []
    for s in body:
        if (
            isinstance(s, For)
            and s.kind == "serial"
            and not any(isinstance(x, For) and x.kind == "serial" for x in statements(s.body))
        ):
            out.extend(f(s))
        elif isinstance(s, (For, If, Alloc)):
            out.append(s.replace(body=map_innermost(s.body, f)))
        else:
            out.append(s)
    return tuple(out)


def _blocks(strips: Expr) -> tuple[For, For]:
    """The loops over blocks of strips and over the strips of one, of which there are BLOCK at most."""
    if isinstance(strips, Const):
        count = max(1, -(-int(strips.value) // BLOCK))
        size: Expr = loops.ceildiv(strips, count)
        return For("block", const(count), "serial", ()), For("inside", size, "serial", ())
    size = minimum(strips, const(BLOCK))
    return For("block", loops.ceildiv(strips, BLOCK), "serial", ()), For("inside", size, "serial", ())


def _height(rows: Expr) -> int:
    """Rows in a tile: ROWS when their number is dynamic, else as even a cut of them as there is."""
    if not isinstance(rows, Const):
        return ROWS
    n = int(rows.value)
    return -(-n // -(-n // ROWS)) if n else 1
