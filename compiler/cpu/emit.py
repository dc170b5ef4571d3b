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

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .. import loops
from ..affine import coefficient, nonnegative, offset
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
    Load,
    Scalar,
    Select,
    Size,
    Stmt,
    Store,
    const,
    depends_on,
    substitute,
)
from .builder import Function, Value, literal, vector_literal
from .levels import Level
from .scalars import LlvmScalars


class Storage(NamedTuple):
    """Where a buffer or register is: its address, shape, dtype, and lanes an element (registers in a vector loop)."""

    pointer: str
    shape: tuple[Expr, ...]
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
    params = [(safe(b.name), "ptr noalias") for b in kernel.buffers] + [(n, "i64") for n in kernel.sizes]
    main = Function(kernel.name + variant.suffix, params, attributes=variant.level.attributes)
    parts: list[Function] = []
    emitter = Emitter(main, kernel, variant)
    for s in kernel.body:
        if isinstance(s, For) and s.kind == "parallel":
            parts += _parallel(emitter, s, kernel, variant, len(parts))
        else:
            emitter.stmt(s)
    return [main, *parts]


def safe(name: str) -> str:
    """A buffer's name as an LLVM local: letters, digits, dots and underscores only."""
    return "".join(c if c.isalnum() or c in "._" else "_" for c in name)


def _parallel(main: Emitter, loop: For, kernel: Kernel, variant: Variant, count: int) -> list[Function]:
    """The body as `…_part(buffers…, sizes…, part)`, its adapter to the pool `…_task(context, part)`, the launch."""
    stem = f"{kernel.name}_part{count or ''}"
    params = [*main.f.params, (loop.var, "i64")]
    part = Function(stem + variant.suffix, params, attributes=variant.level.attributes + " noinline")
    inner = Emitter(part, kernel, variant)
    inner.vars[loop.var] = Value(f"%{loop.var}", loops.INDEX)
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
        self.memory = {
            b.name: Storage(f"%{safe(b.name)}", b.shape, b.dtype, 1, False) for b in kernel.buffers
        }
        self.written = {s.buffer for s in loops.statements(kernel.body) if isinstance(s, (Store, Accumulate))}
        self.vars: dict[str, Value] = {}
        self.lane_var: str | None = None
        self.lanes = 1
        self.mask: Value | None = None
        self.known: list[dict[object, Value | str]] = [{}]

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
            case _:
                raise TypeError(f"the CPU emitter has no form for {loops.debug(s)}")

    def for_serial(self, s: For) -> None:
        if s.extent == const(1):
            return self.body(substitute(s.body, s.var, const(0)))

        def turn(i: Value) -> None:
            with self.scope():
                self.vars[s.var] = i
                self.body(s.body)

        self.f.loop(literal(0, "int64"), self.scalar(s.extent), 1, turn)

    def for_unroll(self, s: For) -> None:
        if not isinstance(s.extent, Const):
            raise TypeError(f"an unrolled loop needs a constant extent: {loops.debug(s)}")
        for i in range(int(s.extent.value)):
            self.body(substitute(s.body, s.var, const(i)))

    def for_vector(self, s: For) -> None:
        if self.lane_var is not None or not isinstance(s.extent, Const):
            raise TypeError(f"vector loops have a constant extent and do not nest: {loops.debug(s)}")
        self.lane_var, self.lanes = s.var, int(s.extent.value)
        with self.scope():
            self.vars[s.var] = vector_literal(range(self.lanes), "int64")
            self.body(s.body)
        self.lane_var, self.lanes = None, 1

    for_block = for_grid = for_serial

    def alloc(self, s: Alloc) -> None:
        count = 1
        for n in s.shape:
            count *= n
        outer = self.memory.get(s.buffer)
        pointer = self.f.alloca(s.dtype, self.lanes, count)
        self.memory[s.buffer] = Storage(pointer, tuple(map(const, s.shape)), s.dtype, self.lanes, True)
        self.body(s.body)
        if outer is not None:
            self.memory[s.buffer] = outer

    def branch(self, cond: Value, body: Body) -> None:
        """`If`: a mask where the condition has a value a lane, a branch where it has one."""
        if cond.lanes == 1:
            if cond.is_literal:
                return self.body(body) if cond.name == "true" else None

            def inside() -> None:
                with self.scope():
                    self.body(body)

            return self.f.when(cond, inside)
        with self.masked(cond):
            self.body(body)

    def accumulate(self, s: Accumulate) -> None:
        at = self.memory[s.buffer]
        if self.lane_var is not None and at.lanes == 1 and not self.varies(s.index):
            return self.sum_lanes(s)
        old = self.read(s.buffer, s.index)
        match s.value:
            case Scalar("mul", (x, y), dtype) if s.op == "add" and dtype in ("float32", "float64"):
                new = self.s.fma(self.expr(x), self.expr(y), old)
            case _:
                new = getattr(self.s, s.op)(old, self.expr(s.value))
        self.write(s.buffer, s.index, new)

    def sum_lanes(self, s: Accumulate) -> None:
        """All lanes into one place; lanes that are masked out count as nothing."""
        value = self.f.broadcast(self.expr(s.value), self.lanes)
        if self.mask is not None:
            from ..lower.scalars import identity

            nothing = literal(identity(s.op, value.dtype), value.dtype, self.lanes)
            value = self.s.select(self.mask, value, nothing)
        total = self.s.reduce(s.op, value)
        with self.unmasked():
            old = self.read(s.buffer, s.index)
            self.write(s.buffer, s.index, getattr(self.s, s.op)(old, total))

    # ---- memory ----

    def varies(self, index: tuple[Expr, ...]) -> bool:
        return self.lane_var is not None and any(depends_on(i, {self.lane_var}) for i in index)

    def address(self, at: Storage, where: Expr) -> str:
        """The address of element `where` (the same in all lanes), a constant part added last so that the rest is
        shared by neighbours."""
        match where:
            case Scalar("add", (base, Const(n))):
                return self.f.gep(self.address(at, base), literal(int(n) * at.lanes, "int64"), at.dtype)
            case Const(n):
                return self.f.gep(at.pointer, literal(int(n) * at.lanes, "int64"), at.dtype)
        key = (at.pointer, where)
        known = self.recall(key)
        if isinstance(known, str):
            return known
        i = self.scalar(where)
        if at.lanes > 1:
            i = self.s.mul(i, literal(at.lanes, "int64"))
        self.known[-1][key] = pointer = self.f.gep(at.pointer, i, at.dtype)
        return pointer

    def read(self, buffer: str, index: tuple[Expr, ...]) -> Value:
        at = self.memory[buffer]
        where = offset(index, at.shape)
        if at.register and at.lanes == self.lanes:
            return self.f.load(self.address(at, where), at.dtype, self.lanes)
        step = self.lane_step(where)
        if step == 0:
            return self.read_one(at, where)
        if step == 1:
            return self.f.load(self.address(at, self.first(where)), at.dtype, self.lanes, mask=self.mask)
        return self.f.gather(at.pointer, self.f.broadcast(self.expr(where), self.lanes), at.dtype, self.mask)

    def read_one(self, at: Storage, where: Expr) -> Value:
        """One element for all lanes; under a mask it is touched only if some lane wants it."""
        if self.mask is None or at.register:
            return self.f.load(self.address(at, where), at.dtype)
        wanted = self.s.reduce("logical_or", self.mask)
        pointer = self.address(at, where)
        return self.f.load(pointer, at.dtype, mask=wanted)

    def write(self, buffer: str, index: tuple[Expr, ...], value: Value) -> None:
        at = self.memory[buffer]
        where = offset(index, at.shape)
        if at.register and at.lanes == self.lanes:
            pointer = self.address(at, where)
            value = self.f.broadcast(value, self.lanes)
            if self.mask is not None:
                value = self.s.select(self.mask, value, self.f.load(pointer, at.dtype, self.lanes))
            return self.f.store(value, pointer)
        step = self.lane_step(where)
        if step == 0 and self.lanes == 1:
            return self.f.store(value, self.address(at, where))
        if step == 1:
            value = self.f.broadcast(value, self.lanes)
            return self.f.store(value, self.address(at, self.first(where)), mask=self.mask)
        offsets = self.f.broadcast(self.expr(where), self.lanes)
        self.f.scatter(value, at.pointer, offsets, self.mask)

    def lane_step(self, where: Expr) -> int | None:
        """Elements between neighbouring lanes: 0, 1, or None for anything that needs a gather."""
        if self.lane_var is None:
            return 0
        if self.lane_valued(where):
            return None
        step = coefficient(where, self.lane_var)
        return int(step.value) if isinstance(step, Const) and step.value in (0, 1) else None

    def lane_valued(self, e: Expr) -> bool:
        """Does an index itself read memory, so that it may differ from lane to lane however it looks?"""
        return isinstance(e, Load) or any(map(self.lane_valued, loops.children(e)))

    def first(self, where: Expr) -> Expr:
        """`where` in lane 0."""
        return loops.map_expr(where, lambda e: const(0) if e == Index(self.lane_var or "") else e)

    # ---- expressions ----

    def scalar(self, e: Expr) -> Value:
        """An expression that must be the same in all lanes: an extent, an address."""
        value = self.expr(e)
        if value.lanes != 1:
            raise TypeError(f"{loops.expr_text(e)} differs from lane to lane, where one value is needed")
        return value

    def expr(self, e: Expr) -> Value:
        match e:
            case Const(value, dtype):
                return literal(value, dtype)
            case Index(var):
                return self.vars[var]
            case Size(name):
                return Value(f"%{name}", loops.INDEX)
            case Load(b, index):
                return self.read(b, index) if self.memory[b].register else self.remembered(e)
            case Scalar(_, _, dtype) if dtype == loops.INDEX and pure(e):
                return self.remembered(e)
        return self.compute(e)

    def remembered(self, e: Expr) -> Value:
        """Index arithmetic and loads of what the kernel only reads are computed once per block."""
        if isinstance(e, Load) and e.buffer in self.written:
            return self.compute(e)
        key = (e, self.mask)
        known = self.recall(key)
        if isinstance(known, Value):
            return known
        self.known[-1][key] = value = self.compute(e)
        return value

    def compute(self, e: Expr) -> Value:
        match e:
            case Load(b, index):
                return self.read(b, index)
            case Scalar("floordiv" | "mod" as op, (x, y), "int64") if nonnegative(x) and nonnegative(y):
                return getattr(self.s, op)(self.expr(x), self.expr(y), nonneg=True)
            case Scalar(op, args):
                return getattr(self.s, op)(*map(self.expr, args))
            case Cast(value, dtype):
                return self.s.cast(self.expr(value), dtype)
            case Select():
                return self.choose(e)
        raise TypeError(f"not a loop expression: {e!r}")

    def choose(self, e: Select) -> Value:
        """Only the chosen side may touch memory: a branch for one condition, masks for one a lane."""
        cond = self.expr(e.cond)
        if not reads_memory(e.then, self) and not reads_memory(e.other, self):
            return self.s.select(cond, self.expr(e.then), self.expr(e.other))
        if cond.lanes == 1:
            return self.f.choose(cond, lambda: self.side(e.then), lambda: self.side(e.other))
        with self.masked(cond):
            then = self.expr(e.then)
        with self.masked(self.s.logical_not(cond)):
            other = self.expr(e.other)
        return self.s.select(cond, then, other)

    def side(self, e: Expr) -> Value:
        with self.scope():
            return self.f.broadcast(self.expr(e), self.lanes)

    # ---- scopes ----

    def recall(self, key: object) -> Value | str | None:
        for known in reversed(self.known):
            if key in known:
                return known[key]
        return None

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed in a block is known there and in the blocks inside it, nowhere else."""
        self.known.append({})
        try:
            yield
        finally:
            self.known.pop()

    @contextmanager
    def masked(self, cond: Value) -> Iterator[None]:
        before = self.mask
        self.mask = cond if before is None else self.s.logical_and(before, cond)
        try:
            yield
        finally:
            self.mask = before

    @contextmanager
    def unmasked(self) -> Iterator[None]:
        before, self.mask = self.mask, None
        lanes, self.lanes = self.lanes, 1
        var, self.lane_var = self.lane_var, None
        try:
            yield
        finally:
            self.mask, self.lanes, self.lane_var = before, lanes, var


def pure(e: Expr) -> bool:
    """Index arithmetic that reads no memory."""
    return not isinstance(e, Load) and all(map(pure, loops.children(e)))


def reads_memory(e: Expr, emitter: Emitter) -> bool:
    if isinstance(e, Load) and not emitter.memory[e.buffer].register:
        return True
    return any(reads_memory(c, emitter) for c in loops.children(e))
