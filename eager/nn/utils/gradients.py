"""Tools for gradients and parameters: clipping, and parameters as one vector."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

from ... import functional as F
from ...modes import no_grad
from ...tensor import Tensor


def with_gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    """The gradients of one tensor, or of those that have any."""
    tensors = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in tensors if p.grad is not None]


def total_norm(tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0) -> Tensor:
    """The norm of all elements together: of order `norm_type`, or inf for the largest absolute value."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not tensors:
        return F.zeros(())
    if math.isinf(norm_type):
        return F.stack([t.abs().max() for t in tensors]).max()
    if norm_type == 2.0:
        return F.stack([(t * t).sum() for t in tensors]).sum().sqrt()
    return F.stack([(t.abs() ** norm_type).sum() for t in tensors]).sum() ** (1.0 / norm_type)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients, in place, so that their norm together is at most `max_norm`; the norm before.

    `foreach` is accepted and makes no difference. RuntimeError for a norm that is nan or infinite, with
    `error_if_nonfinite`.
    """
    with no_grad():
        grads = with_gradients(parameters)
        norm = total_norm(grads, norm_type)
        if error_if_nonfinite and not math.isfinite(norm.item()):
            raise RuntimeError(
                f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot "
                "be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
                "`error_if_nonfinite=False`"
            )
        # No branch on the norm: a recorded step clips by the norm of each run. 1e-6 keeps 0 from dividing.
        scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(scale)
        return norm


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Limit every element of the gradients, in place, to -clip_value and clip_value."""
    with no_grad():
        for grad in with_gradients(parameters):
            grad.clamp_(-float(clip_value), float(clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters as one vector, in order; differentiable."""
    return F.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of a vector into the parameters, in order."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected Tensor, but got: {type(vec).__name__}")
    start = 0
    for param in parameters:
        param.data = vec[start : start + param.numel()].reshape(param.shape).detach()
        start += param.numel()


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements of `tensors` together; RuntimeError when it must be finite and is not."""
    norm = total_norm(tensors, norm_type)
    if error_if_nonfinite and not math.isfinite(norm.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return norm


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients, in place, by max_norm / total_norm where that is below 1."""
    with no_grad():
        scale = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
        for grad in with_gradients(parameters):
            grad.mul_(scale)


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The older name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
