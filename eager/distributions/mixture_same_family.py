"""Mixtures."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from ..modes import no_grad
from ..tensor import Tensor
from . import constraints
from .categorical import Categorical
from .constraints import MixtureSameFamilyConstraint
from .distribution import Distribution


class MixtureSameFamily(Distribution):
    """Values of `component_distribution`, of the component that `mixture_distribution` draws on its last batch axis."""

    arg_constraints: Any = {}  # noqa: RUF012

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        mixture, component = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an instance of torch.distributions.Categorical"
            )
        if not isinstance(component, Distribution):
            raise ValueError(
                "The Component distribution need to be an instance of torch.distributions.Distribution"
            )
        batch = component.batch_shape[:-1]
        for a, b in zip(reversed(mixture.batch_shape), reversed(batch), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture.batch_shape}) is not compatible with "
                    f"`component_distribution.batch_shape` ({component.batch_shape})"
                )
        if mixture.param_shape[-1] != component.batch_shape[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({mixture.param_shape[-1]}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({component.batch_shape[-1]})"
            )
        self._mixture_distribution, self._component_distribution = mixture, component
        self._event_ndims = len(component.event_shape)
        super().__init__(batch, component.event_shape, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        component = self._component_distribution
        return type(self)(
            self._mixture_distribution.expand(batch_shape),
            component.expand((*batch_shape, component.batch_shape[-1])),
            self._validate_args,
        )

    @constraints.dependent_property
    def support(self) -> Any:
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        return self._component_distribution

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * self._event_ndims)

    def _axis(self) -> int:
        return -1 - self._event_ndims

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(self._axis())

    @property
    def variance(self) -> Tensor:
        within = (self._weights() * self._component_distribution.variance).sum(self._axis())
        away = self._component_distribution.mean - self.mean.unsqueeze(self._axis())
        return within + (self._weights() * away.pow(2)).sum(self._axis())

    def cdf(self, value: Tensor) -> Tensor:
        found = self._component_distribution.cdf(value.unsqueeze(self._axis()))
        return (found * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        found = self._component_distribution.log_prob(value.unsqueeze(self._axis()))
        return F.logsumexp(found + F.log_softmax(self._mixture_distribution.logits, -1), -1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            drawn = self._mixture_distribution.sample(sample_shape)
            values = self._component_distribution.sample(sample_shape)
            axis = values.ndim + self._axis()
            at = drawn.reshape(*drawn.shape, 1, *[1] * self._event_ndims)
            shape = list(values.shape)
            shape[axis] = 1
            return F.gather(values, axis, at.expand(tuple(shape))).squeeze(axis)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n  {self._mixture_distribution},\n  {self._component_distribution})"
