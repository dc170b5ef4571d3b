"""tapecast.compile: which calls are compiled, and that nothing stale is used."""

import warnings

import numpy as np
import pytest

import tapecast as tc
from tapecast import nn


def calls_of(model):
    return model.__dict__["_calls"].made


def test_calls_that_are_not_differentiated_are_compiled():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    fast, x = tc.compile(model), tc.randn(3, 4)
    fast(x).sum().backward()
    assert model[0].weight.grad is not None and not calls_of(fast)
    with tc.no_grad():
        np.testing.assert_allclose(fast(x).numpy(), model(x).numpy(), rtol=1e-5, atol=1e-6)
        fast(x)
        assert len(calls_of(fast)) == 1
        assert fast(tc.randn(5, 4)).shape == (5, 2)
        assert len(calls_of(fast)) == 2
        fast.train()
        fast(x)
        assert len(calls_of(fast)) == 2


def test_weights_that_change_are_seen():
    model = nn.Linear(4, 2).eval()
    fast, x = tc.compile(model), tc.randn(3, 4)
    with tc.no_grad():
        fast(x)
        model.weight.mul_(2.0)
        np.testing.assert_allclose(fast(x).numpy(), model(x).numpy(), rtol=1e-5, atol=1e-6)
        model.load_state_dict({"weight": tc.zeros(2, 4), "bias": tc.ones(2)})
        np.testing.assert_array_equal(fast(x).numpy(), np.ones((3, 2)))


def test_it_is_the_module_it_was():
    model = nn.Linear(4, 2)
    fast = tc.compile(model)
    assert fast.in_features == 4 and fast.weight is model.weight
    assert list(fast.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    assert tc.compile(model, disable=True) is model


def test_functions_and_decorators():
    @tc.compile(mode="max-autotune")
    def f(x, y):
        return x * y, x + 1

    product, more = f(tc.ones(3), tc.full((3,), 2.0))
    assert product.tolist() == [2, 2, 2] and more.tolist() == [2, 2, 2]
    assert f.__name__ == "f"


def test_what_cannot_be_compiled_runs_with_a_warning():
    @tc.compile
    def f(x):
        return x * 2 if float(x.sum()) > 0 else x

    with pytest.warns(UserWarning, match="f runs eagerly from now on"):
        assert f(tc.ones(2)).tolist() == [2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(-tc.ones(2)).tolist() == [-1, -1]
    with pytest.raises(TypeError, match="a module or a function"):
        tc.compile(3)
