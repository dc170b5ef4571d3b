"""Kullback-Leibler divergences, by the types of the two distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .bernoulli import Bernoulli, Binomial, Geometric, Poisson
from .beta import Beta
from .categorical import Categorical, OneHotCategorical
from .distribution import Distribution
from .gamma import Dirichlet, Exponential, Gamma
from .independent import Independent
from .linalg import log_det_half, solve_lower
from .location_scale import Cauchy, Gumbel, Laplace, Uniform
from .multivariate_normal import MultivariateNormal, mahalanobis
from .normal import HalfNormal, Normal
from .power import Pareto
from .transformed_distribution import TransformedDistribution
from .utils import EULER, sum_rightmost

__all__ = ["kl_divergence", "register_kl"]

Rule = Callable[[Any, Any], Tensor]
RULES: dict[tuple[type, type], Rule] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """Enter the decorated function as the divergence of `type_q` from `type_p`, and of their subclasses."""
    for kind in (type_p, type_q):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"Expected a Distribution subclass but got {kind}")

    def decorated(rule: Rule) -> Rule:
        RULES[type_p, type_q] = rule
        return rule

    return decorated


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expected value, under p, of log p(x) - log q(x); of the batch shape.

    Errors: NotImplementedError for types that no rule, and no rule of their bases, is registered for.
    """
    return rule_of(type(p), type(q))(p, q)


def rule_of(type_p: type, type_q: type) -> Rule:
    """The rule of the nearest bases, those of p counting first."""
    for a in type_p.__mro__:
        for b in type_q.__mro__:
            if (a, b) in RULES:
                return RULES[a, b]
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type_p.__name__} and q type {type_q.__name__}"
    )


def infinite(like: Tensor) -> Tensor:
    return F.full_like(like.detach(), math.inf)


def x_log_x(x: Tensor) -> Tensor:
    return F.xlogy(x, x)


# ---- of one family -----------------------------------------------------------------------------------------


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    yes = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    yes = F.where(q.probs == 0, math.inf, yes)
    yes = F.where(p.probs == 0, 0.0, yes)
    no = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    no = F.where(q.probs == 1, math.inf, no)
    return yes + F.where(p.probs == 1, 0.0, no)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((q.total_count < p.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count < p.total_count is not implemented"
        )
    found = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    found, more = F.broadcast_tensors(found, p.total_count > q.total_count)
    return F.where(more, math.inf, found)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - F.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    probs_p, probs_q = F.broadcast_tensors(p.probs, q.probs)
    t = F.where(probs_q == 0, math.inf, t)
    return F.where(probs_p == 0, 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norm = F.lgamma(total) - F.lgamma(b.sum(-1)) - (F.lgamma(a) - F.lgamma(b)).sum(-1)
    return norm + ((a - b) * (F.digamma(a) - F.digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    rates = b * (p.rate / q.rate).log() + a * (q.rate / p.rate - 1)
    return rates + F.lgamma(b) - F.lgamma(a) + (a - b) * F.digamma(a)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift, start = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    tail = F.exp(shift - start + F.lgamma(1 + ratio)) - (1 + EULER)
    return ratio * EULER + tail - shift + start - ratio.log()


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * F.exp(-away / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    both = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return both.log() - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return F.where(p.scale < q.scale, math.inf, found)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return F.where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    n = p.event_shape[0]
    lead = F.broadcast_shapes(tuple(p._factor.shape[:-2]), tuple(q._factor.shape[:-2]))
    ours, theirs = p._factor.expand((*lead, n, n)), q._factor.expand((*lead, n, n))
    spread = solve_lower(theirs, ours).pow(2).sum((-2, -1))
    distance = mahalanobis(q._factor, q.loc - p.loc)
    return log_det_half(q._factor) - log_det_half(p._factor) + 0.5 * (spread + distance - n)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL(p || q) of Independents with different reinterpreted_batch_ndims")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "KL(p || q) of TransformedDistributions with different transforms or event shapes"
        )
    return kl_divergence(p.base_dist, q.base_dist)


# ---- of two families ---------------------------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, Exponential)
def _beta_exponential(p: Beta, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Tensor:
    total = p.concentration1 + p.concentration0
    logs = F.digamma(p.concentration1) - F.digamma(total)
    norm = q.concentration * q.rate.log() - F.lgamma(q.concentration)
    return -p.entropy() - norm - (q.concentration - 1) * logs + q.rate * p.mean


@register_kl(Beta, Normal)
@register_kl(Uniform, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
def _to_normal(p: Any, q: Normal) -> Tensor:
    """The cross entropy to a normal distribution needs mean and variance alone."""
    square = 0.5 * (p.variance + (p.mean - q.loc).pow(2)) / q.scale.pow(2)
    return -p.entropy() + 0.5 * math.log(2 * math.pi) + q.scale.log() + square


@register_kl(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Tensor:
    return F.where(p.alpha > 2, _to_normal(p, q), math.inf)


@register_kl(Beta, Uniform)
def _beta_uniform(p: Beta, q: Uniform) -> Tensor:
    found = -p.entropy() + (q.high - q.low).log()
    return F.where((q.low > 0) | (q.high < 1), math.inf, found)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    ratio, shape = q.rate / p.rate, q.concentration
    return -shape * ratio.log() + ratio + F.lgamma(shape) + shape * EULER - (1 + EULER)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    product, shift = p.rate * q.scale, q.loc / q.scale
    tail = F.exp(shift) * product / (product + 1)
    return product.log() - 1 + product.reciprocal() - shift + tail


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    scaled, shift = p.rate * q.scale, q.loc / q.scale
    shape = p.concentration
    first = (shape - 1) * F.digamma(shape) - F.lgamma(shape) - shape
    tail = F.exp(shift) * (1 + scaled.reciprocal()).pow(-shape)
    return first + scaled.log() + shape / scaled - shift + tail


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    start, square, shift = p.loc / q.scale, (p.scale / q.scale).pow(2), q.loc / q.scale
    tail = F.exp(-start + 0.5 * square + shift)
    return -0.5 * square.log() - 0.5 * (1 + math.log(2 * math.pi)) + start - shift + tail


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    away = p.loc - q.loc
    ratio, steps = p.scale / q.scale, away / p.scale
    expected = math.sqrt(2 / math.pi) * p.scale * F.exp(-0.5 * steps.pow(2)) + away * F.erf(
        math.sqrt(0.5) * steps
    )
    return -ratio.log() + expected / q.scale - 0.5 * math.log(0.5 * math.pi) - 0.5


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    found = (p.alpha / (p.scale * q.rate)).log() - p.alpha.reciprocal() - 1
    found = found + p.alpha * p.scale * q.rate / (p.alpha - 1)
    return F.where(p.alpha <= 1, math.inf, found)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    common = p.scale.log() + p.alpha.reciprocal()
    found = p.alpha.log() - common + F.lgamma(q.concentration) - q.concentration * q.rate.log() - 1
    found = found + (1 - q.concentration) * common + q.rate * p.alpha * p.scale / (p.alpha - 1)
    return F.where(p.alpha <= 1, math.inf, found)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    width, low, high = p.high - p.low, p.low, p.high
    logs = (q.concentration1 - 1) * (x_log_x(high) - x_log_x(low) - width) / width
    rest = (q.concentration0 - 1) * (x_log_x(1 - high) - x_log_x(1 - low) + width) / width
    norm = F.lgamma(q.concentration1) + F.lgamma(q.concentration0)
    norm = norm - F.lgamma(q.concentration1 + q.concentration0)
    found = rest - logs + norm - width.log()
    return F.where((high > 1) | (low < 0), math.inf, found)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    found = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return F.where(p.low < 0, math.inf, found)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    width = p.high - p.low
    norm = -q.concentration * q.rate.log() + F.lgamma(q.concentration) - width.log()
    logs = (1 - q.concentration) * (x_log_x(p.high) - x_log_x(p.low) - width) / width
    return F.where(p.low < 0, math.inf, norm + logs + q.rate * (p.high + p.low) / 2)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    ratio = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return ratio.log() + 0.5 * (high + low) - ratio * (F.exp(-high) - F.exp(-low))


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    width = p.high - p.low
    logs = (x_log_x(p.high) - x_log_x(p.low) - width) / width
    found = logs * (q.alpha + 1) - (q.alpha * q.scale.pow(q.alpha) * width).log()
    return F.where(p.low < q.scale, math.inf, found)


def _outside(p: Any, q: Any) -> Tensor:
    """p has values that q cannot have."""
    return infinite(p.mean + q.mean) if not isinstance(p, Pareto) else infinite(p.scale + q.mean)


for _p, _qs in {
    Beta: (Pareto,),
    Exponential: (Beta, Pareto, Uniform),
    Gamma: (Beta, Pareto, Uniform),
    Gumbel: (Beta, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, Uniform),
    Poisson: (Bernoulli, Binomial),
}.items():
    for _q in _qs:
        register_kl(_p, _q)(_outside)
