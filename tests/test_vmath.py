"""Vector math: errors in units of the last place, special values, and no library behind it."""

import functools
import importlib.util
import re
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from scalar_kernels import Job, host_levels, module, object_of, run
from scipy import special

from tapecast.compiler.cpu import llvm_driver, polynomials
from tapecast.compiler.cpu.levels import LEVELS

UNARY = ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "sqrt", "rsqrt")
LANES = {"float32": (1, 4, 8, 16), "float64": (1, 8)}
#: Units in the last place that no result may be off by; docs/design/vector_math.md has what was measured.
BOUND = {
    "exp": 1.2, "expm1": 1.5, "log": 1.0, "log1p": 1.5, "tanh": 1.5, "sigmoid": 2.3, "erf": 1.5,
    "sin": 1.6, "cos": 1.6, "sqrt": 0.5, "rsqrt": 1.51, "pow": 0.51,
}  # fmt: skip
BOUND_F64 = BOUND | {"tanh": 2.0, "sin": 0.8, "cos": 0.8, "pow": 1.5}

#: Wider than the format under test, so that one rounding of the reference does not count.
Wide = np.longdouble


def bits(rng, dtype, count):
    """Floats of every exponent and sign, subnormals, infinities and nans among them."""
    integer = f"uint{8 * np.dtype(dtype).itemsize}"
    return rng.integers(0, 2 ** (8 * np.dtype(dtype).itemsize), count, dtype=integer).view(dtype)


def around(dtype, *points):
    """The neighbours of points where the code changes its form."""
    out = [np.array(points, dtype)]
    for direction in (-np.inf, np.inf):
        x = out[0]
        for _ in range(8):
            x = np.nextafter(x, np.array(direction, dtype))
            out.append(x)
    return np.concatenate([*out, *(-x for x in out)])


BREAKS = (
    0.0, 1e-45, 1.2e-38, 5e-324, 2.3e-308, 0.25, 0.4, 0.5, 0.625, 0.9277, 1.0, 2.0, np.sqrt(0.5),
    np.sqrt(2.0), np.sqrt(0.5) - 1, np.log(2) / 2, np.log(2), 1.5 * np.log(2), 3.95, 5.92, 9.1, 17.0, 20.0,
    36.7, 40.0, 87.33, 88.37, 88.7, 103.9, 104.0, 708.3, 709.7, 745.1, 1e5, 2.0**20, 2.0**24, 2.0**53, 1e30,
    np.pi / 4, np.pi / 2, np.pi, 11.0, 22.0, 355.0,
)  # fmt: skip


@functools.cache
def arguments(op, dtype):
    rng = np.random.default_rng(7)
    count = 8000 if dtype == "float32" else 2000
    x = [around(dtype, *BREAKS), bits(rng, dtype, count), 1 + rng.normal(0, 1e-3, count)]
    x += [rng.uniform(-scale, scale, count) for scale in (1, 3, 10, 100, 1000)]
    x += [rng.choice([-1, 1], count) * np.exp(rng.uniform(-40, 4, count))]
    if op in ("log", "sqrt", "rsqrt"):
        x = [*x, *(np.abs(part) for part in x[2:])]
    with np.errstate(over="ignore", under="ignore"):
        return (padded(np.concatenate([np.asarray(part, dtype) for part in x])),)


@functools.cache
def power_arguments(dtype):
    rng = np.random.default_rng(8)
    ends = [
        0,
        1,
        2,
        3,
        0.5,
        1.5,
        2.5,
        1e10,
        1e38,
        1e-38,
        2.0**24,
        2.0**23 + 0.5,
        1e-45,
        np.inf,
        np.nan,
        1e300,
    ]
    special_x, special_y = (a.ravel() for a in np.meshgrid(*[[*ends, *(-e for e in ends)]] * 2))
    count = 8000
    x = [
        special_x,
        bits(rng, dtype, count),
        np.exp(rng.uniform(-20, 20, count)),
        1 + rng.normal(0, 1e-4, count),
    ]
    y = [special_y, bits(rng, dtype, count), rng.uniform(-20, 20, count), np.exp(rng.uniform(0, 12, count))]
    x, y = [*x, -np.exp(rng.uniform(-3, 3, count))], [*y, rng.integers(-30, 30, count)]
    with np.errstate(over="ignore", under="ignore"):
        return tuple(padded(np.concatenate([np.asarray(part, dtype) for part in v])) for v in (x, y))


def padded(x):
    return np.concatenate([x, np.ones(-len(x) % 16, x.dtype)])


def erf_wide(x):
    if x.dtype == np.float32:
        return special.erf(x.astype(np.float64)).astype(Wide)
    with mp.workdps(40):
        exact = [mp.erf(mp.mpf(float(v))) for v in x]
    high = [float(v) for v in exact]
    low = [float(v - h) if np.isfinite(h) else 0.0 for v, h in zip(exact, high, strict=True)]
    return np.copysign(np.array(high, Wide) + np.array(low, Wide), x)


REFERENCE = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "pow": np.power,
}


@functools.cache
def reference(op, dtype):
    args = power_arguments(dtype) if op == "pow" else arguments(op, dtype)
    with np.errstate(all="ignore"):
        if op == "erf":
            return erf_wide(args[0])
        return REFERENCE.get(op, getattr(np, op, None))(*(a.astype(Wide) for a in args))


def errors(y, wanted):
    """Distances in units of the last place; inf where a special value or a zero's sign differs."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        near = wanted.astype(y.dtype)
        unit = np.spacing(np.maximum(np.abs(near), np.finfo(y.dtype).tiny)).astype(Wide)
        off = np.abs(y.astype(Wide) - wanted) / unit
    ordinary = np.isfinite(near) & np.isfinite(y)
    same = ((near == y) | (np.isnan(near) & np.isnan(y))) & (
        (np.signbit(near) == np.signbit(y)) | np.isnan(near)
    )
    # Where the format overflows, half a unit past its end decides: the largest number is as good as infinity.
    return np.where(ordinary & ((near != 0) | (y != 0) | same), off, np.where(same, 0, np.inf))


@functools.cache
def results(level, dtype):
    jobs = [
        Job(op, (dtype,) * (2 if op == "pow" else 1), dtype, n)
        for op in (*UNARY, "pow")
        for n in LANES[dtype]
    ]
    inputs = {j: power_arguments(dtype) if j.op == "pow" else arguments(j.op, dtype) for j in jobs}
    return run(jobs, inputs, level, opt=3)


@pytest.mark.parametrize("op", [*UNARY, "pow"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("level", host_levels())
def test_error_in_units_of_the_last_place(level, dtype, op):
    args = power_arguments(dtype) if op == "pow" else arguments(op, dtype)
    one, *wider = [(job, y) for job, y in results(level, dtype).items() if job.op == op]
    off = errors(one[1], reference(op, dtype))
    worst = int(off.argmax())
    shown = f"{op}{tuple(a[worst] for a in args)} = {one[1][worst]!r}, not {reference(op, dtype)[worst]!r}"
    assert off[worst] <= (BOUND if dtype == "float32" else BOUND_F64)[op], f"{off[worst]:.3f} ulp: {shown}"
    for job, y in wider:
        assert np.array_equal(y, one[1], equal_nan=True), f"{job.lanes} lanes differ from one"


#: The first of each is the number nearest to a multiple of pi/2, where reduction cancels most (Muller).
HARD = {
    "float64": [6381956970095103 * 2.0**797, 5.319372648326541e255, 1e22, 1.7976931348623157e308, 2.0**1000],
    "float32": [16367173 * 2.0**72, 3.4028235e38, 2.0**100, 1e22, 1048576.0, 1048577.0, 5.3710e8],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("level", host_levels())
def test_sin_and_cos_of_large_arguments(level, dtype):
    rng = np.random.default_rng(3)
    large = np.exp2(rng.uniform(18, 127 if dtype == "float32" else 1023, 200))
    x = padded(np.concatenate([np.array(HARD[dtype], dtype), large.astype(dtype)]))
    jobs = [Job(op, (dtype,), dtype, lanes) for op in ("sin", "cos") for lanes in (1, 8)]
    for job, y in run(jobs, dict.fromkeys(jobs, (x,)), level).items():
        with mp.workprec(1300):
            exact = [getattr(mp, job.op)(mp.mpf(float(v))) for v in x]
            wanted = np.array([Wide(float(v)) + Wide(float(v - float(v))) for v in exact])
        assert errors(y, wanted).max() <= BOUND["sin"], job.name


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_no_function_needs_a_library(level, dtype):
    # The 16-bit floats compute in float32, so one function shows their conversions.
    unary = UNARY if dtype.startswith("float") and dtype != "float16" else ("exp",)
    jobs = [Job(op, (dtype,), dtype, lanes) for op in unary for lanes in (1, 16)]
    jobs += [Job(op, (dtype,), dtype, 16) for op in ("floor", "ceil", "trunc", "round")]
    jobs += [Job(op, (dtype, dtype), dtype, 16) for op in ("pow", "floordiv", "mod", "maximum", "minimum")]
    text = module(jobs, LEVELS[level])
    assert llvm_driver.undefined_symbols(llvm_driver.object_code(text, level, opt=1)) == []


def test_a_library_call_would_be_seen():
    text = """
declare float @llvm.exp.f32(float)
define float @f(float %x) {
  %y = call float @llvm.exp.f32(float %x)
  ret float %y
}"""
    assert llvm_driver.undefined_symbols(llvm_driver.object_code(text, "x86-64-v3")) == ["expf"]


def test_same_text_for_the_same_kernel():
    job = Job("sin", ("float64",), "float64", 8)
    assert module([job], LEVELS["x86-64-v3"]) == module([job], LEVELS["x86-64-v3"])
    assert object_of((job,), "x86-64-v3") == object_of.__wrapped__((job,), "x86-64-v3")


# ---- coefficients ----

FITTER = Path(__file__).parents[1] / "tools" / "fit_polynomials.py"


def fitter():
    spec = importlib.util.spec_from_file_location("fit_polynomials", FITTER)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_coefficients_have_the_errors_written_beside_them():
    tool, text = fitter(), Path(polynomials.__file__).read_text(encoding="utf-8")
    for name, f in tool.FITS.items():
        c = getattr(polynomials, name)
        stated = float(re.search(rf"error 2\^(-[\d.]+)\n{name} = ", text)[1])
        grid = [mp.mpf(f.lo) + (mp.mpf(f.hi) - f.lo) * (k + 0.5) / 60 for k in range(60)]
        worst = max(abs((f.function(x) - mp.polyval(c[::-1], x)) * f.weight(x)) for x in grid)
        assert stated - 3 < np.log2(float(worst)) < stated + 0.1, name
        assert all(v == np.dtype(f.dtype).type(v) for v in c), name


def test_the_fitter_finds_the_coefficients_again():
    tool = fitter()
    error, c = tool.fit(tool.FITS["COS_F32"])
    assert np.allclose(c, polynomials.COS_F32, rtol=1e-5) and error < 2.0**-36
