"""Convolution, pooling, padding and resizing layers against torch: text, parameters, values, gradients."""

import numpy as np
import pytest

import tapecast as tc

torch = pytest.importorskip("torch")

SEQUENCE, IMAGE, VOLUME = (2, 4, 13), (2, 4, 9, 11), (1, 4, 6, 7, 8)

LAYERS = [
    ("Conv1d(4, 6, 3)", SEQUENCE),
    ("Conv1d(4, 6, 4, stride=2, padding=3, dilation=2, groups=2, padding_mode='circular')", SEQUENCE),
    ("Conv1d(4, 6, 4, padding='same', bias=False)", SEQUENCE),
    ("Conv2d(4, 8, (3, 2), stride=(2, 1), padding=(1, 2), dilation=2, groups=4)", IMAGE),
    ("Conv2d(4, 8, 4, padding='same', padding_mode='reflect')", IMAGE),
    ("Conv2d(4, 8, 3, padding=1, padding_mode='replicate')", IMAGE[1:]),
    ("Conv3d(4, 6, 3, stride=(1, 2, 2), padding=1, groups=2)", VOLUME),
    ("Conv3d(4, 2, (2, 3, 1), dilation=(2, 1, 1), padding='same')", VOLUME),
    ("ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)", SEQUENCE),
    ("ConvTranspose2d(4, 6, (3, 4), stride=(2, 3), padding=1, dilation=2)", IMAGE),
    ("ConvTranspose2d(4, 6, 2, dilation=3, output_padding=2)", IMAGE[1:]),
    ("ConvTranspose3d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, bias=False)", VOLUME),
    ("MaxPool1d(3, 2, 1)", SEQUENCE),
    ("MaxPool2d((3, 2), stride=2, padding=1, dilation=2, ceil_mode=True)", IMAGE),
    ("MaxPool3d(2, padding=1, ceil_mode=True)", VOLUME),
    ("AvgPool1d(3, 2, padding=1, ceil_mode=True, count_include_pad=False)", SEQUENCE),
    ("AvgPool2d(4, stride=3, padding=2, ceil_mode=True)", IMAGE),
    ("AvgPool3d((2, 3, 3), stride=2, padding=1, ceil_mode=True)", VOLUME),
    ("AvgPool3d(3, divisor_override=5)", VOLUME),
    ("LPPool1d(2, 3)", SEQUENCE),
    ("LPPool2d(2, (3, 2), stride=(2, 1))", IMAGE),
    ("LPPool3d(2, 2, ceil_mode=True)", VOLUME),
    ("AdaptiveAvgPool1d(5)", SEQUENCE),
    ("AdaptiveAvgPool2d((4, None))", IMAGE),
    ("AdaptiveAvgPool3d((3, 5, 2))", VOLUME),
    ("AdaptiveMaxPool1d(5)", SEQUENCE),
    ("AdaptiveMaxPool2d((4, 3))", IMAGE),
    ("AdaptiveMaxPool3d((None, 5, 2))", VOLUME),
    ("ConstantPad1d((1, 2), 0.5)", SEQUENCE),
    ("ConstantPad2d(2, -1.0)", IMAGE),
    ("ConstantPad3d((1, -1, 0, 2, 1, 1), 3.0)", VOLUME),
    ("ZeroPad1d(2)", SEQUENCE),
    ("ZeroPad2d((1, 0, 2, 1))", IMAGE),
    ("ZeroPad3d(1)", VOLUME),
    ("ReflectionPad1d((3, 2))", SEQUENCE),
    ("ReflectionPad2d((1, 0, 2, 3))", IMAGE),
    ("ReflectionPad3d(2)", VOLUME),
    ("ReplicationPad1d(3)", SEQUENCE),
    ("ReplicationPad2d((1, 0, 2, 3))", IMAGE),
    ("ReplicationPad3d(2)", VOLUME),
    ("CircularPad1d(3)", SEQUENCE),
    ("CircularPad2d((1, 0, 2, 3))", IMAGE),
    ("CircularPad3d(2)", VOLUME),
    ("Upsample(scale_factor=2)", IMAGE),
    ("Upsample(scale_factor=(1.7, 0.6), mode='bilinear')", IMAGE),
    ("Upsample(size=(5, 20), mode='bicubic', align_corners=True)", IMAGE),
    ("Upsample(size=7, mode='linear')", SEQUENCE),
    ("Upsample(scale_factor=1.5, mode='trilinear', recompute_scale_factor=True)", VOLUME),
    ("UpsamplingNearest2d(scale_factor=3)", IMAGE),
    ("UpsamplingBilinear2d(size=(6, 15))", IMAGE),
    ("PixelShuffle(2)", IMAGE),
    ("PixelUnshuffle(3)", (2, 4, 9, 12)),
    ("ChannelShuffle(2)", IMAGE),
    ("Unfold((2, 3), dilation=2, padding=1, stride=2)", IMAGE),
    ("Fold((9, 11), 2)", (2, 16, 80)),
    ("Fold((9, 11), (3, 2), stride=2, padding=1, dilation=2)", (2, 18, 24)),
    ("LocalResponseNorm(3)", IMAGE),
    ("BatchNorm3d(4)", VOLUME),
    ("InstanceNorm3d(4, affine=True)", VOLUME),
]


def pair(text: str):
    torch.manual_seed(0)
    theirs, ours = (eval(f"nn.{text}", {"nn": m.nn}) for m in (torch, tc))
    ours.load_state_dict({k: tc.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    return theirs, ours


@pytest.mark.filterwarnings("ignore:Using padding=.same. with even kernel")
@pytest.mark.parametrize(("text", "shape"), LAYERS)
def test_a_layer_is_that_of_torch(text: str, shape: tuple[int, ...]) -> None:
    theirs, ours = pair(text)
    assert repr(ours) == repr(theirs)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    a, b = torch.from_numpy(x).requires_grad_(), tc.from_numpy(x.copy()).requires_grad_()
    y, z = theirs(a), ours(b)
    assert tuple(z.shape) == tuple(y.shape)
    np.testing.assert_allclose(z.detach().numpy(), y.detach().numpy(), rtol=1e-4, atol=2e-5)
    (y * y.detach().sin()).sum().backward()
    (z * z.detach().sin()).sum().backward()
    np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), rtol=1e-3, atol=1e-4)
    for p, q in zip(theirs.parameters(), ours.parameters(), strict=True):
        np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("axes", "shape"), [(1, SEQUENCE), (2, IMAGE), (3, VOLUME)])
def test_unpooling_puts_maxima_back(axes: int, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    results = []
    for m, tensor in ((torch, torch.from_numpy(x)), (tc, tc.from_numpy(x))):
        pool = getattr(m.nn, f"MaxPool{axes}d")(2, stride=2, return_indices=True)
        unpool = getattr(m.nn, f"MaxUnpool{axes}d")(2, stride=2)
        values, at = pool(tensor)
        results.append([at.numpy(), unpool(values, at, output_size=tensor.size()).numpy(), repr(unpool)])
    for wanted, got in zip(*results, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_wanted_size_chooses_the_output_padding() -> None:
    theirs, ours = pair("ConvTranspose2d(4, 3, 3, stride=2, padding=1)")
    x = np.random.default_rng(0).standard_normal(IMAGE).astype(np.float32)
    wanted = theirs(torch.from_numpy(x), output_size=(18, 21)).detach().numpy()
    got = ours(tc.from_numpy(x), output_size=(18, 21)).detach().numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="valid sizes range from"):
        ours(tc.from_numpy(x), output_size=(19, 25))


def test_fractional_pooling_with_given_samples() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 12, 15)).astype(np.float32)
    samples = np.random.default_rng(1).random((2, 3, 2)).astype(np.float32)
    got = []
    for m, of in ((torch, torch.from_numpy), (tc, tc.from_numpy)):
        layer = m.nn.FractionalMaxPool2d(
            3, output_size=(5, 7), return_indices=True, _random_samples=of(samples)
        )
        got.append([t.numpy() for t in layer(of(x))])
    for wanted, ours in zip(*got, strict=True):
        np.testing.assert_array_equal(ours, wanted)


@pytest.mark.parametrize(
    "text",
    [
        "Conv2d(4, 6, 3, groups=3)",
        "Conv2d(4, 6, 3, padding='full')",
        "Conv2d(4, 6, 3, stride=2, padding='same')",
        "Conv2d(4, 6, 3, padding_mode='mirror')",
        "ConvTranspose2d(4, 6, 3, padding_mode='reflect')",
        "FractionalMaxPool2d(3)",
    ],
)
def test_settings_that_no_layer_has(text: str) -> None:
    for m in (torch, tc):
        with pytest.raises(ValueError):
            eval(f"nn.{text}", {"nn": m.nn})


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("Conv1d(4, 6, 3, padding=1)", SEQUENCE),
        ("Conv3d(4, 6, 3, padding=1)", VOLUME),
        ("ConvTranspose2d(4, 6, 3, stride=2)", IMAGE),
        ("MaxPool3d(2)", VOLUME),
        ("AdaptiveAvgPool2d((4, 3))", IMAGE),
        ("ReflectionPad2d(2)", IMAGE),
        ("Upsample(scale_factor=2, mode='bilinear')", IMAGE),
        ("Upsample(scale_factor=2)", IMAGE),
        ("PixelShuffle(2)", IMAGE),
    ],
)
def test_compiled_layers_are_the_eager_ones(text: str, shape: tuple[int, ...], tmp_path) -> None:
    layer = eval(f"nn.{text}", {"nn": tc.nn}).eval()
    x = tc.randn(shape)
    tc.jit.trace(layer, (x,), check=False).compile(tmp_path / "m.so", target="native", verify=False)
    with tc.no_grad():
        wanted = layer(x).numpy()
    np.testing.assert_allclose(tc.runtime.load(tmp_path / "m.so")(x.numpy()), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"scale_factor": 2},
        {"scale_factor": 1.5, "mode": "nearest"},
        {"scale_factor": 2, "mode": "bilinear"},
        {"size": (8, 8), "mode": "bilinear"},
        {"size": (4, 10), "mode": "bicubic"},
    ],
)
def test_images_of_any_size_are_resized(settings, tmp_path) -> None:
    def f(x):
        return tc.nn.functional.interpolate(x, **settings)

    sizes = {0: {2: tc.Dim("h", min=2, max=64), 3: tc.Dim("w", min=2, max=64)}}
    tc.jit.trace(f, (tc.randn(1, 2, 5, 6),), dynamic=sizes).compile(
        tmp_path / "m.so", target="native", verify=False
    )
    model = tc.runtime.load(tmp_path / "m.so")
    for shape in [(1, 2, 9, 7), (1, 2, 4, 13)]:
        x = tc.randn(shape)
        np.testing.assert_allclose(model(x.numpy()), f(x).numpy(), rtol=1e-5, atol=1e-5)
