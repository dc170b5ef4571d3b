"""Layers that change the shape alone."""

from __future__ import annotations

from ..tensor import Tensor
from .module import Module


class Flatten(Module):
    """Joins the axes from `start_dim` to `end_dim` into one; by default all but the batch axis."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits axis `dim` into axes of the sizes `unflattened_size`."""

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        before, after = input.shape[: self.dim], input.shape[self.dim :][1:]
        return input.reshape(*before, *self.unflattened_size, *after)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
