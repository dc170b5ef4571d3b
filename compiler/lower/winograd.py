"""A convolution by F(2×2, 3×3) as one kernel: blocks of tiles brought into the other basis, multiplied, brought back.

    serial block_of_tiles:
      serial t < block: serial c < C:            tiles[·, 16, t, c] = Bᵀ d B        of the tile's 4 × 4 inputs
      serial q < 16: serial t: serial k < K:     sums[·, q, t, k] = sum of tiles[·, q, t, c] * kernels[q, c, k]
      serial t: serial k: serial 2 × 2:          out = epilogue(Aᵀ sums A)          where the output has that place

`tiles` and `sums` are in the workspace, with room for as many blocks as may be computed at the same time; here one
after the other uses the first. A tile past an edge reads the row and column at the edge again: what they lead to is
beyond the edge too, and not stored. Nor is what the last block has past the last tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..loops import (
    Accumulate,
    Alloc,
    Body,
    Const,
    Expr,
    For,
    If,
    Index,
    Let,
    Load,
    Scalar,
    Store,
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
from ..sizes import size_expr
from ..winograd import Winograd
from .attention import F32, f32

TILES, SUMS, KERNELS = "tiles", "sums", "kernels"

#: The kernel's outermost loop. No other kernel has one of this name.
BLOCK = "block_of_tiles"

Index4 = tuple[Expr, Expr, Expr, Expr]


def winograd(w: Winograd, read: Callable[[Index4], Expr], result: Callable[[Index4, Expr], Body]) -> Body:
    """The statements. `read(index)`: an input; `result(index, value)`: the statements that store what becomes of the
    convolution's value there."""
    tiles = mul(size_expr(w.conv.shape[0]), const(w.rows * w.columns))
    blocks = ceildiv(tiles, w.block)
    body = (*inputs(w, tiles, read), *products(w), *outputs(w, tiles, result))
    return (For(BLOCK, blocks, "serial", body),)


def at_tile(w: Winograd, tile: Expr, body: Body) -> Body:
    """`body` with a tile's image n, row and column of tiles as names."""
    image = const(w.rows * w.columns)
    n = const(0) if size_expr(w.conv.shape[0]) == const(1) else floordiv(Index("tile"), image)
    inside = Index("tile") if n == const(0) else mod(Index("tile"), image)
    for name, value in (
        ("tx", mod(inside, const(w.columns))),
        ("ty", floordiv(inside, const(w.columns))),
        ("n", n),
    ):
        body = (Let(name, value, body),)
    return (Let("tile", tile, body),)


def tile_number(w: Winograd) -> Expr:
    return add(mul(Index(BLOCK), const(w.block)), Index("t"))


def inputs(w: Winograd, tiles: Expr, read: Callable[[Index4], Expr]) -> Body:
    """Bᵀ d B, rows first: the half of it is in a register array."""
    x = w.conv.inputs[0]
    height, width = int(x.shape[2]), int(x.shape[3])

    def d(i: int, j: int) -> Expr:
        row, column = (add(mul(Index(v), const(2)), const(k)) for v, k in (("ty", i), ("tx", j)))
        row = minimum(row, const(height - 1)) if 2 * w.rows + 2 > height else row
        column = minimum(column, const(width - 1)) if 2 * w.columns + 2 > width else column
        return read((Index("n"), Index("c"), row, column))

    half: list[Store] = []
    for j in range(4):
        half += [
            Store("half", (const(i), const(j)), v) for i, v in enumerate(into([d(i, j) for i in range(4)]))
        ]
    whole: list[Store] = []
    for i in range(4):
        row = [Load("half", (const(i), const(j)), F32) for j in range(4)]
        whole += [
            Store(TILES, (const(0), const(4 * i + j), Index("t"), Index("c")), v)
            for j, v in enumerate(into(row))
        ]
    body: Body = (Alloc("half", (4, 4), F32, "register", (*half, *whole)),)
    body = (For("c", size_expr(x.shape[1]), "serial", body),)
    return (
        For("t", const(w.block), "serial", at_tile(w, minimum(tile_number(w), sub(tiles, const(1))), body)),
    )


def into(d: Sequence[Expr]) -> list[Expr]:
    """Bᵀ d for one column of four."""
    return [f32("sub", d[0], d[2]), f32("add", d[1], d[2]), f32("sub", d[2], d[1]), f32("sub", d[1], d[3])]


def back(m: Sequence[Expr]) -> list[Expr]:
    """Aᵀ m for one column of four: two outputs."""
    return [f32("add", f32("add", m[0], m[1]), m[2]), f32("sub", f32("sub", m[1], m[2]), m[3])]


def products(w: Winograd) -> Body:
    """For each of the 16 positions all tiles of the block times all output channels."""
    out, channels = map(int, w.conv.inputs[1].shape[:2])
    q, t, c, k = map(Index, ("q", "t", "k0", "k"))
    term = f32("mul", Load(TILES, (const(0), q, t, c), F32), Load(KERNELS, (q, c, k), F32))
    acc: Body = (
        Store("acc", (), Const(0.0, F32)),
        For("k0", const(channels), "serial", (Accumulate("acc", (), "add", term),)),
        Store(SUMS, (const(0), q, t, k), Load("acc", (), F32)),
    )
    body: Body = (Alloc("acc", (), F32, "register", acc),)
    for var, n in (("k", out), ("t", w.block), ("q", 16)):
        body = (For(var, const(n), "serial", body),)
    return body


def outputs(w: Winograd, tiles: Expr, result: Callable[[Index4, Expr], Body]) -> Body:
    """Aᵀ sums A and what follows it."""
    height, width = map(int, w.conv.shape[2:])
    k = Index("k")
    half: list[Store] = []
    for j in range(4):
        column = [Load(SUMS, (const(0), const(4 * i + j), Index("t"), k), F32) for i in range(4)]
        half += [Store("half", (const(i), const(j)), v) for i, v in enumerate(back(column))]
    whole: list[Store] = []
    for i in range(2):
        row = [Load("half", (const(i), const(j)), F32) for j in range(4)]
        whole += [Store("four", (const(i), const(j)), v) for j, v in enumerate(back(row))]
    y, x = (add(mul(Index(v), const(2)), Index(p)) for v, p in (("ty", "py"), ("tx", "px")))
    store = result((Index("n"), k, y, x), Load("four", (Index("py"), Index("px")), F32))
    if width % 2:
        store = (If(less(x, const(width)), store),)
    if height % 2:
        store = (If(less(y, const(height)), store),)
    store = (For("py", const(2), "unroll", (For("px", const(2), "unroll", store),)),)
    body: Body = (
        Alloc(
            "half",
            (2, 4),
            F32,
            "register",
            (Alloc("four", (2, 2), F32, "register", (*half, *whole, *store)),),
        ),
    )
    body = (For("k", size_expr(w.conv.shape[1]), "serial", body),)
    inside = Scalar("lt", (Index("tile"), tiles), "bool")
    return (
        For(
            "t",
            const(w.block),
            "serial",
            (Let("tile", tile_number(w), (If(inside, at_tile(w, tile_number(w), body)),)),),
        ),
    )
