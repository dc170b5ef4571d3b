"""The GPU schedule of sums of products: a block computes a tile of the output from tiles of both operands.

    grid cell < outer × strips of rows × strips of columns:
      shared a.tile[depth][rows], b.tile[depth][columns]
      block thread < threads:
        acc[p][q] in registers, for rows p*m + ty and columns q*n + tx of the tile, thread = ty*n + tx
        serial step < terms / depth:
          copy both tiles, element by element, zero where the operand ends;  sync
          serial k < depth: acc[p][q] += a.tile[k][row p] * b.tile[k][column q];  sync
        store epilogue(acc[p][q]) where row and column exist

A convolution is the same product: its rows are all axes the weights do not depend on (batch and place), its terms
all loops of the sum, and what they mean for an operand's index is worked out as the tile is copied. Copies run along
the axis that is contiguous in memory, so that a warp reads whole lines.
"""

from __future__ import annotations

from typing import NamedTuple

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
    Select,
    Store,
    Sync,
    add,
    ceildiv,
    const,
    floordiv,
    less,
    minimum,
    mod,
    mul,
    sub,
)
from .contract import SUM_LENGTH, Contraction, ordered
from .steps import flatten, let, unwrap, widen


class Tile(NamedTuple):
    """What a block computes: `rows` × `columns` threads, each up to `each` × `each` sums, `depth` terms a step."""

    rows: int = 16
    columns: int = 16
    each: int = 4
    depth: int = 16

    @property
    def threads(self) -> int:
        return self.rows * self.columns


#: 64 × 64 sums of 256 threads: 16 sums and a few operands fit in registers, both tiles take 8 KB of shared memory,
#: and each element that is copied serves 64 multiply-adds.
TILE = Tile()


def worth_tiling(kernel: Kernel, c: Contraction, tile: Tile) -> bool:
    """Are there rows, columns and terms enough to fill half of the smallest tile? Dynamic ones may be many."""
    rows, _ = flatten(_split(kernel, c)[1], "row")
    terms, _ = flatten(c.sums, "term")
    wanted = ((rows, tile.rows), (c.column.extent, tile.columns), (terms, tile.depth))
    return all(not isinstance(n, Const) or 2 * int(n.value) >= least for n, least in wanted)


def schedule_tile(kernel: Kernel, c: Contraction, tile: Tile = TILE) -> Kernel:
    return kernel.replace(body=_Tiled(kernel, c, tile).cells())


def _split(kernel: Kernel, c: Contraction) -> tuple[tuple[For, ...], tuple[For, ...]]:
    """The loops around the column: those both operands depend on, and the rows, which only the broadcast one does."""
    buffers = {b.name: b for b in kernel.buffers}
    around = unwrap(kernel.body)[0][:-1]
    rows = tuple(x for x in around if stride(c.vector, buffers, x.var) == const(0))
    return tuple(x for x in around if x not in rows), rows


class _Tiled:
    """Builds the loops of one tiled kernel. Inside, an output element is named by `row` and `column`, a term by
    `term`: the positions in the flattened loops of the canonical kernel."""

    def __init__(self, kernel: Kernel, c: Contraction, tile: Tile) -> None:
        self.buffers = {b.name: b for b in kernel.buffers}
        self.c, self.tile = ordered(c, self.buffers), tile
        self.outer, row_loops = _split(kernel, c)
        sums = self.c.sums
        self.rows, self.in_rows = flatten(row_loops, "row")
        self.terms, self.in_terms = flatten(sums, "term")
        self.columns = c.column.extent
        self.row_runs = bool(row_loops) and self._unit(c.broadcast, row_loops[-1])
        self.term_runs = bool(sums) and self._unit(c.vector, sums[-1]) and not self._unit(c.vector, c.column)
        self.high = tile.rows * _each(self.rows, tile.rows, tile.each)
        self.wide = tile.columns * _each(self.columns, tile.columns, tile.each)
        self.per_thread = self.high // tile.rows, self.wide // tile.columns

    def _unit(self, operand: Load, loop: For) -> bool:
        return stride(operand, self.buffers, loop.var) == const(1)

    def cells(self) -> Body:
        """One block of threads for each tile of the output, tiles of the same rows next to each other."""
        down = For("down", ceildiv(self.rows, self.high), "serial", ())
        across = For("across", ceildiv(self.columns, self.wide), "serial", ())
        extent, change = flatten((*self.outer, down, across), "cell")
        block = For("thread", const(self.tile.threads), "block", self.thread())
        depth = self.tile.depth
        # One column more than needed puts the elements of a column in different banks.
        shared: Body = (Alloc("b.tile", (depth, self.wide + 1), "float32", "shared", (block,)),)
        shared = (Alloc("a.tile", (depth, self.high + 1), "float32", "shared", shared),)
        return (For("cell", extent, "grid", change(shared)),)

    def thread(self) -> Body:
        """What one thread does: its sums from zero to the epilogue."""
        tail = self.each(self.element((If(self.exists(), self.in_rows(self.c.tail)),)))
        body: Body = (*self.each(self.head()), *self.sums(), *tail)
        body = (self.c.acc.replace(shape=self.per_thread, body=body),)
        body = let("tx", mod(Index("thread"), const(self.tile.columns)), body)
        return let("ty", floordiv(Index("thread"), const(self.tile.columns)), body)

    def sums(self) -> Body:
        """All terms, step by step; a long sum as a sum of sums of SUM_LENGTH terms."""
        steps, most = ceildiv(self.terms, self.tile.depth), max(1, SUM_LENGTH // self.tile.depth)
        if isinstance(steps, Const) and int(steps.value) <= most:
            return (For("step", steps, "serial", self.step(self.c.acc.buffer)),)
        first = mul(Index("chunk"), const(most))
        step = let("step", add(first, Index("s")), self.step("part"))
        part: Body = (For("s", minimum(const(most), sub(steps, first)), "serial", step),)
        zero = self.each((Store("part", (), Const(0.0, "float32")),))
        add_up = self.each((Accumulate(self.c.acc.buffer, (), "add", Load("part", (), "float32")),))
        part = (Alloc("part", self.per_thread, "float32", "register", (*zero, *part, *add_up)),)
        return (For("chunk", ceildiv(steps, most), "serial", part),)

    def head(self) -> Body:
        """The start of a sum; where it reads memory it may only do so for an element that there is."""
        if not any(isinstance(e, Load) and e.buffer in self.buffers for e in loops.expressions(self.c.head)):
            return self.c.head
        return self.element((If(self.exists(), self.in_rows(self.c.head)),))

    def element(self, body: Body) -> Body:
        """`body` with the row and the column of sum `p, q` of this thread."""
        row = add(mul(Index("down"), const(self.high)), self.in_tile_row())
        column = add(mul(Index("across"), const(self.wide)), self.in_tile_column())
        return let("row", row, let(self.c.column.var, column, body))

    def in_tile_row(self) -> Expr:
        return add(mul(Index("p"), const(self.tile.rows)), Index("ty"))

    def in_tile_column(self) -> Expr:
        return add(mul(Index("q"), const(self.tile.columns)), Index("tx"))

    def exists(self) -> Expr:
        return _both(less(Index("row"), self.rows), less(Index(self.c.column.var), self.columns))

    def each(self, body: Body) -> Body:
        """`body` for every sum `p, q` of this thread, each with accumulators of its own."""
        for register in (self.c.acc.buffer, "part"):
            body = widen(widen(body, register, Index("q")), register, Index("p"))
        down, across = self.per_thread
        return (For("p", const(down), "unroll", (For("q", const(across), "unroll", body),)),)

    # ---- one step along the terms ----

    def step(self, register: str) -> Body:
        """Copy `depth` terms of both operands, then add their products up in `register`."""
        rows = let("row", add(mul(Index("down"), const(self.high)), Index("place")), self.copied_row())
        column = add(mul(Index("across"), const(self.wide)), Index("place"))
        columns = let(self.c.column.var, column, self.copied_column())
        a = self.copy(rows, self.high, self.row_runs)
        b = self.copy(columns, self.wide, not self.term_runs)
        k = For("k", const(self.tile.depth), "unroll", self.each((self.term(register),)))
        return (*a, *b, Sync(), k, Sync())

    def term(self, register: str) -> Accumulate:
        a = Load("a.tile", (Index("k"), self.in_tile_row()), "float32")
        b = Load("b.tile", (Index("k"), self.in_tile_column()), "float32")
        return Accumulate(register, (), "add", Scalar("mul", (a, b), "float32"))

    def copied_row(self) -> Body:
        inside = _both(less(Index("term"), self.terms), less(Index("row"), self.rows))
        return self.in_rows(self.copied("a.tile", self.c.broadcast, inside))

    def copied_column(self) -> Body:
        inside = _both(less(Index("term"), self.terms), less(Index(self.c.column.var), self.columns))
        return self.copied("b.tile", self.c.vector, inside)

    def copied(self, tile: str, operand: Load, inside: Expr) -> Body:
        value = Select(inside, operand, Const(0.0, "float32"), "float32")
        return (Store(tile, (Index("k"), Index("place")), value),)

    def copy(self, body: Body, size: int, along: bool) -> Body:
        """Run `body` for every term `k` and `place` of a tile, the threads side by side.

        `along`: neighbouring threads take neighbouring places, else neighbouring terms.
        """
        count, inner = self.tile.depth * size, size if along else self.tile.depth
        slow, fast = ("k", "place") if along else ("place", "k")
        term = add(mul(Index("step"), const(self.tile.depth)), Index("k"))
        body = let("term", term, self.in_terms(body))
        body = let(slow, floordiv(Index("at"), const(inner)), let(fast, mod(Index("at"), const(inner)), body))
        if count % self.tile.threads:
            body = (If(less(Index("at"), const(count)), body),)
        body = let("at", add(mul(Index("turn"), const(self.tile.threads)), Index("thread")), body)
        return (For("turn", ceildiv(const(count), self.tile.threads), "unroll", body),)


def _each(extent: Expr, threads: int, most: int) -> int:
    """Sums of a thread along one axis: no more than the extent fills, a power of two."""
    each = most
    while isinstance(extent, Const) and each > 1 and threads * each // 2 >= int(extent.value):
        each //= 2
    return each


def _both(x: Expr, y: Expr) -> Expr:
    match x, y:
        case Const(value), _:
            return y if value else x
        case _, Const(value):
            return x if value else y
    return Scalar("logical_and", (x, y), "bool")
