"""Saving and loading: what goes in comes out, in a file that any safetensors reader can read."""

import io
import math
import os
import pickle
from collections import OrderedDict, namedtuple
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import tapecast as tc
from tapecast import nn, optim
from tapecast.eager import serialization
from tapecast.eager.serialization import load, save


def round_trip(obj):
    file = io.BytesIO()
    save(obj, file)
    file.seek(0)
    return load(file)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2**70,
        -0.5,
        math.inf,
        "text äß 漢",
        b"\x00\xff",
        1 + 2j,
        [],
        {},
        (),
        [1, (2, [3.0, None])],
        {"a": {"b": (1,)}, "": 2},
        {1: "int", 2.5: "float", None: "none", False: "bool", (1, "x"): "tuple"},
        {"tensor": "not one", "dict": {"tuple": 1}},
        OrderedDict([("b", 1), ("a", 2)]),
    ],
    ids=repr,
)
def test_plain_values_come_back(value):
    back = round_trip(value)
    assert back == value and type(back) is type(value)
    assert repr(back) == repr(value)


def test_nan_comes_back():
    assert math.isnan(round_trip([math.nan])[0])


@pytest.mark.parametrize(
    "dtype", "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_tensors_of_every_dtype_come_back(dtype, shape):
    t = tc.arange(math.prod(shape)).reshape(shape).to(getattr(tc, dtype))
    back = round_trip({"t": t})["t"]
    assert back.dtype == t.dtype and tuple(back.shape) == shape and back.tolist() == t.tolist()
    assert not back.requires_grad


def test_arrays_and_scalars_stay_numpy():
    back = round_trip([np.arange(6).reshape(2, 3).T, np.float32(1.5), np.zeros(2, complex)])
    assert np.array_equal(back[0], np.arange(6).reshape(2, 3).T) and type(back[0]) is np.ndarray
    assert back[1] == 1.5 and type(back[1]) is np.float32 and back[2].dtype == complex
    with pytest.raises(TypeError, match="a has dtype <U1"):
        round_trip({"a": np.array(["x"])})


def test_parameters_and_requires_grad_come_back():
    back = round_trip(
        [nn.Parameter(tc.ones(2)), nn.Parameter(tc.ones(2), False), tc.ones(2).requires_grad_()]
    )
    assert [type(t) is nn.Parameter for t in back] == [True, True, False]
    assert [t.requires_grad for t in back] == [True, False, True]
    assert all(t.is_leaf for t in back)


def test_loaded_tensors_can_be_written_to():
    t = round_trip(tc.zeros(3))
    t.add_(1)
    assert t.tolist() == [1, 1, 1]


def test_views_are_stored_as_seen():
    t = tc.arange(12).reshape(3, 4)
    assert round_trip({"a": t.T[1:], "b": t[:, ::2]})["a"].tolist() == t.T[1:].tolist()


def test_shared_tensors_are_stored_once_and_stay_one():
    t = tc.ones(1000)
    file = io.BytesIO()
    save({"a": t, "b": t, "c": [t.detach()]}, file)
    assert len(file.getvalue()) < 5000
    back = load(io.BytesIO(file.getvalue()))
    assert back["a"] is back["b"] is back["c"][0]


def test_a_checkpoint_resumes_training(tmp_path: Path):
    tc.manual_seed(0)

    def make():
        m = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        o = optim.AdamW(m.parameters(), lr=0.1)
        return m, o, optim.lr_scheduler.MultiStepLR(o, [1, 2])

    def train(m, o, s):
        for _ in range(2):
            o.zero_grad()
            m(tc.linspace(0, 1, 8).reshape(4, 2)).sum().backward()
            o.step(), s.step()

    first, second = make(), make()
    train(*first)
    names = ("model", "optimizer", "schedule")
    save({k: v.state_dict() for k, v in zip(names, first, strict=True)}, tmp_path / "c.safetensors")
    for name, part in zip(names, second, strict=True):
        part.load_state_dict(load(tmp_path / "c.safetensors")[name])
    train(*first), train(*second)
    for p, q in zip(first[0].state_dict().values(), second[0].state_dict().values(), strict=True):
        assert p.tolist() == q.tolist()
    assert first[2].get_last_lr() == second[2].get_last_lr()


def test_the_file_is_an_ordinary_safetensors_file(tmp_path: Path):
    m = nn.Linear(2, 1)
    save(m.state_dict(), tmp_path / "m")
    arrays = safetensors.numpy.load_file(tmp_path / "m")
    assert sorted(arrays) == ["bias", "weight"]
    assert np.array_equal(arrays["weight"], m.weight.detach().numpy())
    assert load(tmp_path / "m")._metadata == m.state_dict()._metadata


def test_other_safetensors_files_are_dicts_of_tensors():
    data = safetensors.numpy.save({"w": np.ones((2, 2), np.float32)}, {"made": "elsewhere"})
    back = load(io.BytesIO(data), map_location="cpu", weights_only=True)
    assert list(back) == ["w"] and back["w"].tolist() == [[1, 1], [1, 1]]


def test_names_do_not_collide():
    value = {"a.b": tc.ones(1), "a": {"b": tc.zeros(1)}, "": tc.ones(2)}
    back = round_trip(value)
    assert back["a.b"].tolist() == [1] and back["a"]["b"].tolist() == [0] and back[""].tolist() == [1, 1]


def test_the_same_object_gives_the_same_bytes():
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        save({"b": tc.ones(3), "a": tc.zeros(2, dtype=tc.float64), "c": 1}, file)
    assert files[0].getvalue() == files[1].getvalue()


class Custom:
    def state_dict(self):
        return {}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, {2, 3}]}, r"a\.1 is a set, which a file of tensors and JSON cannot hold"),
        ({"f": len}, "f is a builtin_function_or_method"),
        (Custom(), r"the object is a Custom.*save its state_dict\(\)"),
        ([namedtuple("Point", "x")(1)], "0 is a Point"),
        ({len: 1}, "a key of"),
    ],
)
def test_other_objects_are_refused_by_place(value, message, tmp_path: Path):
    with pytest.raises(TypeError, match=message):
        save(value, tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


def test_an_object_that_contains_itself_is_refused():
    value: dict = {"a": []}
    value["a"].append(value)
    with pytest.raises(ValueError, match=r"a\.0 contains itself"):
        round_trip(value)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "f"
    save([1], path)

    def full(*args, **kwargs):
        Path(args[1]).write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(serialization, "serialize_file", full)
    with pytest.raises(OSError, match="no space"):
        save([2], path)
    assert load(path) == [1] and list(tmp_path.iterdir()) == [path]


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path):
    with pytest.raises(IsADirectoryError, match="is a folder: give the path of a file in it"):
        save([1], tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"no/f cannot be written \(No such file or directory\): choose"
    ):
        save([1], tmp_path / "no/f")


def test_links_and_permissions_are_kept(tmp_path: Path):
    (tmp_path / "link").symlink_to("real")
    save([1], tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and load(tmp_path / "real") == [1]
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o666 & ~umask


def test_wrong_files_say_what_they_are(tmp_path: Path):
    path = tmp_path / "f"
    path.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(ValueError, match=r"f is a zip archive.*torch.save.*tc.jit.load"):
        load(path)
    path.write_bytes(pickle.dumps([1]))
    with pytest.raises(ValueError, match=r"f is not a file of tc.save, or it is damaged"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


def test_damage_is_an_error_and_never_a_crash():
    file = io.BytesIO()
    save({"a": tc.ones(3), "b": [1, 2.0]}, file)
    data = file.getvalue()
    for end in range(0, len(data), 7):
        with pytest.raises(ValueError):
            load(io.BytesIO(data[:end]))
    for i in range(0, 8):
        with pytest.raises(ValueError):
            load(io.BytesIO(data[:i] + bytes([data[i] ^ 0x55]) + data[i + 1 :]))


def test_a_newer_version_is_refused(monkeypatch: pytest.MonkeyPatch):
    file = io.BytesIO()
    monkeypatch.setattr(serialization, "VERSION", 2)
    save([1], file)
    monkeypatch.undo()
    file.seek(0)
    with pytest.raises(ValueError, match=r"has version 2 .* reads up to 1; use a newer tapecast"):
        load(file)


def test_a_file_that_names_what_it_lacks_is_damaged():
    data = safetensors.numpy.save({}, {"tapecast": '{"version": 1, "tree": {"tensor": "w"}}'})
    with pytest.raises(ValueError, match="is damaged: it names 'w' and does not hold it"):
        load(io.BytesIO(data))
