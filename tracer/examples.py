"""Example values and sizes for recording and checking: fresh ones that the user's program should accept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..eager.ops.types import is_floating
from .expr import Range

Sizes = dict[str, int]

#: Elements that all inputs of one check together may have; larger sizes in range are left to the user.
BUDGET = 1 << 22


def recording_sizes(ranges: Mapping[str, Range], example: Mapping[str, int], taken: Iterable[int]) -> Sizes:
    """Sizes for the first recording: the example's, but no 0 or 1 and no two alike where the ranges allow it.

    A size of 1 looks like an axis to broadcast, and equal sizes look like one: what is recorded at such a
    size would be right for it alone. `taken` are the fixed sizes of the inputs, which are avoided as well.
    """
    out: Sizes = {}
    for name, size in example.items():
        good = size > 1 and size not in out.values() and size not in taken
        out[name] = size if good else _fresh(ranges[name], {*out.values(), *taken}, size)
    return out


def other_sizes(ranges: Mapping[str, Range], first: Mapping[str, int], taken: Iterable[int]) -> Sizes:
    """Sizes for the second recording: each another than in the first, where its range allows it."""
    out: Sizes = {}
    for name, size in first.items():
        out[name] = _fresh(ranges[name], {*out.values(), *taken, *first.values()}, size, other=True)
    return out


def _fresh(range_: Range, avoid: set[int], size: int, other: bool = False) -> int:
    """A size in range, if possible not 0, 1 or in `avoid`; small primes first: no accidental ratios."""
    found = next((n for n in _candidates(range_) if n > 1 and n not in avoid), None)
    if found is None and other:
        found = next((n for n in _candidates(range_) if n != size), None)
    return size if found is None else found


def _candidates(range_: Range) -> Iterator[int]:
    low, high = range_
    limit = low + 100 if high is None else min(high, low + 100)
    primes = (n for n in (5, 7, 11, 13, 17, 19, 23, 29, 31) if low <= n <= limit)
    return chain(primes, range(max(low, 2), limit + 1), range(low, min(limit, 1) + 1))


def check_sizes(ranges: Mapping[str, Range], first: Mapping[str, int], elements: Any) -> list[Sizes]:
    """Sizes at which a finished graph is compared with eager: the smallest, then the middle of the ranges.

    `elements(sizes)` gives the number of input elements, which the middle is reduced to fit in BUDGET.
    """
    smallest = {name: low for name, (low, _) in ranges.items()}
    middle = {
        name: (low + (2 * first[name] if high is None else high)) // 2 for name, (low, high) in ranges.items()
    }
    while elements(middle) > BUDGET and middle != smallest:
        middle = {name: max(ranges[name][0], n // 2) for name, n in middle.items()}
    return [smallest] if middle == smallest else [smallest, middle]


def resized(array: Any, shape: Sequence[int], rng: np.random.Generator | None = None) -> Any:
    """An array of another shape with the values of `array`: repeated in order, or drawn at random with `rng`.

    Drawing keeps the domain: indices stay valid, positive numbers positive. Where all elements are equal
    there is nothing to draw from, and floating-point ones are spread instead.
    """
    array = np.asarray(array)
    if array.size == 0:
        return np.zeros(shape, array.dtype)
    if rng is None:
        grid = np.ix_(*(np.arange(n) % max(m, 1) for n, m in zip(shape, array.shape, strict=True)))
        return np.ascontiguousarray(array[grid]) if shape else array.copy()
    flat = array.reshape(-1)
    drawn = flat[rng.integers(0, flat.size, tuple(shape))]
    if is_floating(array.dtype) and bool((flat == flat[0]).all()):
        drawn = drawn * rng.uniform(0.5, 1.5, tuple(shape)) if flat[0] else rng.uniform(0, 1, tuple(shape))
    return np.asarray(drawn).astype(array.dtype)
