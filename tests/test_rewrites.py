"""Rewrite rules are equations: both sides are computed, on ordinary and on nasty arrays, and compared bit for
bit.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tapecast.compiler.constants import has_exact_reciprocal
from tapecast.compiler.passes.apply_rules import apply_rules
from tapecast.compiler.passes.drop_dead import drop_dead
from tapecast.compiler.rewrite import ARRAYS, Rule, rewritten, rule
from tapecast.compiler.rules import RULES, is_lossless
from tapecast.eager.ops.types import DTYPES, aval_of, is_floating
from tapecast.tracer.build import call
from tapecast.tracer.dims import Dim
from tapecast.tracer.graph import Graph, Node
from tapecast.tracer.parse import parse

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int8", "uint8", "int64")
NASTY = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    -1.5,
    3.25,
    1e30,
    -1e30,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    -1e-45,
    6e4,
    1e-8,
]


def values(dtype: str, k: int) -> Any:
    """Operand number k: every nasty value meets every other one as the operands are shifted against each
    other.
    """
    rng = np.random.default_rng(k)
    size = 2 * len(NASTY) ** 2
    with np.errstate(all="ignore"):
        if dtype == "bool":
            return rng.random(size) < 0.5
        if not is_floating(DTYPES[dtype]):
            info = np.iinfo(dtype)
            return rng.integers(info.min, info.max, size, dtype, endpoint=True)
        nasty = np.array(NASTY).repeat(len(NASTY)) if k % 2 else np.tile(NASTY, len(NASTY))
        return np.concatenate([nasty, rng.normal(size=size // 2)]).astype(DTYPES[dtype])


def constant(*elements: float) -> Callable[[str], Any]:
    return lambda dtype: np.array(elements[0] if len(elements) == 1 else elements).astype(DTYPES[dtype])


def grid(dtype: str) -> Any:
    return values(dtype, 0)[:24].reshape(2, 3, 4)


def row(dtype: str) -> Any:
    return values(dtype, 0)[:4].reshape(1, 4)


# Where an operand or attribute must be of a certain kind: parameter -> value, or dtype -> array.
EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "reshape of reshape": [{"x": grid, "inner": (6, 4), "outer": (3, 8)}],
    "permute of permute": [{"x": grid, "inner": (1, 2, 0), "outer": (0, 2, 1)}],
    "expand of expand": [{"x": row, "inner": (3, 4), "outer": (2, 3, 4)}],
    "slice of slice": [
        {
            "x": grid, "a": (0, 1, 1), "b": (2, 3, 4), "one": (1, 1, 1),
            "c": (1, 0, 0), "d": (2, 2, 3), "step": (1, 1, 2),
        }
    ],
    "cast of cast": [
        {"inner": inner, "outer": outer} for inner in ("float32", "float64", "int64") for outer in DTYPES
        if not outer.startswith("complex")
    ],
    "times -1": [{"c": constant(-1)}],
    "div by a power of two": [{"c": constant(c)} for c in (2, 0.25, -8, 1024)],
    "square": [{"c": constant(2)}],
    "one over sqrt": [{"c": constant(1)}],
    "div by a constant": [{"c": constant(3)}],
    "two factors": [{"a": constant(3), "b": constant(0.7)}],
    "two terms": [{"a": constant(3), "b": constant(0.7)}],
    "scaled product": [{"x": grid, "w": lambda d: np.ones((4, 2), DTYPES[d]), "c": constant(0.7)}],
    "root": [{"c": constant(0.5)}],
    "power -1": [{"c": constant(-1)}],
    "cube": [{"c": constant(3)}],
}  # fmt: skip
BOOLEAN = {"where of one": ["c"], "where not": ["c"]}


def example(r: Rule, dtype: str, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    arrays = [
        given[name](dtype)
        if name in given
        else values("bool" if name in BOOLEAN.get(r.name, ()) else dtype, k)
        for k, name in enumerate(r.operands)
    ]
    return arrays, {name: given[name] for name in r.attributes}


def node_of(array: Any) -> Node:
    return Node(None, aval=aval_of(array), value=array)


def applies(r: Rule, arrays: list[Any], attrs: dict[str, Any]) -> bool:
    return r.where is None or r.where(*map(node_of, arrays), **attrs)


def run(side: Callable[..., Any], arrays: list[Any], attrs: dict[str, Any]) -> Any:
    with np.errstate(all="ignore"):
        return side(ARRAYS, *arrays, **attrs)


def bits(x: Any) -> Any:
    """The array as integers; all nans count as one, as no two machines agree on their bits."""
    x = np.asarray(x)
    return x if x.dtype.kind in "biu" else np.where(x != x, -1, x.view(f"i{x.dtype.itemsize}"))


CASES = [
    pytest.param(r, dtype, given, id=f"{r.name}-{dtype}-{k}")
    for r in RULES
    for dtype in (*FLOATS, *INTS, "bool")
    for k, given in enumerate(EXAMPLES.get(r.name, [{}]))
]


@pytest.mark.parametrize(("r", "dtype", "given"), CASES)
def test_both_sides_are_equal(r: Rule, dtype: str, given: dict[str, Any]):
    arrays, attrs = example(r, dtype, given)
    try:
        left = run(r.left, arrays, attrs)
    except (TypeError, ValueError):
        return  # no op of this dtype
    if not applies(r, arrays, attrs) or left.dtype.kind == "c":
        return
    right = run(r.right, arrays, attrs)
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return  # not taken: see `rewritten`
    if r.exact:
        assert (bits(left) == bits(right)).all()
    elif is_floating(left.dtype):
        tame = np.isfinite(left) & np.isfinite(right)
        assert tame.any()


@pytest.mark.parametrize("r", RULES, ids=str)
def test_every_rule_is_tested_in_float32_and_applied(r: Rule):
    """Guards the test above: some example satisfies the condition, and the two sides are of one type."""
    taken = 0
    for dtype in ("float32", "bool"):
        for given in EXAMPLES.get(r.name, [{}]):
            arrays, attrs = example(r, dtype, given)
            inputs = [
                node_of(a)
                if callable(given.get(name)) and a.size < 10
                else Node(None, aval=aval_of(a), name=name)
                for name, a in zip(r.operands, arrays, strict=True)
            ]
            try:
                made = rewritten([r], r.left(Calls(), *inputs, **attrs))
            except TypeError:
                continue
            taken += made is not None
    assert taken


class Calls:
    """`T.op(...)` makes a node."""

    def __getattr__(self, name: str) -> Callable[..., Node]:
        return lambda *nodes, **attrs: call(name, *nodes, **attrs)


@pytest.mark.parametrize("r", [r for r in RULES if not r.exact], ids=str)
def test_inexact_rules_are_right_for_tame_numbers(r: Rule):
    rng = np.random.default_rng(0)
    for given in EXAMPLES.get(r.name, [{}]):
        arrays, attrs = example(r, "float64", given)
        arrays = [
            a if callable(given.get(name)) and a.size < 10 else rng.uniform(0.5, 2, a.shape)
            for name, a in zip(r.operands, arrays, strict=True)
        ]
        np.testing.assert_allclose(run(r.left, arrays, attrs), run(r.right, arrays, attrs), rtol=1e-12)


@pytest.mark.parametrize("r", [r for r in RULES if not r.exact], ids=str)
def test_an_inexact_rule_is_not_exact(r: Rule):
    """One that holds bit for bit belongs to the exact ones, which are always applied."""
    differs = False
    for dtype in ("float32", "float64"):
        for given in EXAMPLES.get(r.name, [{}]):
            arrays, attrs = example(r, dtype, given)
            left, right = run(r.left, arrays, attrs), run(r.right, arrays, attrs)
            differs |= bool((bits(left) != bits(right)).any())
    assert differs


def test_lossless_casts():
    assert is_lossless(DTYPES["bfloat16"], DTYPES["float32"])
    assert is_lossless(DTYPES["int32"], DTYPES["float64"])
    assert is_lossless(DTYPES["uint8"], DTYPES["bfloat16"])
    assert is_lossless(DTYPES["uint8"], DTYPES["int16"])
    assert not is_lossless(DTYPES["int64"], DTYPES["float64"])
    assert not is_lossless(DTYPES["float16"], DTYPES["bfloat16"])
    assert not is_lossless(DTYPES["bfloat16"], DTYPES["float16"])
    assert not is_lossless(DTYPES["int8"], DTYPES["uint8"])


@pytest.mark.parametrize(
    ("dtype", "elements", "exact"),
    [
        ("float32", (2.0, -0.25, 2.0**126), True),
        ("float32", (2.0**-127,), False),
        ("float32", (2.0**127,), False),
        ("float16", (2.0**14, 2.0**-14), True),
        ("float16", (2.0**15,), False),
        ("bfloat16", (2.0**100,), True),
        ("float64", (3.0,), False),
        ("float32", (0.0,), False),
        ("float32", (np.inf,), False),
        ("int64", (2,), False),
    ],
)
def test_exact_reciprocals(dtype: str, elements: tuple[float, ...], exact: bool):
    """The smallest and largest powers have reciprocals that are subnormal or infinite."""
    assert has_exact_reciprocal(node_of(np.array(elements).astype(DTYPES[dtype]))) == exact


def test_a_rule_binds_a_name_to_one_value():
    r = rule("x - x", lambda T, x: T.sub(x, x), lambda T, x: x)
    x, y = (Node(None, aval=aval_of(np.ones(3)), name=name) for name in "xy")
    assert rewritten([r], call("sub", x, x)) is not None
    assert rewritten([r], call("sub", x, y)) is None


def test_attributes_that_are_dynamic_sizes_are_not_their_example():
    eight = rule("to 8", lambda T, x: T.reshape(x, shape=(8,)), lambda T, x: x)
    x = Node(None, aval=aval_of(np.ones(8)), name="x")
    assert rewritten([eight], call("reshape", x, shape=(8,))) is not None
    batch = Dim("batch", min=8, max=9)
    y = Node(None, aval=x.single._replace(shape=(batch,)), name="y")
    assert rewritten([eight], call("reshape", y, shape=(batch,))) is None


def test_a_result_of_another_type_is_not_taken():
    """`x * c` where c has more axes than x is no `neg(x)`."""
    x = Node(None, aval=aval_of(np.ones(3, "float32")), name="x")
    c = node_of(np.full((2, 3), -1, "float32"))
    assert rewritten(RULES, call("mul", x, c)) is None
    assert rewritten(RULES, call("mul", x, node_of(np.float32(-1)))) is not None


def test_the_new_nodes_keep_line_and_scope():
    x = Node(None, aval=aval_of(np.ones(3)), name="x")
    n = call("add", x, call("neg", x), line="model.py:7", scope="layer1")
    _, new = rewritten(RULES, n)
    assert (new.op.name, new.line, new.scope) == ("sub", "model.py:7", "layer1")


TEXT = """
graph f(%x: float32[n,3], %y: float32[n,3]) for n in 1..:
  %0: float32[n,3] = neg(%x)
  %1: float32[n,3] = neg(%0)
  %2: float32[n,3] = neg(%y)
  %3: float32[n,3] = add(%1, %2)
  %4 = const float32[] 2.0
  %5: float32[n,3] = pow(%3, %4)
  %6 = const float32[3] (2.0,0.5,3.0)
  %7: float32[n,3] = div(%5, %6)
  %8 = const float32[] 8.0
  %9: float32[n,3] = div(%7, %8)
  %10: float32[n,3] = exp(%9)
  %11: float32[n,3] = log(%10)
  return %11
"""


@pytest.mark.parametrize("fast_math", [False, True], ids=["exact", "fast"])
def test_rules_in_a_graph(golden: Any, fast_math: bool):
    graph = drop_dead(apply_rules(parse(TEXT), fast_math=fast_math))
    assert golden == str(graph)


def test_rules_that_undo_each_other_are_reported():
    there = rule("there", lambda T, x: T.exp(x), lambda T, x: T.log(x))
    back = rule("back", lambda T, x: T.log(x), lambda T, x: T.exp(x))
    x = Node(None, aval=aval_of(np.ones(3)), name="x")
    with pytest.raises(RuntimeError, match="two undo each other"):
        apply_rules(Graph((x,), (x,), ()).with_outputs((call("exp", x),)), rules=[there, back])
