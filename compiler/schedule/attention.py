"""The schedule of attention: scores stand on end, so that every row of queries is a lane.

    parallel cells = batch × heads × blocks of 64 rows (4 vectors of 16 lanes)
      qT[e][64] = q[row, e]                                     one transposition for all columns
      serial blocks of 48 columns, as far as any of the rows sees:
        scores[column][64] = sum of k[column, e] * qT[e]        register tile 6 columns × 64 rows, k read in place
        top, keep; scores = exp(scores - top); total            lane by lane: no sum crosses lanes
        accT[d][64] = accT[d] * keep + sum of v[column, d] * scores[column]         tile 6 × 64, v read in place
      out[row, d] = accT[d] / total

Both products broadcast from k and v where they lie and read vectors from the first-level cache. The sums over a block
of columns are their own, added to what was carried: short sums of short sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import loops
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
    Size,
    Store,
    add,
    const,
    floordiv,
    less,
    minimum,
    mul,
    statements,
    sub,
    substitute,
)
from ..lower.attention import F32, LOWEST, f32, held
from .machine import GRAIN, Machine
from .steps import flatten, jam_tile, let, parallel, strip, unroll, unwrap

#: Columns whose scores are held at once: 12 KB with 64 rows.
COLUMNS = 48

#: Columns, or elements of a head, in a register tile.
HEIGHT = 6

MASKED = Const(float("-inf"), F32)


@dataclass(frozen=True)
class Attention:
    """The parts of the canonical kernel of `lower/attention.py`, with its loop variables in them."""

    outer: tuple[For, ...]
    row: For
    column: For
    elements: For  # e, of a score
    width: int  # of v
    causal: bool
    product: Scalar  # q[row, e] * k[column, e]
    score: Expr  # of held("score"): scaled and masked
    value: Expr  # v[column, d]
    result: Store


#: The registers of the canonical kernel. No other kernel has any of these names.
REGISTERS = {"top", "total", "acc", "score", "p", "new", "keep"}


def match_attention(kernel: Kernel) -> Attention | None:
    """The attention in a canonical kernel, or None for any other kernel."""
    nest, body = unwrap(kernel.body)
    inner = list(statements(body))
    if not {s.buffer for s in inner if isinstance(s, Alloc)} >= REGISTERS:
        return None
    loop = {s.var: s for s in inner if isinstance(s, For)}
    stores = [s for s in inner if isinstance(s, Store)]
    (width,) = next(s.shape for s in inner if isinstance(s, Alloc) and s.buffer == "acc")
    product = next(s.value for s in inner if isinstance(s, Accumulate) and s.buffer == "score")
    score = next(s.value for s in stores if s.buffer == "p")
    carried = [s.value for s in stores if s.buffer == "acc"][-1]  # acc * keep + p * v
    assert isinstance(product, Scalar) and isinstance(carried, Scalar) and isinstance(carried.args[1], Scalar)
    causal = any(isinstance(s, If) for s in inner)
    value = carried.args[1].args[1]
    return Attention(
        tuple(nest[:-1]),
        nest[-1],
        loop["column"],
        loop["e"],
        width,
        causal,
        product,
        score,
        value,
        stores[-1],
    )


def schedule_attention(kernel: Kernel, a: Attention, machine: Machine) -> Kernel:
    """The tiled kernel."""
    body = _Tiles(a, machine).cells()
    return kernel.replace(body=body, sizes=tuple(sorted({*kernel.sizes, "threads"})))


class _Tiles:
    def __init__(self, a: Attention, machine: Machine) -> None:
        self.a, self.lanes, self.registers = a, machine.lanes, machine.registers
        self.vectors = machine.accumulators // HEIGHT
        self.rows = self.vectors * self.lanes
        self.first = mul(Index("block"), const(self.rows))
        self.start = mul(Index("part_of_columns"), const(COLUMNS))
        self.count = minimum(const(COLUMNS), sub(self.seen(), self.start))

    def seen(self) -> Expr:
        """Columns that some row of the block sees."""
        n = self.a.column.extent
        return minimum(n, add(self.first, const(self.rows))) if self.a.causal else n

    def cells(self) -> Body:
        blocks = For("block", loops.ceildiv(self.a.row.extent, self.rows), "serial", ())
        extent, change = flatten([*self.a.outer, blocks], "cell")
        return parallel(extent, "cell", self.parts(extent), change(self.cell()))

    def parts(self, extent: Expr) -> Expr:
        """At most one part a thread, and none with less than GRAIN multiply-adds."""
        columns = self.a.column.extent
        terms = mul(columns, const(self.rows * (int(_fixed(self.a.elements.extent)) + self.a.width)))
        worth = floordiv(mul(extent, terms), const(GRAIN))
        return minimum(Size("threads"), loops.maximum(worth, const(1)))

    def cell(self) -> Body:
        """One block of rows of one head."""
        elements, width, rows = int(_fixed(self.a.elements.extent)), self.a.width, self.rows
        columns = For(
            "part_of_columns", loops.ceildiv(self.seen(), COLUMNS), "serial",
            (*self.scores(), *self.weights(), *self.values()),
        )  # fmt: skip
        body: Body = (*self.prepare(), columns, *self.finish())
        shapes: dict[str, tuple[int, ...]] = {
            "qT": (elements, rows), "accT": (width, rows), "scores": (COLUMNS, rows),
        }  # fmt: skip
        for name in ("top", "total", "keep"):
            shapes[f"{name}T"] = (rows,)
        for name, shape in shapes.items():
            body = (Alloc(name, shape, F32, "register", body),)
        return body

    # ---- the loops around what is done for each vector of rows: `lane()` is a row's place in the block ----

    def lane(self) -> Expr:
        return add(mul(Index("c"), const(self.lanes)), Index("l"))

    def each_vector(self, body: Body) -> Body:
        return (For("c", const(self.vectors), "serial", (For("l", const(self.lanes), "vector", body),)),)

    def tile(self, height: int, body: Body) -> Body:
        """`body` for `height` values of p and all vectors, in registers, side by side."""
        body = jam_tile(height, self.vectors, self.registers, body)
        return (For("l", const(self.lanes), "vector", body),)

    def row(self) -> Expr:
        return add(self.first, self.lane())

    # ---- the stages ----

    def prepare(self) -> Body:
        """qT, with rows past the end repeating the last; nothing carried yet."""
        last = sub(self.a.row.extent, const(1))
        (q,) = substitute(
            (Store("qT", (Index("e"), self.lane()), self.a.product.args[0]),), "row", Index("r")
        )
        body = let("r", minimum(self.row(), last), (q,))
        transposed = (For("e", self.a.elements.extent, "serial", self.each_vector(body)),)
        start = (Store("topT", (self.lane(),), LOWEST), Store("totalT", (self.lane(),), Const(0.0, F32)))
        zero = (Store("accT", (Index("d"), self.lane()), Const(0.0, F32)),)
        zeros = (For("d", const(self.a.width), "serial", self.each_vector(zero)),)
        return (*transposed, *self.each_vector(start), *zeros)

    def scores(self) -> Body:
        """The block's scores, in tiles of HEIGHT columns; what is left over in tiles of its own height."""
        body = strip(Index("count"), HEIGHT, Index("strip"), self.score_tile)
        strips = For("strip", loops.ceildiv(Index("count"), HEIGHT), "serial", body)
        return let("count", self.count, (strips,))

    def score_tile(self, height: int, first: Expr) -> Body:
        local = add(first, Index("p"))
        column = add(self.start, local)
        q = Load("qT", (Index("e"), self.lane()), F32)
        term = Accumulate("score", (), "add", f32("mul", self.a.product.args[1], q))
        score = self.a.score
        if self.a.causal:
            score = Select(Scalar("le", (Index("column"), self.row()), "bool"), score, MASKED, F32)
        sums = unroll(self.a.elements.replace(body=(term,)), 4, "v")
        body: Body = (
            Store("score", (), Const(0.0, F32)),
            *sums,
            Store("scores", (local, self.lane()), score),
        )
        body = (Alloc("score", (), F32, "register", body),)
        last = sub(self.a.row.extent, const(1))
        body = substitute(body, "row", minimum(self.row(), last))
        return self.tile(height, substitute(body, "column", column))

    def weights(self) -> Body:
        """exp(score - top) in place of each score; `keep` is what everything carried is multiplied by."""
        lane, place = self.lane(), (Index("j"), self.lane())
        score = Load("scores", place, F32)
        top, total = Load("topT", (lane,), F32), Load("totalT", (lane,), F32)
        largest = For("j", Index("count"), "serial", (Accumulate("new", (), "maximum", score),))
        exps: Body = (
            Store("p", (), f32("exp", f32("sub", score, held("new")))),
            Store("scores", place, held("p")),
            Accumulate("sum", (), "add", held("p")),
        )
        body: Body = (
            Store("new", (), top),
            largest,
            Store("keepT", (lane,), f32("exp", f32("sub", top, held("new")))),
            Store("topT", (lane,), held("new")),
            Store("sum", (), Const(0.0, F32)),
            For("j", Index("count"), "serial", (Alloc("p", (), F32, "register", exps),)),
            Store("totalT", (lane,), f32("add", f32("mul", total, Load("keepT", (lane,), F32)), held("sum"))),
        )
        for name in ("new", "sum"):
            body = (Alloc(name, (), F32, "register", body),)
        return let("count", self.count, self.each_vector(body))

    def values(self) -> Body:
        """accT = accT * keep + the block's share, in tiles of nearly equal height over the width of v."""
        body = strip(const(self.a.width), HEIGHT, Index("strip"), self.value_tile)
        strips = For("strip", loops.ceildiv(const(self.a.width), HEIGHT), "serial", body)
        return let("count", self.count, (strips,))

    def value_tile(self, height: int, first: Expr) -> Body:
        d = add(first, Index("p"))
        j = Index("j")
        (term,) = substitute(
            (Accumulate("part", (), "add", f32("mul", self.a.value, Load("scores", (j, self.lane()), F32))),),
            "column", add(self.start, j),
        )  # fmt: skip
        place = (Index("d"), self.lane())
        kept = f32("mul", Load("accT", place, F32), Load("keepT", (self.lane(),), F32))
        sums = unroll(For("j", Index("count"), "serial", (term,)), 4, "v")
        body: Body = (
            Store("part", (), Const(0.0, F32)), *sums, Store("accT", place, f32("add", kept, held("part"))),
        )  # fmt: skip
        body = (Alloc("part", (), F32, "register", body),)
        return self.tile(height, substitute(body, "d", d))

    def finish(self) -> Body:
        """The rows there are, each divided by its total."""
        result = f32("div", Load("accT", (Index("d"), self.lane()), F32), Load("totalT", (self.lane(),), F32))
        store = substitute((self.a.result.replace(value=result),), "row", self.row())
        guarded = (If(less(self.row(), self.a.row.extent), store),)
        return (For("d", const(self.a.width), "serial", self.each_vector(guarded)),)


def _fixed(extent: Expr) -> int:
    assert isinstance(extent, Const)
    return int(extent.value)
