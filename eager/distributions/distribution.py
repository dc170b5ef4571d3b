"""`Distribution`, what all of them have."""

from __future__ import annotations

import warnings
from typing import Any

from .. import functional as F
from ..modes import no_grad
from ..tensor import Size, Tensor
from . import constraints
from .utils import lazy_property


class Distribution:
    """A family of random variables: `batch_shape` of independent ones, each with values of `event_shape`.

    `validate_args`: whether parameters and values are checked, by default True. Values have shape
    sample_shape + batch_shape + event_shape; their log probability has not the last part.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = True
    arg_constraints: Any
    support: Any

    #: The tensors that `expand` expands, with how many of their last axes belong to an event.
    _expanded: dict[str, int] = {}  # noqa: RUF012  # replaced, not changed, by subclasses

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions that are not told otherwise check their arguments."""
        if value not in (True, False):
            raise ValueError(f"validate_args is True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with another batch shape, to which the parameters are expanded."""
        new = self._instance(_instance)
        shape = Size(batch_shape)
        for name, event in self._expanded.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                setattr(new, name, value.expand(shape + value.shape[value.ndim - event :]))
        Distribution.__init__(new, shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _instance(self, given: Any = None) -> Any:
        """A new object of this class with the settings that are no tensors, or the one that is given."""
        if given is not None:
            return given
        new = type(self).__new__(type(self))
        new.__dict__.update(
            {k: v for k, v in self.__dict__.items() if not isinstance(v, Tensor | Distribution)}
        )
        return new

    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise self._lacks("mean")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise self._lacks("mode")

    @property
    def variance(self) -> Tensor:
        """The expected square of the distance from the mean."""
        raise self._lacks("variance")

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Random values, without a history."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Random values that can be differentiated by the parameters."""
        raise self._lacks("rsample; sample() and log_prob() give score-function gradients")

    def sample_n(self, n: int) -> Tensor:
        """sample((n,)), the older way."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2
        )
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability of a discrete value."""
        raise self._lacks("log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a value not above this one."""
        raise self._lacks("cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The value below which this probability lies."""
        raise self._lacks("icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first axis; the batch axes expanded, or of size 1."""
        raise self._lacks("enumerate_support")

    def entropy(self) -> Tensor:
        """The entropy in nats, of the batch shape."""
        raise self._lacks("entropy")

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return F.exp(self.entropy())

    def _lacks(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} does not implement {what}")

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        """The shape of samples."""
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """A vector of values as the support of the whole batch."""
        values = values.reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    def _validate_sample(self, value: Any) -> None:
        """ValueError for a value of a wrong shape or outside the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = value.ndim - len(self._event_shape)
        if value.shape[max(start, 0) :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}."
                )
        if not bool(self.support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({self.support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _check(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def __repr__(self) -> str:
        found = [(k, self.__dict__[k]) for k in self.arg_constraints if k in self.__dict__]
        shown = (f"{k}: {v if v.numel() == 1 else v.size()}" for k, v in found)
        return f"{type(self).__name__}({', '.join(shown)})"
