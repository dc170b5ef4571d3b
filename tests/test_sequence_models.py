"""Language models, recurrent layers and transformers: traced, compiled, loaded, and equal to eager."""

import numpy as np
import pytest

import tapecast as tc
from tapecast import nn


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(65, 128)
        self.lstm = nn.LSTM(128, 256, batch_first=True)
        self.head = nn.Linear(256, 65)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


class Stated(nn.Module):
    """A recurrent layer from given states, whose outputs and last states are all results."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, *states):
        out, last = self.layer(x, states if len(states) > 1 else states[0] if states else None)
        return (out, *last) if isinstance(last, tuple) else (out, last)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 64), 2)

    def forward(self, target, memory):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[0])
        return self.decoder(target, memory, tgt_mask=mask)


def encoder(**options):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, **options), 2)


CASES = {
    "lstm language model": (LanguageModel, lambda: (tc.randint(0, 65, (2, 64)),)),
    "gru": (lambda: Stated(nn.GRU(16, 32, num_layers=2, bidirectional=True)), lambda: (tc.randn(10, 3, 16),)),
    "rnn": (
        lambda: Stated(nn.RNN(16, 32, num_layers=2, nonlinearity="relu")),
        lambda: (tc.randn(10, 3, 16),),
    ),
    "lstm of states": (
        lambda: Stated(nn.LSTM(8, 16, proj_size=4)),
        lambda: (tc.randn(5, 3, 8), tc.randn(1, 3, 4), tc.randn(1, 3, 16)),
    ),
    "encoder": (encoder, lambda: (tc.randn(2, 9, 32),)),
    "encoder of gelu": (lambda: encoder(activation="gelu", norm_first=True), lambda: (tc.randn(2, 9, 32),)),
    "decoder": (Decoder, lambda: (tc.randn(7, 2, 32), tc.randn(9, 2, 32))),
}


@pytest.mark.parametrize("name", CASES)
def test_compiled_is_eager(name, tmp_path):
    tc.manual_seed(0)
    make, inputs = CASES[name]
    model, args = make().eval(), inputs()
    traced = tc.jit.trace(model, args)
    traced.compile(tmp_path / "model.so", target="native")
    compiled = tc.runtime.load(tmp_path / "model.so")
    fresh = tuple(tc.flip(x, (0, 1)) for x in args)
    for given in (args, fresh):
        with tc.no_grad():
            expected = model(*given)
        results = compiled(*(x.numpy() for x in given))
        pairs = zip(results, expected, strict=True) if isinstance(results, tuple) else [(results, expected)]
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5, atol=2e-6)
