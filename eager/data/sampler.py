"""Samplers: the order in which a loader asks for samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from .. import functional as F
from ..dtypes import float64
from ..random import Generator

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """An iterable over indices, or over lists of them; a subclass defines `__iter__`, and may `__len__`."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... to the last sample."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """`num_samples` indices at random, by default each one once; with `replacement`, drawn independently."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source, self.replacement = data_source, replacement
        self._num_samples, self.generator = num_samples, generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        check_positive("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, generator = len(self.data_source), self.generator or fresh_generator()
        if self.replacement:
            return iter(F.randint(n, (self.num_samples,), generator=generator).tolist())
        return self.rounds(n, generator)

    def rounds(self, n: int, generator: Generator) -> Iterator[int]:
        """All indices in a random order, as often as it takes."""
        for start in range(0, self.num_samples, n):
            yield from islice(F.randperm(n, generator=generator).tolist(), self.num_samples - start)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in a random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        order = F.randperm(len(self.indices), generator=self.generator).tolist()
        return (self.indices[i] for i in order)

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` indices, index i with a probability proportional to `weights[i]`.

    Without `replacement` none comes twice, and each draw is among those that are left.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        check_positive("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = np.asarray(weights, dtype=np.float64)
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator
        check_weights(self.weights, num_samples, replacement)

    def __iter__(self) -> Iterator[int]:
        draw = self.with_replacement if self.replacement else self.without_replacement
        return iter(draw().tolist())

    def with_replacement(self) -> np.ndarray[Any, Any]:
        edges = np.cumsum(self.weights)
        points = self.uniform(self.num_samples) * edges[-1]
        # Rounding may put a point on the last edge, which belongs to the last index that can be drawn.
        return np.minimum(np.searchsorted(edges, points, side="right"), np.flatnonzero(self.weights)[-1])

    def without_replacement(self) -> np.ndarray[Any, Any]:
        # Efraimidis and Spirakis 2006: the largest u^(1/w) are such a sample; -log(u)/w orders them backwards.
        with np.errstate(divide="ignore"):
            keys = -np.log1p(-self.uniform(len(self.weights))) / self.weights
        keys[self.weights == 0] = np.inf
        return np.argsort(keys, kind="stable")[: self.num_samples]

    def uniform(self, n: int) -> np.ndarray[Any, Any]:
        return F.rand(n, dtype=float64, generator=self.generator).numpy()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler; the last may be shorter, or with `drop_last` absent."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        check_positive("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


def check_positive(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def check_weights(weights: np.ndarray[Any, Any], num_samples: int, replacement: bool) -> None:
    """ValueError for weights that are no probabilities, or too few for a draw without replacement."""
    if weights.ndim != 1:
        raise ValueError(
            f"weights should be a 1d sequence but given weights have shape {tuple(weights.shape)}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("weights should be finite and non-negative, and one of them positive")
    if not replacement and num_samples > np.count_nonzero(weights):
        raise ValueError(
            f"cannot draw {num_samples} samples without replacement from {np.count_nonzero(weights)} with a "
            "positive weight; draw fewer, or pass replacement=True"
        )


def fresh_generator() -> Generator:
    """A generator seeded by the default one, which thus moves by one draw however long the epoch is."""
    return Generator().manual_seed(int(F.randint(2**63 - 1, ()).item()))
