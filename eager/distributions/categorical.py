"""One of several classes: as its number, as a vector with a 1, and counts of many."""

from __future__ import annotations

import math
from typing import Any

from .. import functional as F
from ..dtypes import finfo
from ..modes import no_grad
from ..tensor import Size, Tensor
from . import constraints
from .bernoulli import Binomial
from .distribution import Distribution
from .utils import lazy_property, logits_to_probs, one_of, probs_to_logits

CLASSES = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(Distribution):
    """Class numbers 0 … k - 1 of probabilities `probs` [*, k], or of the logarithms `logits`; both are normalised."""

    arg_constraints = CLASSES
    has_enumerate_support = True
    _expanded = {"probs": 1, "logits": 1}  # noqa: RUF012

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._by_probs = one_of("Categorical", probs, logits)
        given = probs if self._by_probs else logits
        if given.ndim < 1:
            raise ValueError(
                f"`{'probs' if self._by_probs else 'logits'}` parameter must be at least one-dimensional."
            )
        if self._by_probs:
            self.probs = given / given.sum(-1, True)
        else:
            self.logits = given - F.logsumexp(given, -1, True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs" if self._by_probs else "logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.shape

    @property
    def mean(self) -> Tensor:
        return F.full(tuple(self._batch_shape), math.nan, dtype=self.probs.dtype)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return F.full(tuple(self._batch_shape), math.nan, dtype=self.probs.dtype)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        sample_shape = Size(sample_shape)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = F.multinomial(rows, sample_shape.numel(), True).mT
            return drawn.reshape(tuple(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        value = value.long().unsqueeze(-1)
        lead = F.broadcast_shapes(tuple(value.shape[:-1]), tuple(self.logits.shape[:-1]))
        logits = self.logits.expand((*lead, self._num_events))
        return F.gather(logits, -1, value.expand((*lead, 1))).squeeze(-1)

    def entropy(self) -> Tensor:
        lowest = finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=lowest) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(F.arange(self._num_events), expand)


class OneHotCategorical(Distribution):
    """As `Categorical`, the class as a vector [k] with a 1."""

    arg_constraints = CLASSES
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._instance(_instance)
        new._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return F.one_hot(self.probs.argmax(-1), self._event_shape[-1]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample(sample_shape)
        return F.one_hot(drawn, self._event_shape[-1]).to(self._categorical._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = F.eye(n, dtype=self._categorical._param.dtype)
        values = values.reshape(n, *[1] * len(self._batch_shape), n)
        return values.expand(n, *self._batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Samples whose gradient is that of the probabilities (Bengio, Léonard and Courville 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(Distribution):
    """How often each of k classes comes in `total_count` draws."""

    arg_constraints = CLASSES

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return OneHotCategorical.expand(self, batch_shape, _instance)  # type: ignore[arg-type]

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        counted = F.one_hot(drawn, self._event_shape[-1]).sum(0)
        return counted.to(self._categorical._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        logits, value = F.broadcast_tensors(self.logits, value)
        logits = F.where((value == 0) & (logits == -math.inf), 0.0, logits)
        return F.lgamma(value.sum(-1) + 1) - F.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = F.tensor(self.total_count)
        one = Binomial(self.total_count, probs=self.probs, validate_args=False)
        support = one.enumerate_support(expand=False)[1:]
        weighted = (F.exp(one.log_prob(support)) * F.lgamma(support + 1)).sum((0, -1))
        return n * self._categorical.entropy() - F.lgamma(n + 1.0) + weighted
