"""The GPU schedule of sums of products: a block computes a tile of the output from tiles of both operands.

    grid cell < outer × strips of rows × strips of columns:
      shared a.tile[depth][rows], b.tile[depth][columns]
      block thread < threads:
        acc[p][q] in registers, for rows thread / n + p*m and columns thread % n + q*n of the tile
        serial step < terms / depth:
          copy both tiles, element by element, zero where the operand ends;  sync
          serial k < depth: acc[p][q] += a.tile[k][row p] * b.tile[k][column q];  sync
        store epilogue(acc[p][q]) where row and column exist

A convolution is the same product: its rows are all axes the weights do not depend on (batch and place), its terms
all loops of the sum, and what they mean for an operand's index is worked out as the tile is copied. Copies run along
the axis that is contiguous in memory, so that a warp reads whole lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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
    Scalar,
    Select,
    Store,
    Sync,
    add,
    ceildiv,
    const,
    floordiv,
    less,
    mod,
    mul,
    substitute,
)
from .contract import Contraction, ordered
from .steps import flatten, unwrap, widen


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
        steps = For("step", ceildiv(self.terms, self.tile.depth), "serial", self.step())
        body = (*self.each(self.c.head, guarded=_reads(self.c.head, self.buffers)), steps)
        body = (*body, *self.each(self.c.tail, guarded=True))
        shape = (self.high // self.tile.rows, self.wide // self.tile.columns)
        return (self.c.acc.replace(shape=shape, body=body),)

    def each(self, body: Body, guarded: bool = False) -> Body:
        """`body` of the canonical kernel for every sum of this thread, row by row."""
        down, across = const(self.tile.rows), const(self.tile.columns)
        row = add(mul(Index("down"), const(self.high)), add(self.lane_row(), mul(Index("p"), down)))
        column = add(mul(Index("across"), const(self.wide)), add(self.lane_column(), mul(Index("q"), across)))
        body = widen(widen(body, self.c.acc.buffer, Index("q")), self.c.acc.buffer, Index("p"))
        if guarded:
            body = (If(_both(less(row, self.rows), less(column, self.columns)), body),)
        body = substitute(substitute(self.in_rows(body), "row", row), self.c.column.var, column)
        inner = For("q", const(self.wide // self.tile.columns), "unroll", body)
        return (For("p", const(self.high // self.tile.rows), "unroll", (inner,)),)

    def lane_row(self) -> Expr:
        return floordiv(Index("thread"), const(self.tile.columns))

    def lane_column(self) -> Expr:
        return mod(Index("thread"), const(self.tile.columns))

    # ---- one step along the terms ----

    def step(self) -> Body:
        """Copy `depth` terms of both operands, then add their products up."""
        row = add(mul(Index("down"), const(self.high)), Index("across_tile"))
        column = add(mul(Index("across"), const(self.wide)), Index("across_tile"))
        a = self.copy("a.tile", self.c.broadcast, "row", row, self.rows, self.high, self.row_runs)
        b = self.copy(
            "b.tile", self.c.vector, self.c.column.var, column, self.columns, self.wide, not self.term_runs
        )
        k = For("k", const(self.tile.depth), "serial", self.each((self.term(),)))
        return (*a, *b, Sync(), k, Sync())

    def term(self) -> Accumulate:
        down, across = const(self.tile.rows), const(self.tile.columns)
        a = Load("a.tile", (Index("k"), add(self.lane_row(), mul(Index("p"), down))), "float32")
        b = Load("b.tile", (Index("k"), add(self.lane_column(), mul(Index("q"), across))), "float32")
        return self.c.term.replace(value=Scalar("mul", (a, b), "float32"))

    def copy(
        self, name: str, operand: Load, var: str, place: Expr, end: Expr, size: int, along: bool
    ) -> Body:
        """Fill a tile of `depth` terms and `size` places of `operand`, the threads side by side.

        `along`: neighbouring threads take neighbouring places, else neighbouring terms.
        """
        count = self.tile.depth * size
        at = add(mul(Index("turn"), const(self.tile.threads)), Index("thread"))
        inner = const(size if along else self.tile.depth)
        slow, fast = floordiv(at, inner), mod(at, inner)
        depth, across = (slow, fast) if along else (fast, slow)
        term = add(mul(Index("step"), const(self.tile.depth)), depth)
        inside = _both(less(term, self.terms), less(place, end))
        value = Select(inside, operand, Const(0.0, "float32"), "float32")
        body: Body = (Store(name, (depth, Index("across_tile")), value),)
        body = substitute(self.in_terms(self.in_rows(body)), "term", term)
        body = substitute(substitute(body, var, place), "across_tile", across)
        if count % self.tile.threads:
            body = (If(less(at, const(count)), body),)
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


def _reads(body: Body, buffers: Mapping[str, Buffer]) -> bool:
    return any(isinstance(e, Load) and e.buffer in buffers for e in loops.expressions(body))
