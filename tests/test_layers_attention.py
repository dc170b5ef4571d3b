"""Attention and transformer layers against PyTorch's, with the same weights."""

import numpy as np
import pytest

import tapecast as tc

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:Support for mismatched")


def load(ours, theirs):
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: tc.tensor(v.numpy()) for k, v in theirs.state_dict().items()})


def normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("f4")


def assert_close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


def assert_same_gradients(ours, theirs):
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kdim": 3, "vdim": 5},
        {"add_bias_kv": True, "add_zero_attn": True},
        {"batch_first": True, "bias": False},
    ],
)
@pytest.mark.parametrize("average", [True, False])
def test_multihead_attention(options, average):
    ours, theirs = (t.nn.MultiheadAttention(4, 2, **options) for t in (tc, torch))
    load(ours, theirs)
    assert repr(ours) == repr(theirs)
    sizes = (4, options.get("kdim", 4), options.get("vdim", 4))
    arrays = [normal(3, 3, size) for size in sizes]
    padding, mask = np.zeros((3, 3), bool), np.triu(np.ones((3, 3), bool), 1)
    padding[1, 2] = True

    def run(t, m):
        masks = {"key_padding_mask": t.tensor(padding), "attn_mask": t.tensor(mask)}
        return m(*map(t.tensor, arrays), **masks, average_attn_weights=average)

    a, b = run(tc, ours), run(torch, theirs)
    for x, y in zip(a, b, strict=True):
        assert_close(x, y)
    for out in (a, b):
        (out[0] ** 2).sum().backward()
    assert_same_gradients(ours, theirs)


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu", "batch_first": True}])
def test_transformer(options):
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 1, "dim_feedforward": 8, "dropout": 0.0}
    ours, theirs = (t.nn.Transformer(4, 2, **sizes, **options) for t in (tc, torch))
    load(ours, theirs)
    assert repr(ours) == repr(theirs)
    src, tgt = normal(3, 3, 4), normal(3, 3, 4) + 1

    def run(t, m):
        mask = t.nn.Transformer.generate_square_subsequent_mask(3)
        return m(t.tensor(src), t.tensor(tgt), src_mask=mask, tgt_mask=mask)

    a, b = run(tc, ours), run(torch, theirs)
    assert_close(a, b)
    for out in (a, b):
        (out * t_weights(out)).sum().backward()
    assert_same_gradients(ours, theirs)


def t_weights(out):
    """A weighting of the outputs: plain squares of what layer norm returns have no gradient."""
    return (tc if isinstance(out, tc.Tensor) else torch).tensor(normal(*out.shape))
