"""Bags of embeddings against torch."""

import numpy as np
import pytest

import tapecast as tc


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag_is_that_of_torch(mode):
    torch = pytest.importorskip("torch")
    results = []
    for m in (torch, tc):
        layer = m.nn.EmbeddingBag(6, 3, mode=mode, padding_idx=2)
        table = m.arange(18).reshape(6, 3).sin()
        layer.load_state_dict({"weight": table})
        out = layer(m.tensor([1, 2, 4, 5, 4]), m.tensor([0, 2, 2]))
        (out * out).sum().backward()
        results.append(
            (
                repr(layer),
                out.tolist(),
                layer.weight.grad.tolist(),
                layer(m.tensor([[0, 1], [2, 2]])).tolist(),
            )
        )
    (text, *wanted), (ours, *found) = results
    assert ours == text
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
