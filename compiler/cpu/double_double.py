"""Exact sums and products of floats as unevaluated pairs (high, low), |low| at most half a unit of high.

The error-free transformations of Dekker (1971) and Knuth; nothing here may be reassociated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .builder import Value, literal

if TYPE_CHECKING:
    from .scalars import LlvmScalars

Pair = tuple[Value, Value]

_SPLITTER = {"float32": 2.0**12 + 1, "float64": 2.0**27 + 1}


def two_sum(s: LlvmScalars, x: Value, y: Value) -> Pair:
    """x + y exactly, whichever is larger."""
    high = s.add(x, y)
    other = s.sub(high, x)
    return high, s.add(s.sub(x, s.sub(high, other)), s.sub(y, other))


def fast_two_sum(s: LlvmScalars, x: Value, y: Value) -> Pair:
    """x + y exactly, for |x| >= |y| or x = 0."""
    high = s.add(x, y)
    return high, s.sub(y, s.sub(high, x))


def two_product(s: LlvmScalars, x: Value, y: Value) -> Pair:
    """x * y exactly, for factors below 2^996 (float64) whose product's low part does not underflow."""
    high = s.mul(x, y)
    if s.level.fma:
        return high, s.fma(x, y, s.neg(high))
    (x1, x2), (y1, y2) = _split(s, x), _split(s, y)
    low = s.sub(s.mul(x1, y1), high)
    return high, s.add(s.add(s.add(low, s.mul(x1, y2)), s.mul(x2, y1)), s.mul(x2, y2))


def _split(s: LlvmScalars, x: Value) -> Pair:
    """x as two numbers of half as many bits."""
    scaled = s.mul(x, literal(_SPLITTER[x.dtype], x.dtype))
    high = s.sub(scaled, s.sub(scaled, x))
    return high, s.sub(x, high)


def product(s: LlvmScalars, x: Pair, y: Pair) -> Pair:
    """x * y with a relative error near the square of the format's: the low parts' product is left out."""
    high, low = two_product(s, x[0], y[0])
    return high, s.add(low, s.fma(x[0], y[1], s.mul(x[1], y[0])))
