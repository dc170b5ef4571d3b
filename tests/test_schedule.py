"""Schedules keep the meaning: under the interpreter a scheduled kernel gives what its canonical form gives."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from kernels import CASES, Case, matmul

from tapecast.compiler.interpret import interpret
from tapecast.compiler.loops import For, statements
from tapecast.compiler.pack import packed
from tapecast.compiler.schedule import MACHINES, schedule_cpu


def run_scheduled(case: Case, level: str, threads: int) -> np.ndarray:
    kernel, packs = schedule_cpu(case.kernel, MACHINES[level])
    arrays = {name: a.copy() for name, a in case.arrays.items()}
    arrays |= {p.packed: packed(case.arrays[p.source], p) for p in packs}
    interpret(kernel, {b.name: arrays[b.name] for b in kernel.buffers}, {**case.sizes, "threads": threads})
    return arrays[case.output]


@functools.cache
def expected(name: str) -> np.ndarray:
    case = next(c for c in CASES if c.name == name)
    arrays = {name: a.copy() for name, a in case.arrays.items()}
    interpret(case.kernel, arrays, case.sizes)
    return arrays[case.output]


@pytest.mark.parametrize("level", MACHINES)
@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_schedule_means_the_same(case: Case, level: str) -> None:
    want = expected(case.name)
    assert np.isfinite(want).all()
    np.testing.assert_allclose(run_scheduled(case, level, threads=2), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("level", MACHINES)
def test_constant_operands_are_packed_and_the_same_for_every_level(level: str) -> None:
    case = matmul(6, 16, 80)
    _, packs = schedule_cpu(case.kernel, MACHINES[level])
    (pack,) = packs
    panels = packed(case.arrays["w"], pack)
    assert panels.shape == (5, 16, 16)
    np.testing.assert_array_equal(panels[2, 3], case.arrays["w"][3, 32:48])


def test_large_products_are_shared_out_and_small_ones_are_not() -> None:
    def is_parallel(m: int) -> bool:
        kernel, _ = schedule_cpu(matmul(m, 64, 64).kernel, MACHINES["x86-64-v4"])
        return any(isinstance(s, For) and s.kind == "parallel" for s in statements(kernel.body))

    assert is_parallel(256)
    assert not is_parallel(4)


def test_scheduled_text(golden: object) -> None:
    kernel, _ = schedule_cpu(matmul(2, 8, 20).kernel, MACHINES["x86-64-v3"])
    assert golden == str(kernel)
