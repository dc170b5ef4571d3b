"""Lazy layers, and what convolution, padding, resizing and normalisation refuse: as PyTorch does."""

import copy
import pickle

import numpy as np
import pytest
from both import assert_same, attempt, program

import tapecast as tc

oracle = pytest.importorskip("torch")

LAZY, REFUSED = [], []


def same_weights(torch, module):
    """The module with parameters that do not depend on the library."""
    with torch.no_grad():
        for number, p in enumerate(module.parameters()):
            p.copy_(torch.linspace(-1, 1 + number, p.numel()).reshape(p.shape))
    return module


# ---- layers that wait for an input --------------------------------------------------------------------------


@program(LAZY)
def a_network_takes_sizes_from_its_input(torch):
    nn = torch.nn
    net = nn.Sequential(nn.LazyConv2d(4, 3, padding=1), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    before = [str(net), str(net[0].weight), str(net[1].running_mean), net[0].has_uninitialized_params()]
    net(torch.ones(2, 3, 4, 5))
    return (
        *before,
        str(net),
        [p.shape for p in net.parameters()],
        same_weights(torch, net)(torch.ones(2, 3, 4, 5)),
    )


@program(LAZY)
def every_kind(torch):
    nn, out = torch.nn, []
    for text, shape in (
        ("LazyConv1d(4, 3, groups=2)", (1, 6, 5)),
        ("LazyConv3d(2, 2, bias=False)", (1, 3, 4, 4, 4)),
        ("LazyConvTranspose1d(4, 3, stride=2)", (3, 5)),
        ("LazyConvTranspose2d(4, 3, groups=2, dilation=2)", (1, 6, 5, 5)),
        ("LazyConvTranspose3d(2, 2)", (1, 3, 2, 2, 2)),
        ("LazyBatchNorm1d(affine=False)", (4, 3)),
        ("LazyBatchNorm3d(bias=False)", (2, 3, 2, 2, 2)),
        ("LazyInstanceNorm1d()", (2, 3, 4)),
        ("LazyInstanceNorm2d(affine=False, track_running_stats=False)", (2, 3, 4, 4)),
        ("LazyInstanceNorm3d(momentum=0.5)", (2, 3, 2, 2, 2)),
    ):
        module = eval(f"nn.{text}", {"nn": nn})
        out += [
            str(module),
            list(module.state_dict()),
            module(torch.ones(shape)).shape,
            str(module),
            type(module),
        ]
    return out


@program(LAZY)
def what_a_parameter_without_a_shape_refuses(torch):
    layer = torch.nn.LazyLinear(3)
    kinds = []
    for use in (
        lambda: layer.weight.shape,
        lambda: layer.weight.numel(),
        lambda: layer.weight + 1,
        lambda: layer.weight.sum(),
        lambda: layer.weight.share_memory_(),
        lambda: torch.nn.Linear(2, 3).load_state_dict(layer.state_dict()),
    ):
        kinds.append(attempt(use).split(" ")[0])
    return kinds, layer.weight.dtype, layer.double().weight.dtype, layer.weight.requires_grad


@program(LAZY)
def a_state_dict_gives_shapes(torch):
    layer, full = torch.nn.LazyLinear(3), same_weights(torch, torch.nn.Linear(2, 3))
    loaded = str(layer.load_state_dict(full.state_dict()))
    return loaded, str(layer), layer(torch.ones(1, 2)), str(layer)


def test_copies_of_lazy_layers_are_lazy():
    layer = tc.nn.LazyConv2d(4, 3)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other.has_uninitialized_params()
        other(tc.ones(1, 2, 5, 5))
        assert type(other) is tc.nn.Conv2d
    assert layer.has_uninitialized_params()


@pytest.mark.parametrize("run", LAZY)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy_layers(run):
    assert_same(run)


# ---- errors ---------------------------------------------------------------------------------------------------

CALLS = [
    "F.conv2d(x, torch.zeros(0, 3, 2, 2))",
    "F.conv2d(x, torch.zeros(2, 4, 2, 2))",
    "F.conv2d(x, torch.zeros(2, 3, 9, 2))",
    "F.conv2d(x, torch.zeros(2, 3, 2, 2), torch.zeros(3))",
    "F.conv2d(x, torch.zeros(2, 1, 2, 2), groups=3)",
    "F.conv2d(x, torch.zeros(2, 3, 2, 2), groups=0)",
    "F.conv_transpose2d(x, torch.zeros(4, 1, 2, 2))",
    "F.conv_transpose2d(x, torch.zeros(3, 2, 2, 2), torch.zeros(3))",
    "F.pad(x, (1, 1), 'reflect')",
    "F.pad(x, (9, 0, 1, 1), 'circular')",
    "F.pad(x, (1, 1, 1), 'replicate')",
    "F.pad(x, (1, 1, 1, 1), 'circular', 2.0)",
    "F.pad(x[:, :, :0], (1, 1, 1, 1), 'replicate')",
    "F.pad(x, (1, 1), 'mirror')",
    "F.pad(x, (1,) * 10)",
    "F.interpolate(x[:, :0], size=(2, 2), mode='bilinear')",
    "F.interpolate(x[:, :, :0], size=(2, 2))",
    "F.interpolate(x, size=(0, 2), mode='bicubic')",
    "F.interpolate(x, size=2, scale_factor=2)",
    "F.interpolate(x, size=(2, 2, 2))",
    "F.interpolate(x, scale_factor=(1.0, 2.0, 3.0))",
    "F.interpolate(x, size=2, mode='linear')",
    "F.interpolate(x, size=(2, 2), mode='trilinear')",
    "F.interpolate(x, size=2, mode='none')",
    "F.interpolate(x, size=2, mode='lanczos')",
    "F.interpolate(x, size=2, mode='lanczos', align_corners=True, antialias=True)",
    "F.interpolate(x, size=2, mode='nearest', antialias=True)",
    "F.pixel_shuffle(x, 0)",
    "F.pixel_shuffle(x, 2)",
    "F.pixel_shuffle(x[0, 0], 2)",
    "F.pixel_unshuffle(x, 3)",
    "F.pixel_unshuffle(x, 2)",
    "F.batch_norm(x, torch.ones(4), torch.ones(4))",
    "F.batch_norm(x, None, None)",
    "F.batch_norm(x, None, None, torch.ones(4), training=True)",
    "F.batch_norm(x.double(), torch.ones(3), torch.ones(3))",
    "F.batch_norm(x.half(), torch.ones(3), torch.ones(3).half())",
    "F.instance_norm(x, weight=torch.ones(4))",
    "F.instance_norm(x, use_input_stats=False)",
    "F.group_norm(x, 3, torch.ones(4))",
    "F.group_norm(x.double(), 3, torch.ones(3))",
    "F.layer_norm(x, (5,), torch.ones(4))",
    "F.fractional_max_pool2d(x, 3, (4, 4))",
    "F.fractional_max_pool3d(x, 3, (2, 2, 2))",
    "F.fold(x[0, 0, 0], (3, 4), 2)",
    "torch.nn.CircularPad3d(1)(x[0])",
    "torch.nn.InstanceNorm2d(4, affine=True)(x)",
    "torch.nn.SyncBatchNorm(4)(x[0, 0, 0])",
]


@pytest.mark.parametrize("call", CALLS)
def test_what_is_refused(call):
    def run(torch):
        return attempt(
            lambda: eval(call, {"torch": torch, "F": torch.nn.functional, "x": torch.zeros(2, 3, 4, 5)})
        )

    assert isinstance(run(tc), str), "accepted"
    assert_same(run)


# ---- values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(3, 9), (6, 20), (2, 2)])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_filters_of_images(mode, size):
    x = np.random.default_rng(0).random((2, 3, 6, 7))
    for values, bound in ((x.astype(np.float32), 1e-6), ((x * 255).astype(np.uint8), 1)):
        wanted, got = (
            m.nn.functional.interpolate(
                m.from_numpy(values.copy()), size=size, mode=mode, antialias=True
            ).numpy()
            for m in (oracle, tc)
        )
        assert got.dtype == wanted.dtype
        assert np.abs(got.astype(float) - wanted).max() <= bound


@pytest.mark.parametrize("axes", [2, 3])
def test_fractional_pooling_is_recorded(axes):
    pool = getattr(tc.nn.functional, f"fractional_max_pool{axes}d")
    samples = tc.full((2, 3, axes), 0.4)

    def step(x):
        return pool(x, 2, (3,) * axes, _random_samples=samples)

    x = tc.from_numpy(np.random.default_rng(0).random((2, 3, *(7, 8, 9)[:axes])))
    np.testing.assert_array_equal(tc.compile(step)(x).numpy(), step(x).numpy())


def test_synchronised_norms_take_tensors_over():
    net = tc.nn.Sequential(
        tc.nn.Conv1d(1, 2, 3), tc.nn.Sequential(tc.nn.BatchNorm1d(2)), tc.nn.InstanceNorm1d(2)
    )
    weight = net[1][0].weight
    net = tc.nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert type(net[1][0]) is tc.nn.SyncBatchNorm
    assert net[1][0].weight is weight
    assert type(net[2]) is tc.nn.InstanceNorm1d


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_local_response_by_its_former_name(size):
    x = np.random.default_rng(0).random((2, 6, 3, 3)).astype(np.float32) * 3
    wanted, got = (m.nn.CrossMapLRN2d(size, alpha=0.5)(m.from_numpy(x.copy())).numpy() for m in (oracle, tc))
    np.testing.assert_allclose(got, wanted, rtol=2e-6)


def test_sequences_with_time_first():
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape).astype(np.float32) for shape in ((7, 2, 3), (3, 3, 4), (4,))]
    wanted, got = (m.conv_tbc(*(m.from_numpy(a) for a in arrays), 1).numpy() for m in (oracle, tc))
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
