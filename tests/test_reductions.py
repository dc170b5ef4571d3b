"""What torch's samples do not show of reductions, running folds and statistics."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

import tapecast as tc
from tapecast.autograd import gradcheck, gradgradcheck

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("values", [[2, 0, 3, 4], [0, 0, 3, 4], [0, 0, 0, 1], [1.5, -2, 3]])
def test_the_product_differentiates_twice_through_zeros(values: list[float]) -> None:
    x, size = np.array(values, float), len(values)
    slope = [np.delete(x, i).prod() for i in range(size)]
    bend = [[0.0 if i == j else np.delete(x, [i, j]).prod() for j in range(size)] for i in range(size)]
    np.testing.assert_allclose(tc.func.grad(tc.prod)(tc.from_numpy(x)).numpy(), slope, atol=1e-12)
    np.testing.assert_allclose(tc.func.hessian(tc.prod)(tc.from_numpy(x)).numpy(), bend, atol=1e-12)


@pytest.mark.parametrize("name", ["cumprod", "logcumsumexp", "cumsum"])
def test_running_folds_differentiate_twice(name: str) -> None:
    x = tc.tensor([[0.5, -1.2, 0.0, 2.0], [1.0, 0.3, -0.7, 0.2]], dtype=tc.float64, requires_grad=True)
    assert gradcheck(lambda x: getattr(tc, name)(x, 1), (x,))
    assert gradgradcheck(lambda x: getattr(tc, name)(x, 1), (x,))


@pytest.mark.parametrize("size", [5, 600, 5000])
def test_the_recurrence_by_steps_and_by_doubling(size: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, size)), rng.normal(size=(2, size))
    want = b.copy()
    for k in range(1, size):
        want[:, k] += a[:, k] * want[:, k - 1]
    got = tc.eager.functional.recurrence(tc.from_numpy(a), tc.from_numpy(b), 1)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "dim"), [((1 << 18, 3), 0), ((3, 5000, 7), 1), ((50, 40, 30), (0, 1)), ((129, 2), 0)]
)
def test_float32_sums_keep_six_digits_along_every_axis(shape: tuple[int, ...], dim: int) -> None:
    x = np.random.default_rng(0).random(shape, np.float32)
    want = x.astype(np.float64).sum(dim)
    np.testing.assert_allclose(tc.from_numpy(x).sum(dim).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(
        tc.from_numpy(x).var(dim).numpy(), x.astype(np.float64).var(dim, ddof=1), rtol=1e-6
    )


def test_a_running_sum_of_float32_keeps_its_digits() -> None:
    x = tc.full((1 << 20,), 0.1)
    assert x.cumsum(0)[-1].item() == pytest.approx(float(np.float32(0.1)) * (1 << 20), rel=1e-6)


def test_half_precision_is_added_in_float32() -> None:
    for dtype in (tc.float16, tc.bfloat16):
        x = tc.ones(1 << 12, dtype=dtype)
        assert x.sum().item() == 4096
        assert x.cumsum(0)[-1].item() == 4096
        assert tc.ones(1 << 12, 2, dtype=dtype).sum(0).tolist() == [4096, 4096]


def test_named_tuples() -> None:
    x = tc.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    assert x.max(1).values.tolist() == [3, 5] and x.max(1).indices.tolist() == [0, 1]
    assert x.aminmax(dim=1).min.tolist() == [1, 0] and x.aminmax().max.item() == 5
    assert x.median(1).indices.tolist() == [2, 2]
    assert x.cummax(1).indices.tolist() == [[0, 0, 0], [0, 1, 1]]


def test_gradients_at_zero_are_zero_not_nan() -> None:
    for function in (tc.norm, tc.std, lambda x: tc.norm(x, 3), lambda x: tc.dist(x, x.detach())):
        x = tc.zeros(3, requires_grad=True)
        function(x).sum().backward()
        assert x.grad.tolist() == [0, 0, 0]


floats = arrays(np.float64, st.integers(1, 12), elements=st.floats(-5, 5, width=32) | st.just(float("nan")))


@settings(max_examples=40, deadline=None)
@given(floats, st.floats(0, 1), st.sampled_from(["linear", "lower", "higher", "midpoint", "nearest"]))
def test_quantiles_are_torchs(x: np.ndarray, q: float, interpolation: str) -> None:
    for name in ("quantile", "nanquantile"):
        got = getattr(tc, name)(tc.from_numpy(x), q, interpolation=interpolation)
        want = getattr(torch, name)(torch.from_numpy(x), q, interpolation=interpolation)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(floats)
def test_medians_are_torchs(x: np.ndarray) -> None:
    for name in ("median", "nanmedian"):
        got, want = getattr(tc, name)(tc.from_numpy(x)), getattr(torch, name)(torch.from_numpy(x))
        np.testing.assert_array_equal(got.numpy(), want.numpy())
        along = getattr(tc, name)(tc.from_numpy(x), 0)
        np.testing.assert_array_equal(along.values.numpy(), want.numpy())


def test_results_go_to_out() -> None:
    out = tc.empty(0)
    assert tc.sum(tc.ones(2, 3), 1, out=out) is out
    assert out.tolist() == [3, 3]
    values, places = tc.empty(2), tc.empty(2, dtype=tc.int64)
    tc.max(tc.tensor([[1.0, 2.0], [4.0, 3.0]]), 1, out=(values, places))
    assert values.tolist() == [2, 4] and places.tolist() == [1, 0]


def test_a_program_with_running_folds_is_recorded() -> None:
    def model(x: tc.Tensor) -> tuple[tc.Tensor, ...]:
        return (
            x.cumprod(1),
            x.logcumsumexp(1),
            x.cummax(1).values,
            x.norm(dim=1),
            x.median(),
            x.quantile(0.3, 1),
        )

    x = tc.rand(3, 4)
    traced = tc.jit.trace(model, (x,))
    for got, want in zip(traced(x), model(x), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["bartlett", "hann", "hamming", "blackman", "kaiser"])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows_are_torchs(name: str, size: int, periodic: bool) -> None:
    got, want = (getattr(lib, f"{name}_window")(size, periodic) for lib in (tc, torch))
    np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-6)
