"""Programs as users write them, traced and compiled, give what eager gives: at every size, level and thread count.

Random programs are chains of views, products, reductions and element-wise functions with two dynamic axes. Outputs
are written among marked bytes, the workspace starts as rubbish, and both are errors to rely on or to touch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tapecast as tc
from tapecast import runtime
from tapecast.compiler.compile import compile_artifact
from tapecast.compiler.verify import widen, widened
from tapecast.eager.ops.types import is_floating
from tapecast.jit import Dim, trace
from tapecast.tracer.dims import evaluate as size_at
from tapecast.tracer.evaluate import evaluate
from tapecast.tracer.graph import Graph

Array = np.ndarray[Any, Any]
Program = Callable[..., Any]
F = tc.nn.functional

BATCH, LENGTH = Dim("batch", max=33), Dim("length", max=65)
SIZES = ({"batch": 1, "length": 1}, {"batch": 5, "length": 17}, {"batch": 33, "length": 65})
MARK = 0xA5
#: Bytes kept free behind an output: a vector of the widest registers.
MARGIN = 64


# ---- random programs ----------------------------------------------------------------------------------------------

WIDTHS = (1, 2, 5, 15, 16, 17, 33)


class Value:
    """A value of a program in the making: its rank, and the sizes of axes that are not dynamic."""

    def __init__(self, shape: Sequence[int | None]) -> None:
        self.shape = tuple(shape)

    def fixed(self, pick: random.Random, least: int = 1) -> int | None:
        """An axis of known size, at least `least`."""
        axes = [a for a, n in enumerate(self.shape) if n is not None and n >= least]
        return pick.choice(axes) if axes else None


Step = tuple[Program, Sequence[int | None]]


def elementwise(pick: random.Random, v: Value) -> Step:
    f = pick.choice(["tanh", "sigmoid", "relu", "sin", "abs", "neg", "floor", "square"])
    return lambda x: getattr(x, f)() * 0.5, v.shape


def permuted(pick: random.Random, v: Value) -> Step:
    dims = pick.sample(range(len(v.shape)), len(v.shape))
    return lambda x: x.permute(*dims), [v.shape[d] for d in dims]


def sliced(pick: random.Random, v: Value) -> Step | None:
    axis = v.fixed(pick, 3)
    if axis is None:
        return None
    size = v.shape[axis] or 0
    start, step = pick.randrange(size - 1), pick.choice([1, 2, 3])
    index = (slice(None),) * axis + (slice(start, None, step),)
    return lambda x: x[index], [*v.shape[:axis], len(range(start, size, step)), *v.shape[axis + 1 :]]


def flattened(pick: random.Random, v: Value) -> Step | None:
    if len(v.shape) < 2:
        return None
    axis = pick.randrange(len(v.shape) - 1)
    a, b = v.shape[axis], v.shape[axis + 1]
    merged = None if a is None or b is None else a * b
    return lambda x: x.flatten(axis, axis + 1), [*v.shape[:axis], merged, *v.shape[axis + 2 :]]


def reduced(pick: random.Random, v: Value) -> Step:
    axes = tuple(sorted(pick.sample(range(len(v.shape)), min(len(v.shape), pick.choice([1, 1, 2])))))
    f, keep = pick.choice(["mean", "amax", "amin"]), pick.random() < 0.5
    kept = [1 if a in axes else n for a, n in enumerate(v.shape) if keep or a not in axes]
    return lambda x: getattr(x, f)(axes, keepdim=keep), kept


def normalised(pick: random.Random, v: Value) -> Step:
    axis, f = pick.randrange(len(v.shape)), pick.choice(["softmax", "log_softmax"])
    return lambda x: getattr(x, f)(axis), v.shape


def projected(pick: random.Random, v: Value) -> Step | None:
    if v.shape[-1] is None:
        return None
    rows, columns = v.shape[-1], pick.choice([*WIDTHS, 63, 65])
    rng = np.random.default_rng(rows * columns)
    weight = (rng.standard_normal((rows, columns)) / rows**0.5).astype(np.float32)
    if pick.random() < 0.4:
        transposed = tc.tensor(np.ascontiguousarray(weight.T))
        return lambda x: x @ transposed.T, [*v.shape[:-1], columns]
    kept, bias = tc.tensor(weight), tc.tensor(rng.standard_normal(columns).astype(np.float32))
    return lambda x: (x @ kept + bias).relu(), [*v.shape[:-1], columns]


def squared(pick: random.Random, v: Value) -> Step | None:
    if len(v.shape) < 2:
        return None
    return lambda x: (x @ x.transpose(-1, -2)) * 0.1, [*v.shape[:-1], v.shape[-2]]


def joined(pick: random.Random, v: Value) -> Step | None:
    axis = v.fixed(pick)
    if axis is None:
        return None
    size = 2 * (v.shape[axis] or 0)
    return lambda x: tc.cat([x, x.abs()], axis), [*v.shape[:axis], size, *v.shape[axis + 1 :]]


def moved(pick: random.Random, v: Value) -> Step:
    axis, f = pick.randrange(len(v.shape)), pick.choice(["flip", "cumsum", "roll"])
    moves: dict[str, Program] = {
        "flip": lambda x: x.flip(axis),
        "cumsum": lambda x: x.cumsum(axis) * 0.1,
        "roll": lambda x: x.roll(1, axis) - x,
    }
    return moves[f], v.shape


def masked(pick: random.Random, v: Value) -> Step | None:
    diagonal = pick.choice([-1, 0, 1])
    return (lambda x: x.tril(diagonal), v.shape) if len(v.shape) > 1 else None


def spread(pick: random.Random, v: Value) -> Step | None:
    axis = pick.randrange(len(v.shape) + 1)
    if len(v.shape) > 3:
        return None
    stacked = [*v.shape[:axis], 3, *v.shape[axis:]]
    return lambda x: tc.stack([x, x * 2, tc.where(x > 0, x, -1.0)], axis), stacked


STEPS = [elementwise, permuted, sliced, flattened, reduced, normalised, projected, squared, joined, moved,
         masked, spread, projected, permuted]  # fmt: skip


def random_program(seed: int) -> tuple[Program, Array]:
    """A chain of steps with a value kept for a residual sum and as a second output, and its example input."""
    pick = random.Random(seed)
    width = pick.choice(WIDTHS)
    value, steps = Value((None, None, width)), []
    for _ in range(pick.randint(3, 10)):
        made = pick.choice(STEPS)(pick, value) if value.shape else None
        if made is not None and size_of(made[1]) <= 4096:
            steps.append(made[0])
            value = Value(made[1])
    kept = pick.randrange(len(steps) + 1)

    def program(x: Any) -> Any:
        values = [x]
        for step in steps:
            values.append(step(values[-1]))
        return values[-1] + values[kept].mean(), values[kept], values[-1].amax()

    return program, np.random.default_rng(seed).standard_normal((3, 4, width)).astype(np.float32)


def size_of(shape: Sequence[int | None]) -> int:
    """Elements where dynamic axes have 8."""
    return int(np.prod([8 if n is None else n for n in shape]))


# ---- running ------------------------------------------------------------------------------------------------------


def compiled(graphs: dict[str, Graph], path: Path, target: str = "native") -> Any:
    compile_artifact(graphs, path, target=target, verify=False)
    return runtime.load(path, threads=2)


def graph_of(program: Program, *examples: Array, dynamic: Any = None) -> Graph:
    traced = trace(program, tuple(map(tc.from_numpy, examples)), dynamic=dynamic, check=False)
    return next(iter(traced.program.graphs.values()))


def example(shape: tuple[int, ...], dtype: Any, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal(shape) if is_floating(np.dtype(dtype)) else rng.integers(-9, 99, shape)
    return numbers.astype(dtype)


def call(model: Any, entry: str, inputs: Sequence[Array], like: Sequence[Array], threads: int) -> list[Array]:
    """One call on a workspace of rubbish; what was written behind an output is an error."""
    for scratch in model._points[entry].free:
        scratch.reserve(1 << 20 if scratch.bytes < 1 << 20 else scratch.bytes)
        scratch.memory[...] = 0xFF
    blocks = [np.full(a.nbytes + MARGIN, MARK, np.uint8) for a in like]
    outputs = [b[: a.nbytes].view(a.dtype).reshape(a.shape) for a, b in zip(like, blocks, strict=True)]
    model.methods[entry](*inputs, out=outputs[0] if len(outputs) == 1 else tuple(outputs), threads=threads)
    for number, (a, b) in enumerate(zip(like, blocks, strict=True)):
        assert (b[a.nbytes :] == MARK).all(), f"{entry} writes past the end of output {number}"
    return outputs


def close(got: Array, own: Array, best: Array) -> bool:
    """Exact dtypes equal; floats no further from float64 than a few times what eager is."""
    if not is_floating(own.dtype):
        return np.array_equal(got, own)
    y, eager, exact = (a.astype(np.float64) for a in (got, own, best))
    finite = np.isfinite(eager) & np.isfinite(exact)
    if not np.array_equal(y[~finite], eager[~finite], equal_nan=True):
        return False
    if not finite.any():
        return True
    eps = float(ml_dtypes.finfo(own.dtype).eps)
    allowed = 4 * np.abs(eager - exact)[finite].max() + 8 * eps * (np.abs(exact)[finite].max() + 0.01)
    return bool(np.abs(y - exact)[finite].max() <= allowed)


def compare(model: Any, entry: str, graph: Graph, sizes: dict[str, int]) -> None:
    inputs = [
        example(tuple(size_at(s, sizes) for s in n.shape), n.dtype, k) for k, n in enumerate(graph.inputs)
    ]
    own = [np.asarray(a) for a in evaluate(graph, inputs)]
    best = [np.asarray(a) for a in evaluate(widened(graph), [widen(a) for a in inputs])]
    runs = [call(model, entry, inputs, own, threads) for threads in (1, 2)]
    for number, (one, two, a, b) in enumerate(zip(*runs, own, best, strict=True)):
        assert one.tobytes() == two.tobytes(), f"{entry} output {number} depends on the threads at {sizes}"
        assert close(one, a, b), f"{entry} output {number} at {sizes}: {graph}"


@pytest.mark.parametrize("first", [0, 10, 20])
def test_random_programs(first: int, tmp_path: Path) -> None:
    graphs = {}
    for seed in range(first, first + 10):
        program, x = random_program(seed)
        graphs[f"program{seed}"] = graph_of(program, x, dynamic={0: {0: BATCH, 1: LENGTH}})
    model = compiled(graphs, tmp_path / "programs.so")
    for name, graph in graphs.items():
        for sizes in SIZES:
            compare(model, name, graph, sizes)


# ---- one kind at a time -------------------------------------------------------------------------------------------

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
WIDE_DTYPES = ("int64", "int32", "float32", "float64")


def narrowed(x: Any) -> Any:
    """What is narrower than the vectors it is computed in."""
    return (x > 2, x.to(tc.int8), x.to(tc.int16), x.to(tc.int32), x.half(), x.to(tc.bfloat16), x.argmax(-1))


def test_a_last_lane_alone_is_stored_alone(tmp_path: Path) -> None:
    """Rows one longer than whole vectors: LLVM once stored the wide integer behind a narrow last element."""
    graphs = {
        f"{dtype}_{n}": graph_of(narrowed, example((3, n), dtype, 0), dynamic={0: {0: BATCH}})
        for dtype in WIDE_DTYPES
        for n in (1, 9, 17)
    }
    weight = tc.from_numpy(example((5, 17), BFLOAT16, 0))
    graphs["product"] = graph_of(
        lambda x: (x @ weight).relu(), example((3, 5), BFLOAT16, 1), dynamic={0: {0: BATCH}}
    )
    model = compiled(graphs, tmp_path / "narrow.so")
    for name, graph in graphs.items():
        for batch in (1, 5):
            compare(model, name, graph, {"batch": batch})


def test_products_without_elements(tmp_path: Path) -> None:
    shapes = [((0, 4), (4, 3)), ((3, 4), (4, 0)), ((3, 0), (0, 3)), ((2, 0, 4), (2, 4, 17)), ((0,), (0, 3))]
    graphs = {
        f"shape{k}": graph_of(lambda x, y: (x @ y).tanh(), example(a, "float32", 0), example(b, "float32", 1))
        for k, (a, b) in enumerate(shapes)
    }
    model = compiled(graphs, tmp_path / "empty.so")
    for name, graph in graphs.items():
        compare(model, name, graph, {})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_erf_ends_at_one(dtype: str, tmp_path: Path) -> None:
    """And so gelu of the most negative numbers is 0, as in eager, not a rest of their size."""
    x = np.array([-np.inf, -1e30, -40, -9, 9, 40, np.inf], dtype)
    graph = graph_of(lambda x: (x.erf(), F.gelu(x)), x)
    erf, gelu = compiled({"forward": graph}, tmp_path / "erf.so")(x)
    assert erf.tolist() == [-1, -1, -1, -1, 1, 1, 1]
    assert gelu[1:-1].tolist() == [0, 0, 0, 9, 40]
    assert np.isnan(gelu[0]) == np.isnan(evaluate(graph, [x])[1][0])


def test_outputs_that_are_the_same_or_inputs_or_uniform(tmp_path: Path) -> None:
    def program(x: Any) -> Any:
        y = x * 2
        return y, y, x, y.T, y.reshape(-1), tc.zeros(x.shape[0]), x.sum()

    graph = graph_of(program, example((3, 5), "float32", 0), dynamic={0: {0: BATCH}})
    model = compiled({"forward": graph}, tmp_path / "outputs.so")
    for batch in (1, 17):
        compare(model, "forward", graph, {"batch": batch})


def attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def test_calls_side_by_side_and_compiling_again(tmp_path: Path) -> None:
    """Four threads with sizes of their own get what one gets; the same graph gives the same bytes."""
    examples = [example((2, 3, 7, 16), "float32", k) for k in range(3)]
    graph = graph_of(attention, *examples, dynamic={k: {0: BATCH, 2: LENGTH} for k in range(3)})
    model = compiled({"forward": graph}, tmp_path / "one.so")
    inputs = [[example((n, 3, 9 * n, 16), "float32", n + k) for k in range(3)] for n in (1, 2, 3, 5)]
    alone = [model(*arrays).tobytes() for arrays in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda k: model(*inputs[k % 4]).tobytes(), range(200)))
    assert all(got == alone[k % 4] for k, got in enumerate(together))
    again = tmp_path / "again"
    again.mkdir()
    compile_artifact({"forward": graph}, again / "one.so", target="native", verify=False)
    assert (again / "one.so").read_bytes() == (tmp_path / "one.so").read_bytes()
