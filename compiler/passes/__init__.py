"""Passes: functions from graph to graph, one in each file, and the loop that runs a list of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...tracer.check import check
from ...tracer.graph import Graph

Pass = Callable[[Graph], Graph]
Watch = Callable[[str, Graph, Graph], None]


def ignore(name: str, before: Graph, after: Graph) -> None:
    """A watch that does nothing."""


def run_passes(graph: Graph, passes: Sequence[Pass], watch: Watch = ignore, stop_after: str = "") -> Graph:
    """Run `passes` in order, checking each result; `watch(name, before, after)` sees every step.

    `stop_after`: the name of the pass to end with, for finding the one that went wrong. A pass that gives a
    graph which does not check is named in the error.
    """
    for p in passes:
        after = checked(p, graph)
        watch(pass_name(p), graph, after)
        graph = after
        if pass_name(p) == stop_after:
            break
    return graph


def checked(p: Pass, graph: Graph) -> Graph:
    try:
        return check(p(graph))
    except Exception as error:
        error.add_note(f"in the graph pass {pass_name(p)}, on graph {graph.name!r}")
        raise


def pass_name(p: Pass) -> str:
    """The name of a pass, also of one with its options bound by `functools.partial`."""
    return str(getattr(p, "__name__", "") or getattr(p, "func", p).__name__)
