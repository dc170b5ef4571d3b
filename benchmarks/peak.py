"""What the arithmetic alone allows: independent chains of float32 multiply-adds in registers, on 1 and 2 threads.

The chains touch no memory, and a core may run them at a higher clock than any code that also loads vectors: measured
on a Sapphire Rapids core, 159 GFLOP/s at best and 140 after (or soon after) vector code, which never passed 140.

python benchmarks/peak.py
"""

from __future__ import annotations

import ctypes
import tempfile
import threading
from pathlib import Path

from harness import Repeat, in_turns

from tapecast.compiler.cpu.builder import Function, Module, literal
from tapecast.compiler.cpu.elf import link
from tapecast.compiler.cpu.levels import level_of
from tapecast.compiler.cpu.llvm_driver import object_code
from tapecast.compiler.cpu.scalars import LlvmScalars
from tapecast.compiler.options import native_level

CHAINS = 12  # two units of latency 4 need 8; the 16 registers of AVX2 hold 12 and the operand
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


def peak_contender(threads: int = 1) -> tuple[Repeat, int]:
    """A contender that runs the chains on every thread, and its float32 operations a call (a multiply-add is 2)."""
    lib = peak_library()
    rooms = [(ctypes.c_float * 64)(*[0.5] * 64) for _ in range(threads)]

    def work(room: ctypes.Array[ctypes.c_float], n: int) -> None:
        for _ in range(n):
            lib.peak(room)

    def repeat(n: int) -> None:
        others = [threading.Thread(target=work, args=(room, n)) for room in rooms[1:]]
        for t in others:
            t.start()
        work(rooms[0], n)
        for t in others:
            t.join()

    return repeat, threads * 2 * CHAINS * TURNS * level_of(native_level()).lanes("float32")


if __name__ == "__main__":
    for n in (1, 2):
        run, operations = peak_contender(n)
        timing = in_turns({"peak": run}, rounds=15)["peak"]
        best, median = (operations / t / 1e9 for t in timing)
        print(f"{n} thread(s): {best:.1f} GFLOP/s (median {median:.1f})")
