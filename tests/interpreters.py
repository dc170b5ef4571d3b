"""The scalar language in numpy: `element` rules run one output element at a time, slowly and obviously."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tapecast.compiler.interpret import SCALAR_FUNCTIONS
from tapecast.compiler.lower.scalars import identity
from tapecast.eager.ops.scalars import result_dtype
from tapecast.eager.ops.table import Op
from tapecast.eager.ops.types import DTYPES, dtype_name


class Value:
    """A scalar with the name of its dtype."""

    __slots__ = ("dtype", "value")

    def __init__(self, value: Any, dtype: str) -> None:
        self.value, self.dtype = np.asarray(value).astype(DTYPES[dtype]), dtype


class OutOfBounds(IndexError):
    """A read outside an operand that no `select` guarded."""


class Lazy:
    """A value that is computed, once, when it is used: `select` leaves the side it does not choose unread."""

    __slots__ = ("compute", "dtype", "known")

    def __init__(self, compute: Any, dtype: str) -> None:
        self.compute, self.dtype, self.known = compute, dtype, None

    def force(self) -> Any:
        if self.known is None:
            self.known = self.compute()
        return self.known


class NumpyScalars:
    """The namespace `s`."""

    def __getattr__(self, name: str) -> Any:
        f = SCALAR_FUNCTIONS[name]

        def call(*args: Any) -> Lazy:
            assert len({a.dtype for a in args}) == 1, f"{name}: operands {[a.dtype for a in args]}"
            dtype = result_dtype(name, args[0].dtype)
            return Lazy(lambda: Value(f(*(value(a) for a in args)), dtype), dtype)

        return call

    def const(self, number: Any, dtype: str) -> Value:
        return Value(number, dtype)

    def index(self, n: int) -> Value:
        return Value(n, "int64")

    def cast(self, x: Any, dtype: str) -> Lazy:
        return Lazy(lambda: Value(value(x).astype(DTYPES[dtype]), dtype), dtype)

    def select(self, condition: Any, x: Any, y: Any) -> Lazy:
        assert condition.dtype == "bool" and x.dtype == y.dtype, (condition.dtype, x.dtype, y.dtype)
        return Lazy(lambda: forced(x if value(condition) else y), x.dtype)

    def place(self, k: Any, n: int) -> Lazy:
        def checked() -> Value:
            if not 0 <= value(k) < n:
                raise OutOfBounds(f"{value(k)} is no index into {n} elements")
            return forced(k)

        return Lazy(checked, "int64")

    def reduce(self, op: str, sizes: Any, body: Any) -> Value:
        """At once, as the loops do: a term must guard its own reads."""
        total, dtype = None, None
        for k in product(*(range(n) for n in sizes)):
            term = forced(body(*(self.index(i) for i in k)))
            total = term.value if total is None else SCALAR_FUNCTIONS[op](total, term.value)
            dtype = term.dtype
        if total is None:
            dtype = body(*(self.index(0) for _ in sizes)).dtype
            total = identity(op, dtype)
        return Value(total, dtype)


def forced(x: Any) -> Value:
    while isinstance(x, Lazy):
        x = x.force()
    return x


def value(x: Any) -> Any:
    return forced(x).value


class Reader:
    """An operand, read one element at a time; reading outside is an error."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.ndim = array, array.shape, array.ndim
        self.dtype = dtype_name(array.dtype)

    def __call__(self, *index: Any) -> Lazy:
        assert len(index) == self.ndim and all(i.dtype == "int64" for i in index)

        def read() -> Value:
            at = tuple(int(value(i)) for i in index)
            if any(not 0 <= i < n for i, n in zip(at, self.shape, strict=True)):
                raise OutOfBounds(f"read at {at} of an operand of {self.shape}")
            return Value(self.array[at], self.dtype)

        return Lazy(read, self.dtype)


def run_element(
    op: Op, arrays: list[np.ndarray], attrs: dict[str, Any], shape: Any, dtype: Any
) -> np.ndarray:
    """The output of `op`, each element by its `element` rule."""
    s, out = NumpyScalars(), np.empty(shape, dtype)
    readers = [Reader(a) for a in arrays]
    with np.errstate(all="ignore"):
        for at in np.ndindex(*out.shape):
            one = op.element(s, tuple(s.index(i) for i in at), *readers, **attrs)
            assert one.dtype == dtype_name(out.dtype), f"{op.name}: {one.dtype} instead of {out.dtype}"
            out[at] = value(one)
    return out
