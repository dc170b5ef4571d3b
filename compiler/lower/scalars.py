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
from ..loops import Accumulate, Alloc, Body, Cast, Const, Expr, For, If, Index, Load, Select, Stmt, Store
from ..sizes import size_expr

#: The buffer of one int32 that a kernel sets to 1 when an index from data is out of range.
STATUS = "status"


class LoopScalars:
    """Builds expressions; holds the stack of blocks that statements go to, and the names given out so far."""

    def __init__(self) -> None:
        self.blocks: list[list[Stmt]] = [[]]
        self.bound: list[dict[Any, Expr]] = [{}]
        self.registers: set[str] = set()
        self.reports = False
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
        """Add a statement. Rules build values as they please, so what they use twice is shared out first."""
        if isinstance(stmt, (Store, Accumulate)):
            stmt = stmt.replace(value=share(stmt.value, self))
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
        """`value` in a register, so that reading it again costs nothing."""
        name = self.register("v", value.dtype)  # no buffer is called v: see LETTERS in assemble.py
        self.blocks[-1].append(Store(name, (), value))
        return Load(name, (), value.dtype)

    def register(self, stem: str, dtype: str) -> str:
        name = self.fresh(stem)
        self.registers.add(name)
        self.blocks[-1].append(Alloc(name, (), dtype, "register", ()))
        return name

    def place(self, k: Expr, n: int) -> Expr:
        """`k` where it is an index into n elements; elsewhere 0, and the kernel's status is set."""
        k = self.bind(k)
        good = self.logical_and(self.ge(k, Const(0)), self.lt(k, self.index(n)))
        failed = Store(STATUS, (Const(0),), Const(1, "int32"))
        self.blocks[-1].append(If(self.logical_not(good), (failed,)))
        self.reports = True
        return self.select(good, k, Const(0))

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
        self.registers.add(acc)
        start = Store(acc, (), Const(identity(op, value.dtype), value.dtype))
        self.blocks[-1] += [Alloc(acc, (), value.dtype, "register", ()), start, *stmts]
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


# ---- sharing ------------------------------------------------------------------------------------------------------

#: Integer arithmetic that addresses are made of; emitters do it without our help.
_LINEAR = ("add", "sub", "mul", "floordiv", "mod", "minimum", "maximum")


def share(value: Expr, s: LoopScalars) -> Expr:
    """`value` with everything that occurs in it more than once computed first, into a register of its own.

    Rules build a graph of nodes that a walk as a tree could find exponentially large. Occurrence is identity: the same
    node reached over two edges. What reads memory on a side of a `Select` stays there, since it may be out of bounds.
    """
    edges = _edges(value)
    certain = _certain_loads(value)
    bound_here: dict[int, bool] = {}
    built: dict[int, Expr] = {}

    def stays(e: Expr) -> bool:
        if id(e) not in bound_here:
            guarded = isinstance(e, Load) and e.buffer not in s.registers and id(e) not in certain
            bound_here[id(e)] = guarded or any([stays(c) for c in loops.children(e)])
        return bound_here[id(e)]

    def build(e: Expr) -> Expr:
        if id(e) not in built:
            new = loops.with_children(e, tuple(map(build, loops.children(e))))
            again = edges.get(id(e), 0) > 1 and _worth_sharing(e)
            built[id(e)] = s.bind(new) if again and not stays(e) else new
        return built[id(e)]

    return build(value)


def _worth_sharing(e: Expr) -> bool:
    if isinstance(e, loops.Scalar) and e.dtype == loops.INDEX and e.op in _LINEAR:
        return any(isinstance(c, (Load, Cast)) or _worth_sharing(c) for c in e.args)
    return isinstance(e, (loops.Scalar, Select, Cast))


def _edges(value: Expr) -> dict[int, int]:
    """How many operands each node is, by identity."""
    counts: dict[int, int] = {id(value): 0}
    stack = [value]
    while stack:
        for c in loops.children(stack.pop()):
            if id(c) not in counts:
                counts[id(c)] = 0
                stack.append(c)
            counts[id(c)] += 1
    return counts


def _certain_loads(value: Expr) -> frozenset[int]:
    """The loads (by identity) that happen whichever sides the `Select`s in a value choose."""
    known: dict[int, frozenset[int]] = {}

    def loads(e: Expr) -> frozenset[int]:
        if id(e) not in known:
            parts = [loads(c) for c in loops.children(e)]
            if isinstance(e, Select):
                known[id(e)] = parts[0] | (parts[1] & parts[2])
            else:
                own = frozenset({id(e)} if isinstance(e, Load) else ())
                known[id(e)] = own.union(*parts)
        return known[id(e)]

    return loads(value)
