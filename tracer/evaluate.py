"""What a graph means: run it node by node. Slow and obvious; every pass and backend is tested against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..eager.ops.types import Aval, aval_of
from . import dims, expr
from .graph import Graph, Node


def evaluate(
    graph: Graph, arrays: Sequence[Any], xp: Any = np, sizes: Mapping[str, int] | None = None
) -> list[Any]:
    """The outputs for these inputs, state included. Sizes that no input shape tells are taken from `sizes`.

    ValueError or TypeError where an input's count, dtype, rank or size is not what the graph declares.
    """
    sizes = {**(sizes or {}), **sizes_of(graph, arrays)}
    values: dict[Node, Any] = dict(zip(graph.inputs, arrays, strict=True))
    last = last_uses(graph)
    with np.errstate(all="ignore"):  # infinities and nans are values
        for n in graph.nodes:
            if n not in values:
                values[n] = _value(n, [values[i] for i in n.inputs], xp, sizes)
            for dead in last.get(n, ()):
                del values[dead]
    return [values[o] for o in graph.outputs]


def _value(n: Node, operands: list[Any], xp: Any, sizes: Mapping[str, int]) -> Any:
    if n.op is None:
        return n.value
    return n.op.run(xp, *operands, **{key: dims.resolve(attr, sizes) for key, attr in n.attrs.items()})


def last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """For each node the values nobody reads after it (outputs are read by the caller)."""
    last = {i: n for n in graph.nodes for i in n.inputs}
    kept = set(graph.outputs)
    out: dict[Node, list[Node]] = {}
    for value, n in last.items():
        if value not in kept:
            out.setdefault(n, []).append(value)
    return out


def sizes_of(graph: Graph, arrays: Sequence[Any]) -> dict[str, int]:
    """The value of every dynamic size, from the shapes of the inputs, all of which are checked on the way."""
    if len(arrays) != len(graph.inputs):
        declared = ", ".join(f"{n.name}: {n.single}" for n in graph.inputs)
        raise TypeError(
            f"{graph.name}: {len(graph.inputs)} inputs are wanted ({declared}), {len(arrays)} came"
        )
    for n, a in zip(graph.inputs, arrays, strict=True):
        _check_kind(graph, n, a)
    axes = [
        (n, axis, dims.expr_of(size), a.shape[axis])
        for n, a in zip(graph.inputs, arrays, strict=True)
        for axis, size in enumerate(n.shape)
    ]
    sizes: dict[str, int] = {}
    for _, _, e, found in axes:
        if not isinstance(e, int) and e[0] == "dim":
            sizes.setdefault(e[1], found)
    for _, _, e, found in axes:
        sizes.update(solved(e, found, sizes))
    _check_ranges(graph, sizes)
    for n, axis, e, found in axes:
        if (wanted := expr.evaluate(e, sizes)) != found:
            formula = "" if isinstance(e, int) else f" ({expr.text(e)})"
            raise ValueError(
                f"{graph.name}: input {n.name} is {n.single}: axis {axis} must have {wanted}{formula} "
                f"elements, it has {found}"
            )
    return sizes


def _check_kind(graph: Graph, n: Node, a: Any) -> None:
    if a.dtype != n.dtype or len(a.shape) != len(n.shape):
        raise TypeError(f"{graph.name}: input {n.name} must be {n.single}, it is {aval_of(a)}")


def solved(e: expr.Expr, value: int, known: Mapping[str, int]) -> dict[str, int]:
    """The size that makes `e` equal `value`, rounded down, where one unknown is linear in it: `2*n + 1`."""
    unknown = sorted(expr.names(e) - set(known))
    if len(unknown) != 1:
        return {}
    at_0, at_1 = (expr.evaluate(e, {**known, unknown[0]: k}) for k in (0, 1))
    slope = at_1 - at_0
    return {unknown[0]: (value - at_0) // slope} if slope else {}


def _check_ranges(graph: Graph, sizes: Mapping[str, int]) -> None:
    for name, (low, high) in graph.ranges.items():
        if name in sizes and not (low <= sizes[name] and (high is None or sizes[name] <= high)):
            allowed = f"{low}..{'' if high is None else high}"
            raise ValueError(
                f"{graph.name}: size {name} is {sizes[name]}, the program was made for {allowed}"
            )


def shape_at(aval: Aval, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A shape as plain ints, given the dynamic sizes."""
    return tuple(dims.evaluate(n, sizes) for n in aval.shape)
