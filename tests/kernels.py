"""Canonical kernels made by hand, with the arrays to run them on: what schedules and emitters are tested with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapecast.compiler import loops
from tapecast.compiler.loops import (
    Accumulate,
    Alloc,
    Body,
    Buffer,
    Const,
    Expr,
    For,
    Index,
    Kernel,
    Load,
    Scalar,
    Select,
    Size,
    Store,
    const,
)


class Case(NamedTuple):
    """A kernel, its dynamic sizes, its input arrays, and the name and shape of its output."""

    name: str
    kernel: Kernel
    sizes: dict[str, int]
    arrays: dict[str, np.ndarray[Any, Any]]
    output: str


def f32(op: str, *args: Expr) -> Expr:
    return Scalar(op, args, "float32")


def load(buffer: str, *index: Expr) -> Expr:
    return Load(buffer, index, "float32")


def i(k: int) -> Expr:
    return Index(f"i{k}")


def k(n: int) -> Expr:
    return Index(f"k{n}")


def summed(term: Expr, extents: list[Expr], then: Body, op: str = "add", start: float = 0.0) -> Body:
    """`acc = start; for k…: acc op= term; then`."""
    body: Body = (Accumulate("acc", (), op, term),)
    for n, extent in reversed(list(enumerate(extents))):
        body = (For(f"k{n}", extent, "serial", body),)
    return (
        Alloc("acc", (), "float32", "register", (Store("acc", (), Const(start, "float32")), *body, *then)),
    )


def nest(body: Body, extents: list[tuple[int, Expr]]) -> Body:
    for axis, extent in reversed(extents):
        body = (For(f"i{axis}", extent, "serial", body),)
    return body


def dim(n: int, dynamic: bool) -> Expr:
    return Size("batch") if dynamic else const(n)


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def matmul(
    m: int, n_sum: int, n: int, dynamic: bool = False, role: str = "weight", activation: str = "relu"
) -> Case:
    """activation(x @ w + b), [m, n_sum] @ [n_sum, n]."""
    rows = dim(m, dynamic)
    value = f32("add", load("acc"), load("b", i(1)))
    value = f32("maximum", value, Const(0.0, "float32")) if activation == "relu" else f32(activation, value)
    term = f32("mul", load("x", i(0), k(0)), load("w", k(0), i(1)))
    body = nest(summed(term, [const(n_sum)], (Store("y", (i(0), i(1)), value),)), [(0, rows), (1, const(n))])
    buffers = (
        Buffer("x", (rows, const(n_sum)), "float32", "in"),
        Buffer("w", (const(n_sum), const(n)), "float32", role),
        Buffer("b", (const(n),), "float32", "weight"),
        Buffer("y", (rows, const(n)), "float32", "out"),
    )
    arrays = {
        "x": random(m, n_sum),
        "w": random(n_sum, n),
        "b": random(n),
        "y": np.full((m, n), np.nan, np.float32),
    }
    kernel = Kernel("matmul", buffers, ("batch",) if dynamic else (), body)
    return Case(
        f"matmul_{m}x{n_sum}x{n}{'_dyn' * dynamic}_{role}_{activation}", kernel, {"batch": m}, arrays, "y"
    )


def conv(batch: int, side: int, cin: int, cout: int, stride: int = 1) -> Case:
    """3×3, channels last, the input already padded, then relu."""
    out = (side - 3) // stride + 1
    where = [loops.add(loops.mul(i(axis), const(stride)), k(axis - 1)) for axis in (2, 3)]
    term = f32("mul", load("x", i(0), *where, k(0)), load("w", i(1), k(0), k(1), k(2)))
    value = f32("maximum", load("acc"), Const(0.0, "float32"))
    store = Store("y", (i(0), i(2), i(3), i(1)), value)
    extents = [(0, Size("batch")), (2, const(out)), (3, const(out)), (1, const(cout))]
    body = nest(summed(term, [const(cin), const(3), const(3)], (store,)), extents)
    buffers = (
        Buffer("x", (Size("batch"), const(side), const(side), const(cin)), "float32", "temp"),
        Buffer("w", (const(cout), const(cin), const(3), const(3)), "float32", "weight"),
        Buffer("y", (Size("batch"), const(out), const(out), const(cout)), "float32", "out"),
    )
    arrays = {
        "x": random(batch, side, side, cin),
        "w": random(cout, cin, 3, 3),
        "y": np.full((batch, out, out, cout), np.nan, np.float32),
    }
    kernel = Kernel("conv", buffers, ("batch",), body)
    return Case(f"conv_{batch}x{side}_{cin}to{cout}_s{stride}", kernel, {"batch": batch}, arrays, "y")


def pointwise(m: int, n: int, dynamic: bool = False) -> Case:
    """y = tanh(x + b) * s, b broadcast along rows, s a column."""
    rows = dim(m, dynamic)
    value = f32(
        "mul", f32("tanh", f32("add", load("x", i(0), i(1)), load("b", i(1)))), load("s", i(0), const(0))
    )
    body = nest((Store("y", (i(0), i(1)), value),), [(0, rows), (1, const(n))])
    buffers = (
        Buffer("x", (rows, const(n)), "float32", "in"),
        Buffer("b", (const(n),), "float32", "weight"),
        Buffer("s", (rows, const(1)), "float32", "in"),
        Buffer("y", (rows, const(n)), "float32", "out"),
    )
    arrays = {"x": random(m, n), "b": random(n), "s": random(m, 1), "y": np.full((m, n), np.nan, np.float32)}
    kernel = Kernel("pointwise", buffers, ("batch",) if dynamic else (), body)
    return Case(f"pointwise_{m}x{n}{'_dyn' * dynamic}", kernel, {"batch": m}, arrays, "y")


def flat(m: int, n: int) -> Case:
    """y = x * x, whose two axes are one run of memory."""
    rows = Size("batch")
    value = f32("mul", load("x", i(0), i(1)), load("x", i(0), i(1)))
    body = nest((Store("y", (i(0), i(1)), value),), [(0, rows), (1, const(n))])
    shape = (rows, const(n))
    buffers = (Buffer("x", shape, "float32", "in"), Buffer("y", shape, "float32", "out"))
    arrays = {"x": random(m, n), "y": np.full((m, n), np.nan, np.float32)}
    return Case(f"flat_{m}x{n}", Kernel("flat", buffers, ("batch",), body), {"batch": m}, arrays, "y")


def rows_reduced(m: int, n: int, op: str = "maximum") -> Case:
    """y[i] = reduction of row i."""
    start = {"maximum": float("-inf"), "add": 0.0}[op]
    body = summed(load("x", i(0), k(0)), [const(n)], (Store("y", (i(0),), load("acc")),), op, start)
    buffers = (
        Buffer("x", (Size("batch"), const(n)), "float32", "in"),
        Buffer("y", (Size("batch"),), "float32", "out"),
    )
    arrays = {"x": random(m, n), "y": np.full((m,), np.nan, np.float32)}
    kernel = Kernel("rows", buffers, ("batch",), nest(body, [(0, Size("batch"))]))
    return Case(f"rows_{op}_{m}x{n}", kernel, {"batch": m}, arrays, "y")


def columns_reduced(m: int, n: int) -> Case:
    """y[j] = sum over i of x[i, j]."""
    body = summed(load("x", k(0), i(0)), [Size("batch")], (Store("y", (i(0),), load("acc")),))
    buffers = (
        Buffer("x", (Size("batch"), const(n)), "float32", "in"),
        Buffer("y", (const(n),), "float32", "out"),
    )
    arrays = {"x": random(m, n), "y": np.full((n,), np.nan, np.float32)}
    kernel = Kernel("columns", buffers, ("batch",), nest(body, [(0, const(n))]))
    return Case(f"columns_{m}x{n}", kernel, {"batch": m}, arrays, "y")


def padded(m: int, n: int) -> Case:
    """y = x with a frame of one zero around it: a guarded load."""
    at = [loops.add(i(axis), const(-1)) for axis in (0, 1)]
    tests = [Scalar("le", (const(0), at[0]), "bool"), loops.less(at[0], const(m))]
    tests += [Scalar("le", (const(0), at[1]), "bool"), loops.less(at[1], const(n))]
    inside = tests[0]
    for t in tests[1:]:
        inside = Scalar("logical_and", (inside, t), "bool")
    value = Select(inside, load("x", *at), Const(0.0, "float32"), "float32")
    body = nest((Store("y", (i(0), i(1)), value),), [(0, const(m + 2)), (1, const(n + 2))])
    buffers = (
        Buffer("x", (const(m), const(n)), "float32", "in"),
        Buffer("y", (const(m + 2), const(n + 2)), "float32", "out"),
    )
    arrays = {"x": random(m, n), "y": np.full((m + 2, n + 2), np.nan, np.float32)}
    return Case(f"padded_{m}x{n}", Kernel("padded", buffers, (), body), {}, arrays, "y")


CASES = [
    *(
        matmul(*s)
        for s in [(3, 5, 7), (5, 130, 6), (8, 3, 64), (1, 140, 20), (13, 1, 3), (2, 4, 80), (1, 258, 2)]
    ),
    *(matmul(m, 5, 37, dynamic=True) for m in (1, 4, 6, 11)),
    matmul(4, 33, 40, role="temp"),
    matmul(5, 8, 21, dynamic=True, role="in"),
    matmul(390, 1, 3),
    matmul(386, 2, 2, dynamic=True),
    matmul(1, 6, 40, activation="tanh"),
    matmul(8, 3, 21, activation="tanh"),
    matmul(9, 4, 35, dynamic=True, activation="tanh"),
    *(conv(*s) for s in [(1, 5, 1, 8), (2, 4, 3, 20), (1, 5, 20, 4, 2)]),
    *(pointwise(*s) for s in [(3, 5), (2, 33), (1, 1)]),
    pointwise(3, 20, dynamic=True),
    flat(3, 7),
    flat(3, 350),
    rows_reduced(3, 37),
    rows_reduced(2, 5, "add"),
    rows_reduced(1, 64, "add"),
    columns_reduced(5, 19),
    padded(3, 4),
    padded(5, 30),
]
