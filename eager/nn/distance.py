"""Layers that compare or combine two inputs."""

from __future__ import annotations

import math
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along axis `dim`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last axis."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class Bilinear(Module):
    """`x1 @ weight[k] @ x2 + bias[k]` for every output k: (..., in1), (..., in2) to (..., out)."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        like = {"device": device, "dtype": dtype}
        self.weight = Parameter(F.empty((out_features, in1_features, in2_features), **like))
        self.register_parameter("bias", Parameter(F.empty(out_features, **like)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters uniform within 1/sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
