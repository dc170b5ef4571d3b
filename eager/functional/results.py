"""The named tuples that functions of several results return."""

from __future__ import annotations

from typing import NamedTuple

from ..tensor import Tensor


class Frexp(NamedTuple):
    """What frexp returns."""

    mantissa: Tensor
    exponent: Tensor
