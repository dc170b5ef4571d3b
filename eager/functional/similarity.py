"""How near pairs of vectors are."""

from __future__ import annotations

import numpy as np

from ..tensor import Tensor
from .base import as_float, pair
from .norms import vector_norm
from .pointwise import clamp
from .reduction import sum
from .shaping import broadcast_tensors


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis; norms below eps count as eps."""
    x, y = broadcast_tensors(*pair("cosine_similarity", x1, x2))
    if x.array.dtype.kind in "biu":
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {x.dtype!r}")
    sizes = [clamp(vector_norm(v, 2.0, dim, True), min=eps) for v in (x, y)]
    return sum(x / sizes[0] * (y / sizes[1]), dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    return vector_norm(as_float("pairwise_distance", x1 - x2) + eps, float(p), -1, keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm of the difference of each two rows of a matrix [N, D]: [N (N - 1) / 2], in order of the rows."""
    from .creation import from_numpy
    from .scattering import index_select

    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if input.array.dtype.kind in "biuc":
        raise RuntimeError(f"pdist only supports floating-point dtypes, got {input.dtype!r}")
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    first, second = (from_numpy(np.ascontiguousarray(k)) for k in np.triu_indices(input.array.shape[0], 1))
    return vector_norm(index_select(input, 0, first) - index_select(input, 0, second), float(p), -1, False)
