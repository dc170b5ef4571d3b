"""The scalar language on LLVM values against numpy: integers, conversions, 16-bit floats, reductions."""

import numpy as np
import pytest
from scalar_kernels import Job, host_levels, module, run

from tapecast.compiler.cpu import llvm_driver
from tapecast.compiler.cpu.builder import Function, Value, literal
from tapecast.compiler.cpu.levels import LEVELS
from tapecast.compiler.cpu.scalars import LlvmScalars
from tapecast.eager.ops.arrays import converted
from tapecast.eager.ops.scalars import SCALARS
from tapecast.eager.ops.types import DTYPES

SIGNED = ("int8", "int16", "int32", "int64")
INTEGERS = (*SIGNED, "uint8")
HALVES = ("float16", "bfloat16")
ALL = ("bool", *INTEGERS, *HALVES, "float32", "float64")


@pytest.fixture(autouse=True)
def quiet():
    """Overflow and nan are what is tested; numpy need not warn of its own."""
    with np.errstate(all="ignore"):
        yield


def edges(dtype):
    """The integers where signs, overflow and division turn, in all pairs."""
    info = np.iinfo(dtype)
    one = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 16, 100, *range(250, 256)])
    one = np.concatenate([one, -one]).astype(dtype)
    x, y = (a.ravel() for a in np.meshgrid(one, one))
    return padded(x), padded(y)


def padded(x):
    return np.concatenate([x, np.ones(-len(x) % 16, x.dtype)])


def shifted_right(x, y):
    """Zeros come in; a shift by the width or more leaves nothing."""
    unsigned, bits = x.view(f"uint{8 * x.itemsize}"), 8 * x.itemsize
    inside = y.view(unsigned.dtype) < bits
    return np.where(inside, unsigned >> np.where(inside, y, 0).astype(unsigned.dtype), 0).view(x.dtype)


def shifted_left(x, y):
    unsigned, bits = x.view(f"uint{8 * x.itemsize}"), 8 * x.itemsize
    inside = y.view(unsigned.dtype) < bits
    return np.where(inside, unsigned << np.where(inside, y, 0).astype(unsigned.dtype), 0).view(x.dtype)


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.remainder,
    "maximum": np.maximum, "minimum": np.minimum, "bit_and": np.bitwise_and, "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor, "shl": shifted_left, "shr": shifted_right,
}  # fmt: skip
COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
}  # fmt: skip
UNARY = {
    "neg": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.round, "logical_not": np.logical_not,
}  # fmt: skip


@pytest.mark.parametrize("level", host_levels())
def test_integers(level):
    jobs = [Job(op, (d, d), d, 8) for op in BINARY for d in INTEGERS]
    jobs += [Job(op, (d, d), d, 1) for op in ("floordiv", "mod", "shr") for d in INTEGERS]
    jobs += [Job(op, (d, d), "bool", 8) for op in COMPARISONS for d in INTEGERS]
    jobs += [Job(op, (d,), "bool" if "logical" in op else d, 8) for op in UNARY for d in INTEGERS]
    inputs = {j: edges(j.dtypes[0])[: len(j.dtypes)] for j in jobs}
    for job, y in run(jobs, inputs, level).items():
        wanted = (BINARY | COMPARISONS | UNARY)[job.op](*inputs[job])
        assert np.array_equal(y, wanted), f"{job.name}: {first_difference(y, wanted, inputs[job])}"


def first_difference(y, wanted, args):
    at = int(np.flatnonzero(~((y == wanted) | ((y != y) & (wanted != wanted))))[0])
    return f"of {[a[at] for a in args]} is {y[at]!r}, not {wanted[at]!r}"


@pytest.mark.parametrize("level", host_levels())
def test_division_by_constants(level):
    x = padded(np.arange(-300, 300))
    constants = (1, -1, 0, 2, 8, -8, 7, -7, 100)
    jobs = [Job(op, ("int64",), "int64", 8, ((c, "int64"),)) for op in ("floordiv", "mod") for c in constants]
    jobs += [
        Job(f"{op}_nonneg", ("int64",), "int64", 8, ((c, "int64"),))
        for op in ("floordiv", "mod")
        for c in (8, 7)
    ]
    inputs = {j: (np.abs(x) if "nonneg" in j.op else x,) for j in jobs}
    for job, y in run(jobs, inputs, level).items():
        divisor = np.full_like(x, job.constants[0][0])
        wanted = BINARY[job.op.removesuffix("_nonneg")](inputs[job][0], divisor)
        assert np.array_equal(y, wanted), job.name


def test_index_division_by_a_power_of_two_is_a_shift():
    jobs = [Job("floordiv_nonneg", ("int64",), "int64", 1, ((8, "int64"),))]
    text = llvm_driver.optimised_text(module(jobs, LEVELS["x86-64-v3"]), "x86-64-v3")
    assert "lshr" in text and "div i64" not in text and "select" not in text


@pytest.mark.parametrize("level", host_levels())
def test_integer_powers(level):
    base, exponent = (a.ravel() for a in np.meshgrid(np.arange(-9, 10), np.arange(-4, 12)))
    jobs = [Job("pow", (d, d), d, n) for d in INTEGERS for n in (1, 8)]
    jobs += [Job("pow", ("int32",), "int32", 8, ((c, "int32"),)) for c in (0, 1, 2, 5, 10, 31)]
    inputs = {
        j: tuple(padded(a).astype(j.dtypes[0]) for a in (base, exponent))[: len(j.dtypes)] for j in jobs
    }
    for job, y in run(jobs, inputs, level).items():
        x, n = inputs[job] if len(job.dtypes) == 2 else (inputs[job][0], np.int32(job.constants[0][0]))
        wanted = np.power(x, np.maximum(n, 0) if job.dtypes[0] != "uint8" else n)
        truncated = np.where(x == 1, 1, np.where(x == -1, np.where(n % 2, -1, 1), 0))
        assert np.array_equal(y, np.where(n < 0, truncated, wanted).astype(y.dtype)), job.name


@pytest.mark.parametrize("level", host_levels())
def test_bools(level):
    x, y = np.array([False, True] * 8), np.array([False, False, True, True] * 4)
    wanted = {
        "add": x | y, "mul": x & y, "maximum": x | y, "minimum": x & y, "bit_xor": x ^ y, "eq": x == y,
        "lt": x < y, "ge": x >= y, "logical_and": x & y, "logical_or": x | y, "pow": x | ~y,
        "floordiv": x & y, "mod": x & False,
    }  # fmt: skip
    jobs = [Job(op, ("bool", "bool"), "bool", n) for op in wanted for n in (1, 8)]
    for job, out in run(jobs, dict.fromkeys(jobs, (x, y)), level).items():
        assert np.array_equal(out, wanted[job.op]), job.name


# ---- conversions ----


def values_of(dtype):
    """Numbers that every dtype can hold or that round, and the ends of the range."""
    rng = np.random.default_rng(5)
    if dtype == "bool":
        return np.array([False, True] * 8)
    if dtype in INTEGERS:
        return edges(dtype)[0]
    small = np.concatenate([rng.normal(0, s, 200) for s in (1e-7, 1e-4, 1, 30)])
    halfway = 1 + np.arange(64) * 2.0**-12 + np.repeat([0, 1e-9, 2.0**-40, -1e-12], 16)
    ends = [
        0.0,
        -0.0,
        1.5,
        2.5,
        -0.5,
        65504,
        65519.99,
        65520,
        65536,
        6e-8,
        2.98e-8,
        2.99e-8,
        6.1e-5,
        np.inf,
        -np.inf,
    ]
    return padded(np.concatenate([small, halfway, ends]).astype(np.float64)).astype(DTYPES[dtype])


@pytest.mark.parametrize("level", host_levels())
def test_casts_are_astype(level):
    jobs = [
        Job("cast", (a,), b, n) for a in ALL for b in ALL for n in ((1, 8) if {a, b} & {*HALVES} else (8,))
    ]
    inputs = {j: (in_range(values_of(j.dtypes[0]), j.result),) for j in jobs}
    for job, y in run(jobs, inputs, level).items():
        wanted = converted(inputs[job][0], DTYPES[job.result])
        if job.dtypes[0] in INTEGERS and job.result in HALVES:  # numpy goes through float32 as well
            wanted = inputs[job][0].astype(np.float32).astype(DTYPES[job.result])
        assert same_bits(y, wanted), f"{job.name}: {first_difference(y, wanted, inputs[job])}"


def in_range(x, dtype):
    """Without the floats whose conversion to the integer dtype numpy leaves undefined."""
    if dtype not in INTEGERS or x.dtype.kind in "iub":
        return x
    info = np.iinfo(dtype)
    wide = x.astype(np.float64)
    return np.where((wide > info.min) & (wide < info.max), x, np.array(1, x.dtype))


def same_bits(x, y):
    kind = f"u{x.dtype.itemsize}"
    both_nan = (x != x) & (y != y)
    return x.dtype == y.dtype and bool(((x.view(kind) == y.view(kind)) | both_nan).all())


@pytest.mark.parametrize("level", host_levels())
def test_casts_out_of_range(level):
    x = np.array([1e30, -1e30, np.inf, -np.inf, np.nan, 3e9, -3e9, -1.0] * 2)
    wanted = {
        "int32": [2**31 - 1, -(2**31)] * 2 + [0, 2**31 - 1, -(2**31), -1],
        "int64": [2**63 - 1, -(2**63)] * 2 + [0, 3000000000, -3000000000, -1],
        "uint8": [255, 0, 255, 0, 0, 255, 0, 255],
    }
    jobs = [Job("cast", (a,), b, n) for a in ("float32", "float64") for b in wanted for n in (1, 8)]
    for job, y in run(jobs, dict.fromkeys(jobs, (x,)), level).items():
        assert y.tolist() == wanted[job.result] * 2, job.name


@pytest.mark.parametrize("level", host_levels())
def test_every_half_there_and_back(level):
    every = np.arange(2**16, dtype=np.uint16)
    jobs = [Job("cast", (h,), to, 8) for h in HALVES for to in ("float32", "float64")]
    inputs = {j: (every.view(DTYPES[j.dtypes[0]]),) for j in jobs}
    back = [Job("cast", (j.result,), j.dtypes[0], 8) for j in jobs]
    wide = run(jobs, inputs, level)
    for job, y in wide.items():
        assert same_bits(y, inputs[job][0].astype(job.result)), job.name
    narrow = run(back, {b: (wide[j],) for b, j in zip(back, jobs, strict=True)}, level)
    for (b, y), j in zip(narrow.items(), jobs, strict=True):
        assert same_bits(y, inputs[j][0]), b.name


@pytest.mark.parametrize("level", host_levels())
def test_doubles_round_once_to_float16(level):
    rng = np.random.default_rng(6)
    x = rng.normal(0, 1, 4096) * np.exp2(rng.uniform(-30, 20, 4096))
    # Just off the middle between two halves, by less than float32 can tell.
    middle = x.astype(np.float16).astype(np.float64) * (1 + 2.0**-12)
    x = np.concatenate(
        [x, middle * (1 + 1e-13), middle * (1 - 1e-13), [3.4028235e38, 3.5e38, -1e300, 1e-300] * 4]
    )
    job = Job("cast", ("float64",), "float16", 8)
    y, wanted = run([job], {job: (x,)}, level)[job], x.astype(np.float16)
    assert same_bits(y, wanted), first_difference(y, wanted, (x,))


# ---- floats ----

NASTY = np.array(
    [
        0.0,
        -0.0,
        1.5,
        2.5,
        -2.5,
        0.49999997,
        8388609.0,
        -8388608.5,
        np.inf,
        -np.inf,
        np.nan,
        1e-45,
        -3,
        3,
        7,
        1e30,
    ]
)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("level", host_levels())
def test_float_arithmetic(level, dtype):
    x, y = (a.ravel().astype(DTYPES[dtype]) for a in np.meshgrid(NASTY, NASTY))
    binary = {op: BINARY[op] for op in ("add", "sub", "mul", "maximum", "minimum", "floordiv", "mod")} | {
        "div": np.divide
    }
    unary = {op: UNARY[op] for op in UNARY if op != "logical_not"} | {"sqrt": np.sqrt}
    compare = {op: f for op, f in COMPARISONS.items() if "logical" not in op}
    jobs = [Job(op, (dtype,) * 2, dtype, n) for op in binary for n in (1, 8)]
    jobs += [Job(op, (dtype,), dtype, 8) for op in unary]
    jobs += [Job(op, (dtype,) * 2, "bool", 8) for op in compare] + [Job("isnan", (dtype,), "bool", 8)]
    inputs = {j: (x, y)[: len(j.dtypes)] for j in jobs}
    for job, out in run(jobs, inputs, level).items():
        function = (binary | unary | compare | {"isnan": np.isnan})[job.op]
        wide = [a.astype(np.float32) if dtype in HALVES else a for a in inputs[job]]
        wanted = function(*wide)
        wanted = wanted.astype(DTYPES[job.result])
        zeros = job.op in ("maximum", "minimum")  # of two zeros, either
        same = same_bits(*(a + np.zeros(1, a.dtype) if zeros else a for a in (out, wanted)))
        assert same, f"{job.name}: {first_difference(out, wanted, inputs[job])}"


@pytest.mark.parametrize("level", host_levels())
def test_extremes_beside_a_constant_keep_nan(level):
    x = np.array([np.nan, 1.0, -1.0, np.inf] * 4)
    jobs = [Job(op, ("float32",), "float32", 8, ((0.0, "float32"),)) for op in ("maximum", "minimum")]
    for job, y in run(jobs, dict.fromkeys(jobs, (x,)), level).items():
        assert np.array_equal(y, BINARY[job.op](x, 0.0).astype(np.float32), equal_nan=True), job.name


@pytest.mark.parametrize("level", host_levels())
def test_simple_powers(level):
    exponents = (0.0, 1.0, 2.0, 3.0, 4.0, -1.0, 0.5)
    jobs = [Job("pow", ("float64",), "float64", 4, ((e, "float64"),)) for e in exponents]
    for job, y in run(jobs, dict.fromkeys(jobs, (NASTY,)), level).items():
        wanted = np.power(NASTY.astype(np.longdouble), job.constants[0][0])
        assert np.allclose(y, wanted.astype(np.float64), rtol=4e-16, atol=0, equal_nan=True), job.name


@pytest.mark.parametrize("level", host_levels())
def test_remainders_are_exact(level):
    rng = np.random.default_rng(9)
    for dtype, bits in (("float32", 32), ("float64", 64)):
        x, y = (rng.integers(0, 2**bits, 2048, dtype=f"uint{bits}").view(dtype) for _ in range(2))
        y[::2] = np.multiply(x[::2], rng.uniform(0, 1, 1024).astype(dtype))
        jobs = [Job(op, (dtype, dtype), dtype, n) for op in ("floordiv", "mod") for n in (1, 8)]
        for job, out in run(jobs, dict.fromkeys(jobs, (x, y)), level).items():
            wanted = BINARY[job.op](x, y)
            assert same_bits(out, wanted), f"{job.name}: {first_difference(out, wanted, (x, y))}"


# ---- reductions ----


@pytest.mark.parametrize("level", host_levels())
def test_reductions(level):
    rng = np.random.default_rng(4)
    numeric = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
    dtypes = ("float32", "float64", "int32", "int64", "uint8")
    jobs = [Job(f"reduce_{op}", (d,), d, n) for op in numeric for d in dtypes for n in (1, 2, 4, 16)]
    jobs += [
        Job(f"reduce_{op}", ("bool",), "bool", n) for op in ("logical_and", "logical_or") for n in (1, 8)
    ]
    data = {d: rng.integers(0, 9, 64).astype(d) for d in dtypes} | {"bool": np.repeat([True, False], 32)}
    data["bool"][3] = False
    functions = numeric | {"logical_and": np.logical_and, "logical_or": np.logical_or}
    for job, y in run(jobs, {j: (data[j.dtypes[0]],) for j in jobs}, level).items():
        rows = data[job.dtypes[0]].reshape(-1, job.lanes)
        wanted = functions[job.op.removeprefix("reduce_")].reduce(rows, axis=1, dtype=rows.dtype)
        assert np.array_equal(y, wanted), job.name


def test_a_nan_lane_survives_a_maximum():
    x = np.arange(16.0)
    x[5] = np.nan
    job = Job("reduce_maximum", ("float32",), "float32", 16)
    assert np.isnan(run([job], {job: (x,)}, host_levels()[0])[job]).all()


# ---- the language as a whole ----


def namespace(lanes=1):
    f = Function("f", [])
    return LlvmScalars(f, LEVELS["x86-64-v3"]), lambda dtype: Value("%x", dtype, lanes)


def test_every_name_of_the_language_is_there():
    assert [name for name in sorted(SCALARS) if not callable(getattr(LlvmScalars, name, None))] == []


@pytest.mark.parametrize("level", LEVELS)
def test_no_conversion_needs_a_library(level):
    jobs = [Job("cast", (a,), b, n) for a in ALL for b in ALL for n in (1, 16)]
    text = module(jobs, LEVELS[level])
    assert llvm_driver.undefined_symbols(llvm_driver.object_code(text, level, opt=1)) == []


def test_errors_name_the_function_and_the_dtype():
    s, x = namespace()
    with pytest.raises(TypeError, match="exp: wants floating-point operands, got int32"):
        s.exp(x("int32"))
    with pytest.raises(TypeError, match="bit_and: wants integer or bool operands, got float32"):
        s.bit_and(x("float32"), x("float32"))
    with pytest.raises(TypeError, match="add: operands must share a dtype, got int32, int64"):
        s.add(x("int32"), x("int64"))
    with pytest.raises(TypeError, match="sub: bool has no subtraction"):
        s.sub(x("bool"), x("bool"))


def test_a_literal_stays_one_when_cast():
    s, _ = namespace()
    assert s.cast(literal(2.5, "float16"), "float32") == literal(2.5, "float32")
    assert s.cast(literal(3, "int64", 8), "bfloat16") == literal(3, "bfloat16", 8)


def test_a_scalar_beside_a_vector_is_broadcast():
    s, x = namespace(lanes=8)
    assert s.add(x("float32"), literal(1.0, "float32")).lanes == 8
    assert s.select(Value("%c", "bool"), x("float32"), literal(0.0, "float32")).lanes == 8
    with pytest.raises(ValueError, match="a value of 4 lanes has no form with 8"):
        s.add(x("float32"), Value("%y", "float32", 4))
