"""The compiler, top to bottom: graphs in, a library (and from it an artifact) out.

graph -> passes -> groups -> canonical kernels -> schedules, one a CPU level -> LLVM text -> objects -> one file
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from ..tracer.dims import merge_ranges
from ..tracer.graph import Graph
from .assemble import Assembly
from .cpu.build import objects, sources
from .cpu.llvm_driver import assembly
from .cpu.workers import Source
from .debug import Debug, changes, from_environment
from .library import Entry, KernelInfo, Library
from .options import Options
from .pack import Weights, with_weights
from .passes import Pass, run_passes
from .passes.apply_rules import apply_rules
from .passes.decompose import Whole, decompose, nothing
from .passes.drop_dead import drop_dead
from .passes.drop_no_ops import drop_no_ops
from .passes.fold_batch_norm import fold_batch_norm
from .passes.fold_constants import fold_constants
from .passes.lower_padding import lower_padding
from .passes.merge_equal import merge_equal
from .passes.separate_outputs import separate_outputs
from .passes.sink_views import sink_views
from .schedule import Scheduled, schedule_all
from .unit import Unit
from .whole import takes_whole


def pipeline_for(options: Options, whole: Whole = nothing) -> list[Pass]:
    """The graph passes in order. Each leaves a graph that checks and means the same. `whole`: the composites that the
    backend takes as they are."""
    return [
        drop_no_ops,
        fold_constants,
        fold_batch_norm,
        partial(decompose, whole=whole),
        lower_padding,
        sink_views,
        partial(apply_rules, fast_math=options.fast_math),
        fold_constants,
        drop_no_ops,
        merge_equal,
        drop_dead,
        separate_outputs,
    ]


@dataclass
class Record:
    """What a compilation did: seconds in each stage, in order, and what each graph pass changed in each entry."""

    stages: dict[str, float] = field(default_factory=dict)
    passes: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - start


def compile_graphs(graphs: Mapping[str, Graph], options: Options, record: Record | None = None) -> Library:
    """Compile named graphs into one library. Equal kernels, also of different entries, are compiled once.

    Raises NotImplementedError, naming the operator and the user's line, for an op that has no loop rule.
    """
    record, debug = record or Record(), from_environment()
    with record.stage("passes"):
        optimised = [optimise(replace(g, name=name), options, debug, record) for name, g in graphs.items()]
    with record.stage("lower"):
        units = [unit_of(g, debug) for g in optimised]
    with record.stage("schedule"):
        kernels = {name: k for u in units for name, k in u.kernels.items()}
        scheduled, packs = schedule_all(kernels, options.levels)
        show_scheduled(scheduled, debug)
        weights = Weights()
        units = [with_weights(u, next(iter(scheduled.values())), packs, weights) for u in units]
    dims = merge_ranges(s for g in optimised for n in g.inputs for s in n.shape)
    with record.stage("code"):
        code = objects(watched(sources(options.name, units, scheduled, dims), debug))
    debug.show("time", options.name, times_text(record.stages))
    return Library(
        options.name,
        code,
        weights.bytes(),
        tuple(Entry(u.name, u.inputs, u.outputs, u.sizes, u.workspace_text, u.state) for u in units),
        dims,
        options.levels,
        tuple(KernelInfo(k, u.name, u.lines[k]) for u in units for k in u.kernels),
        "\n".join(str(g) for g in optimised),
        {"target": options.target, "fast_math": options.fast_math},
    )


def optimise(graph: Graph, options: Options, debug: Debug, record: Record) -> Graph:
    """The graph after all passes; each is noted in the record and shown where debugging asks for it."""

    def watch(name: str, before: Graph, after: Graph) -> None:
        record.passes.append(f"{name}: {changes(before, after)}")
        debug.watch(name, before, after)

    return run_passes(graph, pipeline_for(options, takes_whole), watch, debug.stop_after)


def unit_of(graph: Graph, debug: Debug) -> Unit:
    """Groups, canonical kernels and a place for every buffer, from an optimised graph."""
    made = Assembly(graph, tiles=True)
    unit = made.unit()
    debug.show("fusion", graph.name, partial(str, made.fusion))
    for name, kernel in unit.kernels.items():
        debug.show("loops", name, partial(str, kernel))
    debug.show("memory", graph.name, unit.calls_text)
    return unit


def show_scheduled(scheduled: Scheduled, debug: Debug) -> None:
    for level, kernels in scheduled.items():
        for name, kernel in kernels.items():
            debug.show("loops", f"{name} for {level}", partial(str, kernel))


def watched(modules: Iterable[Source], debug: Debug) -> Iterator[Source]:
    """The modules on their way to LLVM; what it makes of each is shown where debugging asks for it."""
    for m in modules:
        debug.show("llvm", m.cpu, m.text)
        debug.show("asm", m.cpu, partial(assembly, m.text, m.cpu))
        yield m


def times_text(stages: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {1e3 * s:.0f} ms" for name, s in stages.items())
