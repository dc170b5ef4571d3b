"""Layers that add elements at the ends of the last axes."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import functional as F
from ..tensor import Tensor
from .module import Module


class Padding(Module):
    """`padding`: a number for all ends, or (before, after) of the last axis, then of the one before it, …"""

    axes: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        ends = 2 * self.axes
        self.padding = (padding,) * ends if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != ends:
            raise ValueError(f"{type(self).__name__} wants one number or {ends}, got {padding}")

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ConstantPad(Padding):
    """Pads with `value`."""

    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(ConstantPad):
    """Pads the last axis with `value`."""

    axes = 1


class ConstantPad2d(ConstantPad):
    """Pads the last two axes with `value`."""

    axes = 2


class ConstantPad3d(ConstantPad):
    """Pads the last three axes with `value`."""

    axes = 3


class ZeroPad(ConstantPad):
    """Pads with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(ZeroPad):
    """Pads the last axis with zeros."""

    axes = 1


class ZeroPad2d(ZeroPad):
    """Pads the last two axes with zeros."""

    axes = 2


class ZeroPad3d(ZeroPad):
    """Pads the last three axes with zeros."""

    axes = 3


class ReflectionPad1d(Padding):
    """Pads the last axis with its mirror image, the outermost element aside."""

    axes, mode = 1, "reflect"


class ReflectionPad2d(Padding):
    """Pads the last two axes with their mirror images."""

    axes, mode = 2, "reflect"


class ReflectionPad3d(Padding):
    """Pads the last three axes with their mirror images."""

    axes, mode = 3, "reflect"


class ReplicationPad1d(Padding):
    """Pads the last axis with its outermost elements."""

    axes, mode = 1, "replicate"


class ReplicationPad2d(Padding):
    """Pads the last two axes with their outermost elements."""

    axes, mode = 2, "replicate"


class ReplicationPad3d(Padding):
    """Pads the last three axes with their outermost elements."""

    axes, mode = 3, "replicate"


class CircularPad(Padding):
    """Pads with the elements of the other end."""

    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        low, high = self.axes + 1, self.axes + 2
        if input.ndim not in (low, high):
            raise ValueError(f"expected {low}D or {high}D input (got {input.ndim}D input)")
        return super().forward(input)


class CircularPad1d(CircularPad):
    """Pads the last axis with its other end."""

    axes = 1


class CircularPad2d(CircularPad):
    """Pads the last two axes with their other ends."""

    axes = 2


class CircularPad3d(CircularPad):
    """Pads the last three axes with their other ends."""

    axes = 3
