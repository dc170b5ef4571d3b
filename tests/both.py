"""Programs that run under tapecast and under PyTorch, for tests that both give the same.

@program(PROGRAMS)
def sums(torch):
    return torch.ones(3).sum()

@pytest.mark.parametrize("run", PROGRAMS)
def test_program(run):
    assert_same(run)
"""

import re
import warnings
from itertools import zip_longest

import numpy as np
import pytest

import tapecast as tc

oracle = pytest.importorskip("torch")


def text(value):
    """Anything as text that does not depend on the library."""
    if isinstance(value, tc.Tensor | oracle.Tensor):
        array = np.round(value.detach().double().numpy(), 4) + 0.0
        return f"{str(value.dtype).split('.')[-1]}{list(value.shape)} {array.tolist()} {value.requires_grad}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {text(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text, value)) + "]"
    plain = re.sub(r"tapecast\.eager\.nn\.\w+\.|torch\.nn\.modules\.\w+\.", "", str(value))
    return plain.replace("tapecast.", "").replace("torch ", "").replace("torch.", "")


def attempt(action):
    """What an action returns, or the kind and text of its error."""
    try:
        return action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def filled(torch, module, seed=0):
    """The module with the same parameters and buffers whichever library made it."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for t in [*module.parameters(), *module.buffers()]:
            if t.is_floating_point():
                t.copy_(torch.tensor(rng.uniform(0.1, 1, tuple(t.shape)).astype("f4")))
    return module


def program(programs):
    """A decorator that adds a function of the library to a list of tests."""

    def add(function):
        programs.append(pytest.param(function, id=function.__name__))
        return function

    return add


def assert_same(run):
    """The texts of what `run(torch)` returns, and of its warnings, are the same under both libraries."""

    def result(torch):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            out = run(torch)
        return [text(v) for v in (out if isinstance(out, list | tuple) else [out])], [
            text(w.message) for w in caught
        ]

    ours, theirs = result(tc), result(oracle)
    for kind, mine, others in zip(("result", "warning"), ours, theirs, strict=True):
        for place, (a, b) in enumerate(zip_longest(mine, others)):
            assert a == b, f"{kind} {place}:\n{a}\nbut PyTorch:\n{b}"
