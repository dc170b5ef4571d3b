"""CUDA kernels without a GPU: schedules under the interpreter, every source through NVRTC, and run on the CPU."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import kernels
import numpy as np
import pytest
import shim
from kernels import Case, i, k, load, matmul, nest, random, rows_reduced, summed

from tapecast.compiler import loops
from tapecast.compiler.cuda import nvrtc
from tapecast.compiler.cuda.build import ARCHITECTURES, cuda_modules, launches
from tapecast.compiler.cuda.emit import launch, source
from tapecast.compiler.interpret import interpret
from tapecast.compiler.loops import Alloc, Buffer, For, Index, Kernel, Scalar, Size, Store, Sync, const
from tapecast.compiler.schedule.gpu import schedule_gpu
from tapecast.compiler.schedule.gpu_tile import TILE, Tile

#: A tile small enough that the interpreter's threads are few and the cases below have ragged edges on all sides.
SMALL = Tile(rows=4, columns=4, each=2, depth=4)
TILES = {"small": SMALL, "full": TILE}


def whole_sum(n: int) -> Case:
    """y = sum of all of x * x, of a length known at the call, plus one."""
    n_sum = Size("batch")
    value = Scalar("add", (load("acc"), loops.Const(1.0, "float32")), "float32")
    term = Scalar("mul", (load("x", Index("k0")), load("x", Index("k0"))), "float32")
    buffers = (Buffer("x", (n_sum,), "float32", "in"), Buffer("y", (), "float32", "out"))
    kernel = Kernel("whole", buffers, ("batch",), summed(term, [n_sum], (Store("y", (), value),)))
    arrays = {"x": random(n), "y": np.full((), np.nan, np.float32)}
    return Case(f"whole_{n}", kernel, {"batch": n}, arrays, "y")


def scores(heads: int, n: int) -> Case:
    """q @ k.T for each head, as in attention: both operands run along the terms, and there are `batch` of each."""
    term = Scalar("mul", (load("q", i(0), i(1), k(0)), load("k", i(0), i(2), k(0))), "float32")
    rows, each = Size("batch"), const(12)
    body = summed(term, [each], (Store("y", (i(0), i(1), i(2)), load("acc")),))
    body = nest(body, [(0, const(heads)), (1, rows), (2, rows)])
    shape = (const(heads), rows, each)
    buffers = [Buffer(name, shape, "float32", "temp") for name in "qk"]
    buffers.append(Buffer("y", (const(heads), rows, rows), "float32", "out"))
    arrays = {
        "q": random(heads, n, 12),
        "k": random(heads, n, 12),
        "y": np.full((heads, n, n), np.nan, np.float32),
    }
    return Case(
        f"scores_{heads}x{n}", Kernel("scores", tuple(buffers), ("batch",), body), {"batch": n}, arrays, "y"
    )


#: The kernels that all backends are tested with, and some that only the GPU's schedules treat apart.
CASES = [
    *kernels.CASES,
    matmul(8, 140, 8),
    rows_reduced(3, 70),
    rows_reduced(2, 131, "add"),
    whole_sum(300),
    scores(2, 9),
]
NAMES = [c.name for c in CASES]


def is_tiled(kernel: Kernel) -> bool:
    return any(isinstance(s, Alloc) and s.scope == "shared" for s in loops.statements(kernel.body))


@functools.cache
def scheduled(name: str, tile: str) -> Kernel:
    case = CASES[NAMES.index(name)]
    return schedule_gpu(case.kernel, TILES[tile]).replace(name=f"{tile}_{NAMES.index(name)}")


@functools.cache
def expected(name: str) -> np.ndarray:
    case = CASES[NAMES.index(name)]
    return interpreted(case.kernel, case)


def interpreted(kernel: Kernel, case: Case) -> np.ndarray:
    arrays = {name: a.copy() for name, a in case.arrays.items()}
    interpret(kernel, arrays, case.sizes)
    return arrays[case.output]


#: Every case with the full tile, and with the small one where that makes a difference.
PAIRS = [(n, tile) for n in NAMES for tile in TILES if tile == "full" or is_tiled(scheduled(n, tile))]

# ---- the schedule ----


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_schedule_means_the_same(case: Case) -> None:
    got = interpreted(scheduled(case.name, "small"), case)
    np.testing.assert_allclose(got, expected(case.name), rtol=2e-6, atol=2e-5)


def test_products_are_tiled_where_a_tile_has_enough_to_do() -> None:
    assert is_tiled(schedule_gpu(matmul(64, 64, 64).kernel))
    assert is_tiled(schedule_gpu(matmul(8, 64, 64, dynamic=True).kernel))
    assert not is_tiled(schedule_gpu(matmul(1, 64, 64).kernel))
    assert not is_tiled(schedule_gpu(matmul(64, 64, 4).kernel))


def test_long_reductions_are_shared_by_a_block() -> None:
    def threads(case: Case) -> int:
        (block,) = launch(schedule_gpu(case.kernel)).block
        return block if is_tiled(schedule_gpu(case.kernel)) else 1

    assert [threads(rows_reduced(3, n)) for n in (5, 63, 64, 131, 600, 5000)] == [1, 1, 32, 64, 256, 256]
    assert threads(whole_sum(3)) == 256
    # Columns lie apart in memory: neighbouring threads read neighbouring columns as it is.
    assert threads(kernels.columns_reduced(500, 19)) == 1


def test_the_tiles_of_a_narrow_product_are_narrow() -> None:
    kernel = schedule_gpu(matmul(256, 64, 20).kernel)
    grid, block = launch(kernel).at({})
    assert (grid, block) == ((4, 1, 1), (256, 1, 1))
    tiles = {s.buffer: s.shape for s in loops.statements(kernel.body) if isinstance(s, Alloc)}
    assert tiles == {"a.tile": (16, 65), "b.tile": (16, 33), "acc": (4, 2)}


def test_scheduled_text(golden: object) -> None:
    assert golden == str(schedule_gpu(matmul(64, 64, 64, dynamic=True).kernel))


def test_source_text(golden: object) -> None:
    text = source([schedule_gpu(matmul(64, 64, 64, dynamic=True).kernel)])
    assert golden == text[text.index('extern "C"') :]


def test_launches_follow_the_sizes() -> None:
    case = matmul(6, 16, 64, dynamic=True)
    (found,) = launches({"matmul": schedule_gpu(case.kernel)}).values()
    assert found.at({"batch": 65})[0] == (2, 1, 1)
    assert found.at({"batch": 0})[0] == (0, 1, 1)


def test_a_block_of_dynamic_size_is_refused() -> None:
    kernel = Kernel("late", (), ("n",), (For("t", Size("n"), "block", ()),))
    with pytest.raises(ValueError, match="late: a block wants constant extents"):
        launch(kernel)


# ---- NVRTC ----


@pytest.fixture(scope="module")
def modules() -> dict[str, nvrtc.Compiled]:
    return cuda_modules({k.name: k for k in (scheduled(*pair) for pair in PAIRS)})


@shim.needs_nvrtc
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_kernel_compiles_without_spills(arch: str, modules: dict[str, nvrtc.Compiled]) -> None:
    module = modules[arch]
    assert module.image.startswith(b"\x7fELF")
    resources = module.resources()
    assert set(resources) == {scheduled(*pair).name for pair in PAIRS}
    spilling = {k: r for k, r in resources.items() if r.spill_stores or r.spill_loads}
    assert not spilling
    # 65536 registers hold four blocks of 256 threads when none takes more than 64.
    assert max(r.registers for r in resources.values()) <= 64
    tiled = {k.name for k in (scheduled(*pair) for pair in PAIRS) if is_tiled(k)}
    assert {k for k, r in resources.items() if r.shared} == tiled


@shim.needs_nvrtc
def test_ptx_for_processors_to_come() -> None:
    module = cuda_modules({"k": scheduled("flat_3x7", "full")}, ["compute_80"])["compute_80"]
    assert b".target sm_80" in module.image
    assert module.image.endswith(b"\0")
    assert module.resources() == {}


@shim.needs_nvrtc
def test_nvrtc_says_what_is_wrong_with_a_source() -> None:
    with pytest.raises(nvrtc.NvrtcError, match=r"refused the generated source for sm_80(.|\n)*nonsense"):
        nvrtc.compile_cuda("nonsense", "sm_80")


# ---- barriers: kernels by hand ----


def reversal(sync: bool) -> Kernel:
    """y = x backwards, each block of eight on its own, through shared memory."""
    i = Index("t")
    at = loops.add(loops.mul(Index("g"), const(8)), i)
    body = (
        Store("tile", (i,), load("x", at)),
        *((Sync(),) if sync else ()),
        Store("y", (at,), load("tile", loops.sub(const(7), i))),
    )
    block = For("t", const(8), "block", body)
    shared = Alloc("tile", (8,), "float32", "shared", (block,))
    buffers = (Buffer("x", (const(24),), "float32", "in"), Buffer("y", (const(24),), "float32", "out"))
    return Kernel(
        "reversal" if sync else "reversal_unsynced", buffers, (), (For("g", const(3), "grid", (shared,)),)
    )


def exchange(syncs: tuple[bool, bool]) -> Kernel:
    """A running sum passed from thread to thread through one shared array, a barrier before and after each step."""
    i = Index("t")
    neighbour = Scalar("mod", (loops.add(i, const(1)), const(8)), "int64")
    value = Scalar("add", (load("tile", neighbour), load("y", i)), "float32")
    before, after = ((Sync(),) if s else () for s in syncs)
    steps = For(
        "s", const(3), "serial", (Store("tile", (i,), load("y", i)), *before, Store("y", (i,), value), *after)
    )
    block = For("t", const(8), "block", (Store("y", (i,), load("x", i)), steps))
    shared = Alloc("tile", (8,), "float32", "shared", (block,))
    buffers = (Buffer("x", (const(8),), "float32", "in"), Buffer("y", (const(8),), "float32", "out"))
    return Kernel(f"exchange_{syncs[0]:d}{syncs[1]:d}", buffers, (), (For("g", const(1), "grid", (shared,)),))


def in_half_of_the_threads(*body: loops.Stmt) -> loops.If:
    return loops.If(loops.less(Index("t"), const(4)), body)


def divergent(name: str, *after: loops.Stmt) -> Kernel:
    """Half of the threads wait at a barrier; the others do not."""
    return Kernel(name, (), (), (For("t", const(8), "block", (in_half_of_the_threads(Sync()), *after)),))


#: The right ones first; each of the others lacks one barrier.
BARRIERS = [
    *(reversal(sync) for sync in (True, False)),
    *(exchange(syncs) for syncs in ((True, True), (False, True), (True, False))),
]
RIGHT = {"reversal", "exchange_11"}
DIVERGENT = {"leaves": divergent("leaves"), "waits_elsewhere": divergent("waits_elsewhere", Sync())}


# ---- run on the CPU ----


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kernel of this file in one library, so that g++ starts once."""
    kernels = [*(scheduled(*pair) for pair in PAIRS), *BARRIERS, *DIVERGENT.values()]
    return shim.build(source(kernels), [k.name for k in kernels], tmp_path_factory.mktemp("cuda"))


@pytest.fixture(scope="module")
def outputs(library: Path) -> dict[tuple[str, str, str], np.ndarray]:
    """What every case leaves in its output, by name, tile and order of threads."""
    cases = {c.name: c for c in CASES}
    jobs = [
        shim.kernel_job(scheduled(name, tile), cases[name].arrays, cases[name].sizes) for name, tile in PAIRS
    ]
    out = {}
    for order, results in shim.run(library, jobs).items():
        for (name, tile), memories in zip(PAIRS, results, strict=True):
            at = [b.name for b in scheduled(name, tile).buffers].index(cases[name].output)
            out[name, tile, order] = memories[at]
    return out


@shim.needs_gxx
@pytest.mark.parametrize("order", shim.ORDERS)
@pytest.mark.parametrize(("name", "tile"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_source_means_the_same(name: str, tile: str, order: str, outputs: Any) -> None:
    np.testing.assert_allclose(outputs[name, tile, order], expected(name), rtol=2e-6, atol=2e-5)


@shim.needs_gxx
def test_the_shim_finds_an_access_out_of_bounds(library: Path) -> None:
    case = CASES[0]
    short = {**case.arrays, "w": case.arrays["w"][:-1].copy()}
    with pytest.raises(AssertionError, match="generated code ended with -"):
        shim.run(library, [shim.kernel_job(scheduled(case.name, "full"), short, {})])


# ---- barriers ----


def operand(kernel: Kernel) -> np.ndarray:
    return np.arange(24 if kernel.name.startswith("reversal") else 8, dtype=np.float32)


def wanted(x: np.ndarray) -> np.ndarray:
    """What the kernel of these operands computes: blocks backwards, or three sums with the next."""
    if x.size == 24:
        return x.reshape(3, 8)[:, ::-1].ravel()
    for _ in range(3):
        x = x + np.roll(x, -1)
    return x


@pytest.mark.parametrize("kernel", BARRIERS, ids=lambda k: k.name)
def test_the_interpreter_waits_at_barriers_and_shows_a_missing_one(kernel: Kernel) -> None:
    x = operand(kernel)
    y = np.empty_like(x)
    interpret(kernel, {"x": x, "y": y})
    assert np.array_equal(y, wanted(x)) == (kernel.name in RIGHT)


def test_the_interpreter_refuses_a_barrier_outside_of_a_block() -> None:
    with pytest.raises(ValueError, match="a sync outside of any block"):
        interpret(Kernel("lonely", (), (), (Sync(),)), {})


@shim.needs_gxx
def test_the_shim_waits_at_barriers_and_shows_a_missing_one(library: Path) -> None:
    xs = [operand(k) for k in BARRIERS]
    jobs = [
        shim.kernel_job(k, {"x": x, "y": np.full_like(x, np.nan)}, {})
        for k, x in zip(BARRIERS, xs, strict=True)
    ]
    results = shim.run(library, jobs)
    for at, kernel in enumerate(BARRIERS):
        right = [np.array_equal(results[order][at][1], wanted(xs[at])) for order in shim.ORDERS]
        assert all(right) if kernel.name in RIGHT else not all(right), (kernel.name, right)


@shim.needs_gxx
@pytest.mark.parametrize("name", DIVERGENT)
def test_the_shim_finds_a_barrier_that_not_all_threads_reach(name: str, library: Path) -> None:
    job = shim.Job((), (shim.Launched(name, (1, 1, 1), (8, 1, 1), ()),))
    with pytest.raises(AssertionError, match=f"{name}, forward: not all threads of a block wait at the same"):
        shim.run(library, [job])
