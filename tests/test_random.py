"""Random numbers: streams, their distributions, and the arguments that PyTorch's functions take."""

import pickle

import numpy as np
import pytest

import tapecast as tc

COUNT = 20_000


@pytest.fixture(autouse=True)
def seeded() -> None:
    tc.manual_seed(0)


FILLS = {
    "uniform_": (lambda x: x.uniform_(-1, 3), 1.0, 4 / 12**0.5),
    "normal_": (lambda x: x.normal_(2, 0.5), 2.0, 0.5),
    "exponential_": (lambda x: x.exponential_(2.0), 0.5, 0.5),
    "geometric_": (lambda x: x.geometric_(0.25), 4.0, 12**0.5),
    "log_normal_": (
        lambda x: x.log_normal_(0.0, 0.5),
        np.exp(0.125),
        (np.exp(0.25) - 1) ** 0.5 * np.exp(0.125),
    ),
    "bernoulli_": (lambda x: x.bernoulli_(0.3), 0.3, 0.21**0.5),
    "random_": (lambda x: x.random_(2, 12), 6.5, (99 / 12) ** 0.5),
    "poisson": (lambda x: tc.poisson(x.fill_(3.0)), 3.0, 3**0.5),
    "binomial": (lambda x: tc.binomial(x.fill_(10.0), tc.tensor(0.3)), 3.0, 2.1**0.5),
}


@pytest.mark.parametrize("name", FILLS)
def test_mean_and_deviation(name: str) -> None:
    draw, mean, deviation = FILLS[name]
    x = draw(tc.empty(COUNT, dtype=tc.float64)).numpy()
    assert x.mean() == pytest.approx(mean, abs=5 * deviation / COUNT**0.5)
    assert x.std() == pytest.approx(deviation, rel=0.05)


def test_cauchy_numbers_have_their_quartiles() -> None:
    x = tc.empty(COUNT).cauchy_(1.0, 2.0).numpy()
    np.testing.assert_allclose(np.quantile(x, [0.25, 0.5, 0.75]), [-1, 1, 3], atol=0.15)


def test_geometric_numbers_are_trials() -> None:
    x = tc.empty(COUNT).geometric_(0.5)
    assert x.min().item() == 1
    assert (x == 1).double().mean().item() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("dtype", [tc.complex64, tc.complex128])
def test_complex_normal_numbers_have_variance_one(dtype: tc.dtype) -> None:
    x = tc.randn(COUNT, dtype=dtype).numpy()
    assert x.dtype == dtype.numpy
    assert (np.abs(x) ** 2).mean() == pytest.approx(1, rel=0.05)


def test_drawing_with_replacement_follows_the_weights() -> None:
    weights = tc.tensor([[1.0, 0.0, 3.0, 0.0], [0.0, 1.0, 1.0, 2.0]])
    counts = np.stack([np.bincount(r, minlength=4) for r in tc.multinomial(weights, COUNT, True).numpy()])
    np.testing.assert_allclose(counts / COUNT, [[0.25, 0, 0.75, 0], [0, 0.25, 0.25, 0.5]], atol=0.02)
    assert (counts[weights.numpy() == 0] == 0).all()


def test_drawing_without_replacement_draws_each_once() -> None:
    found = tc.multinomial(tc.ones(5, 8), 8)
    assert (found.sort(1).values == tc.arange(8)).all()
    assert tc.multinomial(tc.tensor([0.0, 1.0, 0.0, 2.0]), 2).sort().values.tolist() == [1, 3]


CALLS = {
    "rand": lambda g: tc.rand(3, generator=g),
    "randn": lambda g: tc.randn(3, generator=g),
    "randint": lambda g: tc.randint(1 << 30, (3,), generator=g),
    "randperm": lambda g: tc.randperm(50, generator=g),
    "normal": lambda g: tc.normal(tc.zeros(3), 1.0, generator=g),
    "bernoulli": lambda g: tc.bernoulli(tc.full((60,), 0.5), generator=g),
    "multinomial": lambda g: tc.multinomial(tc.ones(50), 20, generator=g),
    "poisson": lambda g: tc.poisson(tc.full((60,), 5.0), generator=g),
    "rand_like": lambda g: tc.rand_like(tc.ones(3), generator=g),
    "cauchy_": lambda g: tc.empty(3).cauchy_(generator=g),
    "log_normal_": lambda g: tc.empty(3).log_normal_(generator=g),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_generator_of_ones_own_is_a_stream_of_its_own(name: str) -> None:
    draw = CALLS[name]
    g, before = tc.Generator().manual_seed(7), tc.get_rng_state()
    first = draw(g)
    assert tc.equal(tc.get_rng_state(), before)
    assert not tc.equal(draw(g), first)
    assert tc.equal(draw(g.manual_seed(7)), first)


def test_states_go_back_and_forth() -> None:
    g = tc.Generator().manual_seed(-1)
    assert g.initial_seed() == (1 << 64) - 1 and g.device == tc.device("cpu")
    tc.rand(5, generator=g)
    state, twin, pickled = g.get_state(), g.clone_state(), pickle.loads(pickle.dumps(g))
    want = tc.rand(4, generator=g)
    for other in (twin, pickled, g.set_state(state)):
        assert tc.equal(tc.rand(4, generator=other), want)
    with pytest.raises(RuntimeError, match="64 bits"):
        g.manual_seed(1 << 64)
    assert g.seed() == g.initial_seed()


def test_fork_rng_leaves_no_trace() -> None:
    want = tc.rand(3)
    tc.manual_seed(0)
    with tc.random.fork_rng():
        tc.manual_seed(5)
        tc.rand(9)
    assert tc.equal(tc.rand(3), want)


def test_random_without_bounds_covers_the_dtype() -> None:
    x = tc.empty(4000, dtype=tc.int8).random_()
    assert 0 <= x.min().item() < 5 and x.max().item() > 120
    assert tc.empty(4000, dtype=tc.float32).random_().max().item() > 1 << 23
    assert tc.empty(100, dtype=tc.int64).random_().max().item() > 1 << 60


def test_options_that_change_nothing_are_taken() -> None:
    x = tc.zeros(size=(2, 3), layout=tc.strided, pin_memory=False)
    assert tc.zeros_like(x, memory_format=tc.preserve_format).shape == (2, 3)
    assert tc.rand(2, layout=tc.strided, requires_grad=True).requires_grad
    with pytest.raises(TypeError):
        tc.zeros(2, colour="red")
    with pytest.raises(RuntimeError, match="negative dimension"):
        tc.zeros(2, -1)


def test_asarray_and_frombuffer_share_memory_unless_told() -> None:
    array = np.zeros(3)
    shared, copied = tc.asarray(array), tc.asarray(array, copy=True)
    array[0] = 1
    assert shared[0].item() == 1 and copied[0].item() == 0
    with pytest.raises(ValueError, match="copy=False"):
        tc.asarray([1, 2], copy=False)
    buffer = bytearray(np.arange(4, dtype=np.int32).tobytes())
    assert tc.frombuffer(buffer, dtype=tc.int32, offset=4).tolist() == [1, 2, 3]
