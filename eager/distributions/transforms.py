"""Invertible maps with the logarithm of the absolute determinant of their Jacobian, for densities and constraints."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

from .. import functional as F
from ..dtypes import finfo
from ..tensor import Size, Tensor
from . import constraints
from .base_transforms import ComposeTransform, IndependentTransform, Transform, identity_transform
from .utils import sum_rightmost

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


def softplus(x: Tensor) -> Tensor:
    return F.softplus(x)


class ReshapeTransform(Transform):
    """The last axes, of shape `in_shape`, as axes of `out_shape`."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.ndim - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.ndim - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return F.zeros(tuple(x.shape[: x.ndim - len(self.in_shape)]), dtype=x.dtype)

    def forward_shape(self, shape: Any) -> Size:
        return replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Size:
        return replaced(shape, self.out_shape, self.in_shape)


def replaced(shape: Any, tail: Size, new: Size) -> Size:
    """The shape with other last sizes; ValueError if they are not `tail`."""
    if len(shape) < len(tail):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(tail)
    if tuple(shape[cut:]) != tuple(tail):
        raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {tuple(tail)}")
    return Size(tuple(shape[:cut]) + tuple(new))


class ExpTransform(Transform):
    """exp(x)."""

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, 1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """x ** exponent, of positive numbers."""

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else F.tensor(float(exponent))

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    __hash__ = Transform.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Size:
        return Size(F.broadcast_shapes(tuple(shape), tuple(self.exponent.shape)))

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """1 / (1 + exp(-x)), kept off 0 and 1."""

    domain, codomain = constraints.real, constraints.unit_interval
    bijective, sign = True, 1

    def _call(self, x: Tensor) -> Tensor:
        info = finfo(x.dtype)
        return F.sigmoid(x).clamp(info.tiny, 1.0 - info.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        info = finfo(y.dtype)
        kept = y.clamp(info.tiny, 1.0 - info.eps)
        return kept.log() - (-kept).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, 1

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(Transform):
    """tanh(x)."""

    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)
    bijective, sign = True, 1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return F.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """|x|; its inverse gives the positive one."""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """loc + scale · x. `event_dim`: how many axes belong to one value."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim
        self.domain = self.codomain = (
            constraints.independent(constraints.real, event_dim) if event_dim else constraints.real
        )

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(bool((a == b).all()) if isinstance(a == b, Tensor) else a == b for a, b in pairs)

    __hash__ = Transform.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale = self.scale
        found = (
            scale.abs().log() if isinstance(scale, Tensor) else F.full_like(x.detach(), math.log(abs(scale)))
        )
        found = F.broadcast_to(found, F.broadcast_shapes(tuple(found.shape), tuple(x.shape)))
        return sum_rightmost(found, self._event_dim)

    def forward_shape(self, shape: Any) -> Size:
        return Size(
            F.broadcast_shapes(
                tuple(shape), *(tuple(getattr(v, "shape", ())) for v in (self.loc, self.scale))
            )
        )

    inverse_shape = forward_shape


class SoftmaxTransform(Transform):
    """exp(x), divided by its sum: not one to one, as a constant added to x makes no difference."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return F.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """A vector of n numbers as n + 1 parts of a stick of length 1, broken off one after the other."""

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        z = SigmoidTransform()._call(x - offsets(x).log())
        left = (1 - z).log().cumsum(-1).exp()
        return F.pad(z, (0, 1), value=1.0) * F.pad(left, (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = y[..., :-1]
        left = (1 - parts.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return parts.log() - left.log() + offsets(parts).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - offsets(x).log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Size:
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Size:
        return Size((*shape[:-1], shape[-1] - 1))


def offsets(x: Tensor) -> Tensor:
    """n, n - 1, … 1: with them a vector of zeros stands for equal parts."""
    n = x.shape[-1]
    return F.arange(n, 0, -1).to(x.dtype)


class LowerCholeskyTransform(Transform):
    """A square matrix's lower triangle, the diagonal through exp."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + F.diag_embed(F.diagonal(x, 0, -2, -1).exp())

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + F.diag_embed(F.diagonal(y, 0, -2, -1).log())


class PositiveDefiniteTransform(Transform):
    """L Lᵀ of the matrix L that `LowerCholeskyTransform` gives."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        from .linalg import cholesky

        return LowerCholeskyTransform()._inverse(cholesky(y))


class CorrCholeskyTransform(Transform):
    """n(n-1)/2 numbers as the Cholesky factor of an n × n correlation matrix."""

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        r = lower_from_vector(x.tanh().clamp(-1 + eps, 1 - eps))
        left = running_product((1 - r**2).sqrt())
        r = r + F.eye(r.shape[-1], dtype=r.dtype)
        return r * F.pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        t = vector_from_lower(y) / vector_from_lower(F.pad(left[..., :-1], (1, 0), value=1.0)).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        rows = 0.5 * vector_from_lower(left, -2).log().sum(-1)
        return rows - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Size:
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Any) -> Size:
        if len(shape) < 2 or shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


def running_product(x: Tensor) -> Tensor:
    """Products of positive numbers along the last axis."""
    return x.log().cumsum(-1).exp()


def below(n: int, diagonal: int) -> tuple[Tensor, Tensor]:
    """Rows and columns of the elements on and below a diagonal, in order."""
    import numpy as np

    rows, columns = np.tril_indices(n, diagonal)
    return F.from_numpy(rows), F.from_numpy(columns)


def lower_from_vector(x: Tensor) -> Tensor:
    """The strictly lower triangle of a matrix, from its elements in order."""
    n = round((0.25 + 2 * x.shape[-1]) ** 0.5 + 0.5)
    rows, columns = below(n, -1)
    flat = F.zeros((*x.shape[:-1], n * n), dtype=x.dtype)
    at = (rows * n + columns).expand(x.shape)
    return F.scatter(flat, -1, at, x).reshape(*x.shape[:-1], n, n)


def vector_from_lower(x: Tensor, diagonal: int = -1) -> Tensor:
    """The elements on and below a diagonal, in order."""
    n = x.shape[-1]
    rows, columns = below(n, diagonal)
    return F.index_select(x.reshape(*x.shape[:-2], n * n), -1, rows * n + columns)


class CumulativeDistributionTransform(Transform):
    """The distribution function of a distribution of numbers; its inverse is the quantile function."""

    bijective, sign = True, 1
    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution
        self.domain = distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)


class Several(Transform):
    """Transforms, each of a part along an axis."""

    transforms: list[Transform]
    dim: int

    def parts(self, value: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def joined(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def _call(self, x: Tensor) -> Tensor:
        return self.joined([t(part) for t, part in zip(self.transforms, self.parts(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self.joined([t.inv(part) for t, part in zip(self.transforms, self.parts(y), strict=True)])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self.parts(x), self.parts(y), strict=True)
        return self.joined([t.log_abs_det_jacobian(a, b) for t, a, b in pairs])


class CatTransform(Several):
    """Each transform of the next `lengths[i]` elements along `dim`."""

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = [copy.copy(t) for t in tseq], dim
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.domain = constraints.cat([t.domain for t in self.transforms], dim, self.lengths)
        self.codomain = constraints.cat([t.codomain for t in self.transforms], dim, self.lengths)

    def parts(self, value: Tensor) -> Sequence[Tensor]:
        return F.split(value, self.lengths, self.dim)

    def joined(self, parts: list[Tensor]) -> Tensor:
        return F.cat(parts, self.dim)


class StackTransform(Several):
    """Each transform of the i-th slice along `dim`."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = [copy.copy(t) for t in tseq], dim
        self.domain = constraints.stack([t.domain for t in self.transforms], dim)
        self.codomain = constraints.stack([t.codomain for t in self.transforms], dim)

    def parts(self, value: Tensor) -> Sequence[Tensor]:
        return F.unbind(value, self.dim)

    def joined(self, parts: list[Tensor]) -> Tensor:
        return F.stack(parts, self.dim)
