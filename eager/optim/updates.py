"""What the update rules share."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor


def subtract_scaled(param: Tensor, direction: Tensor, scale: Any) -> None:
    """param -= scale * direction, in place. `scale`: a number, or a tensor with a single element."""
    if isinstance(scale, Tensor):
        param.sub_(direction * scale)
    else:
        param.sub_(direction, alpha=scale)
