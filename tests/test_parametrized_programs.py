"""Modules with parametrized weights are recorded and compiled as what they compute."""

import warnings

import numpy as np
import pytest

import tapecast as tc
from tapecast import nn
from tapecast.nn.utils import parametrizations, prune


def older_weight_norm(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(module)


CASES = {
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(4, 3)),
    "weight norm of a convolution": lambda: parametrizations.weight_norm(nn.Conv1d(4, 3, 2)),
    "older weight norm": lambda: older_weight_norm(nn.Linear(4, 3)),
    "spectral norm": lambda: parametrizations.spectral_norm(nn.Linear(4, 3)),
    "older spectral norm": lambda: nn.utils.spectral_norm(nn.Linear(4, 3)),
    "pruned": lambda: prune.l1_unstructured(nn.Linear(4, 3), "weight", 0.5),
}


@pytest.mark.parametrize("name", CASES)
def test_compiled_is_eager(name, tmp_path):
    model = nn.Sequential(CASES[name]()).eval()
    x = tc.randn(2, 4, 5) if isinstance(model[0], nn.Conv1d) else tc.randn(2, 4)
    tc.jit.trace(model, (x,)).compile(tmp_path / "model.so", target="native")
    compiled = tc.runtime.load(tmp_path / "model.so")
    with tc.no_grad():
        expected = model(x)
    np.testing.assert_allclose(compiled(x.numpy()), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["weight norm", "spectral norm"])
def test_recorded_steps_train_the_originals(name):
    """A whole step, recorded, changes the originals as an eager one does."""

    def make():
        tc.manual_seed(3)
        model = CASES[name]()
        return model, tc.optim.SGD(model.parameters(), lr=0.1)

    def step_of(model, optimizer):
        def step(x):
            optimizer.zero_grad()
            loss = (model(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        return step

    x = tc.ones(2, 4)
    model, optimizer = make()
    traced = tc.jit.trace(step_of(model, optimizer), (x,), state=[model, optimizer])
    other, eager = make()
    for _ in range(3):
        ours, theirs = traced(x), step_of(other, eager)(x)
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-5)
