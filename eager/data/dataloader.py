"""`DataLoader`: batches of a dataset, in this process."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler

T_co = TypeVar("T_co", covariant=True)


def get_worker_info() -> None:
    """In a worker process, what is known of it; None in the main process."""
    return None


class DataLoader(Generic[T_co]):
    """Iterates over `dataset` in batches; PyTorch's arguments and errors.

    A map-style dataset is asked for the indices of `sampler` (by default in order, or with `shuffle` in a random
    order from `generator`), `batch_size` at a time, or for the lists of indices of `batch_sampler`. An iterable
    one is read in its own order. With `batch_size=None` samples come one by one. `collate_fn` makes a batch of
    a list of samples, or with batch_size=None whatever is wanted of one.

    Everything runs in the calling process: `num_workers` must be 0. `pin_memory` makes no difference.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        self.is_iterable = isinstance(dataset, IterableDataset)
        if self.is_iterable:
            check_iterable(shuffle=shuffle, sampler=sampler, batch_sampler=batch_sampler)
        check_sampling(batch_size, bool(shuffle), sampler, batch_sampler, drop_last)

        self.dataset, self.num_workers, self.pin_memory = dataset, num_workers, pin_memory
        self.timeout, self.worker_init_fn, self.generator = timeout, worker_init_fn, generator
        self.multiprocessing_context, self.prefetch_factor = multiprocessing_context, prefetch_factor
        self.persistent_workers, self.pin_memory_device = persistent_workers, pin_memory_device
        self.in_order, self.drop_last = in_order, drop_last
        self.batch_size = None if batch_sampler is not None else batch_size
        if sampler is None and not self.is_iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.sampler = sampler
        if batch_sampler is None and batch_size is not None:
            # The samples of a stream have no indices; there the batch sampler only counts.
            batch_sampler = BatchSampler(sampler if sampler is not None else (), batch_size, drop_last)
        self.batch_sampler = batch_sampler
        batched = batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        self._reported_length: int | None = None

    def __iter__(self) -> Iterator[Any]:
        if self.is_iterable:
            return self._batches_of_stream()
        if self.batch_sampler is None:
            return (self.collate_fn(self.dataset[index]) for index in self.sampler or ())
        return map(self._fetch, self.batch_sampler)

    def _fetch(self, indices: list[Any]) -> Any:
        """The batch of the samples at `indices`."""
        dataset = self.dataset
        if self.collate_fn is default_collate and hasattr(dataset, "collated"):
            batch = dataset.collated(indices)
            if batch is not None:
                return batch
        if callable(getattr(dataset, "__getitems__", None)):
            return self.collate_fn(dataset.__getitems__(indices))
        return self.collate_fn([dataset[index] for index in indices])

    def _batches_of_stream(self) -> Iterator[Any]:
        for number, samples in enumerate(self._samples_of_stream(), 1):
            if self._reported_length is not None and number == self._reported_length + 1:
                warnings.warn(
                    f"Length of IterableDataset {self.dataset} was reported to be {self._reported_length} "
                    f"batches (when accessing len(dataloader)), but {number} have been fetched.",
                    stacklevel=2,
                )
            yield self.collate_fn(samples)

    def _samples_of_stream(self) -> Iterator[Any]:
        """Lists of samples, or single ones without batches."""
        if self.batch_size is None:
            yield from self.dataset
        else:
            yield from BatchSampler(self.dataset, self.batch_size, self.drop_last)

    def __len__(self) -> int:
        """Number of batches; for an iterable dataset what follows from its own `__len__`, if it has one."""
        if not self.is_iterable:
            return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)  # type: ignore[arg-type]
        length = len(self.dataset)
        if self.batch_size is not None:
            length = length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)
        self._reported_length = length
        return length


def check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool, context: Any
) -> None:
    """ValueError for wrong settings of worker processes, and for asking for any."""
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch_factor is not None and num_workers == 0:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if context is not None and num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    if num_workers > 0:
        raise ValueError(
            f"num_workers={num_workers} is not supported: this DataLoader loads in the calling process alone; "
            "pass num_workers=0"
        )


def check_iterable(**options: Any) -> None:
    """ValueError for options that need indices, which an iterable dataset has not."""
    for name, value in options.items():
        if value not in (None, False) if name == "shuffle" else value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def check_sampling(
    batch_size: int | None, shuffle: bool, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    """ValueError for options that contradict one another."""
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
        )
    if batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )
