"""PyTorch's arrangement of the layers in files: `nn.modules.conv`, `nn.modules.batchnorm` and so on.

Each name stands for the file of `nn` that defines those layers.
"""

from typing import Any

from .. import (
    adaptive_softmax as adaptive,
    containers as container,
    conv,
    distance,
    dropout,
    embedding as sparse,
    flatten,
    lazy,
    linear,
    loss,
    module,
    norm as batchnorm,
    norm as instancenorm,
    norm as normalization,
    padding,
    pooling,
    recurrent as rnn,
    resizing as fold,
    resizing as pixelshuffle,
    resizing as upsampling,
    transformer,
)
from . import activation, utils

__all__ = [
    "activation",
    "adaptive",
    "batchnorm",
    "container",
    "conv",
    "distance",
    "dropout",
    "flatten",
    "fold",
    "instancenorm",
    "lazy",
    "linear",
    "loss",
    "module",
    "normalization",
    "padding",
    "pixelshuffle",
    "pooling",
    "rnn",
    "sparse",
    "transformer",
    "upsampling",
    "utils",
]


def __getattr__(name: str) -> Any:
    """The layers themselves are here too."""
    from ... import nn

    return getattr(nn, name)
