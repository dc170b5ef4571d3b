"""The proof at the end of a compilation: the finished library against the graph it came from.

Both run on the same random inputs at the smallest, a middle and the largest declared sizes, the latter up to
LARGEST. The reference is the graph evaluated in float64; the graph evaluated in its own dtypes shows what error is
usual. The compiled result may be MARGIN times as far from the reference as that, or a few units in the last place of
its largest value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..eager.ops.types import Aval, is_floating
from ..tracer.dims import evaluate as size_at, merge_ranges
from ..tracer.evaluate import evaluate
from ..tracer.graph import Graph, Node

Array = np.ndarray[Any, Any]
WIDE = np.dtype(np.float64)

#: How many times eager's own error the compiled result may have.
MARGIN = 8.0
#: Errors up to this many units in the last place of the largest value are always fine: sums in another order.
UNITS = 64
#: Dynamic sizes without an upper bound, or with a large one, are tried up to here.
LARGEST = 64


class VerificationError(Exception):
    """The compiled library does not compute what the graph means."""


def verify(graphs: Mapping[str, Graph], model: Any) -> dict[str, Any]:
    """Compare every entry of a loaded library with its graph; the report that goes into the manifest.

    Raises VerificationError naming the entry, the sizes, the output and both errors.
    """
    report: dict[str, Any] = {}
    for name, graph in graphs.items():
        runs = [compare(name, graph, getattr(model, name), sizes) for sizes in sizes_to_try(graph)]
        report[name] = runs
    return report


def sizes_to_try(graph: Graph) -> Iterator[dict[str, int]]:
    """The smallest, a middle and the largest sizes (up to LARGEST), without repetition."""
    ranges = merge_ranges(s for n in graph.inputs for s in n.shape)
    tops = {
        n: max(low, min(LARGEST, high if high is not None else LARGEST)) for n, (low, high) in ranges.items()
    }
    lows = {n: low for n, (low, _) in ranges.items()}
    middles = {n: (lows[n] + tops[n]) // 3 + 1 if tops[n] > lows[n] + 1 else lows[n] for n in ranges}
    seen: list[dict[str, int]] = []
    for sizes in (lows, middles, tops):
        if sizes not in seen:
            seen.append(sizes)
            yield sizes


def compare(name: str, graph: Graph, entry: Callable[..., Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """One run of one entry: errors against float64, of the compiled code and of the graph in its own dtypes."""
    inputs = [example(n, sizes, seed) for seed, n in enumerate(graph.inputs)]
    got = entry(*inputs)
    outputs = list(got) if isinstance(got, tuple) else [got]
    with np.errstate(all="ignore"):
        usual = evaluate(graph, inputs)
        exact = evaluate(widened(graph), [widen(a) for a in inputs])
    compiled_error = eager_error = 0.0
    for k, (y, own, best) in enumerate(zip(outputs, usual, exact, strict=True)):
        errors = check_output(f"{name} output {k} at {dict(sizes)}", y, np.asarray(own), np.asarray(best))
        compiled_error, eager_error = max(compiled_error, errors[0]), max(eager_error, errors[1])
    return {"sizes": dict(sizes), "compiled_error": compiled_error, "eager_error": eager_error}


def check_output(where: str, y: Array, own: Array, best: Array) -> tuple[float, float]:
    """(compiled, eager) largest error relative to the largest value; exact dtypes must agree exactly."""
    if y.shape != own.shape or y.dtype != own.dtype:
        raise VerificationError(
            f"{where}: the graph gives {own.dtype}{list(own.shape)}, the library {y.dtype}{list(y.shape)}"
        )
    if not is_floating(y.dtype):
        if not np.array_equal(y, own):
            raise VerificationError(
                f"{where}: {int(np.sum(y != own))} of {y.size} values differ from the graph's"
            )
        return 0.0, 0.0
    compiled, eager = relative_error(y, best), relative_error(own, best)
    allowed = MARGIN * eager + UNITS * float(np.finfo(np.float32 if y.dtype.itemsize <= 4 else y.dtype).eps)
    if not compiled <= allowed:
        raise VerificationError(
            f"{where}: the library is {compiled:.1e} of the largest value away from float64, eager {eager:.1e}; "
            f"allowed is {allowed:.1e}. This is a bug in the compiler: compile with verify=False to look into it"
        )
    return compiled, eager


def relative_error(y: Array, best: Array) -> float:
    """The largest difference of finite values over the largest finite value; infinite where others do not match."""
    y64, best64 = y.astype(np.float64), best.astype(np.float64)
    finite = np.isfinite(best64)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = best64.astype(y.dtype).astype(np.float64)
        same = np.isclose(y64, rounded, rtol=0, atol=0, equal_nan=True) | finite
    if not same.all():
        return float("inf")
    if not finite.any():
        return 0.0
    return float(np.max(np.abs(y64 - best64)[finite]) / max(np.max(np.abs(best64[finite])), 1e-30))


def example(n: Node, sizes: Mapping[str, int], seed: int) -> Array:
    """Random data for an input: normal floats, small integers that are safe as indices, coin tosses."""
    shape = tuple(size_at(s, sizes) for s in n.shape)
    rng = np.random.default_rng(seed)
    if is_floating(n.dtype):
        return rng.standard_normal(shape).astype(n.dtype)
    if n.dtype.kind == "b":
        return rng.random(shape) < 0.5
    return rng.integers(0, 2, shape).astype(n.dtype)


def widen(a: Array) -> Array:
    return a.astype(np.float64) if is_floating(a.dtype) else a


def widened(graph: Graph) -> Graph:
    """The graph with its floating inputs and constants in float64, so that evaluation computes in float64."""
    inputs = {n: replace(n, aval=Aval(n.shape, WIDE)) if is_floating(n.dtype) else n for n in graph.inputs}

    def f(n: Node, operands: tuple[Node, ...]) -> Node:
        if n in inputs:
            return inputs[n]
        if n.is_const and is_floating(n.dtype):
            return replace(n, value=widen(np.asarray(n.value)))
        return n.with_inputs(operands)

    wide = graph.rebuild(f)
    replaced = {n for n, new in inputs.items() if new is not n}
    nodes = tuple(n for n in wide.nodes if n not in replaced)
    return replace(wide, inputs=tuple(inputs.values()), nodes=nodes)
