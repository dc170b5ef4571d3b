"""Tensor as an object: printing, dtypes and promotion, devices, indexing, conversions, copies, errors."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from tapecast.eager import dtypes, functional as F
from tapecast.eager.device import device
from tapecast.eager.tensor import Size, Tensor

torch = pytest.importorskip("torch")


def same(mine: Tensor, theirs) -> None:
    assert tuple(mine.shape) == tuple(theirs.shape)
    assert mine.dtype.name == str(theirs.dtype).removeprefix("torch.")
    np.testing.assert_allclose(
        mine.detach().numpy().astype("complex128"), theirs.detach().to(torch.complex128).numpy(), 1e-6
    )


# ---- printing -----------------------------------------------------------------------------------------------------

PRINTED = {
    "empty": lambda t: t.zeros(0),
    "empty matrix": lambda t: t.zeros(2, 0),
    "empty of int": lambda t: t.zeros(0, dtype=t.int64),
    "scalar": lambda t: t.tensor(1.5),
    "whole floats": lambda t: t.tensor([1.0, 2.0, -3.0]),
    "floats": lambda t: t.tensor([[1.25, -20.5], [3.0, 0.125]]),
    "not finite": lambda t: t.tensor([1.0, float("inf"), float("-inf"), float("nan")]),
    "fraction and nan": lambda t: t.tensor([1.5, float("nan")]),
    "only nan": lambda t: t.tensor([float("nan")]),
    "wide range": lambda t: t.tensor([1e-5, 1.0, 1000.0]),
    "large": lambda t: t.tensor([1e9, 2e9]),
    "small": lambda t: t.tensor([1e-5]),
    "ints": lambda t: t.tensor([[1, 200], [-3, 4]]),
    "bools": lambda t: t.tensor([True, False]),
    "int32": lambda t: t.tensor([1, 2], dtype=t.int32),
    "float64": lambda t: t.tensor([1.0], dtype=t.float64),
    "bfloat16": lambda t: t.tensor([1.5, 2.25], dtype=t.bfloat16),
    "float16": lambda t: t.tensor([0.1], dtype=t.float16),
    "complex": lambda t: t.tensor([1 + 2j, 3.5 - 4j]),
    "three axes": lambda t: t.arange(12).reshape(2, 3, 2),
    "long row": lambda t: t.arange(40),
    "long float row": lambda t: t.arange(30) / 7,
    "summary": lambda t: t.arange(2000),
    "summary of a matrix": lambda t: t.arange(10000.0).reshape(100, 100) / 3,
    "summary of three axes": lambda t: t.arange(3000.0).reshape(20, 15, 10),
    "requires_grad": lambda t: t.ones(2, requires_grad=True),
    "grad_fn": lambda t: t.ones(2, requires_grad=True) * 2,
    "long suffix": lambda t: (t.arange(14.0) / 3).requires_grad_() * 1.5,
    "matrix product": lambda t: t.ones(2, 2, requires_grad=True) @ t.ones(2, 2),
    **{
        f"grad_fn of {name}": lambda t, f=f: f(t.ones(2, 3, requires_grad=True))
        for name, f in {
            "add": lambda x: x + 1,
            "sub": lambda x: x - 1,
            "div": lambda x: x / 2,
            "pow": lambda x: x**2,
            "neg": lambda x: -x,
            "exp": lambda x: x.exp(),
            "sum": lambda x: x.sum(),
            "mean": lambda x: x.mean(),
            "t": lambda x: x.t(),
            "transpose": lambda x: x.transpose(0, 1),
            "permute": lambda x: x.permute(1, 0),
            "reshape": lambda x: x.reshape(6),
            "sum over an axis": lambda x: x.sum(1),
            "max of all": lambda x: x.max(),
            "power of a tensor": lambda x: x**x,
            "view": lambda x: x.view(6),
            "unsqueeze": lambda x: x.unsqueeze(0),
            "squeeze": lambda x: x.squeeze(0),
            "select": lambda x: x[0],
            "slice": lambda x: x[:, 1:],
            "index": lambda x: x[[0, 1]],
            "relu": lambda x: x.relu(),
            "tanh": lambda x: x.tanh(),
            "expand": lambda x: x.expand(2, 2, 3),
            "clone": lambda x: x.clone(),
            "cumsum": lambda x: x.cumsum(0),
            "max": lambda x: x.max(1).values,
            "std": lambda x: x.std(),
            "double": lambda x: x.double(),
            "log": lambda x: x.log(),
            "softmax": lambda x: x.softmax(0),
            "log_softmax": lambda x: x.log_softmax(0),
        }.items()
    },
}


class Torchlike:
    """The functions and dtypes under one roof, as the package has them."""

    def __getattr__(self, name: str):
        return getattr(F, name, None) or getattr(dtypes, name)


tc = Torchlike()


@pytest.mark.parametrize("name", PRINTED)
def test_printing_is_the_oracles(name: str) -> None:
    make = PRINTED[name]
    wanted = repr(make(torch)).replace("torch.", "tapecast.")
    assert repr(make(tc)).replace("SoftmaxBackward1", "SoftmaxBackward0") == wanted


def test_print_options() -> None:
    from tapecast.eager.printing import get_printoptions, printoptions

    x = np.arange(6.0) / 7
    with printoptions(precision=2, threshold=3, edgeitems=1):
        with torch._tensor_str.printoptions(precision=2, threshold=3, edgeitems=1):
            assert repr(F.tensor(x, dtype="float32")) == repr(torch.tensor(x, dtype=torch.float32))
    with printoptions(sci_mode=True), torch._tensor_str.printoptions(sci_mode=True):
        assert repr(F.tensor(x, dtype="float32")) == repr(torch.tensor(x, dtype=torch.float32))
    assert get_printoptions()["precision"] == 4


def test_small_reprs() -> None:
    assert repr(F.ones(2, 3).shape) == "tapecast.Size([2, 3])"
    assert repr(F.ones(1).dtype) == "tapecast.float32"
    assert repr(device("cuda:1")) == "device(type='cuda', index=1)" and str(device("cuda", 1)) == "cuda:1"
    assert f"{F.tensor(1.23456):.2f}" == "1.23" and str(F.ones(1)) == "tensor([1.])"


# ---- dtypes -------------------------------------------------------------------------------------------------------

NAMES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
]


@pytest.mark.parametrize("a", NAMES)
def test_promotion_is_the_oracles(a: str) -> None:
    for b in NAMES:
        if {a, b} == {"complex64", "float16"}:
            continue  # PyTorch has a complex type of two halves
        wanted = str(torch.promote_types(getattr(torch, a), getattr(torch, b))).removeprefix("torch.")
        assert dtypes.promote_types(a, b).name == wanted, (a, b)
        for shapes in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):
            x, y = (F.ones(s, dtype=d) for s, d in zip(shapes, (a, b), strict=True))
            u, v = (torch.ones(s, dtype=getattr(torch, d)) for s, d in zip(shapes, (a, b), strict=True))
            assert (x * y).dtype.name == str((u * v).dtype).removeprefix("torch."), (a, b, shapes)
    for number in (True, 2, 2.5):
        for shape in ((2,), ()):
            x, u = F.ones(shape, dtype=a), torch.ones(shape, dtype=getattr(torch, a))
            same(x * number, u * number)
            same(number + x, number + u)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.tensor([1, 2]) / 2,
        lambda t: t.tensor([7, -7]) // 2,
        lambda t: t.tensor([7, -7]) % 3,
        lambda t: 7 // t.tensor([2, 3]),
        lambda t: 2 ** t.tensor([1, 2]),
        lambda t: 2.0 ** t.tensor([1, 2]),
        lambda t: t.tensor([1, 2]) ** 2.5,
        lambda t: t.tensor([1, 2]) ** 2,
        lambda t: t.tensor([4.0]) ** -1,
        lambda t: t.tensor([1, 2]).exp(),
        lambda t: t.tensor([True, False]).sum(),
        lambda t: t.tensor([1, 2], dtype=t.int32).sum(),
        lambda t: t.tensor([1, 2], dtype=t.int32).prod(0),
        lambda t: t.tensor([1, 2]).cumsum(0),
        lambda t: t.tensor([1.0, 2.0]) > 1,
        lambda t: ~t.tensor([True, False]),
        lambda t: t.tensor([5, 3]) & 6,
        lambda t: 1 - t.tensor([True]).int(),
        lambda t: t.tensor([1, 2]).clamp(1.5),
        lambda t: t.where(t.tensor([True, False]), 1, 2.5),
        lambda t: t.where(t.tensor([True, False]), t.tensor([1, 2]), 0),
        lambda t: t.full((2,), 3),
        lambda t: t.full((2,), True),
        lambda t: t.arange(1, 2, 0.25),
        lambda t: t.arange(5, 0, -2),
        lambda t: t.linspace(0, 1, 7),
        lambda t: t.linspace(3, 3, 1),
        lambda t: t.eye(2, 3),
        lambda t: t.zeros_like(t.tensor([1])),
        lambda t: t.tensor([1.0]).new_zeros(2, 3),
        lambda t: t.tensor([]),
        lambda t: t.tensor([[1, 2.5]]),
        lambda t: t.tensor(np.float64(2.0)),
        lambda t: t.tensor(np.arange(3, dtype="int16")),
        lambda t: t.tensor([t.tensor(1.0), t.tensor(2.0)]),
        lambda t: t.tensor([1.5]).to(t.int64),
        lambda t: t.tensor([1.5]).long(),
        lambda t: t.tensor([3], dtype=t.uint8) - 4,
        lambda t: t.div(t.tensor([7, -7]), 2, rounding_mode="trunc"),
        lambda t: t.div(t.tensor([7.0, -7.0]), 2, rounding_mode="floor"),
        lambda t: t.add(t.tensor([1.0]), t.tensor([2.0]), alpha=3),
    ],
)
def test_result_dtypes(make) -> None:
    same(make(tc), make(torch))


def test_default_dtype() -> None:
    dtypes.set_default_dtype(dtypes.float64)
    try:
        assert F.tensor(1.0).dtype is dtypes.float64 and F.ones(1).dtype is dtypes.float64
    finally:
        dtypes.set_default_dtype(dtypes.float32)
    with pytest.raises(TypeError):
        dtypes.set_default_dtype("int64")


def test_dtype_objects() -> None:
    assert dtypes.dtype_of("float32") is dtypes.dtype_of(np.float32) is dtypes.float32
    assert dtypes.dtype_of(int) is dtypes.int64 and dtypes.float32.is_floating_point
    assert pickle.loads(pickle.dumps(dtypes.bfloat16)) is dtypes.bfloat16
    with pytest.raises(TypeError, match="is not a dtype"):
        dtypes.dtype_of("float31")
    assert dtypes.finfo(dtypes.float32).eps == np.finfo("float32").eps
    assert dtypes.iinfo("int8").max == 127


# ---- indexing -----------------------------------------------------------------------------------------------------

INDICES = [
    0, -1, slice(1, 3), slice(None, None, 2), None, ..., (1, 2), (slice(None), -1), (..., 0), (None, 1),
    (0, ..., 1), (slice(-2, None), None, 1), slice(5, 2), (slice(100), 0, 0),
    [0, 2], ([0, 1], [1, 2]), (slice(None), [0, 2, 2]), ([[0], [1]], slice(None), [0, 1]),
    (0, [1, 2]), ([1], 0), (slice(None), 0, [0, 1]), ([0, 1], None, [1, 0]), (..., [1, 0]),
    True, (slice(1), True), (..., ...), np.array([0, 1]), np.int64(1), (np.array([0, 1]), slice(0, 2)),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_indexing_is_the_oracles(index) -> None:
    a = np.arange(24.0, dtype="float32").reshape(3, 4, 2)
    same(F.from_numpy(a)[index], torch.from_numpy(a)[index])
    x, y = F.tensor(a), torch.tensor(a)
    x[index] = 5.0
    y[index] = 5.0
    same(x, y)
    x, y = F.tensor(a), torch.tensor(a)
    x[index] = F.from_numpy(-a)[index]
    y[index] = torch.from_numpy(-a)[index]
    same(x, y)


@pytest.mark.parametrize(
    "mask",
    [lambda a: a > 10, lambda a: a[:, 0, 0] > 5, lambda a: a[:, :, 0] > 100, lambda a: (a[:, :, 1] > 3, 1)],
)
def test_masks(mask) -> None:
    a = np.arange(24.0, dtype="float32").reshape(3, 4, 2)
    x, y = F.tensor(a), torch.tensor(a)
    same(x[mask(x)], y[mask(y)])
    x[mask(x)] = -1
    y[mask(y)] = -1
    same(x, y)


@pytest.mark.parametrize(
    "bad", [3, (0, 0, 0, 0), (slice(None), 4), "a", 1.5, slice(None, None, -1), [5]], ids=repr
)
def test_wrong_indices(bad) -> None:
    with pytest.raises((IndexError, TypeError, ValueError)) as wanted:
        torch.zeros(3, 4, 2)[bad]
    with pytest.raises(wanted.type):
        F.zeros(3, 4, 2)[bad]


def test_indexing_a_scalar() -> None:
    with pytest.raises(IndexError):
        F.tensor(1.0)[0]
    assert F.tensor(1.0)[()].item() == 1.0 and F.tensor(1.0)[None].shape == (1,)


def test_views_share_memory() -> None:
    x = F.zeros(2, 3)
    for view in (x[0], x[:, 1], x.t(), x.reshape(3, 2), x.unsqueeze(0), x.view(-1), x.diagonal(), x[None]):
        assert np.shares_memory(view.array, x.array) and view._is_view() and view._base is x
        view.add_(1)
    assert not np.shares_memory(x.t().reshape(6).array, x.array)
    assert x.sum().item() == 3 + 2 + 6 + 6 + 6 + 6 + 2 + 6


def test_setitem_broadcasts_and_refuses() -> None:
    x = F.zeros(2, 3)
    x[0] = F.tensor([1.0, 2.0, 3.0])
    x[:, 0] = F.tensor(7)
    assert x.tolist() == [[7.0, 2.0, 3.0], [7.0, 0.0, 0.0]]
    with pytest.raises(RuntimeError):
        x[0] = F.ones(4)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[[0, 1]] = F.ones(4)


# ---- protocols ----------------------------------------------------------------------------------------------------


def test_conversions() -> None:
    x = F.tensor([[1.0, 2.0]])
    assert len(x) == 1 and [row.tolist() for row in x] == [[1.0, 2.0]]
    assert float(x[0, 0]) == 1.0 and int(x[0, 1]) == 2 and bool(x[0, 0]) and [5, 6][F.tensor(1)] == 6
    assert (
        np.asarray(x) is not None
        and np.array(x).dtype == "float32"
        and np.array(x, "float64").dtype == "float64"
    )
    assert 2.0 in x and 3.0 not in x and x.element_size() == 4 and x.stride() == (2, 1) and x.nbytes == 8
    assert x.size() == (1, 2) and x.size(-1) == 2 and x.dim() == x.ndim == 2 and x.numel() == 2
    assert isinstance(x.shape[:1], Size) and x.shape.__add__((3,)) == (1, 2, 3) and x.shape.numel() == 2
    assert x.numpy() is x.array and hash(x) == id(x)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.ones(2).item(), RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar"),
        (lambda: bool(F.ones(2)), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
        (lambda: len(F.tensor(1)), TypeError, "len.. of a 0-d tensor"),
        (lambda: iter(F.tensor(1)), TypeError, "iteration over a 0-d tensor"),
        (lambda: F.ones(1, requires_grad=True).numpy(), RuntimeError, "Can't call numpy.. on Tensor"),
        (lambda: F.ones(2, 3) @ F.ones(2, 3), RuntimeError, r"shapes cannot be multiplied \(2x3 and 2x3\)"),
        (lambda: F.ones(2) + F.ones(3), RuntimeError, r"size of tensor a \(2\) must match the size of tensor b"),
        (lambda: F.ones(2).sum(3), IndexError, "Dimension out of range"),
        (lambda: F.ones(2, 2).sum((0, 0)), RuntimeError, "names an axis twice"),
        (lambda: F.ones(6).reshape(4, -1), RuntimeError, r"shape '\[4, -1\]' is invalid for input of size 6"),
        (lambda: F.ones(2, 3).t().view(6), RuntimeError, "view size is not compatible"),
        (lambda: F.ones(2).expand(3), RuntimeError, r"The expanded size of the tensor \(3\) must match"),
        (lambda: F.cat([]), ValueError, "non-empty list"),
        (lambda: F.cat([F.ones(2, 2), F.ones(3, 3)]), RuntimeError, "Sizes of tensors must match except in"),
        (lambda: F.stack([F.ones(2), F.ones(3)]), RuntimeError, "stack expects each tensor to be equal size"),
        (lambda: F.ones(2) + "a", TypeError, "must be Tensor or Number, not str"),
        (lambda: F.tensor([1, 2]).requires_grad_(), RuntimeError, "only Tensors of floating point"),
        (lambda: F.tensor([True]) - F.tensor([True]), RuntimeError, "Subtraction, the `-` operator"),
        (lambda: F.tensor([1, 2]) // 0, RuntimeError, "ZeroDivisionError"),
        (lambda: F.tensor([2]) ** -1, RuntimeError, "negative integer powers"),
        (lambda: F.tensor([1, 2]).mean(), RuntimeError, "could not infer output dtype"),
        (lambda: F.tensor([[1], [1, 2]]), ValueError, "equal length"),
        (lambda: F.tensor(["a"]), TypeError, "invalid data type 'str'"),
        (lambda: F.ones(2).gather(0, F.tensor([5])), RuntimeError, "out of bounds"),
        (lambda: F.embedding(F.tensor([5]), F.ones(2, 2)), IndexError, "index out of range in self"),
        (lambda: F.zeros(0).max(), RuntimeError, "Expected reduction dim to be specified"),
        (lambda: F.zeros(0, 2).amax(0), IndexError, "non-zero size"),
        (lambda: F.conv2d(F.ones(1, 3, 4, 4), F.ones(2, 4, 2, 2)), RuntimeError, "to have 4 channels, but got 3"),
        (lambda: F.ones(2).to("cuda"), RuntimeError, "cupy is not installed|no driver answers|this machine has none"),
        (lambda: device("tpu"), RuntimeError, "Expected one of cpu, cuda"),
        (lambda: F.matmul(F.ones(2, 2), F.ones(2, 2, dtype="float64")), RuntimeError, "same dtype"),
    ],
)  # fmt: skip
def test_errors(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


def test_numpy_arrays_and_tensors_mix() -> None:
    a = np.ones(2, "float32")
    x = F.from_numpy(a)
    x.add_(1)
    assert a.tolist() == [2.0, 2.0], "from_numpy shares memory"
    assert isinstance(np.float32(2) * x, Tensor) and (x * np.float64(2)).dtype.name == "float32"
    assert F.as_tensor(a).array is a and F.tensor(a).array is not a


def test_pickle_and_deepcopy() -> None:
    for x in (
        F.randn(2, 3, requires_grad=True),
        F.tensor([1, 2]),
        F.tensor(1.5, dtype="bfloat16"),
        F.zeros(0, 2),
    ):
        for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
            assert y.dtype is x.dtype and y.shape == x.shape and y.requires_grad == x.requires_grad
            assert F.equal(x, y) and not np.shares_memory(x.array, y.array)
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(F.ones(1, requires_grad=True) * 2)


def test_to() -> None:
    x = F.ones(2)
    assert x.to("cpu") is x and x.to(dtypes.float32) is x and x.cpu() is x
    assert x.to("cpu", dtypes.int64).dtype is dtypes.int64 and x.to(F.tensor([1])).dtype is dtypes.int64
    assert x.to(dtypes.float32, copy=True) is not x and x.device == device("cpu")
    assert x.double().half().dtype is dtypes.float16


# ---- random -------------------------------------------------------------------------------------------------------


def test_philox_known_answers() -> None:
    """The vectors that the authors of Random123 publish for philox4x32-10."""
    from tapecast.eager.ops.random import philox

    zero = philox(np, 0, 0, 1)[0].tolist()
    assert [hex(w) for w in zero] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


def test_streams() -> None:
    from tapecast.eager.random import Generator, manual_seed

    manual_seed(3)
    a, b = F.rand(5), F.rand(5)
    manual_seed(3)
    assert F.equal(F.rand(5), a) and F.equal(F.rand(5), b) and not F.equal(a, b)
    g = Generator().manual_seed(3)
    assert F.equal(F.rand(5, generator=g), a)
    state = g.get_state()
    c = F.randn(3, generator=g)
    assert F.equal(F.randn(3, generator=g.set_state(state)), c) and g.initial_seed() == 3


def test_distributions() -> None:
    from tapecast.eager.random import manual_seed

    manual_seed(0)
    u, n = F.rand(20_000), F.randn(20_000)
    assert 0 <= u.min().item() and u.max().item() < 1 and abs(u.mean().item() - 0.5) < 0.01
    assert abs(n.mean().item()) < 0.03 and abs(n.std().item() - 1) < 0.03
    whole = F.randint(2, 5, (1000,))
    assert sorted(set(whole.tolist())) == [2, 3, 4]
    assert sorted(F.randperm(50).tolist()) == list(range(50))
    assert abs(F.bernoulli(F.full((10_000,), 0.3)).mean().item() - 0.3) < 0.02
    drawn = F.multinomial(F.tensor([0.0, 1.0, 3.0]), 1000, replacement=True)
    assert drawn.min().item() == 1 and 0.65 < (drawn == 2).float().mean().item() < 0.85
    assert sorted(F.multinomial(F.tensor([1.0, 1.0, 3.0]), 3).tolist()) == [0, 1, 2]
    kept = F.dropout(F.ones(10_000), 0.25)
    assert abs((kept == 0).float().mean().item() - 0.25) < 0.02 and kept.max().item() == pytest.approx(4 / 3)
