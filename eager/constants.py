"""The numbers of the public surface."""

from math import e, inf, nan, pi

newaxis = None
"""An index that adds an axis of size 1: `x[:, newaxis]`."""

__all__ = ["e", "inf", "nan", "newaxis", "pi"]
