"""Views share memory, and writes through views of views have the gradients that torch gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tapecast as tc

torch = pytest.importorskip("torch")

#: Ways to look at a tensor of shape [4, 6], each in either library.
FIRST = {
    "transpose": lambda x: x.transpose(0, 1),
    "slice": lambda x: x[1:, ::2],
    "select": lambda x: x[2],
    "reshape": lambda x: x.view(2, 12),
    "diagonal": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(1, 2, 2),
    "as_strided": lambda x: x.as_strided((3, 2), (6, 2), 1),
    "narrow": lambda x: x.narrow(1, 2, 3),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "swapaxes": lambda x: x.swapaxes(0, 1).T,
    "expand": lambda x: x.unsqueeze(0).expand(1, 4, 6),
}
#: Ways to look at any of those once more.
SECOND = {
    "itself": lambda v: v,
    "tail": lambda v: v[1:] if v.shape[0] > 1 else v,
    "flipped axes": lambda v: v.mT if v.ndim > 1 else v,
    "last": lambda v: v[..., -1],
    "windows": lambda v: v.unfold(-1, 1, 1),
    "memory": lambda v: v.as_strided((v.shape[0],), (v.stride(0),), v.storage_offset()),
    "detached alias": lambda v: v.view_as(v),
}
WRITES = {
    "mul_": lambda v: v.mul_(2.5),
    "fill_": lambda v: v.fill_(3.0),
    "sin_": lambda v: v.sin_(),
    "setitem": lambda v: v.__setitem__(..., v * 2 + 1),
    "add_ number": lambda v: v.add_(1.5),
}


def attempt(f: Any, *args: Any) -> Any:
    """The result, or the type of the error."""
    try:
        return f(*args)
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        return type(error)


def written(lib: Any, first: str, second: str, write: str) -> Any:
    """The double of a leaf, two views of it and the gradient after a write through a view of a view."""
    leaf = lib.arange(24, dtype=lib.float64).reshape(4, 6).div(7).requires_grad_()
    base = leaf * 2
    before = FIRST[first](base)
    view = SECOND[second](before)
    WRITES[write](view)
    loss = (base * base).sum() + (before * 3).sum() + (view * view * view).sum()
    (grad,) = lib.autograd.grad(loss, [leaf])
    return base.detach().numpy(), before.detach().numpy(), view.detach().numpy(), grad.numpy()


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("second", SECOND)
def test_writes_through_views_of_views(first: str, second: str) -> None:
    for write in WRITES:
        wanted, found = (attempt(written, lib, first, second, write) for lib in (torch, tc))
        if isinstance(wanted, type):
            assert found is wanted, f"{first}, {second}, {write}: {found}"
            continue
        assert not isinstance(found, type), f"{first}, {second}, {write}: {found}"
        for w, f, what in zip(wanted, found, ("base", "view", "view of the view", "gradient"), strict=True):
            np.testing.assert_allclose(f, w, 1e-12, 1e-12, err_msg=f"{first}, {second}, {write}: {what}")


@pytest.mark.parametrize("name", FIRST)
def test_views_share_memory(name: str) -> None:
    x = tc.arange(24.0).reshape(4, 6)
    view = FIRST[name](x)
    assert np.shares_memory(view.numpy(), x.numpy())
    assert view._base is x or view._base is x._base
    before = view._version
    x.add_(100)
    assert (view >= 100).all()
    assert view._version > before
    view.zero_()
    assert int((x == 0).sum()) == len({*view.new_tensor(addresses(view)).tolist()})


def addresses(view: Any) -> list[int]:
    """The places in memory of a view's elements."""
    total = np.zeros((), np.int64)
    for d, (n, k) in enumerate(zip(view.shape, view.stride(), strict=True)):
        total = total + (np.arange(n) * k).reshape(-1, *(1,) * (view.ndim - d - 1))
    return total.ravel().tolist()


@pytest.mark.parametrize("name", [*FIRST, "view(dtype)"])
def test_memory_from_outside_is_shared_too(name: str) -> None:
    """The array's owner is no array here, as with a buffer or another library's tensor."""
    x = tc.from_numpy(np.frombuffer(bytearray(24 * 4), np.float32)).view(4, 6)
    view = x.view(tc.int32) if name == "view(dtype)" else FIRST[name](x)
    view.fill_(7)
    assert (view == 7).all()
    assert int((x != 0).sum()) == len(set(addresses(view)))


def test_another_dtype_of_the_same_bits() -> None:
    x = tc.tensor([1.0, -2.0, 0.5, 0.0])
    bits = x.view(tc.int32)
    assert bits.tolist() == [0x3F800000, -0x40000000, 0x3F000000, 0]
    bits[3] = 0x40400000
    assert x[3].item() == 3.0
    assert x._version == 1
    assert x.view(tc.uint8).shape == (16,)
    assert x.view(tc.float64).shape == (2,)
    assert x.view(dtype=tc.float64).view(tc.float32).equal(x)
    with pytest.raises(RuntimeError, match="divisible"):
        x[:3].view(tc.float64)
    with pytest.raises(RuntimeError, match="stride"):
        x.view(2, 2).T.view(tc.uint8)
    with pytest.raises(RuntimeError, match="dim"):
        tc.tensor(1.0).view(tc.float64)


def test_a_write_makes_saved_views_stale() -> None:
    x = tc.ones(4, requires_grad=True)
    y = x * 1
    window = y.unfold(0, 2, 1)
    z = window * window
    y.as_strided((2,), (1,)).mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_expanded_memory_is_not_written() -> None:
    x = tc.zeros(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.expand(2, 3).add_(1)


@settings(max_examples=60, deadline=None)
@given(
    size=st.lists(st.integers(1, 3), min_size=0, max_size=3),
    strides=st.lists(st.integers(0, 4), min_size=3, max_size=3),
    offset=st.integers(0, 6),
    start=st.integers(0, 3),
)
def test_as_strided_as_in_torch(size: list[int], strides: list[int], offset: int, start: int) -> None:
    """Values, and first and second gradients, over a base and over a slice of it, with overlaps."""
    stride = strides[: len(size)]
    results = []
    for lib in (torch, tc):
        leaf = lib.linspace(0.5, 2.5, 40, dtype=lib.float64).requires_grad_()
        view = (leaf * leaf)[start:].as_strided(size, stride, offset)
        (first,) = lib.autograd.grad((view * view * view).sum(), [leaf], create_graph=True)
        (second,) = lib.autograd.grad((first * first).sum(), [leaf])
        assert view.storage_offset() == offset
        results.append([t.detach().numpy() for t in (view, first, second)])
    for wanted, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, 1e-12)


def test_as_strided_refuses_what_lies_outside() -> None:
    x = tc.zeros(6)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 24"):
        x.as_strided((3, 3), (2, 2))
    with pytest.raises(RuntimeError, match="Negative strides"):
        x.as_strided((3,), (-1,))
    with pytest.raises(RuntimeError, match="mismatch in length"):
        x.as_strided((3,), (1, 1))


def test_memory_laid_out_as_asked() -> None:
    assert tc.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert tc.zeros(1).new_empty_strided((2, 3), (4, 1)).stride() == (4, 1)
    x = tc.empty_permuted((2, 3, 4, 5), (0, 2, 3, 1))
    assert x.stride() == torch.empty_permuted((2, 3, 4, 5), (0, 2, 3, 1)).stride()
    assert x.is_contiguous(memory_format=tc.channels_last)
    y = tc.rand(2, 3, 4, 5)
    z = y.contiguous(memory_format=tc.channels_last)
    assert z.stride() == (60, 1, 15, 3) and z.equal(y)
    assert z.contiguous().stride() == y.stride()
    assert y.contiguous(memory_format=tc.contiguous_format) is y


def test_resize_keeps_the_memory_where_it_fits() -> None:
    x = tc.arange(6.0)
    y = x.view(2, 3)
    y.resize_(2, 2)
    assert y.tolist() == [[0, 1], [2, 3]]
    y[0, 0] = 9
    assert x[0] == 9
    x.resize_(3, 4)
    assert x.shape == (3, 4) and x[0].tolist() == [9, 1, 2, 3]
    with pytest.raises(RuntimeError, match="resize variables that require grad"):
        tc.zeros(2, requires_grad=True).resize_(3)


# ---- indexing ----------------------------------------------------------------------------------------------

PARTS = [
    0,
    -1,
    slice(None),
    slice(1, None, 2),
    slice(-2, 10),
    None,
    Ellipsis,
    [0, 1],
    [[0, 1], [1, 0]],
    [True, False, True],
    True,
    False,
    np.array([1, -1]),
    "mask2",
    "long0",
]


def of(lib: Any, part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return lib.from_numpy(part.copy())
    if part == "mask2":
        return lib.tensor([[True, False, True], [False, True, True], [True, True, False]])
    return lib.tensor(1) if part == "long0" else part


@settings(max_examples=200, deadline=None)
@given(parts=st.lists(st.sampled_from(range(len(PARTS))), min_size=0, max_size=4))
def test_indexing_as_in_torch(parts: list[int]) -> None:
    """Values and gradients of x[index], and of a copy after x[index] = and x[index] +=, or the same kind of error."""
    if sum(PARTS[k] is Ellipsis for k in parts) > 1:
        return  # torch miscounts the axes after a second one
    outcomes = []
    for lib in (torch, tc):
        index = tuple(of(lib, PARTS[k]) for k in parts)
        leaf = (lib.arange(27, dtype=lib.float64) / 9).reshape(3, 3, 3).requires_grad_()

        def read(leaf: Any = leaf, index: Any = index, lib: Any = lib) -> Any:
            out = leaf[index]
            (grad,) = lib.autograd.grad((out * out).sum(), [leaf])
            return out.detach().numpy(), grad.numpy()

        def write(leaf: Any = leaf, index: Any = index, lib: Any = lib) -> Any:
            base = leaf * 1
            base[index] = 2.0
            base[index] += leaf[index] * 3
            (grad,) = lib.autograd.grad((base * base).sum(), [leaf])
            return base.detach().numpy(), grad.numpy()

        outcomes.append((attempt(read), attempt(write)))
    for wanted, found in zip(*outcomes, strict=True):
        assert isinstance(wanted, type) == isinstance(found, type), (wanted, found)
        if isinstance(wanted, tuple):
            for w, f in zip(wanted, found, strict=True):
                assert w.shape == f.shape
                np.testing.assert_allclose(f, w, 1e-12)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x[7],
        lambda x: x[tc.tensor([0, 7])],
        lambda x: x.index_add(0, tc.tensor([7]), tc.zeros(1)),
        lambda x: x.gather(0, tc.tensor([7])),
        lambda x: x.take(tc.tensor([7])),
        lambda x: x.select(0, 7),
        lambda x: x.index_copy(0, tc.tensor([7]), tc.zeros(1)),
        lambda x: x.scatter(0, tc.tensor([7]), 1.0),
        lambda x: x.index_put((tc.tensor([7]),), tc.tensor(1.0)),
    ],
)
def test_an_index_out_of_range_is_named(read: Any) -> None:
    with pytest.raises(IndexError, match="7"):
        read(tc.zeros(3))


def test_negative_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="step must be greater than zero"):
        tc.zeros(3)[::-1]


# ---- out= --------------------------------------------------------------------------------------------------


def test_out_is_written_and_resized() -> None:
    x = tc.tensor([3.0, 1.0, 2.0])
    out = tc.empty(3)
    assert tc.cat([x[:1], x[1:]], out=out) is out
    assert out.equal(x)
    values, indices = tc.empty(0), tc.empty(0, dtype=tc.int64)
    found = tc.sort(x, out=(values, indices))
    assert found.values is values and values.tolist() == [1, 2, 3] and indices.tolist() == [1, 2, 0]
    with pytest.warns(UserWarning, match="was resized"):
        tc.msort(x, out=tc.empty(5))
    with pytest.raises(RuntimeError, match="single memory location"):
        tc.cat([x, x], out=x)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        tc.msort(x.requires_grad_(), out=out)


def test_lists_of_lists_are_tuples() -> None:
    x = tc.arange(9.0).reshape(3, 3)
    assert x[[tc.tensor([0, 1]), tc.tensor([1, 2])]].tolist() == [1, 5]
    assert x[[slice(0, 2), 1]].tolist() == [1, 4]
    assert x[[0, 2]].tolist() == [[0, 1, 2], [6, 7, 8]]
    with pytest.raises(RuntimeError, match="converted"):
        x[0] = 1j


@pytest.mark.parametrize("change", ["unsqueeze", "squeeze", "transpose", "as_strided"])
def test_shapes_changed_in_place_keep_their_views(change: str) -> None:
    grads = []
    for lib in (torch, tc):
        leaf = lib.arange(6, dtype=lib.float64).reshape(2, 1, 3).requires_grad_()
        x = leaf * 2
        row = x[1]
        if change == "unsqueeze":
            x.unsqueeze_(0)
        elif change == "squeeze":
            x.squeeze_(1)
        elif change == "transpose":
            x.transpose_(0, 2)
        else:
            x.as_strided_((3, 2), (1, 3))
        row.mul_(5)
        x[0].mul_(3)
        grads.append(lib.autograd.grad((x * x).sum() + (row * row * row).sum(), [leaf])[0].numpy())
    np.testing.assert_allclose(grads[1], grads[0])
    with pytest.raises(RuntimeError, match="leaf Variable"):
        tc.zeros(2, requires_grad=True).unsqueeze_(0)


def test_fill_diagonal() -> None:
    for shape, wrap in (((4, 2), True), ((5, 2), True), ((5, 2), False), ((2, 2, 2), False), ((2, 4), True)):
        wanted = torch.zeros(shape).fill_diagonal_(3, wrap=wrap)
        assert tc.zeros(shape).fill_diagonal_(3, wrap=wrap).tolist() == wanted.tolist()
