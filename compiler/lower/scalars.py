"""The namespace `s` of the table's `scalar` and `element` rules, building loop expressions and statements.

Scalar functions become expression nodes. `reduce` and `bind` also need statements (an accumulator and its loops,
a register for a value read twice); those go to the block being built, in the order the rule asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...eager.ops.scalars import IDENTITY, SCALARS, result_dtype
from ...eager.ops.types import DTYPES, is_floating
from ...tracer.dims import Dim
from .. import loops
from ..loops import Accumulate, Alloc, Body, Cast, Const, Expr, For, Index, Load, Select, Stmt, Store
from ..sizes import size_expr


class LoopScalars:
    """Builds expressions; holds the stack of blocks that statements go to, and the names given out so far."""

    def __init__(self) -> None:
        self.blocks: list[list[Stmt]] = [[]]
        self.bound: list[dict[Any, Expr]] = [{}]
        self._counts: dict[str, int] = {}

    # ---- expressions ----

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        if name not in SCALARS:
            raise AttributeError(f"the scalar language has no function {name!r}")

        def build(*args: Expr) -> Expr:
            return loops.scalar(name, *args, dtype=result_dtype(name, args[0].dtype))

        return build

    def const(self, value: Any, dtype: str) -> Expr:
        if isinstance(value, Dim):  # a size used as a number: its value at the call, not that of the example
            return self.cast(size_expr(value), dtype)
        return Const(DTYPES[dtype].type(value).item(), dtype)

    def index(self, n: int) -> Expr:
        return size_expr(n)

    def select(self, cond: Expr, then: Expr, other: Expr) -> Expr:
        match cond:
            case Const(value):
                return then if value else other
        return then if then == other else Select(cond, then, other, then.dtype)

    def cast(self, x: Expr, dtype: str) -> Expr:
        return x if x.dtype == dtype else Cast(x, dtype)

    # ---- statements ----

    def fresh(self, stem: str) -> str:
        """`k0`, `k1`, …: a name no other loop or buffer of this kernel has."""
        n = self._counts.get(stem, 0)
        self._counts[stem] = n + 1
        return f"{stem}{n}"

    def emit(self, stmt: Stmt) -> None:
        self.blocks[-1].append(stmt)

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Statements emitted inside go to the list that is yielded; what is bound inside is known only there."""
        self.blocks.append([])
        self.bound.append({})
        try:
            yield self.blocks[-1]
        finally:
            self.blocks.pop()
            self.bound.pop()

    def recall(self, key: Any) -> Expr | None:
        """A value kept under `key` in this block or one around it."""
        for known in reversed(self.bound):
            if key in known:
                return known[key]
        return None

    def keep(self, key: Any, value: Expr) -> Expr:
        self.bound[-1][key] = value
        return value

    def bind(self, value: Expr) -> Expr:
        """`value` in a register, so that reading it again costs nothing. Atoms stay as they are."""
        if not isinstance(value, (loops.Scalar, Select, Cast)):
            return value
        name = self.fresh("v")  # buffers are called i, o, t and w
        self.emit(Alloc(name, (), value.dtype, "register", ()))
        self.emit(Store(name, (), value))
        return Load(name, (), value.dtype)

    def reduce(self, op: str, sizes: Sequence[int | Expr], body: Callable[..., Expr]) -> Expr:
        """Emit an accumulator and the loops that fill it; the result is the accumulator's value."""
        acc = self.fresh("acc")
        names = [self.fresh("k") for _ in sizes]
        with self.block() as inner:
            value = body(*map(Index, names))
            self.emit(Accumulate(acc, (), op, value))
        stmts = nest_allocs(inner)
        for name, size in reversed(list(zip(names, sizes, strict=True))):
            stmts = (For(name, size_expr(size), "serial", stmts),)
        self.emit(Alloc(acc, (), value.dtype, "register", ()))
        self.emit(Store(acc, (), Const(identity(op, value.dtype), value.dtype)))
        for s in stmts:
            self.emit(s)
        return Load(acc, (), value.dtype)


def identity(op: str, dtype: str) -> float | int | bool:
    """What `op` leaves unchanged: the start of a reduction. For integers the infinities are the extreme values."""
    import numpy as np

    value = IDENTITY[op]
    kind = DTYPES[dtype]
    if is_floating(kind) or kind.kind in "bc":
        return value
    if value in (float("inf"), float("-inf")):
        info = np.iinfo(kind)
        return int(info.max if value > 0 else info.min)
    return int(value)


def nest_allocs(stmts: Sequence[Stmt]) -> Body:
    """Emission lists an allocation before the statements that use it; the grammar puts those inside it."""
    out: Body = ()
    for s in reversed(stmts):
        out = (s.replace(body=out),) if isinstance(s, Alloc) and not s.body else (s, *out)
    return out
