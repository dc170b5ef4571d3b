"""Autocast: which functions run in a lower precision, which in float32, and the casts of their arguments.

The state is a context variable; `wrapped` functions look at it only while some autocast block is open, so that they
cost one test of a number elsewhere. The lists are those of PyTorch's autocast on CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any

import numpy as np

from .dtypes import dtype, dtype_of

LOWER = """
    linear matmul mm bmm addmm addbmm baddbmm mv conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d scaled_dot_product_attention
""".split()
FULL = """
    binary_cross_entropy binary_cross_entropy_with_logits cdist cosine_embedding_loss cross_entropy ctc_loss
    hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
    multilabel_margin_loss nanquantile nll_loss poisson_nll_loss prod quantile smooth_l1_loss soft_margin_loss trace
    triplet_margin_loss
""".split()

Casts = Mapping[str, dtype]
"""The dtype of autocast by type of device; a device that is absent is not cast on."""

state: ContextVar[Casts] = ContextVar("autocast", default={})  # noqa: B039  # never written to


class Open:
    """How many autocast blocks are open, in any thread."""

    count = 0


def lowered(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose float32 arguments become the dtype of autocast within a block."""
    return wrapped(function, lambda to: to)


def kept_full(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose half-precision arguments become float32 within a block."""
    full = dtype_of("float32")
    return wrapped(function, lambda to: full)


def wrapped(function: Callable[..., Any], target: Callable[[dtype], dtype]) -> Callable[..., Any]:
    @wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        if not Open.count or not (casts := state.get()):
            return function(*args, **kwargs)
        token = state.set({})  # what a function is made of is not cast again
        try:
            found = [cast(value, casts, target) for value in args]
            return function(*found, **{k: cast(v, casts, target) for k, v in kwargs.items()})
        finally:
            state.reset(token)

    return inner


def cast(value: Any, casts: Casts, target: Callable[[dtype], dtype]) -> Any:
    """A floating tensor, float64 excepted, on a device with autocast: in the target's dtype. Others as they are."""
    from .tensor import Tensor

    if isinstance(value, list | tuple) and any(isinstance(v, Tensor) for v in value):
        return type(value)(cast(v, casts, target) for v in value)
    if not isinstance(value, Tensor) or not eligible(value):
        return value
    to = casts.get(value.device.type)
    return value if to is None else value.to(target(to))


def eligible(tensor: Any) -> bool:
    found = dtype_of(tensor.array.dtype)
    return found.is_floating_point and found.numpy != np.float64
