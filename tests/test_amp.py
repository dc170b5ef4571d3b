"""Autocast and the gradient scaler, compared with PyTorch."""

import warnings

import numpy as np
import pytest

import tapecast as tc

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")
LIBS = [pytest.param(tc, id="tapecast"), pytest.param(torch, id="torch")]
both = pytest.mark.parametrize("lib", LIBS)

CALLS = {
    "linear": lambda lib, x, h: lib.nn.functional.linear(x, h),
    "matmul": lambda lib, x, h: x @ h,
    "mm": lambda lib, x, h: lib.mm(x, h),
    "addmm": lambda lib, x, h: lib.addmm(x, x, h),
    "conv2d": lambda lib, x, h: lib.nn.functional.conv2d(x.reshape(1, 1, 3, 3), h.reshape(1, 1, 3, 3)),
    "add": lambda lib, x, h: x + h,
    "exp": lambda lib, x, h: h.exp(),
    "softmax": lambda lib, x, h: h.softmax(-1),
    "mse_loss": lambda lib, x, h: lib.nn.functional.mse_loss(h, x),
    "cross_entropy": lambda lib, x, h: lib.nn.functional.cross_entropy(h, lib.tensor([0, 1, 2])),
    "prod": lambda lib, x, h: lib.prod(h),
    "double": lambda lib, x, h: x.double() @ x.double(),
    "cat": lambda lib, x, h: lib.cat([x, h]),
}


@pytest.mark.parametrize("name", CALLS)
def test_dtypes_under_autocast_are_the_oracles(name):
    def run(lib):
        x = lib.arange(9.0).reshape(3, 3) / 7
        with lib.autocast("cpu"):
            out = CALLS[name](lib, x, x.to(lib.bfloat16))
        return str(out.dtype).split(".")[1], out.float().numpy()

    ours, theirs = run(tc), run(torch)
    assert ours[0] == theirs[0]
    np.testing.assert_allclose(ours[1], theirs[1], rtol=2e-2, atol=1e-2)


@both
def test_training_under_autocast_keeps_float32_parameters(lib):
    net = lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.ReLU(), lib.nn.Linear(8, 2))
    x = lib.ones(3, 4)

    @lib.autocast("cpu", dtype=lib.bfloat16)
    def forward():
        assert lib.is_autocast_enabled("cpu") and lib.get_autocast_dtype("cpu") == lib.bfloat16
        with lib.autocast("cpu", enabled=False):
            assert net(x).dtype == lib.float32
        return net(x)

    out = forward()
    assert out.dtype == lib.bfloat16 and not lib.is_autocast_enabled("cpu")
    out.float().sum().backward()
    assert all(p.grad.dtype == lib.float32 for p in net.parameters())


@both
def test_custom_functions_choose_their_precision(lib):
    seen = []

    class Mul(lib.autograd.Function):
        @staticmethod
        @lib.amp.custom_fwd(device_type="cpu", cast_inputs=lib.float32)
        def forward(ctx, x):
            seen.append((x.dtype, lib.is_autocast_enabled("cpu")))
            return x * 2

        @staticmethod
        @lib.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            seen.append(lib.is_autocast_enabled("cpu"))
            return g * 2

    x = lib.ones(2, dtype=lib.bfloat16, requires_grad=True)
    with lib.autocast("cpu"):
        out = Mul.apply(x)
    out.sum().backward()
    assert seen == [(lib.float32, False), False]


def test_autocast_refuses_other_devices():
    with pytest.raises(RuntimeError, match="unsupported autocast device_type"):
        tc.autocast("toaster")


def steps(lib, device="cpu"):
    """Scale, parameter and tracker after steps of which the third overflows."""
    p = lib.ones(2, requires_grad=True)
    o = lib.optim.SGD([p], lr=0.1)
    s = lib.amp.GradScaler(device, init_scale=8.0, growth_interval=2)
    found = []
    for i in range(6):
        o.zero_grad()
        loss = (p * (float("inf") if i == 2 else 1.0)).sum()
        s.scale(loss).backward()
        if i == 1:
            s.unscale_(o)
            assert p.grad.tolist() == [1.0, 1.0]
        s.step(o)
        s.update()
        found.append((s.get_scale(), *p.tolist(), s.state_dict()["_growth_tracker"]))
    return found, s.state_dict()


def test_the_scaler_goes_the_oracles_way():
    (ours, state), (theirs, expected) = steps(tc), steps(torch)
    np.testing.assert_allclose(ours, theirs)
    assert state == expected


@both
def test_the_scaler_guards_its_order(lib):
    p = lib.ones(2, requires_grad=True)
    o = lib.optim.SGD([p], lr=0.1)
    s = lib.amp.GradScaler("cpu")
    with pytest.raises(AssertionError, match="_scale is None"):
        s.step(o)
    s.scale(p.sum()).backward()
    s.unscale_(o)
    with pytest.raises(RuntimeError, match="already been called"):
        s.unscale_(o)
    s.step(o)
    with pytest.raises(RuntimeError, match="already been called since"):
        s.step(o)
    s.update()
    t = lib.amp.GradScaler("cpu")
    t.load_state_dict(s.state_dict())
    assert t.get_scale() == s.get_scale()
    off = lib.amp.GradScaler("cpu", enabled=False)
    assert off.scale(p) is p and off.get_scale() == 1.0 and off.state_dict() == {}


def test_without_a_gpu_the_scaler_says_so_and_passes_through():
    if tc.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.warns(UserWarning, match="CUDA is not available"):
        s = tc.cuda.amp.GradScaler()
    assert not s.is_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tc.cuda.amp.autocast(), tc.amp.autocast("cuda", dtype=tc.bfloat16):
            assert (tc.ones(2, 2) @ tc.ones(2, 2)).dtype == tc.float32
