"""The loop level: one small grammar below the graph, shared by the CPU and the CUDA backend.

    kernel = Kernel(name, buffers, sizes, body)             buffer = Buffer(name, shape, dtype, role)
    expr   = Const(value, dtype) | Index(var) | Size(name) | Load(buffer, index*, dtype)
           | Scalar(op, expr*, dtype) | Select(cond, expr, expr, dtype) | Cast(expr, dtype)
    stmt   = For(var, extent, kind, stmt*) | Store(buffer, index*, expr) | Accumulate(buffer, index*, op, expr)
           | Alloc(buffer, shape, dtype, scope, stmt*) | If(cond, stmt*) | Let(var, expr, stmt*)
           | Prefetch(buffer, index*) | Sync
    kind   = serial | parallel | vector | unroll | grid | block
    scope  = global | shared | register
    role   = in | out | temp | weight | status

Meaning, which `interpret.py` spells out slowly and every emitter must agree with:

* A buffer is dense and row-major in its own shape. Index expressions are int64; a shape may hold expressions.
* `For` runs its body for var = 0 .. extent-1. All kinds mean the same values; they differ in who runs the
  iterations: `parallel`, `grid` and `block` iterations are independent of each other, `vector` iterations are
  independent except for an `Accumulate` into a place that does not depend on var, which sums over the lanes.
* `Accumulate(b, i, op, e)` is b[i] = b[i] op e. With op "add" and e a product it is one fused multiply-add.
* `Select` evaluates only the side it chooses, and a statement under a false `If` touches no memory: both may
  guard a load that is out of bounds. `Alloc` gives fresh, undefined storage for the statements in it.
* `Sync`, directly in the body of a `block` loop or under serial loops of it, waits for all iterations of that loop.
  A `shared` buffer is one for all of them; registers inside are each iteration's own.

Scalar functions are those of `eager.ops.scalars`. Nodes are immutable, compare by value and print as the text
that golden tests hold.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

INDEX = "int64"


class Node:
    """A piece of a kernel: immutable, equal to another of its class with equal fields."""

    __slots__ = ()

    def replace(self, **changes: Any) -> Self:
        """The same with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True, eq=False)
class Const(Node):
    """A literal. A float constant holds a Python float, rounded to `dtype` where it is emitted."""

    value: float | int | bool
    dtype: str = INDEX

    def __eq__(self, other: object) -> bool:
        """0.0 and -0.0 are different constants, and so are 1 and True."""
        return (
            isinstance(other, Const) and self.dtype == other.dtype and repr(self.value) == repr(other.value)
        )

    def __hash__(self) -> int:
        return hash((self.dtype, self.value))


@dataclass(frozen=True, slots=True)
class Index(Node):
    """The variable of an enclosing loop."""

    var: str
    dtype: str = INDEX


@dataclass(frozen=True, slots=True)
class Size(Node):
    """A size known only at the call: a dynamic dimension, or `threads`, the number the caller may use."""

    name: str
    dtype: str = INDEX


@dataclass(frozen=True, slots=True)
class Load(Node):
    buffer: str
    index: tuple[Expr, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Scalar(Node):
    op: str
    args: tuple[Expr, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Select(Node):
    cond: Expr
    then: Expr
    other: Expr
    dtype: str


@dataclass(frozen=True, slots=True)
class Cast(Node):
    value: Expr
    dtype: str


Expr = Const | Index | Size | Load | Scalar | Select | Cast


@dataclass(frozen=True, slots=True)
class For(Node):
    var: str
    extent: Expr
    kind: str
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Store(Node):
    buffer: str
    index: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Accumulate(Node):
    buffer: str
    index: tuple[Expr, ...]
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Alloc(Node):
    buffer: str
    shape: tuple[int, ...]
    dtype: str
    scope: str
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class If(Node):
    cond: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Let(Node):
    """An index computed once for the statements in it, where it is read as `Index(var)`."""

    var: str
    value: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Prefetch(Node):
    """A hint that this element, which may lie past the end, is read soon. It changes no value."""

    buffer: str
    index: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Sync(Node):
    pass


Stmt = For | Store | Accumulate | Alloc | If | Let | Prefetch | Sync
Body = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Buffer(Node):
    """A parameter of a kernel: dense, row-major in `shape`."""

    name: str
    shape: tuple[Expr, ...]
    dtype: str
    role: str


@dataclass(frozen=True, slots=True)
class Kernel(Node):
    """One function of the library. `sizes` are the names its `Size` expressions may use, in call order."""

    name: str
    buffers: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    body: Body

    def __str__(self) -> str:
        return kernel_text(self)


# ---- building index arithmetic: constants fold, so that text and code stay readable ------------------------------


def const(n: int) -> Const:
    return Const(int(n), INDEX)


def add(x: Expr, y: Expr) -> Expr:
    """x + y, with the constant last: `(x + 1) + 2` becomes `x + 3`."""
    match x, y:
        case Const(a), Const(b):
            return Const(a + b, x.dtype)
        case Const(), _:
            return add(y, x)
        case _, Const(0):
            return x
        case Scalar("add", (u, Const(a))), Const(b):
            return add(u, const(int(a) + int(b)))
        case _, Scalar("add", (u, Const() as c)):
            return add(add(x, u), c)
    return Scalar("add", (x, y), INDEX)


def sub(x: Expr, y: Expr) -> Expr:
    match x, y:
        case _, Const(b):
            return add(x, const(-int(b)))
        case _ if x == y:
            return const(0)
    return Scalar("sub", (x, y), INDEX)


def mul(x: Expr, y: Expr) -> Expr:
    """x * y, with the constant last: `(x * 2) * 3` becomes `x * 6`."""
    match x, y:
        case Const(a), Const(b):
            return const(int(a) * int(b))
        case Const(), _:
            return mul(y, x)
        case _, Const(0):
            return const(0)
        case _, Const(1):
            return x
        case Scalar("mul", (u, Const(a))), Const(b):
            return mul(u, const(int(a) * int(b)))
        case Scalar("add", (u, Const(a))), Const(b):
            return add(mul(u, y), const(int(a) * int(b)))
    return Scalar("mul", (x, y), INDEX)


def floordiv(x: Expr, y: Expr) -> Expr:
    match x, y:
        case Const(a), Const(b):
            return const(int(a) // int(b))
        case _, Const(1):
            return x
        case Scalar("mul", (u, Const(a))), Const(b) if int(a) % int(b) == 0:
            return mul(u, const(int(a) // int(b)))
    return Scalar("floordiv", (x, y), INDEX)


def mod(x: Expr, y: Expr) -> Expr:
    match x, y:
        case Const(a), Const(b):
            return const(int(a) % int(b))
        case _, Const(1):
            return const(0)
        case Scalar("mul", (_, Const(a))), Const(b) if int(a) % int(b) == 0:
            return const(0)
    return Scalar("mod", (x, y), INDEX)


def minimum(x: Expr, y: Expr) -> Expr:
    match x, y:
        case Const(a), Const(b):
            return const(min(int(a), int(b)))
        case _ if x == y:
            return x
    return Scalar("minimum", (x, y), INDEX)


def maximum(x: Expr, y: Expr) -> Expr:
    match x, y:
        case Const(a), Const(b):
            return const(max(int(a), int(b)))
        case _ if x == y:
            return x
    return Scalar("maximum", (x, y), INDEX)


def less(x: Expr, y: Expr) -> Expr:
    match x, y:
        case Const(a), Const(b):
            return Const(a < b, "bool")
    return Scalar("lt", (x, y), "bool")


def product(factors: tuple[Expr, ...]) -> Expr:
    out: Expr = const(1)
    for f in factors:
        out = mul(out, f)
    return out


def ceildiv(x: Expr, n: int) -> Expr:
    return floordiv(add(x, const(n - 1)), const(n))


INDEX_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "floordiv": floordiv,
    "mod": mod,
    "minimum": minimum,
    "maximum": maximum,
    "lt": less,
}


def scalar(op: str, *args: Expr, dtype: str) -> Expr:
    """A `Scalar` node; integer index arithmetic folds its constants on the way."""
    if dtype == INDEX and op in INDEX_ARITHMETIC and all(a.dtype == INDEX for a in args):
        return INDEX_ARITHMETIC[op](*args)
    return Scalar(op, tuple(args), dtype)


# ---- walking ------------------------------------------------------------------------------------------------------


def children(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Load(_, index):
            return index
        case Scalar(_, args):
            return args
        case Select(cond, then, other):
            return (cond, then, other)
        case Cast(value):
            return (value,)
    return ()


def with_children(e: Expr, new: tuple[Expr, ...]) -> Expr:
    """`e` with other subexpressions; itself when they are the same objects. Index arithmetic is simplified again."""
    if all(map(operator.is_, new, children(e))):
        return e
    match e:
        case Load(b, _, dtype):
            return Load(b, new, dtype)
        case Scalar(op, _, dtype):
            return scalar(op, *new, dtype=dtype)
        case Select(_, _, _, dtype):
            return Select(new[0], new[1], new[2], dtype)
        case Cast(_, dtype):
            return Cast(new[0], dtype)
    return e


def map_expr(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """`e` rebuilt bottom-up, `f` applied to every node."""
    return f(with_children(e, tuple(map_expr(c, f) for c in children(e))))


def map_stmt(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """`s` with `f` applied to every expression node in it (see `map_expr`)."""

    def e(x: Expr) -> Expr:
        return map_expr(x, f)

    match s:
        case For(var, extent, kind, body):
            return For(var, e(extent), kind, map_body(body, f))
        case Store(b, index, value):
            return Store(b, tuple(map(e, index)), e(value))
        case Accumulate(b, index, op, value):
            return Accumulate(b, tuple(map(e, index)), op, e(value))
        case Alloc(b, shape, dtype, scope, body):
            return Alloc(b, shape, dtype, scope, map_body(body, f))
        case If(cond, body):
            return If(e(cond), map_body(body, f))
        case Let(var, value, body):
            return Let(var, e(value), map_body(body, f))
        case Prefetch(b, index):
            return Prefetch(b, tuple(map(e, index)))
    return s


def map_body(body: Body, f: Callable[[Expr], Expr]) -> Body:
    return tuple(map_stmt(s, f) for s in body)


def substitute(body: Body, var: str, value: Expr) -> Body:
    """`body` with the loop variable `var` replaced by an expression."""
    return map_body(body, lambda e: value if e == Index(var) else e)


Access = tuple[str, tuple[Expr, ...]]


def map_access(body: Body, f: Callable[[str, tuple[Expr, ...]], Access]) -> Body:
    """`body` with every access moved: `f(buffer, index)` says which place is read or written instead."""

    def load(e: Expr) -> Expr:
        return Load(*f(e.buffer, e.index), e.dtype) if isinstance(e, Load) else e

    def store(s: Stmt) -> Stmt:
        match s:
            case Store(b, index, value):
                return Store(*f(b, index), value)
            case Accumulate(b, index, op, value):
                return Accumulate(*f(b, index), op, value)
            case Prefetch(b, index):
                return Prefetch(*f(b, index))
            case For() | If() | Alloc() | Let():
                return s.replace(body=tuple(map(store, s.body)))
        return s

    return tuple(map(store, map_body(body, load)))


def statements(body: Body) -> Iterator[Stmt]:
    """Every statement, outer before inner."""
    for s in body:
        yield s
        if isinstance(s, (For, If, Alloc, Let)):
            yield from statements(s.body)


def expressions(body: Body) -> Iterator[Expr]:
    """Every expression node of every statement, with its subexpressions."""

    def walk(e: Expr) -> Iterator[Expr]:
        yield e
        for c in children(e):
            yield from walk(c)

    for s in statements(body):
        for e in stmt_exprs(s):
            yield from walk(e)


def stmt_exprs(s: Stmt) -> tuple[Expr, ...]:
    """The expressions a statement holds itself, not those of statements inside it."""
    match s:
        case For(_, extent):
            return (extent,)
        case Store(_, index, value):
            return (*index, value)
        case Accumulate(_, index, _, value):
            return (*index, value)
        case If(cond):
            return (cond,)
        case Let(_, value):
            return (value,)
        case Prefetch(_, index):
            return index
    return ()


def depends_on(e: Expr, names: set[str]) -> bool:
    """Does the expression read one of these loop variables (or buffers)?"""
    match e:
        case Index(var):
            return var in names
        case Load(b, index):
            return b in names or any(depends_on(i, names) for i in index)
    return any(depends_on(c, names) for c in children(e))


# ---- text ---------------------------------------------------------------------------------------------------------

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}


def expr_text(e: Expr) -> str:
    match e:
        case Const(value):
            return repr(value)
        case Index(var):
            return var
        case Size(name):
            return name
        case Load(b, index):
            return f"{b}[{', '.join(map(expr_text, index))}]"
        case Scalar(op, (x, y)) if op in _INFIX:
            return f"({expr_text(x)} {_INFIX[op]} {expr_text(y)})"
        case Scalar(op, args):
            return f"{op}({', '.join(map(expr_text, args))})"
        case Select(cond, then, other):
            return f"({expr_text(then)} if {expr_text(cond)} else {expr_text(other)})"
        case Cast(value, dtype):
            return f"{dtype}({expr_text(value)})"
    raise TypeError(f"not a loop expression: {e!r}")


def _strip(text: str) -> str:
    """Drop the parentheses around a whole expression."""
    if not text.startswith("("):
        return text
    depth = 0
    for at, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[1:-1] if at == len(text) - 1 else text
    return text


def stmt_lines(s: Stmt, pad: str) -> Iterator[str]:
    def place(b: str, index: tuple[Expr, ...]) -> str:
        return f"{b}[{', '.join(_strip(expr_text(i)) for i in index)}]"

    match s:
        case For(var, extent, kind, body):
            yield f"{pad}{kind} {var} < {_strip(expr_text(extent))}:"
            yield from body_lines(body, pad + "  ")
        case Store(b, index, value):
            yield f"{pad}{place(b, index)} = {_strip(expr_text(value))}"
        case Accumulate(b, index, op, value):
            sign = "+=" if op == "add" else f"{op}="
            yield f"{pad}{place(b, index)} {sign} {_strip(expr_text(value))}"
        case Alloc(b, shape, dtype, scope, body):
            yield f"{pad}{scope} {b}: {dtype}[{', '.join(map(str, shape))}]"
            yield from body_lines(body, pad)
        case If(cond, body):
            yield f"{pad}if {_strip(expr_text(cond))}:"
            yield from body_lines(body, pad + "  ")
        case Let(var, value, body):
            yield f"{pad}{var} = {_strip(expr_text(value))}"
            yield from body_lines(body, pad)
        case Prefetch(b, index):
            yield f"{pad}prefetch {place(b, index)}"
        case Sync():
            yield f"{pad}sync"


def body_lines(body: Body, pad: str) -> Iterator[str]:
    for s in body:
        yield from stmt_lines(s, pad)


def kernel_text(k: Kernel) -> str:
    params = [
        f"{b.name}: {b.role} {b.dtype}[{', '.join(_strip(expr_text(n)) for n in b.shape)}]" for b in k.buffers
    ]
    return "\n".join([f"kernel {k.name}({', '.join([*params, *k.sizes])}):", *body_lines(k.body, "  ")])


def debug(x: Any) -> str:
    """The text of any node, for eyes."""
    if isinstance(x, Kernel):
        return kernel_text(x)
    if isinstance(x, tuple):
        return "\n".join(body_lines(x, ""))
    return expr_text(x) if hasattr(x, "dtype") and not isinstance(x, Alloc) else "\n".join(stmt_lines(x, ""))
