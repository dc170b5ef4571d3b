"""Equal operations on equal operands are computed once (common subexpressions)."""

from __future__ import annotations

from collections.abc import Hashable
from hashlib import sha256
from typing import Any

import numpy as np

from ...eager.ops.types import dtype_name
from ...tracer.graph import Graph, Node
from ...tracer.text import attr_text


def merge_equal(graph: Graph) -> Graph:
    """Merge nodes with the same op, operands and attributes, and constants with the same bytes.

    Impure ops are left alone, and so are random ones: two draws are two values. No graph algorithm: in
    topological order operands are merged before their users, so equality of operands is identity.
    """
    seen: dict[Hashable, Node] = {}
    inputs = set(graph.inputs)

    def merge(n: Node, operands: tuple[Node, ...]) -> Node:
        if n in inputs or (n.op is not None and (n.op.random or not n.op.pure)):
            return n.with_inputs(operands)
        return seen.setdefault(key(n, operands), n.with_inputs(operands))

    return graph.rebuild(merge)


def key(n: Node, operands: tuple[Node, ...]) -> Hashable:
    """Attributes by their text, which tells 1 from 1.0 and True, 0.0 from -0.0, and a dynamic size from its
    example.
    """
    if n.op is None:
        return constant_key(n.value)
    return n.op, operands, tuple(sorted((name, attr_text(v)) for name, v in n.attrs.items()))


def constant_key(value: Any) -> Hashable:
    array = np.ascontiguousarray(value)
    return dtype_name(array.dtype), np.shape(value), sha256(array.tobytes()).digest()
