"""Scheduled kernels as CUDA C++. It decides nothing: grid, block, shared memory and registers are in the loops.

| grammar        | CUDA C++                                                                               |
|----------------|----------------------------------------------------------------------------------------|
| For grid/block | blockIdx / threadIdx, in the order they stand: x, y, z; extents give the launch         |
| For others     | a for loop; `unroll` with #pragma unroll                                               |
| Alloc          | a local array (register) or __shared__ memory                                          |
| Let            | a constant of type long long                                                           |
| Sync           | __syncthreads()                                                                        |
| buffer b       | a pointer parameter `b_<name>`                                                         |
| size n         | a parameter `long long n_<name>`, after the buffers                                    |

Sizes are named by users and buffers by the compiler; the prefixes keep them apart from loop variables, from each
other and from the words of C++.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .. import loops
from ..affine import nonnegative, offset
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
    Scalar,
    Select,
    Size,
    Stmt,
    Store,
    Sync,
    statements,
)
from ..sizes import evaluate_size
from .scalars import PREAMBLE, TYPES, cast_text, constant, loaded, rounded, scalar_text, stored

_AXES = "xyz"
_PLAIN = {"add": "+", "sub": "-", "mul": "*", "floordiv": "/", "mod": "%"}


#: Counts along x, y, z.
Extent = tuple[int, int, int]


class Launch(NamedTuple):
    """How to start a kernel: the size of its grid, an expression of the sizes at the call, and of its block.

    Both have up to three axes, x first. A grid without blocks (an empty array) is not to be launched at all.
    """

    grid: tuple[Expr, ...]
    block: tuple[int, ...]

    def at(self, sizes: Mapping[str, int]) -> tuple[Extent, Extent]:
        """Grid and block in blocks and threads along x, y, z at known sizes."""
        return _three(evaluate_size(n, dict(sizes)) for n in self.grid), _three(self.block)


def _three(extents: Iterable[int]) -> Extent:
    x, y, z = (*extents, 1, 1, 1)[:3]
    return x, y, z


def source(kernels: Iterable[Kernel]) -> str:
    """One CUDA C++ file with all kernels, `extern "C"`, in need of no header."""
    return "\n".join([PREAMBLE, *map(kernel_source, kernels)])


def launch(kernel: Kernel) -> Launch:
    """The launch of a kernel scheduled for the GPU. ValueError for a block whose size is not constant."""
    grid, block = _extents(kernel, "grid"), _extents(kernel, "block")
    if not all(isinstance(n, Const) for n in block):
        text = ", ".join(map(loops.expr_text, block))
        raise ValueError(f"{kernel.name}: a block wants constant extents, got [{text}]; tile the loop first")
    return Launch(grid, tuple(int(n.value) for n in block if isinstance(n, Const)))


def _extents(kernel: Kernel, kind: str) -> tuple[Expr, ...]:
    found = tuple(s.extent for s in statements(kernel.body) if isinstance(s, For) and s.kind == kind)
    if len(found) > len(_AXES):
        raise ValueError(f"{kernel.name}: a launch has three axes, got {len(found)} {kind} loops")
    return found


def kernel_source(kernel: Kernel) -> str:
    """The definition of one kernel: its parameters are the buffers, in order, then the sizes."""
    writer = _Writer(kernel)
    threads = 1
    for n in launch(kernel).block:
        threads *= n
    params = [writer.parameter(b.name) for b in kernel.buffers]
    params += [f"long long {size_name(n)}" for n in kernel.sizes]
    head = f'extern "C" __global__ void __launch_bounds__({threads}) {kernel.name}({", ".join(params)}) {{'
    return "\n".join([head, *writer.body(kernel.body, "  "), "}"]) + "\n"


def buffer_name(name: str) -> str:
    return "b_" + "".join(c if c.isalnum() else "_" for c in name)


def size_name(name: str) -> str:
    return f"n_{name}"


def reads_no_value(e: Expr) -> bool:
    """Is the expression arithmetic on loop variables, sizes and constants alone?"""
    return not isinstance(e, (Load, Cast)) and all(map(reads_no_value, loops.children(e)))


class _Writer:
    """Writes the body of one kernel. `shapes` and `dtypes` are of the buffers in scope."""

    def __init__(self, kernel: Kernel) -> None:
        self.shapes: dict[str, tuple[Expr, ...]] = {b.name: b.shape for b in kernel.buffers}
        self.dtypes = {b.name: b.dtype for b in kernel.buffers}
        self.written = {s.buffer for s in statements(kernel.body) if isinstance(s, (Store, Accumulate))}
        self.registers: set[str] = set()
        self.axes = {"grid": iter(_AXES), "block": iter(_AXES)}

    def parameter(self, name: str) -> str:
        const = "" if name in self.written else "const "
        return f"{const}{TYPES[self.dtypes[name]]} *__restrict__ {buffer_name(name)}"

    # ---- statements ----

    def body(self, body: Body, pad: str) -> Iterator[str]:
        """Statements in a scope that the caller has opened; one that declares something does so in a scope of its own,
        unless it has this one to itself."""
        alone = len(body) == 1
        for s in body:
            match s:
                case Let() | Alloc() | For(kind="grid" | "block") if not alone:
                    yield f"{pad}{{"
                    yield from self.stmt(s, pad + "  ")
                    yield pad + "}"
                case _:
                    yield from self.stmt(s, pad)

    def stmt(self, s: Stmt, pad: str) -> Iterator[str]:
        match s:
            case For(kind="grid" | "block"):
                yield from self.mapped(s, pad)
            case For(var, extent, kind, body):
                if kind == "unroll":
                    yield f"{pad}#pragma unroll"
                head = f"for (long long {var} = 0; {var} < {self.index(extent)}; {var}++)"
                yield from self.braces(head, body, pad)
            case Store(b, index, value):
                yield f"{pad}{self.place(b, index)} = {stored(self.unrounded(value), value.dtype)};"
            case Accumulate():
                yield pad + self.accumulate(s)
            case Alloc():
                yield from self.alloc(s, pad)
            case If(cond, body):
                yield from self.braces(f"if ({self.index(cond)})", body, pad)
            case Let(var, value, body):
                yield f"{pad}const long long {var} = {self.index(value)};"
                yield from self.body(body, pad)
            case Sync():
                yield f"{pad}__syncthreads();"

    def braces(self, head: str, body: Body, pad: str) -> Iterator[str]:
        yield f"{pad}{head} {{"
        yield from self.body(body, pad + "  ")
        yield pad + "}"

    def mapped(self, s: For, pad: str) -> Iterator[str]:
        """A loop whose iterations are blocks or threads: its variable is read, not counted."""
        counter = "blockIdx" if s.kind == "grid" else "threadIdx"
        yield f"{pad}const long long {s.var} = {counter}.{next(self.axes[s.kind])};"
        yield from self.body(s.body, pad)

    def alloc(self, s: Alloc, pad: str) -> Iterator[str]:
        self.shapes[s.buffer], self.dtypes[s.buffer] = tuple(map(loops.const, s.shape)), s.dtype
        count = 1
        for n in s.shape:
            count *= n
        if s.scope == "register" and not s.shape:
            self.registers.add(s.buffer)
        size = "" if s.buffer in self.registers else f"[{count}]"
        shared = "__shared__ " if s.scope == "shared" else ""
        yield f"{pad}{shared}{TYPES[s.dtype]} {buffer_name(s.buffer)}{size};"
        yield from self.body(s.body, pad)

    def accumulate(self, s: Accumulate) -> str:
        place, dtype = self.place(s.buffer, s.index), s.value.dtype
        match s.value:
            case Scalar("mul", (x, y), "float32" | "float64") if s.op == "add":
                fma = "fmaf" if dtype == "float32" else "fma"
                return f"{place} = {fma}({self.expr(x)}, {self.expr(y)}, {place});"
        combined = scalar_text(s.op, [loaded(place, dtype), self.expr(s.value)], dtype)
        return f"{place} = {stored(combined, dtype)};"

    # ---- expressions ----

    def place(self, b: str, index: Sequence[Expr]) -> str:
        if b in self.registers:
            return buffer_name(b)
        return f"{buffer_name(b)}[{self.index(offset(index, self.shapes[b]))}]"

    def expr(self, e: Expr) -> str:
        """A value, rounded to its dtype."""
        match e:
            case Const(value, dtype):
                return constant(value, dtype)
            case Index(var):
                return var
            case Size(name):
                return size_name(name)
            case Load(b, index, dtype):
                return loaded(self.place(b, index), dtype)
            case Select(cond, then, other):
                test = self.index(cond) if reads_no_value(cond) else self.expr(cond)
                return f"({test} ? {self.expr(then)} : {self.expr(other)})"
            case Scalar() | Cast():
                return rounded(self.unrounded(e), e.dtype)
        raise TypeError(f"not a loop expression: {e!r}")

    def unrounded(self, e: Expr) -> str:
        """A value on its way to memory, where it is rounded anyway: 16-bit floats may still have a float's digits."""
        match e:
            case Scalar(op, args):
                return scalar_text(op, [self.expr(a) for a in args], args[0].dtype)
            case Cast(value, dtype):
                return cast_text(self.expr(value), value.dtype, dtype)
        return self.expr(e)

    def index(self, e: Expr) -> str:
        """Index arithmetic, which stays within bounds: no wrapping, and plain division where nothing is negative."""
        match e:
            case Scalar("add" | "sub" | "mul", (x, y), "int64"):
                return f"({self.index(x)} {_PLAIN[e.op]} {self.index(y)})"
            case Scalar("floordiv" | "mod", (x, y), "int64") if nonnegative(x) and nonnegative(y):
                return f"({self.index(x)} {_PLAIN[e.op]} {self.index(y)})"
            case Scalar(op, args, "bool"):
                return scalar_text(op, [self.index(a) for a in args], args[0].dtype)
        return self.expr(e)
