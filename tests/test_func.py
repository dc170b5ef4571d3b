"""Transforms of functions, compared with PyTorch's torch.func: the same script run on both."""

import numpy as np
import pytest

import tapecast as tc

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")


def f(x, y):
    return (x * y.sin()).sum()


def g(x, y):
    return {"a": x * y, "b": (x**2).sum()}


CASES = {
    "grad": lambda t, x, y: t.func.grad(f)(x, y),
    "grad by two": lambda t, x, y: t.func.grad(f, argnums=(0, 1))(x, y),
    "grad and value": lambda t, x, y: t.func.grad_and_value(f)(x, y),
    "grad with more": lambda t, x, y: t.func.grad(lambda x: ((x**2).sum(), x * 2), has_aux=True)(x),
    "grad of grad": lambda t, x, y: t.func.grad(lambda x: t.func.grad(lambda x: (x**3).sum())(x).sum())(x),
    "grad of a dict": lambda t, x, y: t.func.grad(lambda p: f(p["w"], p["b"][0]))({"w": x, "b": (y,)}),
    "vjp": lambda t, x, y: t.func.vjp(lambda x: x.sin(), x)[1](y),
    "vjp of a dict": lambda t, x, y: t.func.vjp(g, x, y)[1]({"a": x, "b": t.tensor(2.0, dtype=t.float64)}),
    "jvp": lambda t, x, y: t.func.jvp(lambda x, y: x * y.exp(), (x, y), (y, x)),
    "jacrev": lambda t, x, y: t.func.jacrev(lambda x, y: x * y)(x, y),
    "jacrev of a dict": lambda t, x, y: t.func.jacrev(g, argnums=(0, 1))(x, y),
    "jacfwd": lambda t, x, y: t.func.jacfwd(lambda x: x**3)(x),
    "hessian": lambda t, x, y: t.func.hessian(lambda x: (x**3 * x.sum()).sum())(x),
    "vmap": lambda t, x, y: t.func.vmap(lambda x, y: x * y)(t.stack([x, y]), t.stack([y, y])),
    "vmap, axes": lambda t, x, y: t.func.vmap(lambda x, y: (x + y, x), in_dims=(1, None), out_dims=(0, 1))(
        t.stack([x, y]), t.ones(2, dtype=t.float64)
    ),
    "vmap of grad": lambda t, x, y: t.func.vmap(t.func.grad(f), in_dims=(0, None))(t.stack([x, y, x]), y),
    "vmap of a dict": lambda t, x, y: t.vmap(lambda d: d["x"] + 1, in_dims=({"x": 0, "n": None},))(
        {"x": x, "n": y}
    ),
    "vmap of vmap": lambda t, x, y: t.vmap(t.vmap(lambda a, b: a * b, (None, 0)), (0, None))(x, y),
}


def numbers(value):
    if isinstance(value, dict):
        return {key: numbers(v) for key, v in value.items()}
    if isinstance(value, tuple | list):
        return [numbers(v) for v in value]
    assert not value.requires_grad
    return value.numpy().tolist()


def same(a, b):
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list) and isinstance(b, list) and a and isinstance(a[0], list | dict):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        np.testing.assert_allclose(a, b, rtol=1e-10)


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("name", CASES)
def test_results_are_the_oracles(name):
    def run(lib):
        x = lib.tensor([0.5, -1.5, 2.0], dtype=lib.float64)
        y = lib.tensor([1.0, 0.25, -0.5], dtype=lib.float64)
        return numbers(CASES[name](lib, x, y))

    same(run(tc), run(torch))


def test_results_depend_on_what_was_captured():
    w = tc.tensor([1.0, 2.0], requires_grad=True)
    x = tc.tensor([3.0, 4.0])
    g = tc.func.grad(lambda x: (w * x**2).sum())(x)
    assert g.requires_grad
    g.sum().backward()
    assert w.grad.tolist() == [6.0, 8.0]


def test_random_numbers_of_a_map():
    x = tc.zeros(3)
    same_each = tc.vmap(lambda x: x + tc.rand(1), randomness="same")(x)
    own = tc.vmap(lambda x: x + tc.rand(1), randomness="different")(x)
    assert len(set(same_each.reshape(-1).tolist())) == 1 and len(set(own.reshape(-1).tolist())) == 3


def test_what_a_transform_refuses():
    x = tc.ones(3)
    with pytest.raises(RuntimeError, match="scalar tensor"):
        tc.func.grad(lambda x: x)(x)
    with pytest.raises(RuntimeError, match="argnum"):
        tc.func.grad(lambda x: x.sum(), argnums=2)(x)
    with pytest.raises(ValueError, match="same size"):
        tc.vmap(lambda x, y: x)(x, tc.ones(2))
    with pytest.raises(ValueError, match="must only return Tensors"):
        tc.vmap(lambda x: 1)(x)
