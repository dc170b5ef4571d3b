"""Batch norms of inference folded into the layer before them."""

from __future__ import annotations

import copy
from typing import Any

from ... import functional as F
from ...tensor import Tensor
from ..module import Module
from ..parameter import Parameter


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """A copy of the convolution that gives what the two give one after the other; both must be in eval mode."""
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    return with_weights(conv, fuse_conv_bn_weights(conv.weight, conv.bias, *statistics_of(bn), transpose))


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Module:
    """A copy of the linear layer that gives what the two give one after the other; both must be in eval mode.

    AssertionError for a batch norm of another width, 1 excepted.
    """
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    return with_weights(linear, fuse_linear_bn_weights(linear.weight, linear.bias, *statistics_of(bn)))


def statistics_of(bn: Any) -> tuple[Any, Any, Any, Any, Any]:
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("a batch norm without running statistics cannot be folded into another layer")
    return bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias


def with_weights(layer: Any, weights: tuple[Parameter, Parameter]) -> Any:
    out = copy.deepcopy(layer)
    out.weight, out.bias = weights
    return out


def folded(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    scale: Any,
    shift: Any,
    axis: int,
) -> tuple[Parameter, Parameter]:
    """The weight and bias with the batch norm's factors along the weight's `axis` of channels."""
    factor = F.rsqrt(var + eps) * (F.ones_like(mean) if scale is None else scale)
    shape = [-1 if a == axis else 1 for a in range(weight.ndim)]
    new_weight = (weight * factor.reshape(shape)).to(weight.dtype)
    offset = (-mean if bias is None else bias - mean) * factor
    new_bias = (offset if shift is None else offset + shift).to(weight.dtype if bias is None else bias.dtype)
    trains = bias is not None and bias.requires_grad
    return Parameter(new_weight.detach(), weight.requires_grad), Parameter(new_bias.detach(), trains)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a convolution with the batch norm after it folded in."""
    return folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a linear layer with the batch norm after it folded in."""
    return folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)
