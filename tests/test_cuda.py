"""CUDA kernels without a GPU: schedules under the interpreter, every source through NVRTC, and run on the CPU."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shim
from kernels import CASES, Case, load, matmul

from tapecast.compiler import loops
from tapecast.compiler.cuda import nvrtc
from tapecast.compiler.cuda.build import ARCHITECTURES, cuda_modules, launches
from tapecast.compiler.cuda.emit import launch, source
from tapecast.compiler.interpret import interpret
from tapecast.compiler.loops import Alloc, Buffer, For, Index, Kernel, Scalar, Size, Store, Sync, const
from tapecast.compiler.schedule.gpu import schedule_gpu
from tapecast.compiler.schedule.gpu_tile import TILE, Tile

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed: nvidia-cuda-nvrtc")
needs_gxx = pytest.mark.skipif(shim.compiler() is None, reason="there is no g++ to build the CPU shim with")

#: A tile small enough that the interpreter's threads are few and the cases below have ragged edges on all sides.
SMALL = Tile(rows=4, columns=4, each=2, depth=4)
TILES = {"small": SMALL, "full": TILE}
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


# ---- the schedule ----


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_schedule_means_the_same(case: Case) -> None:
    got = interpreted(scheduled(case.name, "small"), case)
    np.testing.assert_allclose(got, expected(case.name), rtol=2e-6, atol=2e-5)


def test_the_full_tile_means_the_same() -> None:
    case = CASES[NAMES.index("matmul_5x8x21_dyn_in")]
    kernel = scheduled(case.name, "full")
    assert is_tiled(kernel)
    np.testing.assert_allclose(interpreted(kernel, case), expected(case.name), rtol=2e-6, atol=2e-6)


def test_products_are_tiled_where_a_tile_has_enough_to_do() -> None:
    assert is_tiled(schedule_gpu(matmul(64, 64, 64).kernel))
    assert is_tiled(schedule_gpu(matmul(8, 64, 64, dynamic=True).kernel))
    assert not is_tiled(schedule_gpu(matmul(1, 64, 64).kernel))
    assert not is_tiled(schedule_gpu(matmul(64, 64, 4).kernel))


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
    kernels = [scheduled(name, tile) for name in NAMES for tile in TILES]
    return cuda_modules({k.name: k for k in kernels})


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_kernel_compiles_without_spills(arch: str, modules: dict[str, nvrtc.Compiled]) -> None:
    module = modules[arch]
    assert module.image.startswith(b"\x7fELF")
    resources = module.resources()
    assert set(resources) == {scheduled(name, tile).name for name in NAMES for tile in TILES}
    spilling = {k: r for k, r in resources.items() if r.spill_stores or r.spill_loads}
    assert not spilling
    # 65536 registers hold four blocks of 256 threads when none takes more than 64.
    assert max(r.registers for r in resources.values()) <= 64
    tiled = {
        scheduled(name, tile).name for name in NAMES for tile in TILES if is_tiled(scheduled(name, tile))
    }
    assert {k for k, r in resources.items() if r.shared} == tiled


@needs_nvrtc
def test_ptx_for_processors_to_come() -> None:
    module = cuda_modules({"k": scheduled("flat_3x7", "full")}, ["compute_80"])["compute_80"]
    assert b".target sm_80" in module.image
    assert module.image.endswith(b"\0")
    assert module.resources() == {}


@needs_nvrtc
def test_nvrtc_says_what_is_wrong_with_a_source() -> None:
    with pytest.raises(nvrtc.NvrtcError, match=r"refused the generated source for sm_80(.|\n)*nonsense"):
        nvrtc.compile_cuda("nonsense", "sm_80")


# ---- run on the CPU ----


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], np.ndarray]:
    """Every case with either tile, in every order of threads: one library, one child process."""
    kernels = {(name, tile): scheduled(name, tile) for name in NAMES for tile in TILES}
    names = [k.name for k in kernels.values()]
    library = shim.build(source(kernels.values()), names, tmp_path_factory.mktemp("cuda"))
    cases = {c.name: c for c in CASES}
    jobs = [shim.kernel_job(k, cases[name].arrays, cases[name].sizes) for (name, _), k in kernels.items()]
    out = {}
    for order, results in shim.run(library, jobs).items():
        for (name, tile), kernel, memories in zip(kernels, kernels.values(), results, strict=True):
            at = [b.name for b in kernel.buffers].index(cases[name].output)
            out[name, tile, order] = memories[at]
    return out


@needs_gxx
@pytest.mark.parametrize("order", shim.ORDERS)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_source_means_the_same(case: Case, tile: str, order: str, outputs: Any) -> None:
    np.testing.assert_allclose(outputs[case.name, tile, order], expected(case.name), rtol=2e-6, atol=2e-5)


# ---- barriers ----


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


def sums_of_neighbours(x: np.ndarray) -> np.ndarray:
    for _ in range(3):
        x = x + np.roll(x, -1)
    return x


def test_the_interpreter_waits_at_a_barrier() -> None:
    x = np.arange(24, dtype=np.float32)
    y = np.empty_like(x)
    interpret(reversal(True), {"x": x, "y": y})
    np.testing.assert_array_equal(y, x.reshape(3, 8)[:, ::-1].ravel())
    x = np.arange(8, dtype=np.float32)
    y = np.empty_like(x)
    interpret(exchange((True, True)), {"x": x, "y": y})
    np.testing.assert_array_equal(y, sums_of_neighbours(x))


@pytest.mark.parametrize(
    "kernel", [reversal(False), exchange((False, True)), exchange((True, False))], ids=str
)
def test_the_interpreter_finds_a_missing_barrier(kernel: Kernel) -> None:
    n = 24 if kernel.name.startswith("reversal") else 8
    x = np.arange(n, dtype=np.float32)
    y = np.empty_like(x)
    interpret(kernel, {"x": x, "y": y})
    want = x.reshape(3, 8)[:, ::-1].ravel() if n == 24 else sums_of_neighbours(x)
    assert not np.array_equal(y, want)


def test_the_interpreter_refuses_a_barrier_outside_of_a_block() -> None:
    with pytest.raises(ValueError, match="a sync outside of any block"):
        interpret(Kernel("lonely", (), (), (Sync(),)), {})


@needs_gxx
def test_the_shim_finds_a_missing_barrier(tmp_path: Path) -> None:
    kernels = [
        reversal(True),
        reversal(False),
        exchange((True, True)),
        exchange((False, True)),
        exchange((True, False)),
    ]
    library = shim.build(source(kernels), [k.name for k in kernels], tmp_path)
    jobs = []
    for k in kernels:
        x = np.arange(24 if k.name.startswith("reversal") else 8, dtype=np.float32)
        jobs.append(shim.kernel_job(k, {"x": x, "y": np.full_like(x, np.nan)}, {}))
    results = shim.run(library, jobs)
    right: dict[str, list[bool]] = {k.name: [] for k in kernels}
    for order in shim.ORDERS:
        for k, (x, y) in zip(kernels, results[order], strict=True):
            want = x.reshape(3, 8)[:, ::-1].ravel() if x.size == 24 else sums_of_neighbours(x)
            right[k.name].append(np.array_equal(y, want))
    assert right.pop("reversal") == right.pop("exchange_11") == [True] * 3
    assert not any(all(r) for r in right.values()), right
    # A read before the write finds the poison whatever the order.
    assert right["reversal_unsynced"] == [False] * 3


def in_half_of_the_threads(*body: loops.Stmt) -> loops.If:
    return loops.If(loops.less(Index("t"), const(4)), body)


@needs_gxx
@pytest.mark.parametrize("after", [(), (Sync(),)], ids=["the rest leaves", "the rest waits elsewhere"])
def test_the_shim_finds_a_barrier_that_not_all_threads_reach(after: loops.Body, tmp_path: Path) -> None:
    block = For("t", const(8), "block", (in_half_of_the_threads(Sync()), *after))
    library = shim.build(source([Kernel("divergent", (), (), (block,))]), ["divergent"], tmp_path)
    job = shim.Job((), (shim.Launched("divergent", (1, 1, 1), (8, 1, 1), ()),))
    with pytest.raises(AssertionError, match="not all threads of a block wait at the same barrier"):
        shim.run(library, [job])


@needs_gxx
def test_the_shim_finds_an_access_out_of_bounds(tmp_path: Path) -> None:
    kernel = schedule_gpu(matmul(3, 5, 7).kernel)
    case = matmul(3, 5, 7)
    library = shim.build(source([kernel]), [kernel.name], tmp_path)
    short = {**case.arrays, "w": case.arrays["w"][:-1].copy()}
    with pytest.raises(AssertionError, match="generated code ended with -"):
        shim.run(library, [shim.kernel_job(kernel, short, {})])
