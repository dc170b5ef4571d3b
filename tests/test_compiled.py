"""Every op of the table, compiled for this machine and for a lesser one, gives what eager gives.

The samples of a few ops at a time become the entry points of one library, which runs in a process of its own with an
unreadable page behind every array: a read or write past an end is a crash.
"""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from samples import SAMPLES, Sample
from scalar_kernels import host_levels
from test_emit import RUNNER

from tapecast.compiler.cpu import build
from tapecast.compiler.cpu.elf import link
from tapecast.compiler.options import Options
from tapecast.compiler.pipeline import compile_graphs
from tapecast.eager.ops.table import TABLE
from tapecast.eager.ops.types import aval_of
from tapecast.tracer.build import call
from tapecast.tracer.check import check
from tapecast.tracer.graph import Graph, Node, topological

#: Ops compiled into one library.
CHUNK = 6
NAMES = sorted(name for name in TABLE if SAMPLES.get(name))
PRECISIONS = ("float32", "float64")


def samples_of(name: str) -> list[tuple[str, Sample]]:
    """Each sample in float32 and float64; once where it has no floats. Complex numbers are eager's alone."""
    found = {}
    for k, sample in enumerate(SAMPLES[name]):
        for precision in PRECISIONS:
            cast = sample.in_dtype(precision)
            if any(a.dtype.kind == "c" for a in cast.args):
                continue
            found.setdefault((k, str(cast)), (f"{name}_{k}_{precision}", cast))
    return list(found.values())


def graph_of(name: str, sample: Sample) -> Graph:
    """The op on inputs alone; every output of an op with several."""
    inputs = tuple(Node(None, aval=aval_of(a), name=f"x{k}") for k, a in enumerate(sample.args))
    node = call(TABLE[name], *inputs, **sample.attrs)
    many = not hasattr(node.aval, "shape")
    outputs = tuple(call(TABLE["item"], node, index=k) for k in range(len(node.aval))) if many else (node,)
    return check(Graph(inputs, tuple(topological(inputs, outputs)), outputs))


def eager(name: str, sample: Sample) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        out = TABLE[name].run(np, *sample.args, **sample.attrs)
    return [np.asarray(a) for a in (out if isinstance(out, tuple) else (out,))]


@functools.cache
def results(chunk: int, level: str) -> dict[str, tuple[int, list[np.ndarray]]]:
    """Outputs by sample, for the ops of one chunk."""
    jobs = [
        (key, name, s) for name in NAMES[chunk * CHUNK : (chunk + 1) * CHUNK] for key, s in samples_of(name)
    ]
    library = compile_graphs({key: graph_of(name, s) for key, name, s in jobs}, Options(target=level))
    image = link(
        library.objects, soname="model", blobs={"model_weights": library.weights}, allowed=build.LIBC
    )
    calls = []
    for entry, (_, name, sample) in zip(library.entries, jobs, strict=True):
        outputs = [np.zeros_like(a) for a in eager(name, sample)]
        calls.append((entry.name, list(sample.args), outputs, []))
    number = int(level[-1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "model.so").write_bytes(image.data)
        (path / "job").write_bytes(
            pickle.dumps({"runs": [(number, 2)], "calls": calls, "workspace": 1 << 20})
        )
        command = [sys.executable, "-c", RUNNER, str(path / "model.so"), str(path / "job")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"compiled code ended with {done.returncode}: {done.stderr}"
        found = pickle.loads((path / "job").read_bytes())
    return {key: result for (key, _, _), result in zip(jobs, found, strict=True)}


@pytest.mark.parametrize("level", host_levels()[-2:])
@pytest.mark.parametrize("name", NAMES)
def test_compiled_is_eager(name: str, level: str) -> None:
    found = results(NAMES.index(name) // CHUNK, level)
    for key, sample in samples_of(name):
        code, outputs = found[key]
        assert code == 0
        for got, want in zip(outputs, eager(name, sample), strict=True):
            compare(f"{key} {sample}", got, want)


def compare(what: str, got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if want.dtype.kind not in "fV":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    eps = float(ml_dtypes.finfo(want.dtype).eps)
    wide = want.astype(np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    scale = finite.max(initial=0.0)
    np.testing.assert_allclose(
        got.astype(np.float64), wide, rtol=16 * eps, atol=16 * eps * scale, err_msg=what
    )


def run_index(name: str, index: int, **attrs: Any) -> int:
    """The return code of `op(x, [0, index])` for a table of 4 rows."""
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    places = np.array([[0, 1], [1, index]]) if name == "gather" else np.array([0, index])
    sample = Sample((x, places), attrs)
    graph = graph_of(name, sample)
    library = compile_graphs({"forward": graph}, Options(target="native"))
    image = link(
        library.objects, soname="model", blobs={"model_weights": library.weights}, allowed=build.LIBC
    )
    out = np.zeros(tuple(map(int, graph.outputs[0].shape)), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "model.so").write_bytes(image.data)
        calls = [("forward", [x, places], [out], [])] * 2
        job = {"runs": [(int(library.levels[-1][-1]), 2)], "calls": calls, "workspace": 1 << 12}
        (path / "job").write_bytes(pickle.dumps(job))
        subprocess.run([sys.executable, "-c", RUNNER, str(path / "model.so"), str(path / "job")], check=True)
        (first, _), (second, _) = pickle.loads((path / "job").read_bytes())
    assert first == second
    return first


@pytest.mark.parametrize(
    ("name", "attrs"), [("embedding", {}), ("gather", {"dim": 0}), ("index", {"dim": 0})]
)
def test_an_index_out_of_range_fails_the_call_and_reads_nothing_outside(
    name: str, attrs: dict[str, int]
) -> None:
    assert run_index(name, 3, **attrs) == 0
    for bad in (4, 10**12, -(10**12)):
        assert run_index(name, bad, **attrs) == -11
    assert run_index(name, -1, **attrs) == (0 if name == "index" else -11)


def test_complex_numbers_are_refused_by_name() -> None:
    sample = Sample((np.ones(2, np.complex64), np.ones(2, np.complex64)))
    with pytest.raises(NotImplementedError, match="complex numbers cannot be compiled"):
        compile_graphs({"forward": graph_of("mul", sample)}, Options(target="native"))
