"""Linear layers and Identity."""

from __future__ import annotations

import math
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter


class Identity(Module):
    """Returns its input; takes and ignores any arguments, so it can stand for any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """`x @ weight.T + bias`: (..., in_features) to (..., out_features).

    Weight and bias start uniform within 1/sqrt(in_features).
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(F.empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(F.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            init.default_bias_(self.bias, self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )
