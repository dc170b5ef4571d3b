"""The memory plan: values that live at the same time never overlap, whatever the dynamic sizes are."""

from hypothesis import given, strategies as st

from tapecast.compiler.loops import Const
from tapecast.compiler.memory import ALIGNMENT, Value, plan
from tapecast.compiler.sizes import evaluate_size
from tapecast.tracer.dims import Dim, evaluate

BATCH, SEQ = Dim("batch", min=0), Dim("seq", max=4096)
SIZES = [{"batch": b, "seq": s} for b, s in ((1, 1), (3, 50), (64, 7), (0, 1))]


def symbolic(a: int, b: int, c: int) -> int:
    return BATCH * a + SEQ * b + c


byte_counts = st.one_of(
    st.integers(1, 5000), st.builds(symbolic, st.integers(0, 90), st.integers(0, 90), st.integers(0, 500))
)


@st.composite
def programs(draw: st.DrawFn) -> list[Value]:
    spans = draw(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), max_size=25))
    return [Value(k, draw(byte_counts), start, start + length) for k, (start, length) in enumerate(spans)]


@given(programs())
def test_live_values_do_not_overlap(values: list[Value]):
    made = plan(values)
    for sizes in SIZES:
        places = {v: evaluate_size(made.offsets[v.key], sizes) for v in values}
        total = evaluate_size(made.total, sizes)
        for v, at in places.items():
            assert at % ALIGNMENT == 0
            assert at + evaluate(v.bytes, sizes) <= total
        for u in values:
            for v in values:
                if u.key < v.key and u.start <= v.end and v.start <= u.end:
                    first, second = sorted((u, v), key=places.__getitem__)
                    assert places[first] + evaluate(first.bytes, sizes) <= places[second]


@given(programs())
def test_the_workspace_is_between_most_live_and_everything(values: list[Value]):
    total = plan(values).total
    for sizes in SIZES:
        count = {v: evaluate(v.bytes, sizes) for v in values}
        peak = max((sum(count[v] for v in values if v.start <= t <= v.end) for t in range(30)), default=0)
        everything = sum(-(-n // ALIGNMENT) * ALIGNMENT for n in count.values())
        assert peak <= evaluate_size(total, sizes) <= everything


@given(programs())
def test_values_of_one_size_take_as_many_slots_as_are_alive_at_once(values: list[Value]):
    made = plan([v._replace(bytes=640) for v in values])
    alive = max((sum(v.start <= t <= v.end for v in values) for t in range(30)), default=0)
    assert made.text == str(640 * alive)


def test_a_chain_needs_two_places():
    """The step that writes a value still reads the one before, and no other."""
    made = plan([Value(k, 64 * BATCH * (k + 1), k, k + 1) for k in range(6)])
    assert made.text == "batch*704"


def test_gaps_are_used():
    """Two small values in place of a large one that is gone: slots would give each its own."""
    made = plan(
        [Value("large", 1024, 0, 1), Value("x", 512, 2, 3), Value("y", 512, 2, 3), Value("z", 64, 0, 3)]
    )
    assert made.text == str(1024 + 64)


def test_sizes_that_cannot_be_compared_stay_a_maximum():
    made = plan([Value("a", 64 * BATCH, 0, 0), Value("b", 64 * SEQ, 1, 1)])
    assert made.text == "max(batch*64, seq*64)"
    assert evaluate_size(made.total, {"batch": 3, "seq": 5}) == 320


def test_an_empty_plan_is_empty():
    made = plan([])
    assert made.total == Const(0)
    assert made.text == "0"
