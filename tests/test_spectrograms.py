"""Short-time Fourier transforms back to signals, compared with PyTorch; `test_opinfo.py` has those of signals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapecast as tc

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")


@pytest.mark.filterwarnings("ignore:The length of signal is shorter")
@pytest.mark.parametrize(
    "options",
    [
        {"n_fft": 16},
        {"n_fft": 16, "hop_length": 3, "win_length": 10},
        {"n_fft": 15, "normalized": True},
        {"n_fft": 16, "center": False, "hop_length": 4},
        {"n_fft": 16, "onesided": False},
        {"n_fft": 16, "onesided": False, "return_complex": True},
        {"n_fft": 16, "length": 70},
        {"n_fft": 16, "length": 130},
    ],
    ids=str,
)
def test_istft_and_its_gradient(options: dict[str, Any]) -> None:
    size, draw = options["n_fft"], np.random.default_rng(0)
    window = np.hanning(options.get("win_length", size) + 2)[1:-1]
    frequencies = size if options.get("onesided") is False else size // 2 + 1
    spectra = draw.standard_normal((2, 2, frequencies, 30))
    x = spectra[0] + 1j * spectra[1]
    answers = []
    for lib in (torch, tc):
        leaf = lib.from_numpy(x.copy()).requires_grad_()
        out = lib.istft(leaf, window=lib.from_numpy(window), **options)
        weights = lib.linspace(0.0, 1.0, out.numel(), dtype=lib.float64).reshape(out.shape)
        (out * weights).abs().sum().backward()
        answers.append((out.detach().numpy(), leaf.grad.numpy()))
    for want, got in zip(*answers, strict=True):
        assert want.dtype == got.dtype
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_windows_that_leave_samples_out_are_refused() -> None:
    with pytest.raises(RuntimeError, match="overlap"):
        tc.istft(tc.ones(5, 4, dtype=tc.complex64), 8, window=tc.zeros(8))
