"""`tapecast bench model.tape model.so`: what each stage costs, each for itself.

Eager and compiled calls alternate, so that both see the same machine, and medians are reported.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ..runtime import load
from ..runtime.checking import counted
from ..serialized_models.levels import cpu_name
from .compile_command import compiled
from .console import show, table, time_text
from .errors import Failure, explained
from .options import size_option, sizes_of, threads_option
from .verify_command import check_same_entries, program_of

Call = Callable[[], object]


@click.command()
@click.argument("program")
@click.argument("model")
@size_option
@threads_option
@click.option("--method", help="The entry point; by default the first.")
@click.option("--seconds", default=2.0, show_default=True, help="How long to repeat the calls.")
@click.option("--no-compile", is_flag=True, help="Do not time the compilation.")
def command(
    program: str,
    model: str,
    sizes: Sequence[str],
    threads: int | None,
    method: str | None,
    seconds: float,
    no_compile: bool,
) -> None:
    """Time a program in eager mode against the compiled model."""
    traced = program_of(program, model)
    with explained():
        load_time, loaded = timed(lambda: load(model, threads=threads))
    check_same_entries(traced.program.graphs, loaded)
    name = method or next(iter(loaded.methods))
    if name not in loaded.methods:
        raise Failure(f"{loaded.name} has no method {name}: it has {', '.join(loaded.methods)}")
    values = sizes_of(sizes, traced.program.dims)
    eager, native = calls(traced, loaded, name, values)
    with explained():
        first = [timed(eager)[0], timed(native)[0]]
        steady = alternate([eager, native], seconds)
    stages = [("load", time_text(load_time))]
    if not no_compile:
        stages.insert(0, ("compile", time_text(compile_time(traced, loaded.manifest["options"]))))
    rows = [
        (who, time_text(f), time_text(statistics.median(s)), time_text(min(s)), len(s))
        for who, f, s in zip(("eager", "compiled"), first, steady, strict=True)
    ]
    ratio = statistics.median(steady[0]) / statistics.median(steady[1])
    at = ", ".join(f"{k}={v}" for k, v in values.items()) or "fixed sizes"
    show(
        table(f"{loaded.name}.{name}, {at}", ("", "first call>", "median>", "fastest>", "calls>"), rows),
        table("once", ("stage", "time>"), stages),
        f"{ratio:.2f} times as fast as eager; compiled: level {loaded.level}, "
        f"{counted(loaded.threads, 'thread')}; "
        f"eager: numpy with the threads of its own; {cpu_name()}",
    )


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one call, and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def calls(traced: Any, model: Any, name: str, sizes: dict[str, int]) -> tuple[Call, Call]:
    """The entry on the same random inputs, in eager mode without a tape and compiled, state included in
    both.
    """
    from ..compiler.verify import example
    from ..tracer.evaluate import evaluate

    graph = traced.program.graphs[name]
    arrays = [example(n, sizes, seed) for seed, n in enumerate(graph.inputs)]
    native = model.pure(name)
    return lambda: evaluate(graph, arrays), lambda: native(*arrays)


def alternate(functions: Sequence[Call], seconds: float) -> list[list[float]]:
    """Times of each function, called in turn for `seconds` and at least 5 times."""
    times: list[list[float]] = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while len(times[0]) < 5 or time.perf_counter() < end:
        for function, found in zip(functions, times, strict=True):
            found.append(timed(function)[0])
    return times


def compile_time(traced: Any, options: dict[str, Any]) -> float:
    """Seconds to compile the program again with the model's options, the comparison left out."""
    chosen = {k: v for k, v in options.items() if k in ("target", "fast_math")}
    with tempfile.TemporaryDirectory() as folder:
        return timed(lambda: compiled(traced, Path(folder, "model.so"), {**chosen, "verify": False}))[0]
