"""Every op of the table as CUDA source: each sample lowered and scheduled, compiled by NVRTC, run on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import shim
from samples import SAMPLES, Sample

from tapecast.compiler.assemble import Assembly
from tapecast.compiler.cuda.build import cuda_kernels, cuda_modules
from tapecast.compiler.cuda.emit import source
from tapecast.compiler.loops import Kernel
from tapecast.compiler.options import Options
from tapecast.compiler.passes import run_passes
from tapecast.compiler.pipeline import pipeline_for
from tapecast.compiler.unit import Unit
from tapecast.eager.ops.executor import run_eagerly
from tapecast.eager.ops.table import TABLE
from tapecast.eager.ops.types import aval_of, is_floating
from tapecast.tracer.build import call
from tapecast.tracer.graph import Graph, Node

CASES = [(name, s.in_dtype("float32")) for name, group in SAMPLES.items() for s in group]
IDS = [f"{name}-{s!r}" for name, s in CASES]


def unit_of(name: str, sample: Sample, entry: str) -> Unit:
    """A program of one op, as it comes to a backend."""
    inputs = tuple(Node(None, aval=aval_of(a), name=f"x{k}") for k, a in enumerate(sample.args))
    out = call(TABLE[name], *inputs, **sample.attrs)
    graph = Graph(inputs, (*inputs, out), (out,), name=entry)
    return Assembly(run_passes(graph, pipeline_for(Options(name="ops")))).unit()


@pytest.fixture(scope="module")
def units() -> list[tuple[Unit, dict[str, Kernel]]]:
    found = [unit_of(name, s, f"op{k}") for k, (name, s) in enumerate(CASES)]
    return [(u, cuda_kernels(u)) for u in found]


@pytest.fixture(scope="module")
def outputs(units: Any, tmp_path_factory: pytest.TempPathFactory) -> list[np.ndarray]:
    """The result of every sample, all kernels being in one library."""
    kernels = [k for _, ks in units for k in ks.values()]
    library = shim.build(source(kernels), [k.name for k in kernels], tmp_path_factory.mktemp("ops"))
    jobs = []
    for (name, sample), (unit, scheduled) in zip(CASES, units, strict=True):
        blank = np.zeros_like(run_eagerly(TABLE[name], sample.args, sample.attrs))
        args = [np.ascontiguousarray(a) for a in sample.args]
        jobs.append(shim.unit_job(unit, scheduled, args, [np.ascontiguousarray(blank)], {}))
    return [m[len(s.args)] for m, (_, s) in zip(shim.run(library, jobs)["shuffled"], CASES, strict=True)]


@shim.needs_gxx
@pytest.mark.parametrize("at", range(len(CASES)), ids=IDS)
def test_source_computes_what_eager_does(at: int, outputs: list[np.ndarray]) -> None:
    name, sample = CASES[at]
    want = run_eagerly(TABLE[name], sample.args, sample.attrs)
    if is_floating(want.dtype) and not sample.exact:
        rtol = 2e-2 if want.dtype.itemsize == 2 else 1e-5
        np.testing.assert_allclose(outputs[at].astype(float), want.astype(float), rtol, 1e-5)
    else:
        np.testing.assert_array_equal(outputs[at], want)


@shim.needs_nvrtc
def test_every_op_compiles(units: Any) -> None:
    kernels = {k.name: k for _, ks in units for k in ks.values()}
    resources = cuda_modules(kernels, ["sm_90"])["sm_90"].resources()
    assert set(resources) == set(kernels)
    assert not [k for k, r in resources.items() if r.spill_stores or r.spill_loads]
