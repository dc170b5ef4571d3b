"""The composites the CPU backend has a kernel for as they are; the others are decomposed."""

from __future__ import annotations

from ..tracer.dims import expr_of
from ..tracer.graph import Node

#: Rows of queries below which attention is the products and the softmax it stands for: a tile has 16 rows at least.
ROWS = 16

#: The widest heads whose tile, held for 64 rows, stays in the first-level cache with the scores.
WIDTH = 128


def takes_whole(n: Node) -> bool:
    """Whether the operation stays one node until it is lowered."""
    return n.op is not None and n.op.name == "scaled_dot_product_attention" and _attention(n)


def _attention(n: Node) -> bool:
    q, _, v = n.inputs[:3]
    fixed = [expr_of(q.shape[-1]), expr_of(v.shape[-1])]
    rows = expr_of(q.shape[-2])
    small = isinstance(rows, int) and rows < ROWS
    return (
        str(n.dtype) == "float32" and all(isinstance(w, int) and 0 < w <= WIDTH for w in fixed) and not small
    )
