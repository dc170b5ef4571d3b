"""The beta distribution, and its relative with a closed quantile function."""

from __future__ import annotations

import math
from typing import Any

from .. import functional as F
from ..dtypes import finfo
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .gamma import Dirichlet
from .location_scale import Uniform
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import EULER, parameters_of

SHAPES = {"concentration1": constraints.positive, "concentration0": constraints.positive}


class Beta(Distribution):
    """Numbers in (0, 1): a gamma number of shape `concentration1` over its sum with one of `concentration0`."""

    arg_constraints = SHAPES
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        tensors, _ = parameters_of(concentration1, concentration0)
        self._dirichlet = Dirichlet(F.stack(tensors, -1), validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._instance(_instance)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        Distribution.__init__(new, batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def concentration1(self) -> Tensor:
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return Dirichlet.log_prob(self._unchecked(), F.stack([value, 1.0 - value], -1))

    def _unchecked(self) -> Dirichlet:
        return Dirichlet(self._dirichlet.concentration, validate_args=False)

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()


class Kumaraswamy(TransformedDistribution):
    """Numbers in (0, 1) whose distribution function is 1 - (1 - x^a)^b, a and b the concentrations 1 and 0."""

    arg_constraints = SHAPES
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        (self.concentration1, self.concentration0), _ = parameters_of(concentration1, concentration0)
        eps = finfo(self.concentration1.dtype).eps
        zeros = F.zeros_like(self.concentration0.detach())
        steps = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        base = Uniform(zeros + eps, zeros + (1 - eps), validate_args=False)
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        a, b = self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape)
        return type(self)(a, b, self._validate_args)

    def _moment(self, n: int) -> Tensor:
        a, b = self.concentration1, self.concentration0
        order = 1 + n / a
        return F.exp(b.log() + F.lgamma(order) + F.lgamma(b) - F.lgamma(order + b))

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        found = (a.reciprocal() * ((a - 1) / (a * b - 1)).log()).exp()
        return F.where((a < 1) | (b < 1), math.nan, found)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = F.digamma(b + 1) + EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
