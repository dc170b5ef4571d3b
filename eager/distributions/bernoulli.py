"""Counts of trials and events: Bernoulli, geometric, binomial, negative binomial and Poisson."""

from __future__ import annotations

import math
from typing import Any

from .. import functional as F
from ..dtypes import finfo
from ..modes import no_grad
from ..tensor import Size, Tensor
from . import constraints
from .distribution import Distribution
from .gamma import standard
from .utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    one_of,
    parameters_of,
    probs_to_logits,
    uniform,
)

CHANCE = {"probs": constraints.unit_interval, "logits": constraints.real}


class Trials(Distribution):
    """What is given by a probability or its log odds: one is kept, the other computed on first use."""

    _expanded = {"probs": 0, "logits": 0, "total_count": 0}  # noqa: RUF012

    def _set_chance(self, probs: Any, logits: Any) -> Size:
        """Keep the one that is given; returns the batch shape."""
        self._by_probs = one_of(type(self).__name__, probs, logits)
        (value,), shape = parameters_of(probs if self._by_probs else logits)
        setattr(self, "probs" if self._by_probs else "logits", value)
        return shape

    def _set_count_and_chance(self, total_count: Any, probs: Any, logits: Any) -> Size:
        self._by_probs = one_of(type(self).__name__, probs, logits)
        count, value = broadcast_all(total_count, probs if self._by_probs else logits)
        self.total_count = count.to(value.dtype)
        setattr(self, "probs" if self._by_probs else "logits", value)
        return value.shape

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs" if self._by_probs else "logits"]

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.shape


class Bernoulli(Trials):
    """1 with probability `probs` (or of log odds `logits`), else 0."""

    arg_constraints = CHANCE
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._set_chance(probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return F.where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return F.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value.to(logits.dtype), reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(F.arange(2).to(self._param.dtype), expand)


class Geometric(Trials):
    """How many trials of probability `probs` fail before the first success."""

    arg_constraints = CHANCE
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._set_chance(probs, logits), validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError(
                f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of distribution {self!r} to be "
                f"positive but found invalid values:\n{self.probs}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return F.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            u = uniform(self._extended_shape(sample_shape), self.probs)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        value, probs = broadcast_all(value, self.probs)
        failing = F.where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-failing).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Binomial(Trials):
    """How many of `total_count` trials of probability `probs` succeed."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, **CHANCE}  # noqa: RUF012
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._set_count_and_chance(total_count, probs, logits), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return F.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        n, logits = self.total_count, self.logits
        ways = F.lgamma(n + 1) - F.lgamma(value + 1) - F.lgamma(n - value + 1)
        # n · log(1 + exp(logits)) without overflow.
        norm = n * logits.clamp(min=0) + n * F.log1p(F.exp(-logits.abs()))
        return ways + value * logits - norm

    def entropy(self) -> Tensor:
        count = int(self.total_count.max().item())
        if float(self.total_count.min()) != count:
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        found = self.log_prob(self.enumerate_support(False))
        return -(F.exp(found) * found).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = int(self.total_count.max().item())
        if float(self.total_count.min()) != count:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._enumerated(F.arange(1 + count).to(self._param.dtype), expand)


class NegativeBinomial(Trials):
    """How many trials of probability `probs` succeed before `total_count` have failed."""

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._set_count_and_chance(total_count, probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * F.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / F.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            rate = standard(self.total_count, self._extended_shape(sample_shape)) * F.exp(self.logits)
            return F.poisson(rate)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        n = self.total_count
        chances = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        norm = F.lgamma(1.0 + value) + F.lgamma(n) - F.lgamma(n + value)
        return chances - F.where(n + value == 0.0, 0.0, norm)


class Poisson(Distribution):
    """How many events come in a unit of time at a `rate`."""

    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    support = constraints.nonnegative_integer
    _expanded = {"rate": 0}  # noqa: RUF012

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,), shape = parameters_of(rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return F.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        rate, value = broadcast_all(self.rate, value)
        return F.xlogy(value, rate) - rate - F.lgamma(value + 1)


class ContinuousBernoulli(Trials):
    """Numbers in [0, 1] of density proportional to probs ** x · (1 - probs) ** (1 - x).

    Near probs = 1/2, between `lims`, a Taylor series takes the place of quotients that lose their digits there.
    Source: Loaiza-Ganem and Cunningham 2019.
    """

    arg_constraints = CHANCE
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        shape, self._lims = self._set_chance(probs, logits), lims
        super().__init__(shape, validate_args=validate_args)
        if probs is not None:
            eps = finfo(self.probs.dtype).eps
            self.probs = self.probs.clamp(eps, 1 - eps)

    def _outside(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut(self) -> Tensor:
        """The probabilities, those near 1/2 moved to the edge."""
        return F.where(self._outside(), self.probs, self._lims[0])

    def _log_norm(self) -> Tensor:
        cut = self._cut()
        found = F.log(F.abs(F.log1p(-cut) - F.log(cut))) - F.log(F.abs(1 - 2 * cut))
        x = (self.probs - 0.5).pow(2)
        return F.where(self._outside(), found, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        cut, x = self._cut(), self.probs - 0.5
        found = cut / (2 * cut - 1) + 1 / (F.log1p(-cut) - F.log(cut))
        return F.where(self._outside(), found, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def variance(self) -> Tensor:
        cut, x = self._cut(), (self.probs - 0.5).pow(2)
        found = cut * (cut - 1) / (1 - 2 * cut).pow(2) + 1 / (F.log1p(-cut) - F.log(cut)).pow(2)
        return F.where(self._outside(), found, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(uniform(self._extended_shape(sample_shape), self.probs))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._check(value)
        cut = self._cut()
        found = (cut.pow(value) * (1 - cut).pow(1 - value) + cut - 1) / (2 * cut - 1)
        found = F.where(self._outside(), found, value)
        return F.where(value <= 0, 0.0, F.where(value >= 1, 1.0, found))

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut()
        above = F.log1p(-cut + value * (2 * cut - 1)) - F.log1p(-cut)
        return F.where(self._outside(), above / (F.log(cut) - F.log1p(-cut)), value)

    def entropy(self) -> Tensor:
        log0, log1 = F.log1p(-self.probs), F.log(self.probs)
        return self.mean * (log0 - log1) - self._log_norm() - log0
