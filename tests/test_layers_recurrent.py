"""Recurrent layers and packed sequences against PyTorch's, with the same weights."""

import numpy as np
import pytest

import tapecast as tc
from tapecast import nn

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")

LAYERS = [
    ("RNN", {"nonlinearity": "relu"}),
    ("RNN", {"num_layers": 2, "bidirectional": True}),
    ("LSTM", {}),
    ("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 2, "batch_first": True}),
    ("LSTM", {"bias": False}),
    ("GRU", {"num_layers": 2, "bidirectional": True}),
    ("GRU", {"batch_first": True}),
]


def pair(name, *args, **kwargs):
    """The same layer twice, with the weights of PyTorch's."""
    theirs = getattr(torch.nn, name)(*args, **kwargs)
    ours = getattr(nn, name)(*args, **kwargs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    ours.load_state_dict({k: tc.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


def leaves(value):
    if isinstance(value, tuple | list):
        return [leaf for v in value for leaf in leaves(v)]
    return [] if value is None else [value]


def assert_same(ours, theirs):
    ours, theirs = leaves(ours), leaves(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=2e-6)


def assert_same_gradients(ours, theirs):
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-3, atol=1e-5, err_msg=name)


def normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("f4")


@pytest.mark.parametrize(("name", "options"), LAYERS)
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("with_state", [True, False])
def test_layer(name, options, batched, with_state):
    ours, theirs = pair(name, 3, 4, **options)
    x = normal(5, 6, 3) if batched else normal(5, 3)
    batch = (5 if options.get("batch_first") else 6,) if batched else ()
    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    sizes = [options.get("proj_size") or 4, 4][: 2 if name == "LSTM" else 1]
    states = [normal(count, *batch, size) for size in sizes]

    def run(t, layer):
        given = tuple(t.tensor(s) for s in states)
        return layer(t.tensor(x), *([given if name == "LSTM" else given[0]] if with_state else []))

    a, b = run(tc, ours), run(torch, theirs)
    assert_same(a, b)
    for out in (a, b):
        sum((leaf * leaf).sum() for leaf in leaves(out)).backward()
    assert_same_gradients(ours, theirs)


@pytest.mark.parametrize(("name", "options"), LAYERS)
def test_packed(name, options):
    ours, theirs = pair(name, 3, 4, **options)
    sequences = [normal(n, 3) for n in (2, 5, 3, 5)]

    def run(t, layer):
        packed = t.nn.utils.rnn.pack_sequence([t.tensor(s) for s in sequences], enforce_sorted=False)
        out, last = layer(packed)
        return *t.nn.utils.rnn.pad_packed_sequence(out, total_length=7), last, packed

    a, b = run(tc, ours), run(torch, theirs)
    assert_same(a, b)
    for out in (a, b):
        (out[0] ** 2).sum().backward()
    assert_same_gradients(ours, theirs)


@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("shape", [(2, 3), (3,)])
def test_cell(name, shape):
    ours, theirs = pair(name, 3, 4)
    x = normal(*shape)
    a, b = ours(tc.tensor(x)), theirs(torch.tensor(x))
    assert_same(ours(tc.tensor(x), a), theirs(torch.tensor(x), b))


def test_pad_and_unpad():
    sequences = [normal(n, 2) for n in (1, 3)]
    for side in ("left", "right"):
        a, b = (
            t.nn.utils.rnn.pad_sequence([t.tensor(s) for s in sequences], True, 7.0, side)
            for t in (tc, torch)
        )
        assert_same(a, b)
    back = nn.utils.rnn.unpad_sequence(a, tc.tensor([1, 3]), batch_first=True)
    assert_same(back, [torch.tensor(s) for s in sequences])


def test_wrong_input_is_told():
    with pytest.raises(RuntimeError, match=r"must be equal to input_size. Expected 3, got 2"):
        nn.LSTM(3, 4)(tc.zeros(5, 1, 2))
    with pytest.raises(RuntimeError, match=r"Expected hidden\[0\] size \(1, 1, 4\), got \[1, 2, 4\]"):
        nn.LSTM(3, 4)(tc.zeros(5, 1, 3), (tc.zeros(1, 2, 4), tc.zeros(1, 2, 4)))
    with pytest.raises(RuntimeError, match="sorted in decreasing order"):
        nn.utils.rnn.pack_sequence([tc.zeros(1, 2), tc.zeros(3, 2)])
