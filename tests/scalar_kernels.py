"""Runs scalar functions as compiled loops over arrays, in a child process: generated code that crashes is a
failed test there, not the end of the run.

A job is one kernel: `Job("exp", ("float32",), "float32", lanes=8)`; `run` compiles jobs for a level, calls
each on its arrays and returns the results.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding as llvm
import numpy as np

from tapecast.compiler.cpu import llvm_driver
from tapecast.compiler.cpu.builder import Function, Module, Value, literal
from tapecast.compiler.cpu.levels import LEVELS, Level
from tapecast.compiler.cpu.scalars import LlvmScalars
from tapecast.eager.ops.types import DTYPES

NEEDED = {
    "x86-64-v2": ("sse4.2",),
    "x86-64-v3": ("avx2", "fma", "f16c", "bmi2"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"),
}


def host_levels() -> list[str]:
    """The levels this machine can run."""
    has = llvm.get_host_cpu_features()
    return [name for name, features in NEEDED.items() if all(has.get(f) for f in features)]


class Job(NamedTuple):
    """`op` of the scalar language (or of OTHERS) on arguments of `dtypes`, followed by `constants`."""

    op: str
    dtypes: tuple[str, ...]
    result: str
    lanes: int = 1
    constants: tuple[tuple[float, str], ...] = ()

    @property
    def name(self) -> str:
        parts = [self.op, *self.dtypes, self.result, f"x{self.lanes}", *(str(v) for v, _ in self.constants)]
        return "_".join(parts).replace("-", "m").replace(".", "p")


Build = Callable[[LlvmScalars, Sequence[Value], Job], Value]

#: What a job may name beside the functions of the language.
OTHERS: dict[str, Build] = {
    "cast": lambda s, args, job: s.cast(args[0], job.result),
    "floordiv_nonneg": lambda s, args, job: s.floordiv(*args, nonneg=True),
    "mod_nonneg": lambda s, args, job: s.mod(*args, nonneg=True),
}  # fmt: skip
for _op in ("add", "mul", "maximum", "minimum", "logical_and", "logical_or"):
    OTHERS[f"reduce_{_op}"] = lambda s, args, job: s.reduce(job.op.removeprefix("reduce_"), args[0])


def build(job: Job, s: LlvmScalars, args: Sequence[Value]) -> Value:
    args = [*args, *(literal(v, dtype) for v, dtype in job.constants)]
    return OTHERS[job.op](s, args, job) if job.op in OTHERS else getattr(s, job.op)(*args)


def kernel(job: Job, level: Level) -> Function:
    """`void @name(in…, out, n)`: out[i] = op(in[i]…) by vectors; a reduction stores one element each."""
    inputs = [f"in{k}" for k in range(len(job.dtypes))]
    f = Function(
        job.name,
        [*((name, "ptr noalias") for name in inputs), ("out", "ptr noalias"), ("n", "i64")],
        linkage="external",
        attributes=level.attributes,
    )
    s = LlvmScalars(f, level)

    def body(i: Value) -> None:
        args = [f.load(f.gep(f"%{p}", i, d), d, job.lanes) for p, d in zip(inputs, job.dtypes, strict=True)]
        out = build(job, s, args)
        at = i if out.lanes == job.lanes else s.floordiv(i, literal(job.lanes, "int64"), nonneg=True)
        f.store(out, f.gep("%out", at, out.dtype))

    f.loop(literal(0, "int64"), Value("%n", "int64"), job.lanes, body)
    return f


def module(jobs: Sequence[Job], level: Level) -> str:
    m = Module()
    for job in jobs:
        m.add(kernel(job, level))
    return m.text()


@functools.cache
def object_of(jobs: tuple[Job, ...], level: str, opt: int = 3) -> bytes:
    return llvm_driver.object_code(module(jobs, LEVELS[level]), level, opt=opt)


def run(
    jobs: Sequence[Job], inputs: dict[Job, Sequence[np.ndarray]], level: str, opt: int = 1
) -> dict[Job, np.ndarray]:
    """The result of every job on its inputs, converted to the job's dtypes; `opt` is LLVM's level."""
    calls = [(job.name, arguments(job, inputs[job])) for job in jobs]
    answers = execute(object_of(tuple(jobs), level, opt), level, calls)
    return {job: answer[-2] for job, answer in zip(jobs, answers, strict=True)}


def arguments(job: Job, arrays: Sequence[np.ndarray]) -> list[np.ndarray | int]:
    arrays = [np.ascontiguousarray(a, DTYPES[d]) for a, d in zip(arrays, job.dtypes, strict=True)]
    n = len(arrays[0])
    assert n % job.lanes == 0, f"{job.name}: {n} elements are not whole vectors"
    out = np.zeros(n // job.lanes if job.op.startswith("reduce_") else n, DTYPES[job.result])
    return [*arrays, out, n]


# ---- the child process ----

Arguments = Sequence[np.ndarray | int]


@functools.cache
def running_child() -> subprocess.Popen[bytes]:
    """One child for all tests; importing numpy and LLVM takes longer than most of them."""
    command = [sys.executable, "-c", "import scalar_kernels; scalar_kernels.serve()"]
    folder = Path(__file__).parent
    child = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(child.communicate)
    return child


def execute(obj: bytes, level: str, calls: Sequence[tuple[str, Arguments]]) -> list[Arguments]:
    """Calls functions of an object by name, passing arrays' addresses and int64s; the arguments afterwards.

    AssertionError when the generated code ends the process.
    """
    child = running_child()
    assert child.stdin and child.stdout
    try:
        pickle.dump((obj, level, calls), child.stdin)
        child.stdin.flush()
        answers: list[Arguments] = pickle.load(child.stdout)
    except (EOFError, BrokenPipeError):
        running_child.cache_clear()
        raise AssertionError(f"code for {level} ended the process with {child.wait()}") from None
    return answers


def serve() -> None:
    """The child's loop: tasks from standard input until it closes."""
    engines = []  # code stays loaded while the process lives
    while sys.stdin.buffer.peek(1):
        obj, level, calls = pickle.load(sys.stdin.buffer)
        engines.append(load(obj, level))
        for name, args in calls:
            address = engines[-1].get_function_address(name)
            assert address, f"no function {name}"
            passed = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
            ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(passed))(address)(*passed)
        pickle.dump([args for _, args in calls], sys.stdout.buffer)
        sys.stdout.buffer.flush()


def load(obj: bytes, level: str) -> llvm.ExecutionEngine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = LEVELS[level].target
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(obj))
    engine.finalize_object()
    return engine
