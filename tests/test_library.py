"""Operators of one's own: eager, differentiable to second order, recorded, and refused by the compiler by name."""

import itertools

import numpy as np
import pytest

import tapecast as tc
from tapecast import library

numbers = itertools.count()


def power(register=True):
    """x ** n in NumPy, under a name of its own."""
    name = f"test::power{next(numbers)}"

    @library.custom_op(name, mutates_args=())
    def power(x: np.ndarray, n: int = 2) -> np.ndarray:
        assert type(x) is np.ndarray
        return x**n

    if register:

        @power.register_fake
        def _(x, n=2):
            return tc.empty_like(x)

        def setup_context(ctx, inputs, output):
            x, ctx.n = inputs
            ctx.save_for_backward(x)

        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ctx.n * (power(x, ctx.n - 1) if ctx.n > 1 else tc.ones_like(x)), None

        power.register_autograd(backward, setup_context=setup_context)
    return power


def test_it_runs_and_has_gradients_of_both_orders():
    f = power()
    x = tc.tensor([1.0, 2.0, -3.0], dtype=tc.float64, requires_grad=True)
    assert f(x, n=3).tolist() == [1.0, 8.0, -27.0] and f(x).grad_fn is not None
    assert tc.autograd.gradcheck(lambda x: f(x, 3), (x,)) and tc.autograd.gradgradcheck(
        lambda x: f(x, 3), (x,)
    )


def test_it_is_one_node_of_a_recorded_program():
    f = power()

    def program(x):
        return f(x * 2, 3) + 1

    batch = tc.Dim("batch", min=1, max=64)
    traced = tc.jit.trace(program, (tc.ones(4, 3),), dynamic={"x": {0: batch}})
    x = tc.randn(7, 3, requires_grad=True)
    assert f.name in str(traced.graph)
    np.testing.assert_allclose(traced(x).detach().numpy(), program(x).detach().numpy())
    traced(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 24 * x.detach().numpy() ** 2, rtol=1e-5)


def test_the_compiler_refuses_it_by_name(tmp_path):
    f = power()
    traced = tc.jit.trace(lambda x: f(x, 3), (tc.ones(4, 3),))
    with pytest.raises(Exception, match=f.name):
        traced.compile(tmp_path / "model.so")


def test_without_rules_it_says_which_is_missing():
    f = power(register=False)
    x = tc.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        f(x).sum().backward()
    with pytest.raises(RuntimeError, match="no shape rule"):
        tc.jit.trace(lambda x: f(x), (tc.ones(3),))


def test_several_outputs_and_optional_tensors():
    name = f"test::both{next(numbers)}"

    @library.custom_op(name, mutates_args=())
    def both(x: tc.Tensor, y: tc.Tensor | None, scale: float) -> tuple[tc.Tensor, tc.Tensor]:
        assert isinstance(x, tc.Tensor)
        return x * scale, x.exp() if y is None else x.exp() * y

    @library.register_fake(name)
    def _(x, y, scale):
        return tc.empty_like(x), x.new_empty(x.shape)

    def backward(ctx, a, b):
        (second,) = ctx.saved_tensors
        return a * ctx.scale + b * second, None, None

    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[2]
        ctx.save_for_backward(output[1])

    library.register_autograd(name, backward, setup_context=setup_context)
    x = tc.tensor([0.5, -1.0], dtype=tc.float64, requires_grad=True)
    assert tc.autograd.gradcheck(lambda x: both(x, None, 3.0), (x,))
    assert tc.autograd.gradgradcheck(lambda x: both(x, None, 3.0), (x,))
    a, b = both(x, tc.full((2,), 2.0, dtype=tc.float64), 3.0)
    np.testing.assert_allclose(b.detach().numpy(), 2 * np.exp([0.5, -1.0]))
    (g,) = tc.autograd.grad(a.sum(), x)
    assert g.tolist() == [3.0, 3.0]
    with tc.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy(), tc.from_numpy):
        out = both(x.detach().requires_grad_(), None, 3.0)[1]
    out.sum().backward()


def test_written_arguments_are_written():
    @library.custom_op(f"test::fill{next(numbers)}", mutates_args={"out"})
    def fill(x: np.ndarray, out: np.ndarray) -> None:
        out[...] = np.sin(x)

    x, out = tc.ones(3), tc.zeros(5)
    version = out._version
    assert fill(x, out[1:4]) is None
    np.testing.assert_allclose(out.numpy(), [0, *[np.sin(1.0)] * 3, 0], rtol=1e-6)
    assert out._version > version
    with pytest.raises(RuntimeError, match="requires grad"):
        fill(x, tc.zeros(3, requires_grad=True))

    def program(x):
        out = tc.zeros(3)
        fill(x, out)
        return out * 2

    np.testing.assert_allclose(tc.jit.trace(program, (x,))(x).numpy(), program(x).numpy())


def test_wrong_definitions_are_refused():
    with pytest.raises(ValueError, match="namespace::name"):
        library.custom_op("power", lambda x: x, mutates_args=())
    f = power()
    with pytest.raises(ValueError, match="defined twice"):
        library.custom_op(f.name, lambda x: x, mutates_args=())
    with pytest.raises(TypeError, match="must be a number"):
        f(tc.ones(2), object())
    with pytest.raises(ValueError, match="mutates_args names"):
        library.custom_op(f"test::x{next(numbers)}", lambda x: x, mutates_args=("y",))
    g = library.custom_op(f"test::same{next(numbers)}", lambda x: x, mutates_args=())
    with pytest.raises(RuntimeError, match="returned one of its arguments"):
        g(tc.ones(2))


def test_a_numba_function_takes_arrays():
    numba = pytest.importorskip("numba", reason="compiles the function of this test")
    f = library.custom_op(f"test::numba{next(numbers)}", numba.njit(lambda x: x + 1), mutates_args=())
    assert f(tc.zeros(2)).tolist() == [1.0, 1.0]
