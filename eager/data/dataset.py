"""Datasets: things with samples, by index or one after the other."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np

from .. import functional as F
from ..tensor import Tensor
from . import collate

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index: define `__getitem__`, and `__len__` for samplers.

    A dataset that can fetch many samples at once may define `__getitems__(indices)`, giving a list of samples.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Samples one after the other, from a stream: define `__iter__`."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample i is the tuple of row i of each tensor; all must have the same number of rows."""

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [int(tensor.shape[0]) for tensor in tensors]
        if len(set(sizes)) > 1:
            raise AssertionError(f"Size mismatch between tensors: they have {sizes} rows; make them equal")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def collated(self, indices: Sequence[int]) -> list[Tensor] | None:
        """What `default_collate` makes of these samples, in one step; None in subclasses with other samples."""
        if type(self).__getitem__ is not TensorDataset.__getitem__:
            return None
        return [rows(tensor, indices) for tensor in self.tensors]


def rows(tensor: Tensor, indices: Sequence[int]) -> Tensor:
    """These rows of a tensor, in the memory of batches where the tensor is an array off the tape."""
    array, n = tensor.array, len(indices)
    if type(array) is not np.ndarray or tensor.node is not None or not array.size or not n:
        return tensor[list(indices)]
    where = np.asarray(indices)
    if where.dtype.kind != "i" or where.ndim != 1 or where.min() < 0 or where.max() >= len(array):
        return tensor[list(indices)]
    out = collate.new_array((n, *array.shape[1:]), array.dtype)
    np.take(array, where, 0, out, mode="clip")  # with bounds to check numpy would fill a buffer first
    return Tensor(out)


class StackDataset(Dataset[Any]):
    """Sample i is the tuple of sample i of each dataset, or with keywords the dict."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("StackDataset takes datasets by position or by keyword, but got both")
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = args or kwargs
        if len({len(dataset) for dataset in args or kwargs.values()}) > 1:
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return len(
            next(iter(self.datasets.values())) if isinstance(self.datasets, dict) else self.datasets[0]
        )


class ConcatDataset(Dataset[Any]):
    """The samples of several datasets, one dataset after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect_right(self.cumulative_sizes, index)
        if which == len(self.datasets):
            raise IndexError(f"index {index} is out of range for a ConcatDataset of {len(self)} samples")
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[Any]):
    """The streams of several iterable datasets, one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(
                    f"ChainDataset only supports IterableDataset, but got {type(dataset).__name__}"
                )
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class Subset(Dataset[Any]):
    """The samples of `dataset` at `indices`."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        inner = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(inner)
        return [self.dataset[i] for i in inner]

    def __len__(self) -> int:
        return len(self.indices)

    def collated(self, indices: Sequence[int]) -> list[Tensor] | None:
        """As the dataset's own `collated`; None where it has none."""
        if type(self).__getitem__ is not Subset.__getitem__ or not hasattr(self.dataset, "collated"):
            return None
        return self.dataset.collated([self.indices[i] for i in indices])


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset]:
    """Subsets of the given lengths, with samples drawn at random, that have no sample in common.

    `lengths` may be fractions that add up to 1: then each length is rounded down, and what remains is dealt out
    one by one. ValueError when the lengths do not add up to the dataset's.
    """
    sizes = whole_lengths(len(dataset), lengths)
    if sum(sizes) != len(dataset):
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset! "
            f"{list(lengths)} for {len(dataset)} samples"
        )
    order = F.randperm(len(dataset), generator=generator).tolist()
    ends = list(accumulate(sizes))
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, sizes, strict=True)]


def whole_lengths(total: int, lengths: Sequence[float]) -> list[int]:
    """Lengths in samples, of lengths in samples or in fractions."""
    if not (math.isclose(sum(lengths), 1) and sum(lengths) <= 1):
        return [int(n) for n in lengths]
    for i, fraction in enumerate(lengths):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    sizes = [math.floor(total * fraction) for fraction in lengths]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, n in enumerate(sizes):
        if n == 0:
            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=3
            )
    return sizes
