"""Scheduled kernels as CUDA C++. It decides nothing: grid, block, shared memory and registers are in the loops.

| grammar        | CUDA C++                                                                              |
|----------------|---------------------------------------------------------------------------------------|
| For grid/block | blockIdx / threadIdx, in the order they stand: x, y, z; extents give the launch        |
| For others     | a for loop; `unroll` with #pragma unroll                                              |
| Alloc          | a local array (register) or __shared__ memory                                         |
| Sync           | __syncthreads()                                                                       |
| buffer, size   | a pointer parameter, `long long`                                                      |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .. import loops
from ..affine import offset
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
    Sync,
    statements,
)
from .scalars import PREAMBLE, TYPES, constant, scalar_text

_AXES = "xyz"
_HALVES = ("float16", "bfloat16")


class Launch(NamedTuple):
    """How to start a kernel: the extents of its grid and block, up to three each."""

    grid: tuple[Expr, ...]
    block: tuple[Expr, ...]


def source(kernels: list[Kernel]) -> str:
    """One CUDA C++ file with all kernels, `extern "C"`, in need of no header."""
    return "\n".join([PREAMBLE, *map(kernel_source, kernels)])


def launch(kernel: Kernel) -> Launch:
    found: dict[str, list[Expr]] = {"grid": [], "block": []}
    for s in statements(kernel.body):
        if isinstance(s, For) and s.kind in found:
            found[s.kind].append(s.extent)
    return Launch(tuple(found["grid"]), tuple(found["block"]))


def kernel_source(kernel: Kernel) -> str:
    writer = _Writer(kernel)
    bounds = 1
    for n in launch(kernel).block:
        bounds *= int(n.value) if isinstance(n, Const) else 1
    params = [writer.parameter(b.name) for b in kernel.buffers] + [f"long long {n}" for n in kernel.sizes]
    head = f'extern "C" __global__ void __launch_bounds__({bounds}) {kernel.name}({", ".join(params)}) {{'
    return "\n".join([head, *writer.body(kernel.body, "  "), "}"]) + "\n"


class _Writer:
    def __init__(self, kernel: Kernel) -> None:
        self.shapes = {b.name: b.shape for b in kernel.buffers}
        self.dtypes = {b.name: b.dtype for b in kernel.buffers}
        self.written = {s.buffer for s in statements(kernel.body) if isinstance(s, (Store, Accumulate))}
        self.counts = {"grid": 0, "block": 0}

    def parameter(self, name: str) -> str:
        const = "" if name in self.written else "const "
        return f"{const}{TYPES[self.dtypes[name]]} *__restrict__ {safe(name)}"

    def body(self, body: Body, pad: str) -> Iterator[str]:
        for s in body:
            yield from self.stmt(s, pad)

    def stmt(self, s: Stmt, pad: str) -> Iterator[str]:
        match s:
            case For(kind="grid" | "block"):
                yield from self.mapped(s, pad)
            case For(var, extent, kind, body):
                if kind == "unroll":
                    yield f"{pad}#pragma unroll"
                yield f"{pad}for (long long {var} = 0; {var} < {self.expr(extent)}; {var}++) {{"
                yield from self.body(body, pad + "  ")
                yield pad + "}"
            case Store(b, index, value):
                yield f"{pad}{self.place(b, index)} = {self.stored(self.expr(value), value.dtype)};"
            case Accumulate():
                yield pad + self.accumulate(s)
            case Alloc():
                yield from self.alloc(s, pad)
            case If(cond, body):
                yield f"{pad}if ({self.expr(cond)}) {{"
                yield from self.body(body, pad + "  ")
                yield pad + "}"
            case Sync():
                yield f"{pad}__syncthreads();"

    def mapped(self, s: For, pad: str) -> Iterator[str]:
        """A loop whose iterations are blocks or threads: its variable is read, not counted."""
        axis = _AXES[self.counts[s.kind]]
        self.counts[s.kind] += 1
        yield f"{pad}const long long {s.var} = {'blockIdx' if s.kind == 'grid' else 'threadIdx'}.{axis};"
        yield from self.body(s.body, pad)

    def alloc(self, s: Alloc, pad: str) -> Iterator[str]:
        self.shapes[s.buffer], self.dtypes[s.buffer] = tuple(map(loops.const, s.shape)), s.dtype
        count = 1
        for n in s.shape:
            count *= n
        shared = "__shared__ " if s.scope == "shared" else ""
        yield f"{pad}{shared}{TYPES[s.dtype]} {safe(s.buffer)}[{count}];"
        yield from self.body(s.body, pad)

    def accumulate(self, s: Accumulate) -> str:
        place = self.place(s.buffer, s.index)
        dtype = s.value.dtype
        old = self.loaded(place, dtype)
        match s.value:
            case Scalar("mul", (x, y), "float32" | "float64") if s.op == "add":
                fma = "fmaf" if dtype == "float32" else "fma"
                return f"{place} = {fma}({self.expr(x)}, {self.expr(y)}, {old});"
        combined = scalar_text(Scalar(s.op, (s.value, s.value), dtype), [old, self.expr(s.value)], dtype)
        return f"{place} = {self.stored(combined, dtype)};"

    def place(self, b: str, index: tuple[Expr, ...]) -> str:
        return f"{safe(b)}[{self.expr(offset(index, self.shapes[b]))}]"

    def loaded(self, place: str, dtype: str) -> str:
        """16-bit floats are numbers only as float."""
        return f"tc_float({place})" if dtype in _HALVES else place

    def stored(self, text: str, dtype: str) -> str:
        return f"tc_to_{'half' if dtype == 'float16' else 'bfloat'}({text})" if dtype in _HALVES else text

    def expr(self, e: Expr) -> str:
        match e:
            case Const(value, dtype):
                return constant(value, dtype)
            case Index(var):
                return var
            case Size(name):
                return name
            case Load(b, index, dtype):
                return self.loaded(self.place(b, index), dtype)
            case Scalar(_, args, dtype):
                return self.rounded(scalar_text(e, [self.expr(a) for a in args], args[0].dtype), dtype)
            case Select(cond, then, other):
                return f"({self.expr(cond)} ? {self.expr(then)} : {self.expr(other)})"
            case Cast(value, dtype):
                return self.cast(self.expr(value), value.dtype, dtype)
        raise TypeError(f"not a loop expression: {e!r}")

    def rounded(self, text: str, dtype: str) -> str:
        """The result of one operation on 16-bit floats, rounded to 16 bits as eager does."""
        return f"tc_float({self.stored(text, dtype)})" if dtype in _HALVES else text

    def cast(self, text: str, source: str, dtype: str) -> str:
        if dtype == "bool":
            return f"({text} != 0)"
        if dtype in _HALVES:
            return self.rounded(f"(float)({text})", dtype)
        return f"(({TYPES[dtype]})({text}))"


def safe(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
