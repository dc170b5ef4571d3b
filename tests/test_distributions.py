"""Distributions compared with PyTorch's: densities, moments, entropies, divergences; and samples with their moments."""

import numpy as np
import pytest

import tapecast as tc

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")


class Lib:
    """Arrays of one library, in float64."""

    def __init__(self, lib):
        self.lib, self.D = lib, lib.distributions

    def __call__(self, *values):
        return self.lib.tensor(values[0] if len(values) == 1 else values, dtype=self.lib.float64)


OURS, THEIRS = Lib(tc), Lib(torch)
A, B, P = (0.5, 1.5, 3.0), (2.0, 0.7, 1.2), (0.2, 0.5, 0.9)
ROWS = [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]

# Each: how it is made, and values to score.
CASES = {
    "Normal": (lambda t: t.D.Normal(t(A), t(B)), (-1.0, 0.3, 4.0)),
    "LogNormal": (lambda t: t.D.LogNormal(t(A), t(B)), (0.1, 1.0, 4.0)),
    "HalfNormal": (lambda t: t.D.HalfNormal(t(B)), (0.1, 1.0, 4.0)),
    "Uniform": (lambda t: t.D.Uniform(t(A), t(A) + t(B)), (0.6, 1.6, 3.5)),
    "Laplace": (lambda t: t.D.Laplace(t(A), t(B)), (-1.0, 1.6, 3.5)),
    "Cauchy": (lambda t: t.D.Cauchy(t(A), t(B)), (-1.0, 1.6, 3.5)),
    "HalfCauchy": (lambda t: t.D.HalfCauchy(t(B)), (0.1, 1.6, 3.5)),
    "Gumbel": (lambda t: t.D.Gumbel(t(A), t(B)), (-1.0, 1.6, 3.5)),
    "StudentT": (lambda t: t.D.StudentT(t(A), t(B), t(B)), (-1.0, 1.6, 3.5)),
    "Exponential": (lambda t: t.D.Exponential(t(A)), (0.1, 1.6, 3.5)),
    "Gamma": (lambda t: t.D.Gamma(t(A), t(B)), (0.1, 1.6, 3.5)),
    "Chi2": (lambda t: t.D.Chi2(t(A)), (0.1, 1.6, 3.5)),
    "InverseGamma": (lambda t: t.D.InverseGamma(t(A), t(B)), (0.1, 1.6, 3.5)),
    "Beta": (lambda t: t.D.Beta(t(A), t(B)), P),
    "Kumaraswamy": (lambda t: t.D.Kumaraswamy(t(A), t(B)), P),
    "Dirichlet": (lambda t: t.D.Dirichlet(t([A, B])), ROWS),
    "FisherSnedecor": (lambda t: t.D.FisherSnedecor(t(A), t(5.0, 6.0, 3.0)), (0.1, 1.6, 3.5)),
    "Pareto": (lambda t: t.D.Pareto(t(A), t(B)), (0.7, 1.6, 3.5)),
    "Weibull": (lambda t: t.D.Weibull(t(A), t(1.5, 2.0, 3.0)), (0.7, 1.6, 3.5)),
    "Bernoulli": (lambda t: t.D.Bernoulli(t(P)), (0.0, 1.0, 1.0)),
    "Bernoulli, logits": (lambda t: t.D.Bernoulli(logits=t(-1.0, 0.5, 3.0)), (0.0, 1.0, 1.0)),
    "ContinuousBernoulli": (lambda t: t.D.ContinuousBernoulli(t(P)), (0.1, 0.6, 0.9)),
    "Geometric": (lambda t: t.D.Geometric(t(P)), (0.0, 2.0, 5.0)),
    "Binomial": (lambda t: t.D.Binomial(t(5.0, 5.0, 5.0), t(P)), (0.0, 2.0, 5.0)),
    "NegativeBinomial": (lambda t: t.D.NegativeBinomial(t(A), t(P)), (0.0, 2.0, 5.0)),
    "Poisson": (lambda t: t.D.Poisson(t(A)), (0.0, 2.0, 5.0)),
    "Categorical": (lambda t: t.D.Categorical(t(ROWS)), (0, 2)),
    "Categorical, logits": (lambda t: t.D.Categorical(logits=t([A, B])), (0, 2)),
    "OneHotCategorical": (lambda t: t.D.OneHotCategorical(t(ROWS)), [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    "Multinomial": (lambda t: t.D.Multinomial(4, t(ROWS)), [[1.0, 1.0, 2.0], [0.0, 0.0, 4.0]]),
    "RelaxedBernoulli": (lambda t: t.D.RelaxedBernoulli(t(0.7), t(P)), P),
    "RelaxedOneHotCategorical": (lambda t: t.D.RelaxedOneHotCategorical(t(0.7), t(ROWS)), ROWS),
    "LogisticNormal": (lambda t: t.D.LogisticNormal(t([A[:2], B[:2]]), t([A[:2], B[:2]])), ROWS),
    "Independent": (lambda t: t.D.Independent(t.D.Normal(t(ROWS), t([A, B])), 1), ROWS),
    "Transformed": (
        lambda t: t.D.TransformedDistribution(
            t.D.Normal(t(A), t(B)),
            [t.D.AffineTransform(t(1.0), t(-2.0)), t.D.SigmoidTransform(), t.D.PowerTransform(t(2.0))],
        ),
        P,
    ),
    "MixtureSameFamily": (
        lambda t: t.D.MixtureSameFamily(t.D.Categorical(t(ROWS)), t.D.Normal(t([A, B]), t([B, A]))),
        (0.3, 2.0),
    ),
    "Mixture of vectors": (
        lambda t: t.D.MixtureSameFamily(
            t.D.Categorical(t(P)), t.D.Independent(t.D.Normal(t([A, B, A]), t([B, A, B])), 1)
        ),
        A,
    ),
}
CONTINUOUS_SCALARS = [
    n for n in CASES
    if n not in ("Dirichlet", "RelaxedOneHotCategorical", "LogisticNormal", "Independent", "Mixture of vectors")
    and n not in ("Bernoulli", "Bernoulli, logits", "Geometric", "Binomial", "NegativeBinomial", "Poisson")
    and "ategorical" not in n and n != "Multinomial"
]  # fmt: skip


def made(name, t):
    make, values = CASES[name]
    value = t.lib.tensor(values) if isinstance(values[0], int) else t(values)
    return make(t), value


def close(ours, theirs, rtol=1e-9):
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=rtol, atol=1e-12)
    assert tuple(ours.shape) == tuple(theirs.shape)


def or_none(compute):
    try:
        return compute()
    except NotImplementedError:
        return None


PARTS = ["batch_shape", "event_shape", "mean", "variance", "stddev", "mode", "entropy", "log_prob", "cdf"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", CASES)
def test_numbers_are_the_oracles(name, part):
    found = []
    for t in (OURS, THEIRS):
        d, value = made(name, t)
        if part in ("log_prob", "cdf"):
            found.append(or_none(lambda d=d, value=value: getattr(d, part)(value)))
        elif part == "entropy":
            found.append(or_none(d.entropy))
        else:
            found.append(or_none(lambda d=d: getattr(d, part)))
    ours, theirs = found
    if theirs is None:
        return
    if (name, part) == ("Kumaraswamy", "mode"):  # PyTorch 2.13 gives nan: its log1p is of numbers below -1
        a, b = A[2], B[2]
        theirs = THEIRS(np.nan, np.nan, ((a - 1) / (a * b - 1)) ** (1 / a))
    assert ours is not None
    if part.endswith("shape"):
        assert tuple(ours) == tuple(theirs)
    else:
        close(ours, theirs)


@pytest.mark.parametrize("name", CONTINUOUS_SCALARS)
def test_quantiles_undo_the_distribution_function(name):
    ours, value = made(name, OURS)
    theirs, _ = made(name, THEIRS)
    u = (0.1, 0.5, 0.8)
    if or_none(lambda: theirs.icdf(THEIRS(u))) is not None:
        close(ours.icdf(OURS(u)), theirs.icdf(THEIRS(u)), rtol=1e-7)
        assert or_none(lambda: ours.cdf(value)) is None or ours.icdf(ours.cdf(value)).shape == value.shape


def moments(name, count=4000):
    tc.manual_seed(1)
    d, _ = made(name, OURS)
    return d, d.sample((count,))


@pytest.mark.parametrize(
    "name", [n for n in CASES if n not in ("Cauchy", "HalfCauchy", "StudentT", "LogNormal")]
)
def test_samples_have_the_moments(name):
    d, x = moments(name)
    assert tuple(x.shape) == (4000, *d.batch_shape, *d.event_shape) and not x.requires_grad
    assert bool(d.support.check(x).all())
    mean, std = or_none(lambda: d.mean), or_none(lambda: d.stddev)
    if mean is None or std is None:
        return
    m, s = mean.numpy(), std.numpy()
    known = np.isfinite(m) & np.isfinite(s) & (s < 5)
    error = np.abs(x.numpy().mean(0) - m)
    assert (error[known] <= 6 * s[known] / np.sqrt(4000) + 1e-12).all()
    if name not in ("InverseGamma", "Pareto", "FisherSnedecor"):
        np.testing.assert_allclose(x.numpy().std(0)[known], s[known], rtol=0.15)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("Multinomial",)])
def test_reparameterised_samples_have_gradients(name):
    d, _ = made(name, OURS)
    theirs, _ = made(name, THEIRS)
    assert d.has_rsample == theirs.has_rsample
    if not d.has_rsample:
        with pytest.raises(NotImplementedError):
            d.rsample()
        return
    assert d.rsample((2,)).dtype == tc.float64


@pytest.mark.parametrize("shape", [0.05, 0.8, 3.0, 40.0])
def test_the_gradient_of_gamma_samples_moves_the_mean_and_the_logarithm(shape):
    tc.manual_seed(0)
    a = tc.full((4000,), shape, dtype=tc.float64, requires_grad=True)
    x = tc.distributions.Gamma(a, 1.0).rsample()
    (g,) = tc.autograd.grad(x.sum(), a, retain_graph=True)
    assert g.mean().item() == pytest.approx(1.0, abs=0.05)  # E[x] = a
    assert (g > 0).all()
    if shape > 0.5:
        (g,) = tc.autograd.grad(x.log().sum(), a)
        assert g.mean().item() == pytest.approx(torch.polygamma(1, torch.tensor(shape)).item(), rel=0.05)


def test_gamma_gradients_are_the_oracles():
    a = OURS(0.3, 1.0, 5.0).requires_grad_()
    x = tc.distributions.Gamma(a, 2.0).rsample()
    (g,) = tc.autograd.grad(x.sum(), a)
    theirs = torch._standard_gamma_grad(THEIRS(0.3, 1.0, 5.0), torch.from_numpy(2 * x.detach().numpy())) / 2
    np.testing.assert_allclose(g.numpy(), theirs.numpy(), rtol=2e-3)


PAIRS = {
    "Normal": ["Normal", "Gumbel", "Laplace", "Exponential"],
    "LogNormal": ["LogNormal"],
    "HalfNormal": ["HalfNormal"],
    "Bernoulli": ["Bernoulli", "Poisson"],
    "Beta": ["Beta", "Normal", "Exponential", "Gamma", "Pareto", "Uniform"],
    "Binomial": ["Binomial"],
    "Categorical": ["Categorical"],
    "Cauchy": ["Cauchy"],
    "Dirichlet": ["Dirichlet"],
    "Exponential": ["Exponential", "Gamma", "Gumbel", "Normal", "Uniform"],
    "Gamma": ["Gamma", "Exponential", "Gumbel", "Normal", "Chi2"],
    "Geometric": ["Geometric"],
    "Gumbel": ["Gumbel", "Normal"],
    "Independent": ["Independent"],
    "Laplace": ["Laplace", "Normal"],
    "OneHotCategorical": ["OneHotCategorical"],
    "Pareto": ["Pareto", "Exponential", "Gamma", "Normal"],
    "Poisson": ["Poisson", "Bernoulli"],
    "Uniform": ["Uniform", "Exponential", "Gamma", "Gumbel", "Normal", "Pareto", "Beta"],
}
SECOND = {
    "Normal": lambda t: t.D.Normal(t(B), t(A)),
    "LogNormal": lambda t: t.D.LogNormal(t(B), t(A)),
    "HalfNormal": lambda t: t.D.HalfNormal(t(A)),
    "Bernoulli": lambda t: t.D.Bernoulli(t(0.3, 0.1, 0.0)),
    "Beta": lambda t: t.D.Beta(t(B), t(A)),
    "Binomial": lambda t: t.D.Binomial(t(5.0, 5.0, 5.0), t(0.3, 0.1, 0.4)),
    "Categorical": lambda t: t.D.Categorical(t(ROWS[::-1])),
    "Cauchy": lambda t: t.D.Cauchy(t(B), t(A)),
    "Chi2": lambda t: t.D.Chi2(t(B)),
    "Dirichlet": lambda t: t.D.Dirichlet(t([B, A])),
    "Exponential": lambda t: t.D.Exponential(t(B)),
    "Gamma": lambda t: t.D.Gamma(t(B), t(A)),
    "Geometric": lambda t: t.D.Geometric(t(0.3, 0.1, 0.4)),
    "Gumbel": lambda t: t.D.Gumbel(t(B), t(A)),
    "Independent": lambda t: t.D.Independent(t.D.Normal(t([A, B]), t([B, A])), 1),
    "Laplace": lambda t: t.D.Laplace(t(B), t(A)),
    "OneHotCategorical": lambda t: t.D.OneHotCategorical(t(ROWS[::-1])),
    "Pareto": lambda t: t.D.Pareto(t(0.3, 0.2, 3.0), t(A)),
    "Poisson": lambda t: t.D.Poisson(t(B)),
    "Uniform": lambda t: t.D.Uniform(t(0.1, 1.0, 4.0), t(4.0, 4.0, 5.0)),
}


@pytest.mark.parametrize(("p", "q"), [(p, q) for p, qs in PAIRS.items() for q in qs])
def test_divergences_are_the_oracles(p, q):
    found = []
    for t in (OURS, THEIRS):
        first = (
            t.D.Uniform(t(0.1, 0.2, 0.3), t(0.4, 0.9, 1.2))
            if (p, q) == ("Uniform", "Beta")
            else made(p, t)[0]
        )
        found.append(t.D.kl_divergence(first, SECOND[q](t)))
    close(*found)


def test_divergences_can_be_registered_and_are_inherited():
    D = tc.distributions

    class Mine(D.Normal):
        pass

    p = Mine(0.0, 1.0)
    assert D.kl_divergence(p, D.Normal(1.0, 1.0)).item() == pytest.approx(0.5)

    @D.register_kl(Mine, Mine)
    def _(p, q):
        return tc.tensor(7.0)

    assert D.kl_divergence(p, p).item() == 7.0
    with pytest.raises(NotImplementedError, match="No KL"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0))


@pytest.mark.parametrize("name", CASES)
def test_expanded_distributions(name):
    found = []
    for t in (OURS, THEIRS):
        d, value = made(name, t)
        wide = d.expand((4, *d.batch_shape))
        assert tuple(wide.batch_shape) == (4, *d.batch_shape) and tuple(wide.event_shape) == tuple(
            d.event_shape
        )
        found.append(wide.log_prob(value))
        if t is OURS:
            assert tuple(wide.sample((2,)).shape) == (2, 4, *d.batch_shape, *d.event_shape)
    close(*found)


@pytest.mark.parametrize("name", ["Bernoulli", "Binomial", "Categorical", "OneHotCategorical"])
@pytest.mark.parametrize("expand", [True, False])
def test_enumerated_supports_are_the_oracles(name, expand):
    ours, theirs = (made(name, t)[0].enumerate_support(expand) for t in (OURS, THEIRS))
    close(ours, theirs)


TRANSFORMS = {
    "exp": (lambda t: t.D.ExpTransform(), A),
    "power": (lambda t: t.D.PowerTransform(t(2.0)), A),
    "sigmoid": (lambda t: t.D.SigmoidTransform(), A),
    "softplus": (lambda t: t.D.SoftplusTransform(), A),
    "tanh": (lambda t: t.D.TanhTransform(), A),
    "affine": (lambda t: t.D.AffineTransform(t(1.0), t(-2.0)), A),
    "affine, events": (lambda t: t.D.AffineTransform(1.0, 3.0, event_dim=1), [A, B]),
    "stick breaking": (lambda t: t.D.StickBreakingTransform(), [A, B]),
    "correlation": (lambda t: t.D.CorrCholeskyTransform(), [A, B]),
    "reshape": (lambda t: t.D.ReshapeTransform((4,), (2, 2)), [[1.0, 2.0, 3.0, 4.0]]),
    "independent": (lambda t: t.D.IndependentTransform(t.D.ExpTransform(), 1), [A, B]),
    "compose": (lambda t: t.D.ComposeTransform([t.D.ExpTransform(), t.D.StickBreakingTransform()]), [A, B]),
    "cat": (lambda t: t.D.CatTransform([t.D.ExpTransform(), t.D.TanhTransform()], 0, [1, 2]), A),
    "stack": (lambda t: t.D.StackTransform([t.D.ExpTransform(), t.D.TanhTransform()], 0), [A, B]),
    "inverse": (lambda t: t.D.ExpTransform().inv, A),
    "distribution": (lambda t: t.D.CumulativeDistributionTransform(t.D.Normal(t(0.0), t(1.0))), A),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_the_oracles(name):
    (make, values), found = TRANSFORMS[name], []
    for t in (OURS, THEIRS):
        f, x = make(t), t(values)
        y = f(x)
        found.append((y, f.inv(y), f.log_abs_det_jacobian(x, y), f.domain.event_dim, f.codomain.event_dim))
        assert tuple(f.forward_shape(x.shape)) == tuple(y.shape) and tuple(f.inverse_shape(y.shape)) == tuple(
            x.shape
        )
    (y, x, d, *dims), (y2, x2, d2, *dims2) = found
    close(y, y2), close(x, x2, rtol=1e-7), close(d, d2)
    assert dims == dims2


def test_transforms_onto_constraints():
    D, c = tc.distributions, tc.distributions.constraints
    x = tc.randn(4, 3, dtype=tc.float64)
    for constraint in (
        c.real, c.positive, c.nonnegative, c.unit_interval, c.interval(-1.0, 3.0), c.less_than(2.0), c.simplex,
        c.greater_than(3.0), c.real_vector, c.independent(c.positive, 1), c.corr_cholesky,
    ):  # fmt: skip
        for registry in (D.biject_to, D.transform_to):
            f = registry(constraint)
            assert bool(constraint.check(f(x)).all())
    square = tc.randn(3, 3, dtype=tc.float64)
    assert bool(c.lower_cholesky.check(D.transform_to(c.lower_cholesky)(square)).all())
    assert bool(c.positive_definite.check(D.transform_to(c.positive_definite)(square)).all())
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        D.biject_to(c.boolean)


def test_the_inverse_of_a_cached_result_is_the_argument():
    f = tc.distributions.TanhTransform(cache_size=1)
    x = tc.tensor([50.0])
    assert f.inv(f(x)) is x
    assert f == tc.distributions.TanhTransform() and f.inv.inv is f


@pytest.mark.parametrize("lib", [tc, torch], ids=["tapecast", "torch"])
def test_wrong_arguments_are_refused(lib):
    D = lib.distributions
    with pytest.raises(ValueError, match=r"Expected parameter scale .*to satisfy the constraint"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match=r"Expected value argument .*to be within the support"):
        D.Exponential(1.0).log_prob(lib.tensor(-1.0))
    with pytest.raises(ValueError, match="right-most size of value must match event_shape"):
        D.Dirichlet(lib.ones(3)).log_prob(lib.ones(2) / 2)
    with pytest.raises(ValueError, match="not broadcastable"):
        D.Normal(lib.zeros(3), 1.0).log_prob(lib.ones(2))
    with pytest.raises(ValueError, match="Either `probs` or `logits`"):
        D.Bernoulli()
    with pytest.raises(ValueError, match="Expected parameter low"):
        D.Uniform(1.0, 0.0)
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    assert repr(D.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    assert D.Normal(0.0, 1.0).sample().shape == ()


def test_gradients_pass_through_log_prob_and_samples():
    D = tc.distributions
    loc, scale = tc.zeros(2, requires_grad=True), tc.ones(2, requires_grad=True)
    q = D.Independent(D.Normal(loc, scale), 1)
    loss = D.kl_divergence(q, D.Independent(D.Normal(tc.ones(2), tc.ones(2)), 1)) - q.rsample((5,)).sum()
    loss.backward()
    assert (loc.grad == -6.0).all() and scale.grad is not None
    logits = tc.zeros(3, requires_grad=True)
    D.Categorical(logits=logits).log_prob(tc.tensor(1)).backward()
    np.testing.assert_allclose(logits.grad.numpy(), [-1 / 3, 2 / 3, -1 / 3], rtol=1e-6)


FACTOR = [[1.5, 0.0, 0.0], [0.3, 1.2, 0.0], [-0.4, 0.2, 0.9]]
COVARIANCE = (np.array(FACTOR) @ np.array(FACTOR).T).tolist()
MATRICES = {
    "covariance_matrix": COVARIANCE,
    "precision_matrix": np.linalg.inv(COVARIANCE).tolist(),
    "scale_tril": FACTOR,
    "scale_tril, batched": [FACTOR, (1.3 * np.array(FACTOR)).tolist()],
}


@pytest.mark.parametrize("name", MATRICES)
def test_multivariate_normals_are_the_oracles(name):
    found = []
    for t in (OURS, THEIRS):
        d = t.D.MultivariateNormal(t([A, B]), **{name.split(",")[0]: t(MATRICES[name])})
        q = t.D.MultivariateNormal(t(B), scale_tril=t(FACTOR))
        wide = d.expand((4, 2))
        value = t([P, A])
        assert d.rsample((7,)).shape == (7, 2, 3) and wide.sample((7,)).shape == (7, 4, 2, 3)
        numbers = [d.log_prob(value), d.entropy(), d.mean, d.mode, d.variance, wide.log_prob(value)]
        matrices = [d.covariance_matrix, d.precision_matrix, d.scale_tril]
        found.append([*numbers, *matrices, wide.entropy(), t.D.kl_divergence(d, q)])
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs)


def test_samples_of_multivariate_normals_have_the_covariance_and_gradients():
    tc.manual_seed(0)
    lower = OURS(FACTOR).requires_grad_()
    d = tc.distributions.MultivariateNormal(OURS(A), scale_tril=lower)
    np.testing.assert_allclose(np.cov(d.sample((20000,)).numpy().T), COVARIANCE, atol=0.1)
    tc.autograd.grad(d.rsample((3,)).sum() + d.log_prob(OURS(B)), lower)
    covariance = OURS(COVARIANCE).requires_grad_()
    log_prob = tc.distributions.MultivariateNormal(OURS(A), covariance).log_prob(OURS(B))
    (g,) = tc.autograd.grad(log_prob, covariance)
    theirs = THEIRS(COVARIANCE).requires_grad_()
    expected = torch.distributions.MultivariateNormal(THEIRS(A), theirs).log_prob(THEIRS(B))
    close(g, torch.autograd.grad(expected, theirs)[0])
