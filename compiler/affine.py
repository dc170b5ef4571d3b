"""Index expressions as linear functions of a loop variable: what tells contiguous from strided from scattered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from . import loops
from .loops import Buffer, Const, Expr, Index, Load, Scalar, Size, depends_on


def coefficient(e: Expr, var: str) -> Expr | None:
    """c such that e = c * var + rest with neither c nor rest depending on var; None when e is not linear in it."""
    match e:
        case Index(name):
            return Const(1 if name == var else 0)
        case Scalar("add", (x, y)):
            return _both(loops.add, coefficient(x, var), coefficient(y, var))
        case Scalar("sub", (x, y)):
            return _both(loops.sub, coefficient(x, var), coefficient(y, var))
        case Scalar("mul", (x, y)) if not depends_on(y, {var}):
            return _both(loops.mul, coefficient(x, var), y)
        case Scalar("mul", (x, y)) if not depends_on(x, {var}):
            return _both(loops.mul, coefficient(y, var), x)
    return None if depends_on(e, {var}) else Const(0)


def _both(f: Callable[[Expr, Expr], Expr], x: Expr | None, y: Expr | None) -> Expr | None:
    return None if x is None or y is None else f(x, y)


def offset(index: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    """The element offset of `index` in a dense row-major buffer of `shape`: each index times its stride.

    Constants end up in one term at the end, so that neighbours differ in that term alone.
    """
    out: Expr = Const(0)
    scale: Expr = Const(1)
    for i, n in zip(reversed(index), reversed(shape), strict=True):
        out = loops.add(loops.mul(i, scale), out)
        scale = loops.mul(scale, n)
    return out


def stride(load: Load, buffers: Mapping[str, Buffer], var: str) -> Expr | None:
    """How many elements apart a load's places are at successive values of `var`; None when that varies.

    A register (a name that is no buffer of the kernel) does not move with a loop it was not expanded over.
    """
    if load.buffer not in buffers:
        return Const(0)
    total: Expr = Const(0)
    scale: Expr = Const(1)
    for i, n in zip(reversed(load.index), reversed(buffers[load.buffer].shape), strict=True):
        c = coefficient(i, var)
        if c is None:
            return None
        total = loops.add(total, loops.mul(c, scale))
        scale = loops.mul(scale, n)
    return total


def nonnegative(e: Expr) -> bool:
    """Certainly not below zero: sums, products and quotients of loop variables, sizes and constants."""
    match e:
        case Const(value):
            return value >= 0
        case Index() | Size():
            return True
        case Scalar("add" | "mul" | "floordiv" | "mod" | "minimum" | "maximum", args):
            return all(map(nonnegative, args))
    return False
