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
from typing import NamedTuple

import numpy as np
import pytest

import tapecast as tc

oracle = pytest.importorskip("torch")


class Values(NamedTuple):
    """A tensor of either library."""

    kind: str
    array: np.ndarray


def plain(value):
    """Anything as lists, texts and `Values`, which do not depend on the library."""
    if isinstance(value, tc.Tensor | oracle.Tensor):
        kind = f"{str(value.dtype).split('.')[-1]}{list(value.shape)} requires_grad={value.requires_grad}"
        return Values(kind, value.detach().double().numpy())
    if isinstance(value, dict):
        return [[str(key), plain(v)] for key, v in value.items()]
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    without = re.sub(r"tapecast\.eager\.nn\.\w+\.|torch\.nn\.modules\.\w+\.", "", str(value))
    return without.replace("tapecast.", "").replace("torch ", "").replace("torch.", "")


def assert_equal(ours, theirs, path):
    """AssertionError that names the place where two plain values differ; numbers, by more than rounding."""
    assert type(ours) is type(theirs), f"{path}: {ours}\nbut PyTorch: {theirs}"
    if isinstance(ours, Values):
        assert ours.kind == theirs.kind, f"{path}: {ours.kind}, but PyTorch: {theirs.kind}"
        np.testing.assert_allclose(ours.array, theirs.array, rtol=2e-5, atol=2e-6, err_msg=path)
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), f"{path}: {ours}\nbut PyTorch: {theirs}"
        for place, pair in enumerate(zip(ours, theirs, strict=True)):
            assert_equal(*pair, f"{path}[{place}]")
    else:
        assert ours == theirs, f"{path}: {ours}\nbut PyTorch: {theirs}"


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
    """What `run(torch)` returns, and its warnings, are the same under both libraries."""

    def result(torch):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            out = plain(run(torch))
        return out, [plain(w.message) for w in caught]

    ours, theirs = result(tc), result(oracle)
    assert_equal(ours[0], theirs[0], "result")
    assert_equal(ours[1], theirs[1], "warnings")
