"""Loop kernels as LLVM functions. It decides nothing: every loop, vector and register is in the kernel already.

| grammar                    | LLVM                                                                                   |
|----------------------------|----------------------------------------------------------------------------------------|
| buffer, size               | parameters `ptr noalias`, `i64`                                                        |
| For serial                 | a loop                                                                                 |
| For unroll                 | its body once for each value of the variable                                           |
| For vector                 | its body once, each value a vector with a lane an iteration                            |
| For parallel (outermost)   | a function of its own, run by the pool for every value of the variable                 |
| Alloc register             | an `alloca`, with a vector an element when it is inside a vector loop; LLVM's SROA      |
|                            | makes registers of it because unrolling left constant indices                          |
| Load in a vector loop      | by its stride along the loop: a broadcast (0), a vector load (1), a gather             |
| If with a value a lane     | a mask on the loads and stores inside; otherwise a branch                              |
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import NamedTuple

from .. import loops
from ..loops import (
    Accumulate,
    Alloc,
    Body,
    Cast,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Prefetch,
    Scalar,
    Select,
    Size,
    Stmt,
    Store,
    const,
)
from ..lower.scalars import identity
from .builder import Function, Value, item_size, literal, literal_value
from .indexing import LANE, Indexer, Linear, Terms, number, size_name
from .levels import Level
from .scalars import LlvmScalars

#: Vectors that spill to the stack must not straddle cache lines, which LLVM sees to only where it is told.
ALIGNED = " alignstack=64"


class Storage(NamedTuple):
    """Where a buffer or register is: address, strides, dtype, and lanes an element (for registers in a vector loop)."""

    pointer: str
    strides: tuple[Linear, ...]
    dtype: str
    lanes: int
    register: bool


class Variant(NamedTuple):
    """One CPU level's version of a library: the suffix of its functions, and the symbol that holds the pool."""

    suffix: str
    level: Level
    parallel: str


def kernel_functions(kernel: Kernel, variant: Variant) -> list[Function]:
    """The functions of a kernel, called `<name><suffix>(buffers…, sizes…)`; the first is the kernel itself."""
    params = [(safe(b.name), "ptr noalias") for b in kernel.buffers] + [
        (size_name(n), "i64") for n in kernel.sizes
    ]
    main = Function(kernel.name + variant.suffix, params, attributes=variant.level.attributes + ALIGNED)
    parts: list[Function] = []
    emitter = Emitter(main, kernel, variant)
    for s in kernel.body:
        if isinstance(s, For) and s.kind == "parallel":
            parts += _parallel(emitter, s, kernel, variant, len(parts))
        else:
            emitter.stmt(s)
    return [main, *parts]


def safe(name: str) -> str:
    """What the function calls a buffer: its name in LLVM's letters, told apart from what a builder makes up."""
    return "at." + "".join(c if c.isalnum() or c in "._" else "_" for c in name)


def _parallel(main: Emitter, loop: For, kernel: Kernel, variant: Variant, count: int) -> list[Function]:
    """The body as `…_part(buffers…, sizes…, part)`, its adapter to the pool `…_task(context, part)`, the launch."""
    stem = f"{kernel.name}_part{count or ''}"
    params = [*main.f.params, (loop.var, "i64")]
    part = Function(
        stem + variant.suffix, params, attributes=variant.level.attributes + ALIGNED + " noinline"
    )
    inner = Emitter(part, kernel, variant)
    inner.at.vars[loop.var] = inner.at.term(Value(f"%{loop.var}", loops.INDEX), True)
    inner.body(loop.body)
    task = _task(part, variant)
    f = main.f
    n = main.scalar(loop.extent)
    arguments = [Value(f"%{name}", "ptr" if "ptr" in kind else "int64") for name, kind in f.params]
    alone = Value(f.assign(f"icmp sle i64 {n.name}, 1"), "bool")
    f.when(
        alone,
        lambda: f.loop(literal(0, "int64"), n, 1, lambda i: void(f.call(part.name, "void", *arguments, i))),
        lambda: _launch(f, task, arguments, n, variant),
    )
    return [part, task]


def void(_: str) -> None:
    """A call for its effect."""


def _task(part: Function, variant: Variant) -> Function:
    task = Function(
        part.name + ".task", [("context", "ptr"), ("part", "i64")], attributes=variant.level.attributes
    )
    values = []
    for k, (_, kind) in enumerate(part.params[:-1]):
        at = task.gep("%context", literal(k, "int64"), "int64")
        values.append(task.load(at, "ptr" if "ptr" in kind else "int64"))
    task.call(part.name, "void", *values, Value("%part", "int64"))
    return task


def _launch(f: Function, task: Function, arguments: list[Value], n: Value, variant: Variant) -> None:
    context = f.alloca("int64", count=max(len(arguments), 1))
    for k, value in enumerate(arguments):
        f.store(value, f.gep(context, literal(k, "int64"), "int64"))
    run = f.load(variant.parallel, "ptr")
    f.emit(f"call void {run.name}(ptr @{task.name}, ptr {context}, i64 {n.name})")


class Emitter:
    """Walks the statements of one kernel into one function."""

    def __init__(self, f: Function, kernel: Kernel, variant: Variant) -> None:
        self.f, self.s = f, LlvmScalars(f, variant.level)
        self.at = Indexer(f, self.s, self.compute)
        self.memory: dict[str, Storage] = {}
        for b in kernel.buffers:
            self.memory[b.name] = Storage(f"%{safe(b.name)}", self.strides(b.shape), b.dtype, 1, False)
        self.written = {s.buffer for s in loops.statements(kernel.body) if isinstance(s, (Store, Accumulate))}
        self.in_vector = False
        self.counter = ""  # of the innermost loop
        self.mask: Value | None = None

    @property
    def lanes(self) -> int:
        return self.at.lanes

    def strides(self, shape: tuple[Expr, ...]) -> tuple[Linear, ...]:
        """Elements from one index to the next along each axis of a dense row-major shape."""
        out = [number(1)]
        for n in reversed(shape[1:]):
            out.append(self.at.product(self.at.linear(n), out[-1]))
        return tuple(reversed(out)) if shape else ()

    # ---- statements ----

    def body(self, body: Body) -> None:
        for s in body:
            self.stmt(s)

    def stmt(self, s: Stmt) -> None:
        match s:
            case For():
                getattr(self, f"for_{s.kind}")(s)
            case Store(b, index, value):
                self.write(b, index, self.expr(value))
            case Accumulate():
                self.accumulate(s)
            case Alloc():
                self.alloc(s)
            case If(cond, body):
                self.branch(self.expr(cond), body)
            case Let(var, value, body):
                self.at.vars[var] = self.at.linear(value)
                self.body(body)
            case Prefetch(b, index):
                self.prefetch(self.memory[b], self.place(self.memory[b], index), b in self.written)
            case _:
                raise TypeError(f"the CPU emitter has no form for {loops.debug(s)}")

    def for_serial(self, s: For) -> None:
        extent = self.at.linear(s.extent)
        if extent == number(1):
            self.at.vars[s.var] = number(0)
            return self.body(s.body)

        def turn(i: Value) -> None:
            outer, self.counter = self.counter, i.name
            with self.at.scope():
                self.at.vars[s.var] = self.at.term(i, True)
                self.body(s.body)
            self.counter = outer

        return self.f.loop(literal(0, "int64"), self.same_in_lanes(self.at.value(extent)), 1, turn)

    def for_unroll(self, s: For) -> None:
        if not isinstance(s.extent, Const):
            raise TypeError(f"an unrolled loop needs a constant extent: {loops.debug(s)}")
        for i in range(int(s.extent.value)):
            self.at.vars[s.var] = number(i)
            self.body(s.body)

    def for_vector(self, s: For) -> None:
        if self.in_vector or not isinstance(s.extent, Const):
            raise TypeError(f"vector loops have a constant extent and do not nest: {loops.debug(s)}")
        self.in_vector, self.at.lanes = True, int(s.extent.value)
        with self.at.scope():
            self.at.vars[s.var] = Linear(((LANE, 1),), 0)
            self.body(s.body)
        self.in_vector, self.at.lanes = False, 1

    for_block = for_grid = for_serial

    def alloc(self, s: Alloc) -> None:
        outer = self.memory.get(s.buffer)
        pointer = self.f.alloca(s.dtype, self.lanes, prod(s.shape))
        strides = self.strides(tuple(map(const, s.shape)))
        self.memory[s.buffer] = Storage(pointer, strides, s.dtype, self.lanes, True)
        self.body(s.body)
        if outer is not None:
            self.memory[s.buffer] = outer

    def branch(self, cond: Value, body: Body) -> None:
        """`If`: a mask where the condition has a value a lane, a branch where it has one."""
        if cond.is_literal and literal_value(cond) is not None:
            return self.body(body) if literal_value(cond) else None
        if cond.lanes == 1:

            def inside() -> None:
                with self.at.scope():
                    self.body(body)

            return self.f.when(cond, inside)
        with self.masked(cond):
            self.body(body)
        return None

    def accumulate(self, s: Accumulate) -> None:
        at = self.memory[s.buffer]
        where = self.place(at, s.index)
        if self.in_vector and at.lanes == 1 and self.at.is_same_in_lanes(where):
            return self.sum_lanes(at, where, s.op, self.expr(s.value))
        old = self.read(at, where)
        match s.value:
            case Scalar("mul", (x, y), "float32" | "float64") if s.op == "add":
                new = self.s.fma(self.expr(x), self.expr(y), old)
            case _:
                new = getattr(self.s, s.op)(old, self.expr(s.value))
        return self.write_at(at, where, new)

    def sum_lanes(self, at: Storage, where: Linear, op: str, value: Value) -> None:
        """All lanes into one place; lanes that are masked out count as nothing."""
        value = self.f.broadcast(value, self.lanes)
        if self.mask is not None:
            nothing = literal(identity(op, value.dtype), value.dtype, self.lanes)
            value = self.s.select(self.mask, value, nothing)
        pointer = self.address(at, where)
        total = getattr(self.s, op)(self.f.load(pointer, at.dtype), self.s.reduce(op, value))
        self.f.store(total, pointer)

    # ---- memory ----

    def prefetch(self, at: Storage, where: Linear, writes: bool) -> None:
        """Fetch the cache line of an element, to be written or only read, each line once in a block."""
        key = ("line", at.pointer, where.without_lane().terms, where.const * item_size(at.dtype) // 64)
        if self.at.recall(key) is None:
            self.at.known[-1][key] = pointer = self.address(at, where)
            self.f.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            self.f.emit(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(writes)}, i32 3, i32 1)")

    def place(self, at: Storage, index: tuple[Expr, ...]) -> Linear:
        """The element an index names."""
        out = number(0)
        for i, step in zip(index, at.strides, strict=True):
            out = out.plus(self.at.product(self.at.linear(i), step))
        return out

    def address(self, at: Storage, where: Linear) -> str:
        """The address of an element (lane 0's); its constant part is added last, so that neighbours share the rest."""
        base = self.base(at, where.without_lane().terms)
        return self.f.gep(base, literal(where.const * at.lanes, "int64"), at.dtype)

    def base(self, at: Storage, terms: Terms) -> str:
        if not terms:
            return at.pointer
        key = (at.pointer, terms)
        known = self.at.recall(key)
        if not isinstance(known, str):
            # In two steps, so that what does not change in the innermost loop is a pointer kept outside of it.
            inside = tuple(t for t in terms if t[0] == self.counter)
            outside = tuple(t for t in terms if t[0] != self.counter)
            start = self.base(at, outside) if inside else at.pointer
            offset = self.at.value(Linear(inside or outside, 0).times(at.lanes))
            self.at.known[-1][key] = known = self.f.gep(start, offset, at.dtype)
        return known

    def read(self, at: Storage, where: Linear) -> Value:
        """Its lanes: a register's vector, one element for all, neighbours, or gathered from anywhere."""
        if at.register and at.lanes == self.lanes:
            return self.f.load(self.address(at, where), at.dtype, self.lanes)
        if self.at.is_same_in_lanes(where):
            return self.read_one(at, where)
        if self.at.is_strided(where) and where.lane == 1:
            return self.f.load(self.address(at, where), at.dtype, self.lanes, mask=self.mask)
        return self.f.gather(at.pointer, self.at.value(where), at.dtype, self.mask)

    def read_one(self, at: Storage, where: Linear) -> Value:
        """One element for all lanes; under a mask it is touched only if some lane wants it."""
        wanted = None if self.mask is None or at.register else self.s.any(self.mask)
        return self.f.load(self.address(at, where), at.dtype, mask=wanted)

    def write(self, buffer: str, index: tuple[Expr, ...], value: Value) -> None:
        at = self.memory[buffer]
        self.write_at(at, self.place(at, index), value)

    def write_at(self, at: Storage, where: Linear, value: Value) -> None:
        value = self.f.broadcast(value, self.lanes)
        if at.register and at.lanes == self.lanes:
            pointer = self.address(at, where)
            if self.mask is not None:
                value = self.s.select(self.mask, value, self.f.load(pointer, at.dtype, self.lanes))
            return self.f.store(value, pointer)
        if self.lanes == 1 or (self.at.is_strided(where) and where.lane == 1):
            return self.f.store(value, self.address(at, where), mask=self.mask)
        return self.f.scatter(
            value, at.pointer, self.f.broadcast(self.at.value(where), self.lanes), self.mask
        )

    # ---- expressions ----

    def scalar(self, e: Expr) -> Value:
        """An int64 expression that must be the same in all lanes: an extent, an offset."""
        return self.same_in_lanes(self.at.value(self.at.linear(e)))

    def same_in_lanes(self, value: Value) -> Value:
        if value.lanes != 1:
            raise TypeError("a loop's extent differs from lane to lane, where one value is needed")
        return value

    def expr(self, e: Expr) -> Value:
        match e:
            case Const(value, dtype):
                return literal(value, dtype)
            case Load(b, index):
                return self.load(self.memory[b], b, index)
            case Index() | Size():
                return self.at.value(self.at.linear(e))
            case Scalar(_, _, "int64"):
                return self.at.value(self.at.linear(e))
        return self.compute(e)

    def load(self, at: Storage, buffer: str, index: tuple[Expr, ...]) -> Value:
        """What the kernel only reads is read once per block."""
        where = self.place(at, index)
        if at.register or buffer in self.written:
            return self.read(at, where)
        key = (at.pointer, where, self.mask)
        known = self.at.recall(key)
        if not isinstance(known, Value):
            self.at.known[-1][key] = known = self.read(at, where)
        return known

    def compute(self, e: Expr) -> Value:
        match e:
            case Load() | Const():
                return self.expr(e)
            case Scalar(op, (x, y), "bool") if op in COMPARE and x.dtype == y.dtype == "int64":
                return self.compare(op, self.at.linear(x), self.at.linear(y))
            case Scalar(op, args):
                return getattr(self.s, op)(*map(self.expr, args))
            case Cast(value, dtype):
                return self.s.cast(self.expr(value), dtype)
            case Select():
                return self.choose(e)
        raise TypeError(f"not a loop expression: {e!r}")

    def compare(self, op: str, x: Linear, y: Linear) -> Value:
        """A comparison of integers; one of numbers is decided here."""
        difference = x.plus(y.times(-1))
        if not difference.terms:
            return literal(COMPARE[op](difference.const, 0), "bool")
        value: Value = getattr(self.s, op)(self.at.value(x), self.at.value(y))
        return value

    def choose(self, e: Select) -> Value:
        """Only the chosen side may touch memory: a branch for one condition, masks for one a lane."""
        cond = self.expr(e.cond)
        if not self.touches_memory(e.then) and not self.touches_memory(e.other):
            return self.s.select(cond, self.expr(e.then), self.expr(e.other))
        if cond.lanes == 1:
            return self.f.choose(cond, lambda: self.side(e.then), lambda: self.side(e.other))
        with self.masked(cond):
            then = self.expr(e.then)
        with self.masked(self.s.logical_not(cond)):
            other = self.expr(e.other)
        return self.s.select(cond, then, other)

    def side(self, e: Expr) -> Value:
        with self.at.scope():
            return self.f.broadcast(self.expr(e), self.lanes)

    def touches_memory(self, e: Expr) -> bool:
        if isinstance(e, Load) and not self.memory[e.buffer].register:
            return True
        return any(map(self.touches_memory, loops.children(e)))

    @contextmanager
    def masked(self, cond: Value) -> Iterator[None]:
        before = self.mask
        self.mask = cond if before is None else self.s.logical_and(before, cond)
        try:
            yield
        finally:
            self.mask = before


COMPARE = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip
