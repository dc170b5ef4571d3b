"""Machine code means what the interpreter says: every kernel, level and thread count, run in a process of its own."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernels import CASES, Case

from tapecast.compiler.cpu import build
from tapecast.compiler.cpu.elf import link
from tapecast.compiler.library import Spec
from tapecast.compiler.loops import const
from tapecast.compiler.options import native_level
from tapecast.compiler.pack import Weights, with_weights
from tapecast.compiler.schedule import MACHINES, schedule_all
from tapecast.compiler.unit import Location, Step, Unit

LEVELS = tuple(level for level in MACHINES if level <= native_level())

# Runs one library on one set of arrays. Pages without access follow each array, so that a read or write past an
# end is a crash here and not luck.
RUNNER = """
import ctypes, mmap, pickle, sys
import numpy as np
PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None)
held = []
def guarded(array):
    size = -(-max(array.nbytes, 1) // PAGE) * PAGE
    m = mmap.mmap(-1, size + PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(m))
    assert libc.mprotect(ctypes.c_void_p(base + size), ctypes.c_size_t(PAGE), 0) == 0
    out = np.frombuffer(m, array.dtype, array.size, size - array.nbytes).reshape(array.shape)
    out[...] = array
    held.append(m)
    return out
path, data = sys.argv[1:3]
job = pickle.load(open(data, "rb"))
lib = ctypes.CDLL(path)
room = guarded(np.zeros(job["workspace"], np.uint8))
results = []
for level, threads in job["runs"]:
    assert lib.model_select(level) == level, (level, lib.model_level())
    lib.model_threads(threads)
    for name, inputs, outputs, sizes in job["calls"]:
        arrays = [guarded(a) for a in (*inputs, *outputs)]
        words = [a.ctypes.data for a in arrays] + [*sizes, room.ctypes.data, threads]
        code = getattr(lib, "model_" + name)((ctypes.c_int64 * len(words))(*words))
        results.append((code, [a.copy() for a in arrays[len(inputs):]]))
pickle.dump(results, open(data, "wb"))
"""


def unit_of(case: Case, index: int) -> Unit:
    """One case as an entry point: `in` and `temp` buffers are its inputs, weights its constants."""
    where, inputs, constants = {}, [], []
    for b in case.kernel.buffers:
        if b.role == "weight":
            where[b.name] = Location("constant", len(constants))
            constants.append(case.arrays[b.name])
        elif b.name == case.output:
            where[b.name] = Location("output", 0)
        else:
            where[b.name] = Location("input", len(inputs))
            inputs.append(Spec(b.name, b.dtype, ()))
    name = f"k{index}"
    kernel = case.kernel.replace(name=name)
    return Unit(
        f"entry{index}", tuple(inputs), (Spec(case.output, "float32", ()),), tuple(sorted(case.sizes)),
        (Step(name, where),), {name: kernel}, {}, const(0), "0", tuple(constants),
    )  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int, int], tuple[int, Any]]:
    """All cases compiled into one library, run at every level with 1 and 3 threads."""
    folder = tmp_path_factory.mktemp("emit")
    units = [unit_of(case, k) for k, case in enumerate(CASES)]
    scheduled, packs = schedule_all({k: v for u in units for k, v in u.kernels.items()}, LEVELS)
    weights = Weights()
    units = [with_weights(u, scheduled[LEVELS[0]], packs, weights) for u in units]
    objects = build.objects(build.sources("model", units, scheduled, {"batch": (1, 500)}))
    image = link(objects, soname="model", blobs={"model_weights": weights.bytes()}, allowed=build.LIBC)
    (folder / "model.so").write_bytes(image.data)
    runs = [(int(level[-1]), threads) for level in LEVELS for threads in (1, 3)]
    calls = [call(case, unit) for case, unit in zip(CASES, units, strict=True)]
    return run(folder, runs, calls)


def call(case: Case, unit: Unit) -> tuple[str, list[np.ndarray], list[np.ndarray], list[int]]:
    inputs = [case.arrays[s.name] for s in unit.inputs]
    return unit.name, inputs, [case.arrays[case.output]], [case.sizes[n] for n in unit.sizes]


def run(folder: Path, runs: list[Any], calls: list[Any]) -> dict[tuple[str, int, int], tuple[int, Any]]:
    (folder / "job").write_bytes(pickle.dumps({"runs": runs, "calls": calls, "workspace": 64}))
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(folder / "model.so"), str(folder / "job")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"generated code ended with {done.returncode}: {done.stderr}"
    results = iter(pickle.loads((folder / "job").read_bytes()))
    return {(case.name, level, threads): next(results) for level, threads in runs for case in CASES}


@pytest.mark.parametrize("threads", (1, 3))
@pytest.mark.parametrize("level", [int(level[-1]) for level in LEVELS])
@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_code_means_the_same(case: Case, level: int, threads: int, results: Any) -> None:
    code, (output,) = results[case.name, level, threads]
    assert code == 0
    np.testing.assert_allclose(output, reference(case.name), rtol=2e-6, atol=2e-6 * np.abs(output).max())


def reference(name: str) -> np.ndarray:
    """What the kernel computes, in float64 where numpy says it more plainly than the interpreter."""
    case = next(c for c in CASES if c.name == name)
    a = {key: value.astype(np.float64) for key, value in case.arrays.items()}
    match name.split("_")[0]:
        case "matmul":
            y = a["x"] @ a["w"] + a["b"]
            return np.tanh(y) if name.endswith("tanh") else np.maximum(y, 0)
        case "conv":
            return np.maximum(convolved(a["x"], a["w"], int(name[-1])), 0)
        case "pointwise":
            return np.tanh(a["x"] + a["b"]) * a["s"]
        case "flat":
            return a["x"] * a["x"]
        case "rows":
            return a["x"].max(1) if "maximum" in name else a["x"].sum(1)
        case "columns":
            return a["x"].sum(0)
        case "padded":
            return np.pad(a["x"], 1)
    raise KeyError(name)


def convolved(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))[:, ::stride, ::stride]
    return np.einsum("nhwcij,ocij->nhwo", windows, w)


def test_a_size_out_of_range_is_reported_by_position(tmp_path: Path) -> None:
    case = next(c for c in CASES if c.name == "flat_3x7")
    unit = unit_of(case, 0)
    scheduled, packs = schedule_all(unit.kernels, LEVELS[-1:])
    unit = with_weights(unit, scheduled[LEVELS[-1]], packs, Weights())
    objects = build.objects(build.sources("model", [unit], scheduled, {"batch": (2, 50)}))
    image = link(objects, soname="model", blobs={"model_weights": b""}, allowed=build.LIBC)
    (tmp_path / "model.so").write_bytes(image.data)
    x = np.ones((1, 7), np.float32)
    calls = [("entry0", [x], [x], [1]), ("entry0", [x], [x], [51])]
    (tmp_path / "job").write_bytes(
        pickle.dumps({"runs": [(int(LEVELS[-1][-1]), 1)], "calls": calls, "workspace": 64})
    )
    subprocess.run(
        [sys.executable, "-c", RUNNER, str(tmp_path / "model.so"), str(tmp_path / "job")], check=True
    )
    assert [code for code, _ in pickle.loads((tmp_path / "job").read_bytes())] == [1, 1]
