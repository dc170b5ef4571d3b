"""The slow, obvious meaning of the loop grammar: what every schedule and emitter is tested against.

Iterations run one after the other in Python, each scalar as a numpy scalar of its dtype. An index out of bounds
is an error here, so a kernel that passes reads and writes only its buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from scipy import special

from ..eager.ops.arrays import converted
from ..eager.ops.types import DTYPES
from .loops import (
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
)

Function = Callable[..., Any]


def _int_division(f: Function) -> Function:
    """Division by zero gives zero, as in compiled code, where it must not trap."""

    def divide(x: Any, y: Any) -> Any:
        return x * 0 if np.issubdtype(type(y), np.integer) and y == 0 else f(x, y)

    return divide


def _round(x: Any) -> Any:
    """Half to even. Integers stay as they are, where rint would take them through float64."""
    return x if isinstance(x, np.integer) else np.rint(x)


def _shift(f: Function) -> Function:
    """Shifts see the bits: a right shift brings in zeros whatever the sign."""

    def shift(x: Any, n: Any) -> Any:
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        return f(x.view(unsigned), n.astype(unsigned)).view(x.dtype)

    return shift


SCALAR_FUNCTIONS: dict[str, Function] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "floordiv": _int_division(np.floor_divide),
    "mod": _int_division(np.mod),
    "neg": lambda x: -x,
    "abs": np.abs,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": _round,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "erf": special.erf,
    "pow": np.power,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "isnan": np.isnan,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
}


def interpret(
    kernel: Kernel,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Run `kernel` on dense arrays, one per buffer, writing its outputs in place.

    `sizes` gives every dynamic size (`threads` defaults to 1). An array may have another shape than its buffer, as
    long as it has as many elements: the memory is what counts.
    """
    run = _Run({}, {"threads": 1, **(sizes or {})})
    for b in kernel.buffers:
        shape = tuple(int(run.expr(n)) for n in b.shape)
        if not arrays[b.name].flags.c_contiguous or arrays[b.name].size != np.prod(shape, dtype=int):
            raise ValueError(f"{kernel.name}: buffer {b.name} wants a dense array of {list(shape)}")
        run.arrays[b.name] = arrays[b.name].reshape(shape)
    with np.errstate(all="ignore"):
        for _ in run.body(kernel.body):
            raise ValueError(f"{kernel.name}: a sync outside of any block loop")


class _Run:
    """One run: the buffers, the sizes and the loop variables in force. `body` yields at every `Sync`."""

    def __init__(self, arrays: dict[str, Any], sizes: dict[str, int]) -> None:
        self.arrays, self.sizes, self.vars = arrays, sizes, dict[str, int]()

    def body(self, body: Body) -> Iterator[None]:
        for s in body:
            yield from self.stmt(s)

    def stmt(self, s: Stmt) -> Iterator[None]:
        match s:
            case For(kind="block"):
                self.block(s)
            case For(var, extent, _, body):
                for i in range(int(self.expr(extent))):
                    self.vars[var] = i
                    yield from self.body(body)
                self.vars.pop(var, None)
            case Store() | Accumulate():
                self.assign(s)
            case Alloc(b, shape, dtype, _, body):
                self.arrays[b] = _undefined(shape, dtype)
                yield from self.body(body)
                del self.arrays[b]
            case If(cond, body):
                if self.expr(cond):
                    yield from self.body(body)
            case Let(var, value, body):
                self.vars[var] = int(self.expr(value))
                yield from self.body(body)
            case Sync():
                yield

    def assign(self, s: Store | Accumulate) -> None:
        at, value = self.place(s.buffer, s.index), self.expr(s.value)
        if isinstance(s, Accumulate):
            value = SCALAR_FUNCTIONS[s.op](self.arrays[s.buffer][at], value)
        self.arrays[s.buffer][at] = value

    def block(self, s: For) -> None:
        """All iterations side by side, each with variables and registers of its own, in step at every `Sync`."""
        threads = []
        for i in range(int(self.expr(s.extent))):
            one = _Run(dict(self.arrays), self.sizes)
            one.vars = {**self.vars, s.var: i}
            threads.append(one.body(s.body))
        while threads:
            threads = [t for t in threads if next(t, self) is None]

    def place(self, b: str, index: tuple[Expr, ...]) -> tuple[int, ...]:
        at = tuple(int(self.expr(i)) for i in index)
        shape = self.arrays[b].shape
        if len(at) != len(shape) or any(not 0 <= i < n for i, n in zip(at, shape, strict=True)):
            raise IndexError(f"{b}[{', '.join(map(str, at))}] is outside {list(shape)} with {self.vars}")
        return at

    def expr(self, e: Expr) -> Any:
        match e:
            case Const(value, dtype):
                return DTYPES[dtype].type(value)
            case Index(var):
                return np.int64(self.vars[var])
            case Size(name):
                return np.int64(self.sizes[name])
            case Load(b, index):
                return self.arrays[b][self.place(b, index)]
            case Scalar(op, args, dtype):
                return DTYPES[dtype].type(SCALAR_FUNCTIONS[op](*map(self.expr, args)))
            case Select(cond, then, other):
                return self.expr(then if self.expr(cond) else other)
            case Cast(value, dtype):
                return converted(self.expr(value), DTYPES[dtype])
        raise TypeError(f"not a loop expression: {e!r}")


def _undefined(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Fresh storage that shows when it is read before it is written: nan, or all bits set."""
    raw = np.full(shape, 0, DTYPES[dtype])
    fill: Any = np.nan if raw.dtype.kind in "fV" else True if raw.dtype.kind == "b" else -1
    raw[...] = np.array(fill).astype(raw.dtype)
    return raw
