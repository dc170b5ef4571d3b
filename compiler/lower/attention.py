"""Attention as one kernel: softmax(q kᵀ scale + mask) v without a buffer for the scores.

    for every row: top = lowest; total = 0; acc[V] = 0
      serial column < S:                                   (causal: columns up to the row)
        score = sum of q[row, k] * k[column, k] over k < E
        p = score * scale + mask[row, column]
        new = maximum(top, p); keep = exp(top - new); p = exp(p - new)
        total = total * keep + p; acc[d] = acc[d] * keep + p * v[column, d]; top = new
      out[row, d] = acc[d] / total

The softmax is carried along the columns (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018), as
in FlashAttention (Dao et al., 2022). `top` starts at the lowest finite number, so that a masked score, -inf, has the
weight exp(-inf) = 0 also where nothing but masked scores came before. A row that sees nothing is 0 / 0, as in eager.
"""

from __future__ import annotations

from collections.abc import Callable

from ...tracer.graph import Node
from ..loops import (
    Accumulate,
    Alloc,
    Body,
    Const,
    Expr,
    For,
    If,
    Index,
    Load,
    Scalar,
    Store,
    const,
)
from ..sizes import size_expr

F32 = "float32"
LOWEST = Const(-3.4028234663852886e38, F32)

Read = Callable[[Node, tuple[Expr, ...]], Expr]
Write = Callable[[tuple[Expr, ...], Expr], Store]


def f32(op: str, *args: Expr) -> Scalar:
    return Scalar(op, args, F32)


def held(register: str) -> Load:
    return Load(register, (), F32)


def attention(node: Node, read: Read, write: Write) -> Body:
    """The statements that compute `node`, a scaled_dot_product_attention: `read(operand, index)` is an element of an
    operand, `write(index, value)` stores one of the result."""
    q, k, v, *mask = node.inputs
    batch = tuple(Index(f"i{axis}") for axis in range(len(node.shape) - 2))
    row, column, d, e = Index("row"), Index("column"), Index("d"), Index("e")

    def at(n: Node, *last: Expr) -> Expr:
        return read(n, broadcast(n, (*batch, *last)))

    score = held("score")
    p: Expr = f32("mul", score, Const(node.attrs["scale"], F32)) if node.op else score
    if mask:
        p = f32("add", p, at(mask[0], row, column))
    product = Accumulate("score", (), "add", f32("mul", at(q, row, e), at(k, column, e)))
    width = int(v.shape[-1])
    carried = Load("acc", (d,), F32)
    step: Body = (
        Store("new", (), f32("maximum", held("top"), held("p"))),
        Store("keep", (), f32("exp", f32("sub", held("top"), held("new")))),
        Store("p", (), f32("exp", f32("sub", held("p"), held("new")))),
        Store("total", (), f32("add", f32("mul", held("total"), held("keep")), held("p"))),
        For("d", const(width), "serial", (
            Store("acc", (d,), f32("add", f32("mul", carried, held("keep")), f32("mul", held("p"), at(v, column, d)))),
        )),
        Store("top", (), held("new")),
    )  # fmt: skip
    sums = (Store("score", (), Const(0.0, F32)), For("e", size_expr(q.shape[-1]), "serial", (product,)))
    one = registers(("score", "p", "new", "keep"), (*sums, Store("p", (), p), *step))
    seen: Body = (If(Scalar("le", (column, row), "bool"), one),) if node.attrs["causal"] else one
    result = write((*batch, row, d), f32("div", carried, held("total")))
    body: Body = (
        Store("top", (), LOWEST),
        Store("total", (), Const(0.0, F32)),
        Alloc("acc", (width,), F32, "register", (
            For("d", const(width), "serial", (Store("acc", (d,), Const(0.0, F32)),)),
            For("column", size_expr(k.shape[-2]), "serial", seen),
            For("d", const(width), "serial", (result,)),
        )),
    )  # fmt: skip
    body = (For("row", size_expr(node.shape[-2]), "serial", registers(("top", "total"), body)),)
    for axis in reversed(range(len(batch))):
        body = (For(f"i{axis}", size_expr(node.shape[axis]), "serial", body),)
    return body


def registers(names: tuple[str, ...], body: Body) -> Body:
    for name in reversed(names):
        body = (Alloc(name, (), F32, "register", body),)
    return body


def broadcast(n: Node, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """An index of the scores as one of an operand: trailing axes, 0 where a leading one has size 1."""
    tail = index[len(index) - len(n.shape) :]
    return tuple(const(0) if size == 1 else i for size, i in zip(n.shape, tail, strict=True))
