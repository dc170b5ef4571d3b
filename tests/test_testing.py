"""assert_close, with PyTorch's messages; and tensors among numpy's functions and other libraries' arrays."""

import copy
import pickle

import numpy as np
import pytest

import tapecast as tc

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")
NAN = float("nan")

PAIRS = {
    "floats": lambda t: (t([1.0, 2.0]), t([1.0, 3.0])),
    "integers": lambda t: (t([1, 2]), t([1, 3])),
    "matrix": lambda t: (t([[1.0, 2.0], [3.0, 4.0]]), t([[1.0, 2.0], [3.0, 5.0]])),
    "zero-dimensional": lambda t: (t(1.0), t(2.0)),
    "numbers": lambda t: (1.0, 2.0),
    "whole numbers": lambda t: (1, 2),
    "kinds of numbers": lambda t: (1, 1.0),
    "near numbers": lambda t: (1.0, 1.0 + 1e-9),
    "booleans": lambda t: (True, False),
    "bool tensors": lambda t: (t([True]), t([False])),
    "complex": lambda t: (t([1 + 1j]), t([1 + 2j])),
    "shapes": lambda t: (t([1.0]), t([1.0, 2.0])),
    "lists": lambda t: ([t(1.0), t(2.0)], [t(1.0), t(3.0)]),
    "lengths": lambda t: ([1], [1, 2]),
    "dicts": lambda t: ({"a": [t(1.0)]}, {"a": [t(2.0)]}),
    "keys": lambda t: ({"a": 1}, {"b": 1}),
    "nan": lambda t: (t([NAN]), t([NAN])),
    "none": lambda t: (None, None),
    "text": lambda t: ("a", "b"),
    "arrays": lambda t: (np.array([1.0]), np.array([2.0])),
    "empty": lambda t: (t([]), t([])),
}
OPTIONS = [
    {},
    {"rtol": 0, "atol": 0},
    {"rtol": 1, "atol": 1},
    {"equal_nan": True},
    {"msg": lambda m: "X " + m},
]


def outcome(lib, name, options):
    try:
        lib.testing.assert_close(*PAIRS[name](lib.tensor), **options)
    except Exception as error:
        return type(error).__name__, str(error).replace("tapecast", "torch")
    return None


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ",".join(options) or "defaults")
@pytest.mark.parametrize("name", PAIRS)
def test_outcomes_and_messages_are_the_oracles(name, options):
    assert outcome(tc, name, options) == outcome(torch, name, options)


def test_attributes_are_compared():
    x = tc.ones(2, 3)
    with pytest.raises(
        AssertionError, match=r"attribute .dtype. do not match: tapecast\.float32 != tapecast\.float64"
    ):
        tc.testing.assert_close(x, x.double())
    tc.testing.assert_close(x, x.double(), check_dtype=False)
    with pytest.raises(AssertionError, match="stride"):
        tc.testing.assert_close(x, tc.ones(3, 2).T, check_stride=True)
    with pytest.raises(ValueError, match="must be either specified or omitted"):
        tc.testing.assert_close(x, x, rtol=1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int64", "uint8", "bool", "complex64"])
def test_made_tensors(dtype):
    x = tc.testing.make_tensor(50, 4, dtype=getattr(tc, dtype), low=1, high=5, noncontiguous=True)
    assert x.shape == (50, 4) and x.dtype == getattr(tc, dtype) and not x.is_contiguous()
    if dtype != "complex64":
        assert (x >= 1).all() and (x <= 5).all()


# ---- numpy -----------------------------------------------------------------------------------------------


def test_memory_is_shared_with_numpy_and_other_libraries():
    a = np.zeros(3, np.float32)
    t = tc.from_numpy(a)
    t.numpy()[0] = 1
    b = np.from_dlpack(t)
    c = torch.from_dlpack(t)
    d = tc.from_dlpack(torch.from_dlpack(t))
    e = tc.utils.dlpack.from_dlpack(tc.utils.dlpack.to_dlpack(t))
    d[1] = 2
    e[2] = 3
    for x in (a, b, c.numpy(), d.numpy()):
        assert x.tolist() == [1, 2, 3]
    with pytest.raises(BufferError, match="detach"):
        np.from_dlpack(tc.ones(2, requires_grad=True))


def test_numpy_functions_take_and_give_tensors():
    x = tc.tensor([1.0, 4.0])
    assert type(np.sqrt(x)) is tc.Tensor and np.sqrt(x).tolist() == [1.0, 2.0]
    assert np.add(np.ones(2), x).dtype == tc.float64 and (x + np.ones(2)).dtype == tc.float64
    assert type(np.ones(2) * x) is tc.Tensor and (x == np.array([1.0, 0.0])).tolist() == [True, False]
    assert np.concatenate([x, x]).shape == (4,) and np.asarray(x).dtype == np.float32
    assert np.array([tc.tensor(1.0), tc.tensor(2.0)]).tolist() == [1.0, 2.0]
    assert np.asarray(x, dtype="float64").dtype == np.float64
    with pytest.raises(RuntimeError, match="detach"):
        np.sqrt(x.requires_grad_())


def test_copies_and_pickles():
    p = tc.nn.Parameter(tc.ones(2))
    shared, own, back = copy.copy(p), copy.deepcopy(p), pickle.loads(pickle.dumps(p))
    with tc.no_grad():
        p.mul_(3)
    assert shared.tolist() == [3, 3] and own.tolist() == back.tolist() == [1, 1]
    assert all(type(x) is tc.nn.Parameter and x.requires_grad for x in (shared, own, back))
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(p * 2)
    assert repr(own) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert f"{tc.tensor(2.5)} {tc.tensor(2.5):.2f} {tc.ones(1)}" == "2.5 2.50 tensor([1.])"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"precision": 2},
        {"threshold": 5},
        {"threshold": 5, "edgeitems": 1},
        {"linewidth": 40},
        {"sci_mode": True},
        {"sci_mode": False},
        {"profile": "short"},
        {"profile": "full", "precision": 1},
    ],
    ids=str,
)
def test_print_options_are_the_oracles(options):
    def shown(lib):
        lib.set_printoptions(**options)
        try:
            return [
                repr(x)
                for x in (lib.arange(12.0).reshape(3, 4) / 7, lib.arange(1200), lib.tensor([1e-9, 1.0]))
            ]
        finally:
            lib.set_printoptions(profile="default")

    assert shown(tc) == shown(torch)
