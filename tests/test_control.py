"""Loops that are ops: eager, with gradients, recorded, compiled."""

import numpy as np
import pytest

import tapecast as tc
from tapecast.tracer.record import TracerError


def doubled(x, limit=100.0, **settings):
    """x times two until its sum reaches the limit, and how often that was."""
    count = tc.zeros((), dtype=tc.int64)
    return tc.while_loop(lambda n, v: v.sum() < limit, lambda n, v: (n + 1, v * 2), (count, x), **settings)


def test_while_loop_is_the_loop_of_python():
    count, x = doubled(tc.ones(3))
    assert int(count) == 6
    np.testing.assert_array_equal(x.numpy(), [64, 64, 64])
    assert int(doubled(tc.full((3,), 50.0))[0]) == 0
    with pytest.raises(RuntimeError, match="max_steps=3"):
        doubled(tc.ones(3), max_steps=3)


def test_gradients_flow_through_the_steps_taken():
    x = tc.ones(3, requires_grad=True)
    doubled(x)[1].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [64, 64, 64])


def test_a_recorded_while_loop_stops_where_eager_does(tmp_path):
    traced = tc.jit.trace(lambda x: doubled(x, max_steps=10), (tc.ones(3),))
    traced.compile(tmp_path / "m.so", target="native")
    model = tc.runtime.load(tmp_path / "m.so")
    for value in (1.0, 0.1, 7.0, 99.0):
        count, x = doubled(tc.full((3,), value))
        got = model(np.full(3, value, np.float32))
        assert int(got[0]) == int(count)
        np.testing.assert_allclose(got[1], x.numpy(), rtol=1e-6)


def test_what_a_recorded_while_loop_needs():
    with pytest.raises(TracerError, match="give max_steps"):
        tc.jit.trace(lambda x: doubled(x), (tc.ones(3),))
    with pytest.raises(TracerError, match="body_fn must keep shapes"):
        tc.while_loop(lambda x: x.sum() < 9, lambda x: (tc.cat([x, x]),), (tc.ones(3),))


def test_map_is_stacked_results(tmp_path):
    def f(x, k):
        return tc.map(lambda row, times: {"sum": row.sum() * times, "row": row + 1}, x, k)

    x = tc.randn(4, 3)
    out = f(x, 2.0)
    np.testing.assert_allclose(out["sum"].numpy(), x.sum(1).numpy() * 2, rtol=1e-6)
    np.testing.assert_array_equal(out["row"].numpy(), (x + 1).numpy())
    traced = tc.jit.trace(lambda x: f(x, 2.0)["sum"], (x,))
    traced.compile(tmp_path / "m.so", target="native")
    np.testing.assert_allclose(tc.runtime.load(tmp_path / "m.so")(x.numpy()), out["sum"].numpy(), rtol=1e-5)
