"""Sizes of windows: a number or one number an axis, given in the ways that PyTorch takes."""

from __future__ import annotations

from typing import Any

Pair = tuple[int, int]
Sizes = tuple[int, ...]


def many(value: Any, count: int, name: str = "a size") -> Sizes:
    """A number, or a sequence of one or of `count`, as `count` numbers. RuntimeError for any other."""
    if isinstance(value, int):
        return (value,) * count
    out = tuple(value)
    if len(out) == 1:
        return out * count
    if len(out) != count:
        raise RuntimeError(f"{name} wants one number or {count}, got {value}")
    return out


def two(value: Any, name: str = "a size") -> Pair:
    """A number or a pair as a pair."""
    first, second = many(value, 2, name)
    return first, second


def one(value: Any) -> int:
    (only,) = many(value, 1)
    return only
