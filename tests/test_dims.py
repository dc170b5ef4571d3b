"""Symbolic sizes: the formulas are right, canonical, printable, and what they cannot keep is noted."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from tapecast.tracer import dims, expr
from tapecast.tracer.dims import Dim, evaluate, expr_of, log_sizes, parse_dim, same_size, value_of

BATCH, H = Dim("batch", max=1024), Dim("h", min=2, max=50)
RANGES = {"batch": (1, 1024), "h": (2, 50)}
SIZES = st.fixed_dictionaries({"batch": st.integers(1, 1024), "h": st.integers(2, 50)})


@pytest.mark.parametrize(
    "size, text",
    [
        ((BATCH * 64) // 64, "batch"),
        (BATCH * 64, "batch*64"),
        (64 * BATCH + 1, "batch*64+1"),
        ((H - 1) // 2 + 1, "(h+1)//2"),
        ((H + 1) // 2, "(h+1)//2"),
        (-(-H // 4), "(h+3)//4"),
        (((H + 1) // 2 + 1) // 2, "(h+3)//4"),
        (H + (4 - H % 4) % 4, "((h+3)//4)*4"),
        ((H + (-H) % 4) // 4 * 4, "((h+3)//4)*4"),
        (H // 4 * 4 + H % 4, "h"),
        ((BATCH * H * 64) // (H * 8), "batch*8"),
        ((2 * H + 4) // 6, "(h+2)//3"),
        (H % 8, "h%8"),
        (H - H // 2, "(h+1)//2"),
        (-(-H // 2), "(h+1)//2"),
        (H // 2 + (H + 1) // 2, "h"),
        (H - (H + 1) // 2, "h//2"),
        ((BATCH - 1) * (BATCH + 1), "batch*batch-1"),
        (BATCH - BATCH, "0"),
        (BATCH - H, "batch-h"),
        (H.at_most(100), "h"),
        (H.at_most(5), "min(5, h)"),
        (H.at_least(BATCH), "max(batch, h)"),
        (H**2, "h*h"),
        (math.prod((BATCH, 3, H)), "batch*h*3"),
        (sum((BATCH, 3, H)), "batch+h+3"),
        (divmod(H * 6 + 1, 3)[0], "h*2"),
        (H * np.int64(3), "h*3"),
    ],
)
def test_formulas_are_canonical(size, text):
    assert dims.size_text(size) == text
    assert expr_of(parse_dim(text, RANGES)) == expr_of(size)


def expressions():
    leaves = st.sampled_from([expr.dim("batch"), expr.dim("h")]) | st.integers(-9, 9)

    def grow(inner):
        return st.tuples(st.sampled_from(["add", "mul", "max", "min"]), inner, inner) | st.tuples(
            st.sampled_from(["floordiv", "mod"]), inner, st.integers(1, 9) | st.just(expr.dim("h"))
        )

    return st.recursive(leaves, grow, max_leaves=8)


def canonical(e):
    return e if isinstance(e, int) or e[0] == "dim" else expr.BUILD[e[0]](canonical(e[1]), canonical(e[2]))


@given(expressions(), SIZES)
def test_the_canonical_form_has_the_same_value(e, sizes):
    assert expr.evaluate(canonical(e), sizes) == expr.evaluate(e, sizes)


@given(expressions())
def test_the_canonical_form_is_a_fixed_point_and_its_text_reads_back(e):
    c = canonical(e)
    assert canonical(c) == c
    assert dims.parse_expr(expr.text(c)) == c


@given(expressions(), SIZES)
def test_bounds_hold(e, sizes):
    low, high = expr.bounds(canonical(e), RANGES)
    value = expr.evaluate(e, sizes)
    assert (low is None or low <= value) and (high is None or value <= high)


@given(expressions(), expressions())
def test_a_sum_minus_a_term_is_the_other_term(a, b):
    assume(not isinstance(a, int))
    a, b = canonical(a), canonical(b)
    assert expr.sub(expr.add(a, b), b) == a


def test_a_dim_is_an_int():
    assert np.zeros((BATCH, 2)).shape == (value_of(BATCH), 2)
    assert list(range(H)) == list(range(value_of(H)))
    assert isinstance(BATCH * 2, int) and type(value_of(BATCH)) is int
    assert f"{BATCH * 2}" == "batch*2" and repr((BATCH, 3)) == "(batch, 3)"


def test_copies_keep_the_formula():
    for twin in (copy.deepcopy(BATCH * 2), pickle.loads(pickle.dumps(BATCH * 2))):
        assert same_size(twin, BATCH * 2) and twin.ranges == {"batch": (1, 1024)}


def test_values_and_bounds():
    assert evaluate((H + 1) // 2, {"h": 10}) == 5
    assert value_of(H.bind({"h": 31}) * 2) == 62
    assert ((H + 1) // 2).bounds() == (1, 25)
    assert (BATCH * H).bounds() == (2, 51200)
    assert Dim("n").bounds() == (1, None)
    with pytest.raises(KeyError, match="size 'h' has no value"):
        evaluate(H, {"batch": 3})


def test_outside_a_recording_sizes_are_equal_when_their_formulas_are():
    same = Dim("batch", max=1024)
    assert same == BATCH and BATCH * 2 == 2 * BATCH
    assert Dim("n") != Dim("m") and Dim("n") != 7 and Dim("n") != 1
    assert H != 1 and H >= 2 and not H > 50


def test_a_comparison_is_a_guard_unless_the_range_decides_it():
    with log_sizes() as log:
        n = H.bind({"h": 7})
        assert n == 7 and n != 8 and n < 20
        assert n >= 2 and n < 51 and n == H and n + 1 > n and n != 1
    assert [str(g) for g in log.guards] == ["h == 7", "h != 8", "h < 20"]
    assert all(g.user and g.line.startswith("test_dims.py:") for g in log.guards)
    assert not log.guards[0].holds({"h": 9}) and log.guards[2].holds({"h": 19})


def test_what_turns_a_size_into_a_number_is_noted():
    with log_sizes() as log:
        n = H.bind({"h": 8})
        assert (int(n), n / 2, float(n), n * 0.5, 1 / n) == (8, 4.0, 8.0, 4.0, 0.125)
    assert [p.what for p in log.pins] == [
        "int()",
        "true division",
        "float()",
        "arithmetic with a float",
        "true division",
    ]


def test_attributes_are_resolved_inside_tuples():
    attr = (BATCH, (H * 2, "same"), None, 1.5)
    assert dims.resolve(attr, {"batch": 3, "h": 4}) == (3, (8, "same"), None, 1.5)
    assert [str(d) for d in dims.dims_in(attr)] == ["batch", "h*2"]


def test_messages():
    with pytest.raises(ValueError, match="identifier"):
        Dim("two words")
    with pytest.raises(ValueError, match="reserved"):
        Dim("float32")
    with pytest.raises(ValueError, match="0 <= min <= max"):
        Dim("n", min=3, max=2)
    with pytest.raises(ValueError, match="two ranges"):
        Dim("n", max=3) + Dim("n", max=4)
    with pytest.raises(ValueError, match="'k' is not declared"):
        parse_dim("k*2", RANGES)
    with pytest.raises(ValueError, match="names and integers"):
        parse_dim("h ** 2", RANGES)
    with pytest.raises(ZeroDivisionError):
        _ = BATCH // 0


@pytest.mark.parametrize(
    ("name", "bounds", "kind", "message"),
    [
        ("threads", {}, ValueError, "no reserved word, got 'threads'"),
        ("lambda", {}, ValueError, "no reserved word, got 'lambda'"),
        ("größe", {}, ValueError, "ASCII letters"),
        ("b\n", {}, ValueError, "identifier"),
        (None, {}, TypeError, "named by text, such as Dim\\('batch'\\), got None"),
        ("b", {"max": 2**70}, ValueError, "max is less than 2\\*\\*62"),
        ("b", {"min": 2**62, "max": None}, ValueError, "min is less than 2"),
        ("b", {"min": 1.5}, TypeError, "min is an integer, got 1.5"),
        ("b", {"max": "9"}, TypeError, "max is an integer or None, got '9'"),
        ("b", {"min": True}, TypeError, "min is an integer, got True"),
    ],
)
def test_names_and_bounds_are_checked_where_they_are_declared(name, bounds, kind, message):
    with pytest.raises(kind, match=message):
        Dim(name, **bounds)


def test_bounds_are_plain_integers():
    assert Dim("b", min=np.int64(2), max=2**62 - 1).ranges == {"b": (2, 2**62 - 1)}
