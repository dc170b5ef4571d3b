"""The steps schedules are made of. Each takes statements and gives statements of the same meaning.

They are legal on what lowering produces, loops whose iterations are independent except for accumulation; a
property test runs every schedule against the interpreter.
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
    Stmt,
    Store,
    add,
    const,
    depends_on,
    floordiv,
    less,
    map_access,
    mod,
    mul,
    statements,
    sub,
    substitute,
)


def unwrap(body: Body) -> tuple[list[For], Body]:
    """The perfect nest of serial loops at the top of `body`, and what is inside."""
    nest: list[For] = []
    while len(body) == 1 and isinstance(body[0], For) and body[0].kind == "serial" and not _reduces(body):
        nest.append(body[0])
        body = body[0].body
    return nest, body


def _reduces(body: Body) -> bool:
    """Is the loop itself part of a reduction: does it hold no store but only accumulation?"""
    return not any(isinstance(s, Store) for s in statements(body))


def wrap(nest: Sequence[For], body: Body) -> Body:
    """The inverse of `unwrap`."""
    for loop in reversed(nest):
        body = (loop.replace(body=body),)
    return body


def jam(var: str, extent: int, body: Body) -> Body:
    """Run `extent` copies of `body` side by side: the loop over `var` moves inside, around each statement, and is
    unrolled there; registers get a leading axis for it. (Unroll and jam: one load then serves many copies.)"""
    if extent == 1:
        return substitute(body, var, const(0))
    return tuple(_jam(var, extent, s) for s in body)


def _jam(var: str, extent: int, s: Stmt) -> Stmt:
    match s:
        case Alloc(b, shape, dtype, "register", inner):
            return Alloc(
                b, (extent, *shape), dtype, "register", jam(var, extent, widen(inner, b, Index(var)))
            )
        case For(k, n, kind, inner) if not depends_on(n, {var}):
            return For(k, n, kind, jam(var, extent, inner))
        case If(cond, inner) if not depends_on(cond, {var}):
            return If(cond, jam(var, extent, inner))
    return For(var, const(extent), "unroll", (s,))


def jam_tile(height: int, width: int, registers: int, body: Body) -> Body:
    """`body` for `height` rows `p`, each with a number that is broadcast, and `width` vectors `c`, side by side.

    Row by row where registers are few: the vectors stay, and a row's number is broadcast, used and forgotten."""
    if height * width + height >= registers:
        return jam("c", width, jam("p", height, body))
    return jam("p", height, jam("c", width, body))


def widen(body: Body, buffer: str, index: Expr) -> Body:
    """Every access to register `buffer` gets `index` in front."""
    return map_access(body, lambda b, at: (b, (index, *at) if b == buffer else at))


def unroll(loop: For, factor: int, tag: str) -> Body:
    """`loop` in steps of `factor` copies, then the iterations left over."""
    n = loop.extent
    main = substitute(
        loop.body, loop.var, add(mul(Index(f"{loop.var}{tag}"), const(factor)), Index(f"{loop.var}u"))
    )
    copies = For(f"{loop.var}u", const(factor), "unroll", main)
    out: Body = (For(f"{loop.var}{tag}", floordiv(n, const(factor)), "serial", (copies,)),)
    rest = mod(n, const(factor))
    if rest == const(0):
        return out
    done = mul(floordiv(n, const(factor)), const(factor))
    tail = substitute(loop.body, loop.var, add(done, Index(f"{loop.var}r")))
    return (*out, For(f"{loop.var}r", rest, "serial", tail))


def fresh_sum(loop: For, name: str) -> Body:
    """A reduction loop that sums into a register of its own, added to the old accumulator at the end.

    Sums of short sums: the rounding error of a long chain of additions shrinks to that of its parts.
    """
    target = next(s for s in statements((loop,)) if isinstance(s, Accumulate))
    dtype = target.value.dtype

    moved = map_access((loop,), lambda b, at: (name if b == target.buffer else b, at))
    inner = (Store(name, (), Const(0.0, dtype)), *moved)
    add_up = Accumulate(target.buffer, (), "add", Load(name, (), dtype))
    return (Alloc(name, (), dtype, "register", (*inner, add_up)),)


def chunk(loop: For, length: int, tag: str, multiple: int) -> Body:
    """A long sum as a sum of sums of about `length` terms, each a whole number of `multiple` terms where possible."""
    n = loop.extent
    if not isinstance(n, Const) or n.value <= length:
        return (loop,)
    parts = -(-int(n.value) // length)
    size = -(-int(n.value) // parts)
    size += -size % multiple
    start = mul(Index(f"{loop.var}{tag}"), const(size))
    inner = substitute(loop.body, loop.var, add(start, Index(f"{loop.var}i")))
    full, rest = int(n.value) // size, int(n.value) % size
    body = fresh_sum(For(f"{loop.var}i", const(size), "serial", inner), f"part_{loop.var}")
    out: Body = (For(f"{loop.var}{tag}", const(full), "serial", body),)
    if rest:
        last = substitute(loop.body, loop.var, add(const(full * size), Index(f"{loop.var}j")))
        out = (*out, *fresh_sum(For(f"{loop.var}j", const(rest), "serial", last), f"rest_{loop.var}"))
    return out


def interleave(loop: For, ways: int) -> Body:
    """One long sum as `ways` sums side by side, added at the end: more independent chains for the multiplier."""
    n = loop.extent
    if not isinstance(n, Const) or n.value < 2 * ways:
        return (loop,)
    full = int(n.value) // ways
    lane = f"{loop.var}w"
    inner = substitute(loop.body, loop.var, add(mul(Index(f"{loop.var}s"), const(ways)), Index(lane)))
    sums = fresh_sum(For(f"{loop.var}s", const(full), "serial", inner), f"way_{loop.var}")
    out = jam(lane, ways, sums)
    if rest := int(n.value) % ways:
        tail = substitute(loop.body, loop.var, add(const(full * ways), Index(f"{loop.var}t")))
        out = (*out, For(f"{loop.var}t", const(rest), "serial", tail))
    return out


def flatten(nest: Sequence[For], var: str) -> tuple[Expr, Callable[[Body], Body]]:
    """Several loops as one over `var`: the product of their extents, and what puts their variables around a body."""
    extent: Expr = const(1)
    for loop in nest:
        extent = mul(extent, loop.extent)

    def change(body: Body) -> Body:
        rest: Expr = Index(var)
        some = [loop for loop in nest if loop.extent != const(1)]
        for depth, loop in reversed(list(enumerate(some))):
            value = rest if depth == 0 else mod(rest, loop.extent)
            body = let(loop.var, value, body)
            rest = floordiv(rest, loop.extent)
        for loop in nest:
            body = body if loop in some else substitute(body, loop.var, const(0))
        return body

    return extent, change


def let(var: str, value: Expr, body: Body) -> Body:
    """`body` with `var` computed once in front of it; what is as short as a name is put in its place."""
    if isinstance(value, (Const, Index)):
        return substitute(body, var, value)
    return (Let(var, value, body),)


Tile = Callable[[int, Expr], Body]  # (height, first) -> the statements for `height` values from `first` on


def strip(extent: Expr, height: int, s: Expr, tile: Tile) -> Body:
    """Strip number `s` of `ceildiv(extent, height)`, as a tile of the height it has.

    Strips of a known extent have two nearly equal heights: 16 rows by 6 are 6 + 5 + 5, so that no work is wasted. Those
    of a dynamic one are full but for the last, which has a tile for every height it may have.
    """
    if isinstance(extent, Const):
        low, tall = divmod(int(extent.value), -(-int(extent.value) // height))
        short = tile(low, add(mul(s, const(low)), const(tall)))
        if not tall:
            return short
        high = tile(low + 1, mul(s, const(low + 1)))
        return (If(less(s, const(tall)), high), If(less(const(tall - 1), s), short))
    first = mul(s, const(height))
    left = sub(extent, first)
    out: Body = (If(less(const(height - 1), left), tile(height, first)),)
    for h in range(1, height):
        out = (*out, If(Scalar("eq", (left, const(h)), "bool"), tile(h, first)))
    return out


def parallel(extent: Expr, var: str, parts: Expr, body: Body, rounds: For | None = None) -> Body:
    """`for var < extent: body`, cut in `parts` equal ranges that run at the same time. One part: a plain loop.

    `rounds`: a loop around each range, for a body that passes over its range several times.
    """

    def around(ranges: Body) -> Body:
        return ranges if rounds is None else (rounds.replace(body=ranges),)

    if parts == const(1):
        return around((For(var, extent, "serial", body),))
    lo = floordiv(mul(Index("part"), extent), parts)
    hi = floordiv(mul(add(Index("part"), const(1)), extent), parts)
    turn = let(var, add(Index("turn"), Index("first")), body)
    part = let("first", lo, around((For("turn", sub(hi, Index("first")), "serial", turn),)))
    return (For("part", parts, "parallel", part),)
