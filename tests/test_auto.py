"""`dynamic="auto"`: the axes that may vary are found, with how small they may be."""

import pytest

import tapecast as tc


class Tagger(tc.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = tc.nn.Embedding(11, 8), tc.nn.Linear(8, 5)

    def forward(self, words, mask):
        return self.out(self.embed(words)) * mask[..., None]


CONV = tc.nn.Sequential(tc.nn.Conv2d(1, 4, 3), tc.nn.ReLU(), tc.nn.MaxPool2d(2))


@pytest.mark.parametrize(
    ("program", "shapes", "wanted"),
    [
        (lambda a, b: a @ b, [(2, 3), (3, 4)], {"a_0": 1, "a_1": 1, "b_1": 1}),
        (lambda x, y: x + y, [(4, 4), (4, 4)], {"batch": 1, "x_1": 1}),
        (lambda x: x.reshape(-1, 6).sum(), [(4, 3)], {}),  # only an even number of rows, which no Dim says
        (lambda x: x * tc.arange(4.0), [(3, 4)], {"batch": 1}),
        (CONV.eval(), [(2, 1, 8, 8)], {"batch": 1, "input_2": 4, "input_3": 4}),
        (tc.nn.Sequential(CONV, tc.nn.Flatten(), tc.nn.Linear(36, 2)).eval(), [(2, 1, 8, 8)], {"batch": 1}),
    ],
)
def test_auto_finds_the_axes_that_may_vary(program, shapes, wanted):
    traced = tc.jit.trace(program, tuple(tc.randn(s) for s in shapes), dynamic="auto")
    assert {name: low for name, (low, _) in traced.program.dims.items()} == wanted


def test_auto_gives_one_size_to_axes_that_vary_together():
    traced = tc.jit.trace(Tagger().eval(), (tc.randint(0, 11, (3, 7)), tc.ones(3, 7)), dynamic="auto")
    words, mask = tc.randint(0, 11, (2, 9)), tc.rand(2, 9)
    assert list(traced.program.dims) == ["batch", "words_1"]
    assert traced(words, mask).shape == (2, 9, 5)


def test_auto_is_for_one_entry_point():
    with pytest.raises(ValueError, match="one entry point"):
        tc.jit.trace(CONV, methods={"forward": (tc.ones(1, 1, 8, 8),)}, dynamic="auto")
