"""The schedule of F(2×2, 3×3): blocks of tiles in parallel, each with room of its own.

parallel parts = threads, or as many as there is room for
  serial blocks:
    tiles: inputs side by side along channels, vectors of them
    products: 16 times the register tile of `contract.py`, the kernels packed in panels
    results: outputs side by side along channels
"""

from __future__ import annotations

from ..loops import (
    Body,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Size,
    Stmt,
    Store,
    add,
    const,
    map_access,
    minimum,
    mul,
    substitute,
)
from ..lower.winograd import BLOCK
from .contract import Pack, block_of_products, match, ordered, packing, with_packed
from .machine import Machine
from .steps import parallel


def match_winograd(kernel: Kernel) -> For | None:
    """The loop over blocks of a kernel of `lower/winograd.py`, or None for any other kernel."""
    match kernel.body:
        case (For(var) as loop,) if var == BLOCK:
            return loop
    return None


def schedule_winograd(kernel: Kernel, loop: For, machine: Machine) -> tuple[Kernel, tuple[Pack, ...]]:
    """The scheduled kernel, and how its kernels are packed."""
    *before, products, after = loop.body
    product = match(kernel.replace(body=(products,)))
    assert product is not None and product.row is not None
    buffers = {b.name: b for b in kernel.buffers}
    product = ordered(product, buffers)
    pack = packing(product, buffers)
    assert pack is not None
    output = product.tail[-1]
    assert isinstance(output, Store)
    room = {product.broadcast.buffer, output.buffer}
    (parts,) = {size.value for name in room if isinstance(size := buffers[name].shape[0], Const)}
    count = parts_of(loop.extent, int(parts))
    own: Expr = const(0) if count == const(1) else Index("part")
    body: Body = (
        *side_by_side(tuple(before), "c", machine.lanes),
        *block_of_products(product, machine, pack),
        *side_by_side((after,), "k", machine.lanes),
    )
    body = map_access(body, lambda b, index: (b, (own, *index[1:]) if b in room else index))
    return with_packed(kernel, pack, parallel(loop.extent, BLOCK, count, body)), (pack,)


def parts_of(blocks: Expr, room: int) -> Expr:
    """One part a thread, but not more than there are blocks or room for."""
    most = min(int(blocks.value), room) if isinstance(blocks, Const) else room
    return const(1) if most == 1 else minimum(Size("threads"), const(most))


def side_by_side(body: Body, var: str, lanes: int) -> Body:
    """The loops over `var`, whose extents are multiples of `lanes`, as loops over vectors."""

    def one(s: Stmt) -> Stmt:
        match s:
            case For(v, Const(n), _, inner) if v == var:
                column = add(mul(Index(f"{var}v"), const(lanes)), Index("l"))
                vector = For("l", const(lanes), "vector", substitute(inner, var, column))
                return For(f"{var}v", const(int(n) // lanes), "serial", (vector,))
            case For() | If() | Let():
                return s.replace(body=tuple(map(one, s.body)))
        return s

    return tuple(map(one, body))
