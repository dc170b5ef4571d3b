"""Whole models on the CUDA path without a GPU: traced, optimised, scheduled, compiled, run step by step on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import shim

import tapecast as tc
from tapecast import nn
from tapecast.compiler.assemble import Assembly
from tapecast.compiler.cuda.build import ARCHITECTURES, cuda_kernels, cuda_modules, cuda_source
from tapecast.compiler.options import Options
from tapecast.compiler.passes import run_passes
from tapecast.compiler.pipeline import pipeline_for
from tapecast.compiler.unit import Unit

RNG = np.random.default_rng(5)


def array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


class Block(nn.Module):
    """What a transformer is made of: embedding, attention, layer norm, gelu."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.feed = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.GELU())

    def forward(self, tokens: tc.Tensor) -> tc.Tensor:
        x = self.embedding(tokens)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = self.norm(x)
        return nn.functional.softmax(x + self.feed(x), dim=-1)


def convolutional() -> nn.Module:
    """conv, batch norm (folded into it), relu, max pool, flatten, linear."""
    model = nn.Sequential(
        nn.Conv2d(3, 20, 3, padding=1),
        nn.BatchNorm2d(20),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(20 * 4 * 4, 10),
    )
    norm = model[1]
    norm.running_mean[:] = tc.tensor(array(20))
    norm.running_var[:] = tc.tensor(np.abs(array(20)) + 0.5)
    return model


class Example(NamedTuple):
    model: nn.Module
    inputs: Mapping[int, np.ndarray]  # by batch size


tc.manual_seed(3)
EXAMPLES = {
    "convolutional": Example(convolutional().eval(), {n: array(n, 3, 8, 8) for n in (1, 5)}),
    "transformer": Example(Block().eval(), {n: RNG.integers(0, 11, (n, 7)) for n in (1, 3)}),
}


@pytest.fixture(scope="module")
def units() -> dict[str, Unit]:
    """The examples as the compiler hands them to a backend."""
    out = {}
    for name, example in EXAMPLES.items():
        x = tc.tensor(example.inputs[max(example.inputs)])
        traced = tc.jit.trace(example.model, (x,), dynamic={0: {0: tc.Dim("batch", max=64)}})
        graph = replace(traced.graph, name=name)
        out[name] = Assembly(run_passes(graph, pipeline_for(Options(name=name)))).unit()
    return out


@pytest.fixture(scope="module")
def results(
    units: dict[str, Unit], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, int, str], Any]:
    """The output of each example at each batch size in each order of threads."""
    folder = tmp_path_factory.mktemp("models")
    out = {}
    for name, unit in units.items():
        kernels = cuda_kernels(unit)
        library = shim.build(cuda_source(unit), list(kernels), folder, name)
        batches = EXAMPLES[name].inputs
        jobs = [shim.unit_job(unit, kernels, [x], [blank(name, x)], {"batch": n}) for n, x in batches.items()]
        for order, memories in shim.run(library, jobs).items():
            for n, memory in zip(batches, memories, strict=True):
                out[name, n, order] = memory[1]
    return out


def eager(name: str, x: np.ndarray) -> np.ndarray:
    with tc.no_grad():
        return EXAMPLES[name].model(tc.tensor(x)).numpy()


def blank(name: str, x: np.ndarray) -> np.ndarray:
    return np.full_like(eager(name, x), np.nan)


@shim.needs_gxx
@pytest.mark.parametrize("order", shim.ORDERS)
@pytest.mark.parametrize(("name", "batch"), [(k, n) for k, e in EXAMPLES.items() for n in e.inputs])
def test_models_compute_what_eager_does(name: str, batch: int, order: str, results: Any) -> None:
    want = eager(name, EXAMPLES[name].inputs[batch])
    np.testing.assert_allclose(results[name, batch, order], want, rtol=1e-5, atol=2e-6)


@shim.needs_nvrtc
@pytest.mark.parametrize("name", EXAMPLES)
def test_models_compile_without_spills(name: str, units: dict[str, Unit]) -> None:
    modules = cuda_modules(cuda_kernels(units[name]))
    assert set(modules) == set(ARCHITECTURES)
    for module in modules.values():
        resources = module.resources()
        assert set(resources) == set(units[name].kernels)
        assert not any(r.spill_stores or r.spill_loads for r in resources.values())
    assert any(r.shared for r in resources.values())
