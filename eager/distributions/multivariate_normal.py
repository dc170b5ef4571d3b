"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .linalg import cholesky, inverse_from_cholesky, log_det_half, solve_lower
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform
from .utils import lazy_property


def batched(matrix: Tensor, vector: Tensor) -> Tensor:
    """Matrices times vectors."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def mahalanobis(lower: Tensor, difference: Tensor) -> Tensor:
    """The squared length of L⁻¹ d; the batch axes broadcast."""
    lead = F.broadcast_shapes(tuple(lower.shape[:-2]), tuple(difference.shape[:-1]))
    n = lower.shape[-1]
    column = difference.expand((*lead, n)).unsqueeze(-1)
    return solve_lower(lower.expand((*lead, n, n)), column).pow(2).sum((-2, -1))


class MultivariateNormal(Distribution):
    """Normal vectors of mean `loc` [*, n], and of one of `covariance_matrix`, its inverse, or its Cholesky factor.

    `scale_tril`, the lower triangular factor, is the cheapest to work with.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _expanded = {  # noqa: RUF012
        "loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2, "_unbroadcasted_scale_tril": 0
    }  # fmt: skip

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        found = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if len(found) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        name, matrix = found[0]
        if matrix.ndim < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = F.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        setattr(self, name, matrix.expand((*batch, *matrix.shape[-2:])))
        self.loc = loc.expand((*batch, loc.shape[-1]))
        super().__init__(batch, self.loc.shape[-1:], validate_args)
        self._factor = factor(name, matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._factor = self._factor
        return new

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular factor L of the covariance L Lᵀ."""
        n = self._event_shape[0]
        return self._factor.expand((*self._batch_shape, n, n))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the elements."""
        n = self._event_shape[0]
        return (self._factor @ self._factor.mT).expand((*self._batch_shape, n, n))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        n = self._event_shape[0]
        return inverse_from_cholesky(self._factor).expand((*self._batch_shape, n, n))

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return self._factor.pow(2).sum(-1).expand(self.loc.shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        noise = F.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + batched(self._factor, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check(value)
        distance = mahalanobis(self._factor, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - log_det_half(self._factor)

    def entropy(self) -> Tensor:
        half = log_det_half(self._factor)
        found = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half
        return found.expand(self._batch_shape)


def factor(name: str, matrix: Tensor) -> Tensor:
    """The Cholesky factor of the covariance, from what is given."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return cholesky(matrix)
    # The factor of the inverse: of the matrix with its axes reversed, reversed back and inverted.
    flipped = F.flip(cholesky(F.flip(matrix, (-2, -1))), (-2, -1)).mT
    return solve_lower(flipped, F.eye(matrix.shape[-1], dtype=matrix.dtype).expand(matrix.shape))


class LogisticNormal(TransformedDistribution):
    """Points of the simplex: normal vectors of mean `loc` [*, n] and deviations `scale`, through stick breaking."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        base = base if base.batch_shape else base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.base_dist.scale
