"""Tensors that a module owns: parameters, which are trained, and buffers, which are state."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import get_default_dtype
from ..tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module lists among its parameters when it is assigned as an attribute.

    The values of `data`, by default none, are shared, not copied; its history is left behind.
    """

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        share_values(self, data, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        # The gradient stays behind, unlike that of a plain leaf.
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor that a module lists among its buffers, persistent or not, when it is assigned as an attribute."""

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        share_values(self, data, False)
        self.persistent = persistent


def share_values(tensor: Tensor, data: Tensor | None, requires_grad: bool) -> None:
    """Initialise `tensor` with the memory of `data`, so that a write to either counts for both."""
    if data is None:
        Tensor.__init__(tensor, np.empty(0, get_default_dtype().numpy), requires_grad)
        return
    if not isinstance(data, Tensor):
        raise TypeError(
            f"{type(tensor).__name__} wants a Tensor, got {type(data).__name__}; use tapecast.tensor(data)"
        )
    Tensor.__init__(tensor, data.array, requires_grad)
    tensor.storage = data.shared_storage()
