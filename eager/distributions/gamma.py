"""The gamma distribution and what is made of it; the exponential one, its simplest case."""

from __future__ import annotations

import math
from typing import Any

from .. import functional as F
from ..dtypes import finfo
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform
from .utils import parameters_of, uniform


def standard(concentration: Tensor, shape: Any) -> Tensor:
    """Gamma numbers of scale 1, kept off 0."""
    found = F.standard_gamma(concentration.expand(tuple(shape)))
    return found.clamp(min=finfo(found.dtype).tiny)


class Exponential(Distribution):
    """Waiting times of events that come at a `rate`."""

    arg_constraints = {"rate": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True
    _expanded = {"rate": 0}  # noqa: RUF012

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,), shape = parameters_of(rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return F.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return -F.log1p(-uniform(self._extended_shape(sample_shape), self.rate)) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return 1 - F.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -F.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - F.log(self.rate)


class Gamma(Distribution):
    """Waiting times of `concentration` events that come at a `rate`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True
    _expanded = {"concentration": 0, "rate": 0}  # noqa: RUF012

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        (self.concentration, self.rate), shape = parameters_of(concentration, rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return standard(self.concentration, self._extended_shape(sample_shape)) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        shape, rate = self.concentration, self.rate
        return F.xlogy(shape, rate) + F.xlogy(shape - 1, value) - rate * value - F.lgamma(shape)

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        return F.igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        shape = self.concentration
        return shape - self.rate.log() + F.lgamma(shape) + (1.0 - shape) * F.digamma(shape)


class Chi2(Gamma):
    """The sum of `df` squared standard normal numbers."""

    arg_constraints = {"df": constraints.positive}  # noqa: RUF012

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2


class InverseGamma(TransformedDistribution):
    """The reciprocal of gamma numbers."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # noqa: RUF012
    support = constraints.positive
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(-F.ones((), dtype=base.rate.dtype))
        super().__init__(base, inverse, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        return F.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        shape = self.concentration
        return F.where(shape > 2, self.rate.square() / ((shape - 1).square() * (shape - 2)), math.inf)

    def entropy(self) -> Tensor:
        shape = self.concentration
        return shape + self.rate.log() + F.lgamma(shape) - (1 + shape) * F.digamma(shape)


class Dirichlet(Distribution):
    """Gamma numbers of the shapes `concentration` [*, k], divided by their sum."""

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True
    _expanded = {"concentration": 1}  # noqa: RUF012

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        top = F.one_hot(mode.argmax(-1), self.concentration.shape[-1]).to(mode.dtype)
        edge = F.all(self.concentration < 1, -1).unsqueeze(-1)
        return F.where(edge, top, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        parts = standard(self.concentration, self._extended_shape(sample_shape))
        return parts / parts.sum(-1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        shape = self.concentration
        return F.xlogy(shape - 1.0, value).sum(-1) + F.lgamma(shape.sum(-1)) - F.lgamma(shape).sum(-1)

    def entropy(self) -> Tensor:
        shape, k = self.concentration, self.concentration.shape[-1]
        total = shape.sum(-1)
        norm = F.lgamma(shape).sum(-1) - F.lgamma(total)
        return norm - (k - total) * F.digamma(total) - ((shape - 1.0) * F.digamma(shape)).sum(-1)


class FisherSnedecor(Distribution):
    """The ratio of two Chi2 numbers, each over its degrees of freedom `df1` and `df2`."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # noqa: RUF012
    support = constraints.positive
    has_rsample = True
    _expanded = {"df1": 0, "df2": 0}  # noqa: RUF012

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        (self.df1, self.df2), shape = parameters_of(df1, df2)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return F.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return F.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        found = 2 * b.pow(2) * (a + b - 2) / (a * (b - 2).pow(2) * (b - 4))
        return F.where(b > 4, found, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        above = standard(self.df1 * 0.5, shape) / self.df1
        return above / (standard(self.df2 * 0.5, shape) / self.df2)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        norm = F.lgamma(half1 + half2) - F.lgamma(half1) - F.lgamma(half2)
        body = half1 * ratio.log() + (half1 - 1) * value.log()
        return norm + body - (half1 + half2) * F.log1p(ratio * value)
