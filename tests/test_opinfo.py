"""PyTorch's own test inputs: values, dtypes, shapes, gradients and errors of every operator of operators.txt.

`opinfo.py` runs them, and says in which way each is compared. `opinfo_known.py` lists what does not pass.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from opinfo_known import KNOWN

REASON = "the inputs and the answers are those of torch, whose operator database needs expecttest"
torch = pytest.importorskip("torch", reason=REASON)
pytest.importorskip("expecttest", reason=REASON)

OPERATORS = (Path(__file__).parent / "operators.txt").read_text().split()
CASES = [
    pytest.param(name, marks=[pytest.mark.xfail(reason=KNOWN[name], strict=True)] if name in KNOWN else [])
    for name in OPERATORS
]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """The samples are small: threads of torch would only wait for each other."""
    torch.set_num_threads(1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_the_samples_of_torch(name: str) -> None:
    """In all of `opinfo.DTYPES` that torch supports; what torch refuses is refused alike.

    All samples of 565 operators; of the other 24 a hundred per dtype: 40,500 of 66,900. `opinfo.py` runs the rest.
    """
    from opinfo import examine

    tally = examine(name, most=100)
    assert tally.passed or tally.failures, "torch has no samples"
    assert not tally.failures, "\n".join(tally.failures)


def test_what_is_known_is_listed() -> None:
    assert KNOWN.keys() <= set(OPERATORS)
