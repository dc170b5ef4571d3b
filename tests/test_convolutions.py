"""Compiled convolutions against eager: depthwise ones with odd rows, ragged channels and strides; orders of axes."""

import numpy as np
import pytest

import tapecast as tc
from tapecast import nn
from tapecast.compiler.assemble import Assembly
from tapecast.compiler.options import Options, native_level
from tapecast.compiler.passes import run_passes
from tapecast.compiler.pipeline import pipeline_for

LEVELS = [level for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4") if level <= native_level()]


def network(channels, kernel, stride, dilation=1):
    """Products around the depthwise layer, so that its input and output are stored with channels last."""
    padding = dilation * (kernel // 2)
    return nn.Sequential(
        nn.Conv2d(3, channels, 1),
        nn.Conv2d(channels, channels, kernel, stride, padding, dilation, groups=channels),
        nn.ReLU6(),
        nn.Conv2d(channels, 5, 1),
    ).eval()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "size", "dilation"),
    [
        (16, 3, 1, (9, 7), 1),
        (24, 3, 2, (12, 13), 1),
        (7, 5, 1, (6, 11), 1),
        (33, 3, 1, (8, 5), 2),
        (20, 7, 1, (9, 9), 1),
    ],
)
def test_a_depthwise_layer_agrees_with_eager(level, channels, kernel, stride, size, dilation, tmp_path):
    model, x = network(channels, kernel, stride, dilation), tc.randn(2, 3, *size)
    tc.jit.trace(model, (x,), check=False).compile(tmp_path / "m.so", target=level, verify=False)
    with tc.no_grad():
        wanted = model(x).numpy()
    np.testing.assert_allclose(tc.runtime.load(tmp_path / "m.so")(x.numpy()), wanted, rtol=1e-4, atol=1e-5)


def test_images_of_any_size(tmp_path):
    model = network(20, 3, 2)
    axes = {0: {0: "n", 2: tc.Dim("h", min=3, max=64), 3: tc.Dim("w", min=3, max=64)}}
    traced = tc.jit.trace(model, (tc.randn(2, 3, 9, 11),), dynamic=axes, check=False)
    traced.compile(tmp_path / "m.so", target="native", verify=False)
    loaded = tc.runtime.load(tmp_path / "m.so")
    for shape in [(1, 3, 3, 3), (3, 3, 4, 17), (1, 3, 31, 6), (2, 3, 16, 16)]:
        x = tc.randn(shape)
        with tc.no_grad():
            wanted = model(x).numpy()
        np.testing.assert_allclose(loaded(x.numpy()), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 3, 9, 7), (2, 3, 8, 8)])
def test_a_convolution_whose_result_is_row_major_is_computed_channels_last(shape, tmp_path):
    """As an output, and where a reshape reads its bytes."""
    model = nn.Sequential(nn.Conv2d(3, 20, 3, padding=1), nn.ReLU(), nn.Conv2d(20, 17, 3, padding=1)).eval()

    def both(x):
        y = model(x)
        return y, y.flatten(1) * 2

    x = tc.randn(shape)
    report = tc.jit.trace(both, (x,), check=False).compile(tmp_path / "m.so", target="native", verify=False)
    assert any("in_order" in k.name for k in report.kernels)
    with tc.no_grad():
        wanted = [t.numpy() for t in both(x)]
    for found, want in zip(tc.runtime.load(tmp_path / "m.so")(x.numpy()), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("rows", "terms", "columns"), [(40, 4096, 70), (7, 9216, 16), (1, 4096, 64), (64, 2053, 33)]
)
@pytest.mark.parametrize("epilogue", [True, False])
def test_long_sums_are_cut_in_blocks(level, rows, terms, columns, epilogue, tmp_path):
    """The sums of a block wait in the output, before the epilogue."""
    layer = nn.Linear(terms, columns, bias=epilogue)
    model = nn.Sequential(layer, nn.GELU()) if epilogue else layer
    x = tc.randn(rows, terms)
    dynamic = {0: {0: "n"}} if rows == 40 else None
    traced = tc.jit.trace(model.eval(), (x,), dynamic=dynamic, check=False)
    traced.compile(tmp_path / "m.so", target=level, verify=False)
    with tc.no_grad():
        wanted = model.double()(x.double()).numpy()
    np.testing.assert_allclose(tc.runtime.load(tmp_path / "m.so")(x.numpy()), wanted, rtol=1e-5, atol=1e-5)


class Residual(nn.Module):
    """A 3 × 3 convolution between two others, with everything that may follow it in one kernel."""

    def __init__(self, channels, out):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, channels, 1), nn.Conv2d(out, 5, 1)
        self.inner, self.norm = nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out)

    def forward(self, x):
        x = self.first(x)
        y = tc.relu(self.norm(self.inner(x)))
        return self.last(y + x if x.shape == y.shape else y)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("batch", "channels", "out", "size"),
    [
        (1, 32, 32, (24, 24)),
        (2, 32, 48, (9, 7)),
        (3, 64, 64, (15, 14)),
        (5, 16, 64, (5, 6)),
        (1, 48, 16, (31, 1)),
    ],
)
def test_tiles_in_another_basis_agree_with_float64(level, batch, channels, out, size, tmp_path):
    """F(2×2, 3×3): blocks with tiles to spare, images of odd sizes, tiles of several images in one block."""
    model, x = Residual(channels, out).eval(), tc.randn(batch, 3, *size)
    traced = tc.jit.trace(model, (x,), check=False)
    traced.compile(tmp_path / "m.so", target=level, verify=False)
    with tc.no_grad():
        wanted = model.double()(x.double()).numpy()
        eager = model.float()(x).numpy()
    found = tc.runtime.load(tmp_path / "m.so")(x.numpy())
    assert abs(found - wanted).max() <= 3 * abs(eager - wanted).max() + 1e-7


def test_tiles_of_any_number_of_images(tmp_path):
    model = Residual(32, 32).eval()
    traced = tc.jit.trace(model, (tc.randn(2, 3, 12, 12),), dynamic={0: {0: "n"}}, check=False)
    traced.compile(tmp_path / "m.so", target="native", verify=False)
    loaded = tc.runtime.load(tmp_path / "m.so", threads=3)
    for n in (1, 2, 7, 40):
        x = tc.randn(n, 3, 12, 12)
        with tc.no_grad():
            wanted = model(x).numpy()
        np.testing.assert_allclose(loaded(x.numpy()), wanted, rtol=1e-4, atol=1e-5)


def test_which_convolutions_are_computed_by_tiles():
    def chosen(channels, out, size, **settings):
        model = nn.Sequential(
            nn.Conv2d(3, channels, 1), nn.Conv2d(channels, out, 3, **settings), nn.Conv2d(out, 4, 1)
        )
        graph = tc.jit.trace(model.eval(), (tc.randn(1, 3, size, size),), check=False).graph
        return bool(Assembly(run_passes(graph, pipeline_for(Options())), tiles=True).tiles)

    assert chosen(64, 64, 56, padding=1) and chosen(32, 64, 26) and chosen(256, 256, 14, padding=1)
    assert not chosen(64, 64, 56, stride=2) and not chosen(64, 64, 56, dilation=2)
    assert not chosen(24, 64, 28) and not chosen(
        512, 512, 7, padding=1
    )  # lanes to spare; weights that cost more
