"""Attention as one kernel: against eager, at every level, for sizes around its tiles, masks, heads and broadcasting."""

import numpy as np
import pytest

import tapecast as tc
import tapecast.nn.functional as F
from tapecast.compiler.options import native_level

LEVELS = [level for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4") if level <= native_level()]


def compiled(f, inputs, path, dynamic=None, target="native"):
    traced = tc.jit.trace(f, inputs, dynamic=dynamic, check=False)
    report = traced.compile(path, target=target, verify=False)
    assert any("scaled_dot_product_attention" in k.name for k in report.kernels), report.kernels
    return tc.runtime.load(path)


def heads(*shapes):
    return tuple(tc.randn(s) for s in shapes)


def agree(found, f, *inputs):
    """With float64. Scores of 10 are rounded to 1e-6 before exp makes that a relative error of the weights."""
    with tc.no_grad():
        wanted = f(*(x.double() for x in inputs)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-5)


@pytest.fixture(autouse=True)
def same_numbers():
    tc.manual_seed(0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("causal", [False, True])
def test_rows_and_columns_that_are_dynamic(level, causal, tmp_path):
    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    dims = {name: {0: "b", 2: size} for name, size in (("q", "rows"), ("k", "columns"), ("v", "columns"))}
    model = compiled(f, heads((2, 3, 20, 8), (2, 3, 30, 8), (2, 3, 30, 5)), tmp_path / "m.so", dims, level)
    for b, rows, columns in [(1, 1, 1), (2, 16, 48), (1, 17, 49), (3, 64, 7), (1, 65, 97), (2, 130, 50)]:
        arrays = [a.numpy() for a in heads((b, 3, rows, 8), (b, 3, columns, 8), (b, 3, columns, 5))]
        agree(model(*arrays), f, *map(tc.from_numpy, arrays))


@pytest.mark.parametrize(
    ("mask", "shapes"),
    [
        ((40, 50), [(2, 3, 40, 16), (2, 3, 50, 16), (2, 3, 50, 16)]),
        ((2, 1, 1, 50), [(2, 3, 33, 4), (2, 3, 50, 4), (2, 3, 50, 64)]),
        ((33, 1), [(33, 128), (2, 9, 128), (1, 9, 128)]),
        ((1, 1), [(4, 70, 6), (1, 70, 6), (4, 70, 7)]),
    ],
)
def test_masks_and_broadcast_heads(mask, shapes, tmp_path):
    def f(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)

    inputs = (*heads(*shapes), tc.where(tc.rand(mask) > 0.5, tc.randn(mask), float("-inf")))
    if mask[-1] > 1:
        inputs[-1][..., -1] = 0.25  # every row sees something
    else:
        inputs[-1].clamp_(min=-1.0)
    model = compiled(f, inputs, tmp_path / "m.so")
    agree(model(*(x.numpy() for x in inputs)), f, *inputs)


def test_a_row_that_sees_nothing_is_what_eager_says(tmp_path):
    def f(q, mask):
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    mask = tc.zeros(20, 20)
    mask[3] = float("-inf")
    mask[:, :7] = float("-inf")
    (q,) = heads((20, 8))
    model = compiled(f, (q, mask), tmp_path / "m.so")
    agree(model(q.numpy(), mask.numpy()), f, q, mask)


def test_heads_are_read_from_the_projection_in_place(tmp_path):
    """No kernel copies q, k and v out of one product, or transposes them."""

    class Attention(tc.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = tc.nn.Linear(24, 72), tc.nn.Linear(24, 24)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.qkv(x).reshape(b, n, 3, 4, 6).permute(2, 0, 3, 1, 4).unbind(0)
            return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, 24))

    x = tc.randn(2, 37, 24)
    traced = tc.jit.trace(Attention().eval(), (x,), check=False)
    report = traced.compile(tmp_path / "m.so", target="native", verify=False)
    names = [k.name for k in report.kernels]
    assert len([n for n in names if "matmul" in n]) == 2 and len(names) <= 4, names
    with tc.no_grad():
        want = traced(x).numpy()
    np.testing.assert_allclose(tc.runtime.load(tmp_path / "m.so")(x.numpy()), want, rtol=2e-5, atol=2e-6)
