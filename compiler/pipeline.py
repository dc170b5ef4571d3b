"""The compiler, top to bottom: graphs in, a library (and from it an artifact) out.

graph -> passes -> groups -> canonical kernels -> schedules, one a CPU level -> LLVM text -> objects -> one file
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from ..tracer.dims import merge_ranges
from ..tracer.graph import Graph
from .assemble import Assembly
from .cpu.build import objects, sources
from .debug import Debug, changes, from_environment
from .library import Entry, KernelInfo, Library
from .options import Options
from .pack import Weights, with_weights
from .passes import Pass, run_passes
from .passes.apply_rules import apply_rules
from .passes.decompose import decompose
from .passes.drop_dead import drop_dead
from .passes.drop_no_ops import drop_no_ops
from .passes.fold_batch_norm import fold_batch_norm
from .passes.fold_constants import fold_constants
from .passes.lower_padding import lower_padding
from .passes.merge_equal import merge_equal
from .passes.separate_outputs import separate_outputs
from .passes.sink_views import sink_views
from .schedule import schedule_all


def pipeline_for(options: Options) -> list[Pass]:
    """The graph passes in order. Each leaves a graph that checks and means the same."""
    return [
        drop_no_ops,
        fold_constants,
        fold_batch_norm,
        decompose,
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
        units = [Assembly(g).unit() for g in optimised]
    with record.stage("schedule"):
        kernels = {name: k for u in units for name, k in u.kernels.items()}
        scheduled, packs = schedule_all(kernels, options.levels)
        weights = Weights()
        units = [with_weights(u, next(iter(scheduled.values())), packs, weights) for u in units]
    dims = merge_ranges(s for g in optimised for n in g.inputs for s in n.shape)
    with record.stage("code"):
        code = objects(sources(options.name, units, scheduled, dims))
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

    return run_passes(graph, pipeline_for(options), watch, debug.stop_after)
