"""Tools for gradients, parameters and sequences, by PyTorch's names."""

from . import (
    fusion,
    gradients as clip_grad,
    gradients as convert_parameters,
    init,
    parametrizations,
    parametrize,
    prune,
    rnn,
    stateless,
)
from .fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights
from .gradients import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    total_norm,
    vector_to_parameters,
)
from .hook_norms import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
from .init import skip_init

__all__ = [
    "clip_grad",
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_parameters",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "fusion",
    "get_total_norm",
    "init",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "total_norm",
    "vector_to_parameters",
    "weight_norm",
]
