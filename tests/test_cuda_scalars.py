"""The scalar language as CUDA C++, run on the CPU against the interpreter: every function and dtype, nasty values."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest
import shim
from scipy import special

from tapecast.compiler.cuda.build import ARCHITECTURES, cuda_modules
from tapecast.compiler.cuda.emit import source
from tapecast.compiler.cuda.scalars import TYPES, constant, scalar_text
from tapecast.compiler.interpret import interpret
from tapecast.compiler.loops import (
    Accumulate,
    Alloc,
    Body,
    Buffer,
    Cast,
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
)
from tapecast.compiler.lower.scalars import identity
from tapecast.compiler.schedule.gpu import schedule_elements
from tapecast.eager.ops import scalars
from tapecast.eager.ops.scalars import SCALARS, result_dtype
from tapecast.eager.ops.types import DTYPES, is_floating

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
UNARY = ("neg", "abs", *scalars.ROUNDING, *scalars.FUNCTIONS[:-1], "isnan", "logical_not")
ONLY_FLOATS = ("div", *scalars.FUNCTIONS[:-1])
ONLY_INTEGERS = ("shl", "shr")
#: What numpy has for bool too.
OF_BOOL = ("add", "mul", *scalars.EXTREMES, *scalars.COMPARISONS, "bit_and", "bit_or", "bit_xor")
#: Functions of the C library, whose last digits vary; in units of the last place of the dtype.
ULPS = {"pow": 2, **dict.fromkeys(scalars.FUNCTIONS, 2), "sqrt": 0, "rsqrt": 1, "sigmoid": 3}


def has(op: str, dtype: str) -> bool:
    if dtype == "bool":
        return op in OF_BOOL or op.startswith("logical_")
    if dtype in FLOATS:
        return not op.startswith("bit_") and op not in ONLY_INTEGERS
    return op not in ONLY_FLOATS


def operators(dtype: str) -> list[str]:
    return [op for op in sorted(SCALARS) if has(op, dtype)]


# ---- kernels: one for each dtype, with an output for each function ----


class Suite(NamedTuple):
    """A kernel and the arrays to run it on; outputs are called after what they hold."""

    kernel: Kernel
    arrays: dict[str, np.ndarray]


def suite(name: str, inputs: dict[str, np.ndarray], outputs: dict[str, tuple[Body, Expr]]) -> Suite:
    """out[i] = value for each output; what has to stand before the store stands before it."""
    n = len(next(iter(inputs.values())))
    body: Body = ()
    for key, (before, value) in outputs.items():
        store = Store(key, (Index("i0"),), value)
        body = (*body, *(_inside(before, store) if before else (store,)))
    shapes = (Size("n"),)
    buffers = [Buffer(key, shapes, name_of(a.dtype), "in") for key, a in inputs.items()]
    buffers += [Buffer(key, shapes, value.dtype, "out") for key, (_, value) in outputs.items()]
    kernel = Kernel(name, tuple(buffers), ("n",), (For("i0", Size("n"), "serial", body),))
    blank = {key: np.zeros(n, DTYPES[value.dtype]) for key, (_, value) in outputs.items()}
    return Suite(kernel, inputs | blank)


def _inside(before: Body, store: Store) -> Body:
    (alloc,) = before
    assert isinstance(alloc, Alloc)
    return (alloc.replace(body=(*alloc.body, store)),)


def name_of(dtype: Any) -> str:
    return next(name for name, d in DTYPES.items() if d == dtype)


def read(key: str, dtype: str) -> Expr:
    return Load(key, (Index("i0"),), dtype)


def functions(dtype: str) -> Suite:
    a, b = pairs(dtype)
    x, y = read("a", dtype), read("b", dtype)
    outputs: dict[str, tuple[Body, Expr]] = {}
    for op in operators(dtype):
        args = (x,) if op in UNARY else (x, y)
        if op == "pow" and dtype in INTEGERS:  # numpy refuses negative powers of integers
            args = (x, Scalar("bit_and", (y, Const(7, dtype)), dtype))
        outputs[op] = ((), Scalar(op, args, result_dtype(op, dtype)))
    chosen = Select(Scalar("lt", (x, y), "bool"), x, Const(1, dtype), dtype)
    return suite(f"functions_{dtype}", {"a": a, "b": b}, outputs | {"select": ((), chosen)})


def casts(dtype: str) -> Suite:
    x = read("a", dtype)
    return suite(f"casts_{dtype}", {"a": ordinary(dtype)}, {d: ((), Cast(x, d)) for d in TYPES})


def sums(dtype: str) -> Suite:
    """Accumulators: every reduction of a dtype over five steps that depend on the operand."""
    x = read("a", dtype)
    outputs: dict[str, tuple[Body, Expr]] = {}
    for op in ("logical_and", "logical_or") if dtype == "bool" else ("add", "mul", "maximum", "minimum"):
        acc, term = f"acc_{op}", x
        if dtype not in ("bool", "bfloat16"):
            term = Scalar("add", (x, Cast(Index("k0"), dtype)), dtype)
        start = Store(acc, (), Const(identity(op, dtype), dtype))
        loop = For("k0", Const(5), "serial", (Accumulate(acc, (), op, term),))
        outputs[op] = ((Alloc(acc, (), dtype, "register", (start, loop)),), Load(acc, (), dtype))
    return suite(f"sums_{dtype}", {"a": pairs(dtype)[0]}, outputs)


def literals(dtype: str) -> Suite:
    """Constants as they are written into the source."""
    values = [v.item() for v in nasty(dtype)]
    outputs: dict[str, tuple[Body, Expr]] = {f"c{k}": ((), Const(v, dtype)) for k, v in enumerate(values)}
    return suite(f"literals_{dtype}", {"a": np.zeros(1, DTYPES[dtype])}, outputs)


# ---- values ----


@functools.cache
def nasty(dtype: str) -> np.ndarray:
    kind = DTYPES[dtype]
    if dtype == "bool":
        return np.array([False, True])
    if not is_floating(kind):
        info = np.iinfo(kind)
        return np.unique(np.array([info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, 3, 7, 100], kind))
    import ml_dtypes

    info = ml_dtypes.finfo(kind)
    limits = [float(info.max), float(info.smallest_normal), float(info.smallest_subnormal), float(info.eps)]
    values = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 10.0, 60.0, 88.0, 100.0, 700.0, np.inf, *limits]
    return np.array([*values, *(-v for v in values), np.nan], kind)


@functools.cache
def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of nasty values, and some ordinary ones."""
    v, rng = nasty(dtype), np.random.default_rng(3)
    a, b = np.repeat(v, len(v)), np.tile(v, len(v))
    keep = rng.permutation(len(a))[:150]
    more = ordinary(dtype)
    return np.concatenate([v, a[keep], more]), np.concatenate([v[::-1], b[keep], rng.permutation(more)])


@functools.cache
def ordinary(dtype: str) -> np.ndarray:
    """Values that every other dtype can take: small, with a fraction where there is one."""
    rng = np.random.default_rng(4)
    if dtype == "bool":
        return rng.integers(0, 2, 40).astype(bool)
    low = 0 if dtype == "uint8" else -100
    if not is_floating(DTYPES[dtype]):
        return rng.integers(low, 101, 40).astype(DTYPES[dtype])
    values = np.concatenate([rng.uniform(-100, 100, 30), rng.normal(0, 1e-2, 8), [0.0, -0.0]])
    return values.astype(DTYPES[dtype])


SUITES = [*(make(d) for make in (functions, casts, sums, literals) for d in TYPES)]
CASES = [(s.kernel.name, b.name) for s in SUITES for b in s.kernel.buffers if b.role == "out"]


@functools.cache
def expected(name: str) -> dict[str, np.ndarray]:
    s = next(s for s in SUITES if s.kernel.name == name)
    arrays = {key: a.copy() for key, a in s.arrays.items()}
    interpret(s.kernel, arrays, {"n": len(arrays["a"])})
    if name == "functions_float32":  # scipy's float32 form loses the smallest results
        arrays["sigmoid"] = special.expit(arrays["a"].astype(np.float64)).astype(np.float32)
    if name in (
        "functions_float32",
        "functions_float64",
    ):  # numpy takes a square root here, which has no -inf
        arrays["pow"][(arrays["a"] == -np.inf) & (arrays["b"] == 0.5)] = np.inf
    return arrays


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], np.ndarray]:
    kernels = [schedule_elements(s.kernel, 64) for s in SUITES]
    library = shim.build(source(kernels), [k.name for k in kernels], tmp_path_factory.mktemp("scalars"))
    jobs = [
        shim.kernel_job(k, s.arrays, {"n": len(s.arrays["a"])}) for k, s in zip(kernels, SUITES, strict=True)
    ]
    results = shim.run(library, jobs)["forward"]
    return {
        (k.name, b.name): memory
        for k, memories in zip(kernels, results, strict=True)
        for b, memory in zip(k.buffers, memories, strict=True)
    }


@shim.needs_gxx
@pytest.mark.parametrize(("name", "output"), CASES, ids=[".".join(c) for c in CASES])
def test_scalar_means_the_same(name: str, output: str, outputs: Any) -> None:
    got, want = outputs[name, output], expected(name)[output]
    assert_close(got, want, ULPS.get(output, 0) if name.startswith("functions") else 0)
    if is_floating(want.dtype) and output not in scalars.EXTREMES:  # either zero may be the larger one
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


def assert_close(got: np.ndarray, want: np.ndarray, ulps: int) -> None:
    """Equal with nan where nan is wanted; floats may be `ulps` units of the last place off."""
    assert got.dtype == want.dtype
    if not is_floating(want.dtype):
        np.testing.assert_array_equal(got, want)
        return
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    distance = np.abs(steps(got) - steps(want))[~np.isnan(want)]
    assert distance.max(initial=0) <= ulps


def steps(x: np.ndarray) -> np.ndarray:
    """Floats by their place in the order of all floats; both zeros are 0."""
    signed = x.view(f"i{x.dtype.itemsize}").astype(object)
    lowest = -(1 << (8 * x.dtype.itemsize - 1))
    return np.where(signed < 0, lowest - signed, signed)


@shim.needs_nvrtc
def test_all_functions_compile() -> None:
    kernels = {s.kernel.name: schedule_elements(s.kernel, 64) for s in SUITES}
    for module in cuda_modules(kernels, ARCHITECTURES).values():
        assert set(module.resources()) == set(kernels)


def test_every_function_is_covered() -> None:
    assert {op for d in TYPES for op in operators(d)} == SCALARS


@pytest.mark.parametrize(("op", "dtype"), [("div", "int32"), ("bit_and", "float32"), ("shl", "float16")])
def test_a_function_that_a_dtype_lacks_is_refused(op: str, dtype: str) -> None:
    with pytest.raises(ValueError, match=f"{op} is not defined for {dtype}"):
        scalar_text(op, ["x", "y"], dtype)


def test_an_unknown_function_is_refused() -> None:
    with pytest.raises(ValueError, match="no function 'gamma'"):
        scalar_text("gamma", ["x"], "float32")


def test_literals_read_well() -> None:
    assert constant(1.5, "float32") == "1.5f"
    assert constant(-2, "float64") == "(-2.0)"
    assert constant(float("inf"), "float32") == "__int_as_float(2139095040)"
    assert constant(7, "uint8") == "(unsigned char)7"
