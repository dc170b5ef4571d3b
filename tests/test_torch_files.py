"""Files of PyTorch read, and files written for it; checkpoints from which training goes on bit by bit."""

import io
import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import tapecast as tc
from tapecast import nn

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")
DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128".split()


def written(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    return file


def content(lib):
    base = lib.arange(12.0).reshape(3, 4)
    shared = lib.ones(3)
    return OrderedDict(
        step=3,
        big=2**70,
        negative=-1,
        rate=0.1,
        name="Ω",
        raw=b"\x00\xff",
        flag=True,
        nothing=None,
        nested=[(1, "a"), {"k": [lib.tensor(5)]}],
        numbers={1: lib.zeros(2, 0), (2, 3): 1},
        view=base[1:, ::2],
        turned=base.T,
        shared=[shared, shared],
        parameter=lib.nn.Parameter(lib.ones(2, 2)),
        grad=lib.zeros(2, requires_grad=True),
        dtype=lib.float16,
        size=base.shape,
        z=1 + 2j,
        **{d: (lib.arange(3) % 2).to(getattr(lib, d)) for d in DTYPES},
    )


def check(found, lib, expected):
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            check(found[key], lib, expected[key])
    elif isinstance(expected, list | tuple):
        for a, b in zip(found, expected, strict=True):
            check(a, lib, b)
    elif isinstance(expected, lib.Tensor):
        assert found.dtype == expected.dtype and found.requires_grad == expected.requires_grad
        assert found.detach().cpu().tolist() == expected.detach().cpu().tolist()
        assert lib is tc or tuple(found.stride()) == tuple(expected.stride())
    else:
        assert found == expected


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}], ids=["zip", "old"])
def test_files_of_torch_are_read(options):
    file = written(content(torch), **options)
    file.seek(0)
    found = tc.load(file)
    check(found, tc, content(tc))
    a, b = found["shared"]
    a.mul_(2)
    assert b.tolist() == [2, 2, 2]


def test_torch_reads_what_is_written_for_it(tmp_path):
    path = tmp_path / "model.pt"
    tc.save(content(tc), path, format="torch")
    check(torch.load(path, weights_only=True), torch, content(torch))
    check(tc.load(path), tc, content(tc))
    assert os.listdir(tmp_path) == ["model.pt"]
    a, b = torch.load(path, weights_only=True)["shared"]
    a.mul_(2)
    assert b.tolist() == [2, 2, 2]


def test_models_and_optimizers_go_over_and_back():
    ours = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    o, q = tc.optim.Adam(ours.parameters()), torch.optim.Adam(theirs.parameters())
    theirs(torch.ones(2, 3)).sum().backward()
    q.step()
    file = written({"model": theirs.state_dict(), "optimizer": q.state_dict()})
    file.seek(0)
    state = tc.load(file, weights_only=True)
    assert state["model"]._metadata == theirs.state_dict()._metadata
    ours.load_state_dict(state["model"]), o.load_state_dict(state["optimizer"])
    for model, optimizer, lib in ((ours, o, tc), (theirs, q, torch)):
        optimizer.zero_grad()
        model.eval()
        model(lib.arange(6.0).reshape(2, 3)).square().sum().backward()
        optimizer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
    back = io.BytesIO()
    tc.save({"model": ours.state_dict(), "optimizer": o.state_dict()}, back, format="torch")
    back.seek(0)
    state = torch.load(back, weights_only=True)
    theirs.load_state_dict(state["model"]), q.load_state_dict(state["optimizer"])


class Evil:
    def __reduce__(self):
        return os.system, ("exit 1",)


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}], ids=["zip", "old"])
def test_code_in_a_file_is_refused(options):
    for bad in (Evil(), torch.nn.Linear(1, 1)):
        file = written({"x": bad}, **options)
        for weights_only in (True, False, None):
            file.seek(0)
            with pytest.raises(pickle.UnpicklingError, match="Unsupported global"):
                tc.load(file, weights_only=weights_only)


def test_a_tensor_that_does_not_fit_its_storage_is_refused():
    from tapecast.eager.torch_files import Storage, rebuild_tensor

    storage = Storage(bytearray(16), "float32")
    assert rebuild_tensor(storage, 1, (3,), (1,)).shape == (3,)
    for offset, size, stride in ((2, (3,), (1,)), (0, (2, 2), (4, 1)), (-1, (1,), (1,)), (3, (2,), (-1,))):
        with pytest.raises(ValueError, match="does not fit"):
            rebuild_tensor(storage, offset, size, stride)


def test_what_torch_would_refuse_is_not_written():
    with pytest.raises(TypeError, match=r"the object\['m'\] is a Linear.*save its state_dict"):
        tc.save({"m": nn.Linear(1, 1)}, io.BytesIO(), format="torch")
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        tc.save(loop, io.BytesIO(), format="torch")
    with pytest.raises(ValueError, match="format must be"):
        tc.save(1, io.BytesIO(), format="hdf5")
    huge = tc.zeros(1000)[:2]
    file = io.BytesIO()
    tc.save(huge, file, format="torch")
    assert file.tell() < 2000


@pytest.mark.parametrize("format", ["safetensors", "torch"])
def test_training_goes_on_bit_by_bit_from_a_checkpoint(tmp_path, format):
    def make():
        tc.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 1))
        optimizer = tc.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
        scheduler = tc.optim.lr_scheduler.SequentialLR(
            optimizer,
            [
                tc.optim.lr_scheduler.LinearLR(optimizer),
                tc.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5),
            ],
            [2],
        )
        return model, optimizer, scheduler

    def step(model, optimizer, scheduler):
        optimizer.zero_grad()
        loss = model(tc.randn(6, 4)).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.item()

    parts = make()
    for _ in range(4):
        step(*parts)
    state = {"parts": [p.state_dict() for p in parts], "rng": tc.get_rng_state()}
    tc.save(state, tmp_path / "checkpoint", format=format)
    through = [step(*parts) for _ in range(5)]
    again = make()
    found = tc.load(tmp_path / "checkpoint")
    for part, s in zip(again, found["parts"], strict=True):
        part.load_state_dict(s)
    tc.set_rng_state(found["rng"])
    assert [step(*again) for _ in range(5)] == through
    for a, b in zip(parts[0].parameters(), again[0].parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
