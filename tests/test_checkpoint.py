"""utils.checkpoint: gradients, random numbers and autocast are those without it, and memory is not held."""

import weakref

import numpy as np
import pytest

import tapecast as tc
from tapecast import nn
from tapecast.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)


def network():
    tc.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1)
    )


def gradients(run):
    net = network()
    tc.manual_seed(7)
    x = tc.ones(3, 4, requires_grad=True)
    loss = run(net, x).sum()
    after = tc.rand(1).item()
    loss.backward()
    return [loss.item(), after], [x.grad, *(p.grad for p in net.parameters())]


RUNS = {
    "whole": lambda net, x: checkpoint(net, x, use_reentrant=False),
    "whole, reentrant": lambda net, x: checkpoint(net, x, use_reentrant=True),
    "no early stop": lambda net, x: checkpoint(net, x, use_reentrant=False, early_stop=False),
    "keyword": lambda net, x: checkpoint(lambda *, x: net(x), x=x, use_reentrant=False),
    "nested": lambda net, x: checkpoint(
        lambda x: net[3:](checkpoint(net[:3], x, use_reentrant=False)), x, use_reentrant=False
    ),
    "sequential": lambda net, x: checkpoint_sequential(net, 3, x, use_reentrant=False),
    "sequential, reentrant": lambda net, x: checkpoint_sequential(net, 2, x, use_reentrant=True),
}


@pytest.mark.parametrize("name", RUNS)
def test_gradients_and_random_numbers_are_those_without(name):
    (numbers, grads), (wanted, expected) = gradients(RUNS[name]), gradients(lambda net, x: net(x))
    assert numbers == wanted
    for a, b in zip(grads, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_nothing_is_saved_and_the_function_runs_again_each_time():
    runs = []

    def f(x):
        y = (x * x).exp()  # its value is saved by exp, and by the product
        runs.append(weakref.ref(y))
        return (y * x).sum()

    x = tc.ones(3, requires_grad=True)
    loss = checkpoint(f, x, use_reentrant=False)
    assert len(runs) == 1 and runs[0]() is None
    (g,) = tc.autograd.grad(loss, x, retain_graph=True, create_graph=True)
    assert len(runs) == 2
    (gg,) = tc.autograd.grad(g.sum(), x)
    e = np.e
    np.testing.assert_allclose(g.detach().numpy(), 3 * e, rtol=1e-6)
    np.testing.assert_allclose(gg.numpy(), 10 * e, rtol=1e-6)


def test_a_second_run_that_differs_is_noticed():
    x = tc.ones(3, requires_grad=True)
    turn = []

    def shrinks(x):
        turn.append(1)
        y = x[: 4 - len(turn)] if len(turn) > 1 else x
        return (y * y).sum()

    with pytest.raises(CheckpointError, match="different metadata"):
        checkpoint(shrinks, x, use_reentrant=False).backward()

    def fewer(x):
        turn.append(1)
        return (x * x).exp().sum() if len(turn) == 3 else (x * x).sum()

    with pytest.raises(CheckpointError, match="different number of tensors"):
        checkpoint(fewer, x, use_reentrant=False).backward()


def test_the_second_run_has_the_autocast_of_the_first():
    seen = []

    def f(x):
        y = x @ x
        seen.append(y.dtype)
        return y.float().exp().sum()

    x = tc.ones(2, 2, requires_grad=True)
    with tc.autocast("cpu"):
        loss = checkpoint(f, x, use_reentrant=False)
    with set_checkpoint_early_stop(False):
        loss.backward()
    assert seen == [tc.bfloat16, tc.bfloat16]


def test_what_checkpoint_refuses():
    x = tc.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="use_reentrant parameter"):
        checkpoint(tc.exp, x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
        checkpoint(tc.exp, x.detach(), use_reentrant=True)
    with pytest.raises(ValueError, match="Unexpected keyword"):
        checkpoint(lambda x, y=1: x, x, y=2, use_reentrant=True)
    with tc.no_grad():
        assert not checkpoint(tc.exp, x, use_reentrant=False).requires_grad
