"""Maximum poolings that return the positions of the maxima too, under names of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..tensor import Tensor
from .adaptive import adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d
from .pooling import max_pool1d, max_pool2d
from .unpooling import fractional_max_pool2d, fractional_max_pool3d
from .volumes import max_pool3d


def with_indices(pool: Callable[..., Any]) -> Callable[..., tuple[Tensor, Tensor]]:
    """The pooling with `return_indices=True`."""

    @wraps(pool)
    def both(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        return pool(*args, **{**kwargs, "return_indices": True})

    both.__name__ = both.__qualname__ = f"{pool.__name__}_with_indices"
    return both


max_pool1d_with_indices = with_indices(max_pool1d)
max_pool2d_with_indices = with_indices(max_pool2d)
max_pool3d_with_indices = with_indices(max_pool3d)
adaptive_max_pool1d_with_indices = with_indices(adaptive_max_pool1d)
adaptive_max_pool2d_with_indices = with_indices(adaptive_max_pool2d)
adaptive_max_pool3d_with_indices = with_indices(adaptive_max_pool3d)
fractional_max_pool2d_with_indices = with_indices(fractional_max_pool2d)
fractional_max_pool3d_with_indices = with_indices(fractional_max_pool3d)
