"""`DataLoader`: batches of a dataset, fetched in this process or by workers."""

from __future__ import annotations

import math
import multiprocessing
import multiprocessing.context
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .iterators import SingleProcessIterator
from .progress import Progress, streams_of
from .sampler import BatchSampler, RandomSampler, SequentialSampler

if TYPE_CHECKING:
    from .processes import Processes
    from .threads import Threads

T_co = TypeVar("T_co", covariant=True)


FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
"""Attributes that other ones were made from: they cannot be set later."""

METHODS = ("multiprocessing", "thread")


class DataLoader(Generic[T_co]):
    """Iterates over `dataset` in batches; PyTorch's arguments and errors.

    A map-style dataset is asked for the indices of `sampler` (by default in order, or with `shuffle` in a random
    order from `generator`), `batch_size` at a time, or for the lists of indices of `batch_sampler`. An iterable
    one is read in its own order. With `batch_size=None` samples come one by one. `collate_fn` makes a batch of
    a list of samples, or with batch_size=None whatever is wanted of one.

    With `num_workers` > 0 that many processes fetch and collate, `prefetch_factor` batches each ahead of the
    program; their batches lie in shared memory, which is used again once no tensor refers to it. In them
    `get_worker_info()` tells who they are, and the random numbers of Python, numpy and this package are seeded by
    worker and epoch. `worker_init_fn(id)` is run in each of them first. `persistent_workers` outlive the epoch;
    `timeout` is in seconds a batch; with `in_order=False` the batch that is ready first comes first.
    `multiprocessing_context` is a start method or a context. `worker_method="thread"` loads in threads.

    `state_dict()` in the middle of an epoch and `load_state_dict()` let another loader go on with the next batch.
    `pin_memory` makes no difference.
    """

    _ready = False

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
        worker_method: str = "multiprocessing",
    ) -> None:
        check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_method)
        self.is_iterable = isinstance(dataset, IterableDataset)
        if self.is_iterable:
            check_iterable(shuffle=shuffle, sampler=sampler, batch_sampler=batch_sampler)
        check_sampling(batch_size, bool(shuffle), sampler, batch_sampler, drop_last)

        self.dataset, self.num_workers, self.pin_memory = dataset, num_workers, pin_memory
        self.timeout, self.worker_init_fn, self.generator = timeout, worker_init_fn, generator
        self.multiprocessing_context, self.prefetch_factor = multiprocessing_context, prefetch_factor
        self.persistent_workers, self.pin_memory_device = persistent_workers, pin_memory_device
        self.in_order, self.drop_last, self.worker_method = in_order, drop_last, worker_method
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
        self._pool: Processes | Threads | None = None  # the workers that persist
        self._progress: Progress | None = None
        self._resumed: Progress | None = None
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and name in FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How processes are started: a context, or None for the standard one."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self._context = checked_context(context, self.num_workers)

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers == 0:
            return SingleProcessIterator(self)
        from .parallel import WorkerIterator

        return WorkerIterator(self)

    def _next_progress(self) -> Progress:
        self._progress, self._resumed = self._resumed or Progress(), None
        return self._progress

    def state_dict(self) -> dict[str, Any]:
        """How far the loader is: in the middle of an epoch, the batches that were handed out since it began.

        Numbers and lists of them. What the dataset does at random is not in it.
        """
        progress = self._resumed or self._progress
        if progress is None or progress.finished:
            progress = Progress(streams=streams_of(self))
        return progress.state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration go on where `state` was taken: with the same order, after the same batch.

        The samples of a stream that came before are read again and dropped.
        """
        self._resumed = Progress(**state, resumed=True)

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
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool, method: str
) -> None:
    """ValueError for wrong settings of workers."""
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
    if method not in METHODS:
        raise ValueError(f"worker_method should be one of {', '.join(METHODS)}, but got {method!r}")


def checked_context(context: Any, num_workers: int) -> Any:
    """A start method's context; ValueError for an unknown one or without workers, TypeError for anything else."""
    if context is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    if isinstance(context, str):
        known = multiprocessing.get_all_start_methods()
        if context not in known:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {known!r}, but got "
                f"multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start "
            f"method, but got multiprocessing_context={context}"
        )
    return context


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
