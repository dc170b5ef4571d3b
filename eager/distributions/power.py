"""Powers of simple numbers: the Pareto and the Weibull distribution."""

from __future__ import annotations

import math
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from . import constraints
from .gamma import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform, PowerTransform
from .utils import EULER, parameters_of


class Pareto(TransformedDistribution):
    """Numbers from `scale` on whose density falls as x ** -(alpha + 1)."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}  # noqa: RUF012

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        (self.scale, self.alpha), _ = parameters_of(scale, alpha)
        steps = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(Exponential(self.alpha, validate_args=False), steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return type(self)(self.scale.expand(batch_shape), self.alpha.expand(batch_shape), self._validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        return F.where(self.alpha > 1, self.alpha * self.scale / (self.alpha - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha
        return F.where(a > 2, self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """Lifetimes of which `scale` is a typical one, and whose hazard grows as x ** (concentration - 1)."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        (self.scale, self.concentration), _ = parameters_of(scale, concentration)
        steps = [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)]
        base = Exponential(F.ones_like(self.scale.detach()), validate_args=False)
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        scale, shape = self.scale.expand(batch_shape), self.concentration.expand(batch_shape)
        return type(self)(scale, shape, self._validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * F.exp(F.lgamma(1 + self.concentration.reciprocal()))

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        r = self.concentration.reciprocal()
        return self.scale.pow(2) * (F.exp(F.lgamma(1 + 2 * r)) - F.exp(2 * F.lgamma(1 + r)))

    def entropy(self) -> Tensor:
        r = self.concentration.reciprocal()
        return EULER * (1 - r) + F.log(self.scale * r) + 1
