"""The gradients of convolutions by their input and by their weight, as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import functional as F
from ..backward import grad
from ..modes import enable_grad, is_grad_enabled
from ..tensor import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def by_input(convolution: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The gradient by the input, of shape `input_size`, given that by the output."""

    def function(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        x = F.zeros(tuple(input_size), dtype=weight.dtype, device=weight.device).requires_grad_()
        return slope(convolution, x, weight, x, grad_output, stride, padding, dilation, groups)

    function.__name__ = f"{convolution.__name__}_input"
    return function


def by_weight(convolution: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The gradient by the weight, of shape `weight_size`, given that by the output."""

    def function(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        w = F.zeros(tuple(weight_size), dtype=input.dtype, device=input.device).requires_grad_()
        return slope(convolution, input, w, w, grad_output, stride, padding, dilation, groups)

    function.__name__ = f"{convolution.__name__}_weight"
    return function


def slope(
    convolution: Callable[..., Tensor], x: Tensor, w: Tensor, by: Tensor, grad_output: Tensor, *settings: Any
) -> Tensor:
    """The gradient of the convolution by one of its operands; differentiable where gradients are recorded."""
    keep = is_grad_enabled()
    with enable_grad():
        out = convolution(x, w, None, *settings)
        (result,) = grad([out], [by], [grad_output], create_graph=keep)
    assert result is not None
    return result


conv1d_input, conv1d_weight = by_input(F.conv1d), by_weight(F.conv1d)
conv2d_input, conv2d_weight = by_input(F.conv2d), by_weight(F.conv2d)
conv3d_input, conv3d_weight = by_input(F.conv3d), by_weight(F.conv3d)
