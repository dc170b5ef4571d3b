"""What the demo shows: which images, and a picture that can be drawn without the optional peers."""

import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for name in ("demo", "peers"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import demo

    return demo


LABELS = np.arange(40) % 10


def test_every_digit_is_shown_once_and_mistakes_last(demo):
    predicted = LABELS.copy()
    predicted[[3, 5, 7]] = 0
    shown = demo.samples(predicted, LABELS)
    assert LABELS[shown[:10]].tolist() == list(range(10)) and (predicted == LABELS)[shown[:10]].all()
    assert shown[10:].tolist() == [3, 5]


def test_without_mistakes_there_are_twelve_right_ones(demo):
    shown = demo.samples(LABELS, LABELS)
    assert len(set(shown.tolist())) == 12


def test_the_picture_is_drawn(demo, tmp_path: Path):
    pytest.importorskip("matplotlib")
    history = {"loss": list(np.linspace(2, 0.01, 60)), "accuracy": [0.9, 0.95, 0.99]}
    times = {1: {"eager": 1e-3, "compiled": 1e-4}, 64: {"eager": 2e-2, "compiled": 2e-3}}
    predicted = np.where(np.arange(40) == 3, 0, LABELS)
    demo.draw(tmp_path / "demo.png", history, np.zeros((40, 1, 8, 8)), predicted, LABELS, times)
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
