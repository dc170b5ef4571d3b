"""Sizes of windows: a number or a pair, given in the ways that PyTorch takes."""

from __future__ import annotations

from typing import Any

Pair = tuple[int, int]


def two(value: Any, name: str = "a size") -> Pair:
    """A number or a pair as a pair."""
    if isinstance(value, int):
        return value, value
    out = tuple(value)
    if len(out) == 1:
        return out[0], out[0]
    if len(out) != 2:
        raise RuntimeError(f"{name} wants one number or two, got {value}")
    return out[0], out[1]


def one(value: Any) -> int:
    return value if isinstance(value, int) else next(iter(value))
