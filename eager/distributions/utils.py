"""What the distributions share: parameters of one shape, probabilities and logits, lazy attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import functional as F
from ..dtypes import finfo, get_default_dtype
from ..modes import enable_grad
from ..tensor import Size, Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "sum_rightmost",
]

EULER = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape; numbers take the dtype and device of the first tensor."""
    if not all(isinstance(v, Tensor | int | float) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            f"__torch_function__; got {', '.join(type(v).__name__ for v in values)}"
        )
    like = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = get_default_dtype() if like is None or not like.is_floating_point() else like.dtype
    device = None if like is None else like.device
    tensors = [v if isinstance(v, Tensor) else F.tensor(v, dtype=dtype, device=device) for v in values]
    return tuple(F.broadcast_tensors(*tensors))


def parameters_of(*values: Any) -> tuple[list[Tensor], Size]:
    """Parameters of one shape, and the batch shape: () where all are plain numbers."""
    tensors = list(broadcast_all(*values))
    return tensors, Size() if not any(isinstance(v, Tensor) for v in values) else tensors[0].shape


def sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` axes."""
    return value if dim == 0 else value.reshape(*value.shape[: value.ndim - dim], -1).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log odds, or of the logarithms of unnormalised probabilities along the last axis."""
    return F.sigmoid(logits) if is_binary else F.softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Kept off 0 and 1 by the dtype's eps, so that logarithms are finite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse of `logits_to_probs`."""
    kept = clamp_probs(probs)
    return F.log(kept) - F.log1p(-kept) if is_binary else F.log(kept)


class lazy_property:
    """A property that is computed on first use, with a history, and then an attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def uniform(shape: Any, like: Tensor) -> Tensor:
    """Uniform numbers in (0, 1), both ends kept out, in the dtype of `like`."""
    u = F.rand(tuple(shape), dtype=like.dtype, device=like.device)
    info = finfo(like.dtype)
    return u.clamp(info.tiny, 1 - info.eps / 2)


def one_of(name: str, probs: Any, logits: Any) -> bool:
    """Whether the probabilities were given, and not the logits; ValueError for both or none."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return probs is not None
