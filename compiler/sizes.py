"""Sizes of the graph as expressions of the loop level: a Dim becomes `Size("batch")` and arithmetic on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..eager.ops.types import Aval
from ..tracer.dims import expr_of
from . import loops
from .loops import Body, Buffer, Const, Expr, Scalar, Size

_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": loops.add,
    "mul": loops.mul,
    "floordiv": loops.floordiv,
    "mod": loops.mod,
    "max": loops.maximum,
    "min": loops.minimum,
}


def size_expr(n: int | Expr) -> Expr:
    """A size of a shape, known or symbolic, as an int64 loop expression; an expression stays as it is."""
    return from_formula(expr_of(n)) if isinstance(n, int) else n


def from_formula(e: Any) -> Expr:
    """The loop expression of a size formula (`tracer.expr`: an int or a tuple)."""
    match e:
        case int():
            return loops.const(e)
        case ("dim", str(name)):
            return Size(name)
        case (op, x, y):
            return _ARITHMETIC[op](from_formula(x), from_formula(y))
    raise TypeError(f"not a size expression: {e!r}")


def byte_size(aval: Aval) -> int:
    """The bytes of a dense array; a Dim where its shape has one."""
    out: int = aval.dtype.itemsize
    for n in aval.shape:
        out = n * out
    return out


def size_names(buffers: Iterable[Buffer], body: Body) -> tuple[str, ...]:
    """The sorted names of the sizes that a kernel's buffer shapes and statements use."""
    found = {e.name for e in loops.expressions(body) if isinstance(e, Size)}
    for b in buffers:
        found |= set().union(*map(names_in, b.shape))
    return tuple(sorted(found))


def names_in(e: Expr) -> set[str]:
    """The names of the sizes in one expression."""
    if isinstance(e, Size):
        return {e.name}
    return set().union(*map(names_in, loops.children(e)))


def evaluate_size(e: Expr, sizes: dict[str, int]) -> int:
    """The value of an index expression at known sizes, e.g. `{"batch": 8}`."""
    match e:
        case Const(value):
            return int(value)
        case Size(name):
            return sizes[name]
        case Scalar(op, (x, y)):
            a, b = evaluate_size(x, sizes), evaluate_size(y, sizes)
            result = loops.INDEX_ARITHMETIC[op](loops.const(a), loops.const(b))
            assert isinstance(result, Const)
            return int(result.value)
    raise TypeError(f"not a size: {loops.expr_text(e)}")
