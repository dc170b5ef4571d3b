"""The distribution of a function of a random variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..modes import no_grad
from ..tensor import Size, Tensor
from . import constraints
from .base_transforms import ComposeTransform, Transform
from .distribution import Distribution
from .independent import Independent
from .utils import sum_rightmost


class TransformedDistribution(Distribution):
    """What `transforms`, one after the other, make of values of `base_distribution`."""

    arg_constraints: Any = {}  # noqa: RUF012

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms: list[Transform] = listed(transforms)
        whole = ComposeTransform(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event = len(base_distribution.event_shape)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got {shape}."
            )
        forward = whole.forward_shape(shape)
        wider = whole.inverse_shape(forward)
        if tuple(wider) != tuple(shape):
            base_distribution = base_distribution.expand(wider[: len(wider) - event])
        if (extra := whole.domain.event_dim - event) > 0:
            base_distribution = Independent(base_distribution, extra)
        self.base_dist = base_distribution
        change = whole.codomain.event_dim - whole.domain.event_dim
        cut = len(forward) - max(whole.codomain.event_dim, event + change)
        super().__init__(forward[:cut], forward[cut:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._instance(_instance)
        shape = Size(tuple(batch_shape) + tuple(self.event_shape))
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        extra = len(self.event_shape) - found.event_dim
        return constraints.independent(found, extra) if extra > 0 else found

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        event, y = len(self.event_shape), value
        total: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event += transform.domain.event_dim - transform.codomain.event_dim
            change = transform.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(change, event - transform.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return total + sum_rightmost(base, event - len(self.base_dist.event_shape))

    def _turned(self, probability: Tensor) -> Tensor:
        """The probability, or its complement where the transforms fall."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        self.base_dist._check(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._turned(value)))


def listed(transforms: Any) -> list[Transform]:
    found = [transforms] if isinstance(transforms, Transform) else transforms
    if not isinstance(found, Sequence) or not all(isinstance(t, Transform) for t in found):
        raise ValueError(f"transforms must be a Transform or a list of Transforms, but was {transforms}")
    return list(found)
