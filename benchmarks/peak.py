"""What the arithmetic alone allows: independent chains of float32 multiply-adds in registers, on 1 and 2 threads.

python benchmarks/peak.py
"""

from __future__ import annotations

import ctypes
import tempfile
import threading
import time
from pathlib import Path

from tapecast.compiler.cpu.builder import Function, Module, literal
from tapecast.compiler.cpu.elf import link
from tapecast.compiler.cpu.levels import level_of
from tapecast.compiler.cpu.llvm_driver import object_code
from tapecast.compiler.cpu.scalars import LlvmScalars
from tapecast.compiler.options import native_level

CHAINS = 16  # twice what two units of latency 4 need
TURNS = 20000


def peak_library() -> ctypes.CDLL:
    """A library with `peak(float *room)`: TURNS turns of CHAINS multiply-adds, a vector each."""
    level = level_of(native_level())
    lanes = level.lanes("float32")
    f = Function("peak", [("room", "ptr")], linkage="external", attributes=level.attributes)
    s = LlvmScalars(f, level)
    x = f.load("%room", "float32", lanes)
    slots = [f.alloca("float32", lanes) for _ in range(CHAINS)]
    for slot in slots:
        f.store(x, slot)

    def turn(_: object) -> None:
        for slot in slots:
            f.store(s.fma(f.load(slot, "float32", lanes), x, x), slot)

    f.loop(literal(0, "int64"), literal(TURNS, "int64"), 1, turn)
    total = x
    for slot in slots:
        total = s.add(total, f.load(slot, "float32", lanes))
    f.store(total, "%room")
    module = Module()
    module.add(f)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "peak.so"
        path.write_bytes(link([object_code(module.text(), native_level())]).data)
        return ctypes.CDLL(str(path))


def measured_peak(threads: int = 1, seconds: float = 0.4) -> float:
    """float32 operations a second on this many threads, the best of many short runs; a multiply-add counts as 2."""
    lib = peak_library()
    flops = 2 * CHAINS * TURNS * level_of(native_level()).lanes("float32")
    rates: list[list[float]] = [[] for _ in range(threads)]
    gate = threading.Barrier(threads)

    def work(k: int) -> None:
        room = (ctypes.c_float * 64)(*[0.5] * 64)
        gate.wait()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.perf_counter()
            lib.peak(room)
            rates[k].append(flops / (time.perf_counter() - start))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    return sum(max(r) for r in rates)


if __name__ == "__main__":
    for n in (1, 2):
        print(f"{n} thread(s): {measured_peak(n) / 1e9:.1f} GFLOP/s")
