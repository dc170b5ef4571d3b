"""The last check of a trace: the finished program against the user's own code, on inputs it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..eager.device import CPU, move
from ..eager.ops.executor import namespace_of
from ..eager.ops.types import is_differentiable
from ..eager.tensor import Tensor
from .evaluate import evaluate
from .examples import Sizes, check_sizes
from .record import TracerError, TracerWarning
from .source import error_line
from .state import State, restored
from .tree import flatten, is_tensor

if TYPE_CHECKING:
    from .program import Program
    from .trace import Entry

#: Relative to the largest element; an op and its part of the program run the same code, so this is generous.
TOLERANCE = 1e-4
#: Calls that are compared where a program has state: what one call writes, the next one reads.
STEPS = 2


def replay(program: Program, entry: Entry, state: State, lenient: bool = False) -> None:
    """Compare at the smallest and at middle sizes. TracerError for a difference; with `lenient` a warning."""
    inputs = entry.inputs
    for sizes in check_sizes(inputs.ranges, inputs.example_sizes(), inputs.elements):
        rng = np.random.default_rng(1)
        steps = STEPS if program.methods[entry.name].graph.state else 1
        arrays = [inputs.arrays(sizes, rng) for _ in range(steps)]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = _eager(entry, arrays, sizes, state)
            found = _graph(program, entry, arrays, sizes, state)
        for step in range(steps):
            _compare(entry, wanted[step], found[step], sizes, lenient)


def _eager(entry: Entry, calls: Sequence[Sequence[Any]], sizes: Sizes, state: State) -> list[list[Any]]:
    """Outputs of the user's code, call by call, on copies of the inputs; the state is put back afterwards."""
    out = []
    with restored(state, copy=True):
        for arrays in calls:
            try:
                result = entry.call(list(map(_tensor, arrays, entry.inputs.tensors)))
            except Exception as error:
                where = ", ".join(f"{name}={n}" for name, n in sizes.items()) or "other values"
                line = error_line(error)
                raise TracerError(
                    f"{f'{line}: ' if line else ''}the program itself fails for {where}, which is in the "
                    f"declared range: {error}; narrow the range with Dim(min=, max=)"
                ) from error
            leaves: list[tuple[str, Any]] = []
            flatten(result, "output", leaves, is_tensor)
            out.append([move(leaf.array, CPU).copy() for _, leaf in leaves])
    return out


def _tensor(array: Any, example: Tensor) -> Tensor:
    tensor = Tensor(array.copy())
    tensor.requires_grad = example.requires_grad
    return tensor


def _graph(
    program: Program, entry: Entry, calls: Sequence[Sequence[Any]], sizes: Sizes, held: State
) -> list[list[Any]]:
    """Outputs of the graph, call by call, its state carried along."""
    graph = program.methods[entry.name].graph
    count = len(entry.inputs.names)
    state = [held.arrays[n.name].copy() for n in graph.inputs[count:]]
    out = []
    for arrays in calls:
        results = evaluate(graph, [*arrays, *state], namespace_of([*arrays, *state]), sizes)
        for i, o in graph.state:
            state[i - count] = results[o]
        out.append([move(array, CPU) for array in results[: len(results) - len(graph.state)]])
    return out


def _compare(entry: Entry, wanted: list[Any], found: list[Any], sizes: Sizes, lenient: bool) -> None:
    for k, (a, b) in enumerate(zip(wanted, found, strict=True)):
        if problem := _difference(a, b):
            where = ", ".join(f"{name}={n}" for name, n in sizes.items())
            message = (
                f"{entry.name}: output {k} of the recorded program differs from the program's own"
                f"{f' for {where}' if where else ''}: {problem}. It depends on something that was not "
                "recorded: a value that Python read, a size that was treated as a number, or state that is "
                "not in `state`"
            )
            if not lenient:
                raise TracerError(message)
            warnings.warn(message, TracerWarning, stacklevel=4)


def _difference(a: Any, b: Any) -> str:
    """What is unlike about two arrays, "" if nothing is."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"it is {a.dtype}{list(a.shape)} in eager, {b.dtype}{list(b.shape)} in the graph"
    if not is_differentiable(a.dtype):
        return "" if np.array_equal(a, b) else f"{int((a != b).sum())} of {a.size} elements are unequal"
    wide = complex if a.dtype.kind == "c" else float
    a, b = a.astype(wide), b.astype(wide)
    finite = np.abs(a[np.isfinite(a)])
    scale = float(finite.max()) if finite.size else 1.0
    if np.allclose(a, b, TOLERANCE, TOLERANCE * scale, equal_nan=True):
        return ""
    return f"by up to {np.nanmax(np.abs(a - b)):.3g}, with elements of up to {scale:.3g}"
