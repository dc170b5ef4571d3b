"""Runs generated CUDA C++ on the CPU: builds it with g++ against `cuda_shim.h` and launches kernels on numpy arrays.

A `Job` is a list of memories and the launches that read and write them. Jobs run in a child process, each memory
with pages without access around it: a crash, or an access past an end, is a failed test and not the end of the run.
"""

from __future__ import annotations

import ctypes
import mmap
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tapecast.compiler.cuda import nvrtc

Array = np.ndarray[Any, Any]

#: The orders in which the threads of a block, and the blocks, take turns.
ORDERS = ("forward", "reverse", "shuffled")

#: Undefined behaviour ends the child. Both backends of the same source must then mean the same.
CHECKS = ["signed-integer-overflow", "shift", "integer-divide-by-zero", "float-cast-overflow", "bounds"]
FLAGS = [
    *("-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off", "-U_FORTIFY_SOURCE"),
    *("-fsanitize=" + ",".join(CHECKS), "-fsanitize-undefined-trap-on-error"),
]


def compiler() -> str | None:
    """The C++ compiler, or None where there is none."""
    return shutil.which("g++")


needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed: nvidia-cuda-nvrtc")
needs_gxx = pytest.mark.skipif(compiler() is None, reason="there is no g++ to build the CPU shim with")


class Pointer(NamedTuple):
    """An argument: an address `offset` bytes into a memory of the job."""

    memory: int
    offset: int = 0


class Launched(NamedTuple):
    """One launch of a kernel; grid and block are counts along x, y, z, an int argument is passed as long long."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[Pointer | int, ...]


class Job(NamedTuple):
    memories: tuple[Array, ...]
    launches: tuple[Launched, ...]


def build(source: str, kernels: Sequence[str], folder: Path, name: str = "kernels") -> Path:
    """A shared library of the named kernels of a CUDA source."""
    text = "\n".join([source, *(f"SHIM_KERNEL({k})" for k in kernels)])
    path, out = folder / f"{name}.cu", folder / f"{name}.so"
    path.write_text(text)
    header = Path(__file__).with_name("cuda_shim.h")
    command = ["g++", *FLAGS, "-include", str(header), "-x", "c++", str(path), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"g++ refused the generated source:\n{done.stderr[:4000]}"
    return out


def run(library: Path, jobs: Sequence[Job]) -> dict[str, list[tuple[Array, ...]]]:
    """The memories of every job after its launches, for each order of threads.

    AssertionError when a launch fails (a barrier that not all threads reach) or the code crashes.
    """
    path = library.with_suffix(".pickle")
    path.write_bytes(pickle.dumps(list(jobs)))
    code = f"import shim; shim.child({str(library)!r}, {str(path)!r})"
    folder = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"generated code ended with {done.returncode}: {done.stderr[-2000:]}"
    results: dict[str, list[tuple[Array, ...]]] = pickle.loads(path.read_bytes())
    return results


# ---- jobs from kernels and units ----


def kernel_job(kernel: Any, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> Job:
    """One launch of a scheduled kernel; its memories are the arrays of its buffers, in order."""
    from tapecast.compiler.cuda.emit import launch

    pointers = [Pointer(k) for k in range(len(kernel.buffers))]
    args = (*pointers, *(sizes[n] for n in kernel.sizes))
    grid, block = launch(kernel).at(sizes)
    memories = tuple(arrays[b.name] for b in kernel.buffers)
    return Job(memories, (Launched(kernel.name, grid, block, args),))


def unit_job(
    unit: Any,
    kernels: Mapping[str, Any],
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    sizes: Mapping[str, int],
) -> Job:
    """All steps of a unit. The memories are its inputs, its outputs, its constants and the workspace, in this order."""
    from tapecast.compiler.cuda.build import launches
    from tapecast.compiler.sizes import evaluate_size

    constants = tuple(np.ascontiguousarray(c) for c in unit.constants)
    workspace = np.full(max(1, evaluate_size(unit.workspace, dict(sizes))), 0xFF, np.uint8)
    first = {"input": 0, "output": len(inputs), "constant": len(inputs) + len(outputs)}

    def pointer(where: Any) -> Pointer:
        if where.kind == "temp":
            return Pointer(len(inputs) + len(outputs) + len(constants), evaluate_size(where.at, dict(sizes)))
        return Pointer(first[where.kind] + where.at)

    geometry = launches(kernels)
    steps = []
    for step in unit.steps:
        kernel = kernels[step.kernel]
        args = [pointer(step.where[b.name]) for b in kernel.buffers]
        grid, block = geometry[step.kernel].at(sizes)
        if 0 not in grid:
            steps.append(Launched(kernel.name, grid, block, (*args, *(sizes[n] for n in kernel.sizes))))
    return Job((*inputs, *outputs, *constants, workspace), tuple(steps))


# ---- the child ----


class _Guarded:
    """A copy of an array that ends where a page without access begins, with another such page in front."""

    def __init__(self, array: Array) -> None:
        page, libc = mmap.PAGESIZE, ctypes.CDLL(None)
        size = -(-max(array.nbytes, 1) // page) * page
        self.map = mmap.mmap(-1, size + 2 * page)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        for at in (base, base + page + size):
            assert libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(page), 0) == 0
        start = page + size - array.nbytes
        self.array = np.frombuffer(self.map, array.dtype, array.size, start).reshape(array.shape)
        self.array[...] = array
        self.address = base + start


def _launch(library: ctypes.CDLL, launched: Launched, memories: Sequence[_Guarded], order: int) -> None:
    values = [
        ctypes.c_int64(memories[a.memory].address + a.offset if isinstance(a, Pointer) else a)
        for a in launched.args
    ]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    three: Callable[..., Any] = ctypes.c_uint * 3
    kernel = ctypes.cast(getattr(library, f"shim_{launched.kernel}"), ctypes.c_void_p)
    code = library.shim_launch(kernel, three(*launched.grid), three(*launched.block), pointers, order)
    problems = {
        1: f"cannot start {launched.grid} blocks of {launched.block} threads",
        2: "not all threads of a block wait at the same barrier",
    }
    if code:
        sys.exit(f"{launched.kernel}, {ORDERS[order]}: {problems[code]}")


def child(library: str, path: str) -> None:
    loaded = ctypes.CDLL(library)
    results: dict[str, list[tuple[Array, ...]]] = {name: [] for name in ORDERS}
    jobs: list[Job] = pickle.loads(Path(path).read_bytes())
    for order, name in enumerate(ORDERS):
        for job in jobs:
            memories = [_Guarded(a) for a in job.memories]
            for launched in job.launches:
                _launch(loaded, launched, memories, order)
            results[name].append(tuple(m.array.copy() for m in memories))
    Path(path).write_bytes(pickle.dumps(results))
