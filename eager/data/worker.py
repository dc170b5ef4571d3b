"""What a worker of a loader does: it seeds itself, fetches batches and reports what went wrong."""

from __future__ import annotations

import random
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from .. import random as streams
from ..random import Generator
from .collate import default_collate


@dataclass(frozen=True, slots=True)
class RandomStreams:
    """The random numbers of a worker thread, for which the global streams would be a race."""

    random_generator: random.Random
    torch_generator: Generator
    numpy_generator: np.random.Generator


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker of a loader, as seen from inside.

    `id` counts from 0 to num_workers - 1, `seed` is that of the epoch, `dataset` this worker's copy. `rng` holds
    the streams of a thread; a process uses the global ones. `worker_method`: "multiprocessing" or "thread".
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: RandomStreams | None = None
    worker_method: str = "multiprocessing"


process_info: list[WorkerInfo] = []
thread_info = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a loader, what is known of it; None elsewhere."""
    info = getattr(thread_info, "info", None)
    return info if info is not None or not process_info else process_info[-1]


@dataclass(frozen=True)
class Job:
    """What all workers of a loader do. `streaming`: the dataset is an iterable one; `batched`: samples are collated."""

    dataset: Any
    collate_fn: Callable[[Any], Any]
    batched: bool
    streaming: bool
    batch_size: int | None
    drop_last: bool
    init_fn: Callable[[int], None] | None
    num_workers: int


@dataclass(frozen=True)
class Failure:
    """An exception of a worker: its type if that can be sent, its name and the text of its traceback."""

    kind: type[BaseException] | None
    name: str
    text: str

    @classmethod
    def now(cls) -> Failure:
        """The exception that is being handled."""
        kind = sys.exc_info()[0]
        return cls(kind, getattr(kind, "__name__", "Exception"), traceback.format_exc())

    def reraise(self, where: str) -> None:
        """Raise it here: of the same type where that can be made of a text, else a RuntimeError."""
        message = f"Caught {self.name} in DataLoader worker {where}.\nOriginal {self.text}"
        raise made_of(self.kind, message)


class ReadableKey(str):
    """A message that a KeyError shows as it is, not as the repr of a key."""

    __slots__ = ()
    __repr__ = str.__str__


def made_of(kind: type[BaseException] | None, message: str) -> BaseException:
    # A StopIteration would end the loop over the loader as if all were well.
    if kind is None or not issubclass(kind, Exception) or issubclass(kind, StopIteration):
        return RuntimeError(message)
    try:
        return kind(ReadableKey(message) if issubclass(kind, KeyError) else message)
    except Exception:
        return RuntimeError(message)


END = object()  # what a stream gives that has no more batches


class StreamReader:
    """Batches of the samples of an iterable dataset, one after the other."""

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        self.samples: Iterator[Any] = iter(dataset)
        self.collate_fn, self.drop_last = collate_fn, drop_last

    def skip(self, batches: int, size: int | None) -> None:
        """Pass over so many batches without collating them."""
        for _ in islice(self.samples, batches * (size or 1)):
            pass

    def next_batch(self, size: int | None) -> Any:
        """The next batch of up to `size` samples, with None the next sample; END when there is none."""
        if size is None:
            sample = next(self.samples, END)
            return END if sample is END else self.collate_fn(sample)
        samples = list(islice(self.samples, size))
        if not samples or (self.drop_last and len(samples) < size):
            return END
        return self.collate_fn(samples)


class Worker:
    """The state of one worker, in a process or in a thread."""

    def __init__(self, job: Job, number: int, method: str) -> None:
        self.job, self.number, self.method = job, number, method
        self.failure: Failure | None = None
        self.started = False
        self.reader: StreamReader | None = None

    def begin(self, base_seed: int, skip: int) -> None:
        """Begin an epoch: seed, at the first one run the user's `worker_init_fn`, and pass over `skip` batches.

        An error in this is what every batch of the epoch reports.
        """
        seed = base_seed + self.number
        rng = self.seed(seed, base_seed)
        info = WorkerInfo(self.number, self.job.num_workers, seed, self.job.dataset, rng, self.method)
        if self.method == "thread":
            thread_info.info = info
        else:
            process_info[:] = [info]
        try:
            self.failure = None if self.started else self.failure
            if not self.started and self.job.init_fn is not None:
                self.job.init_fn(self.number)
            self.started = True
            if self.job.streaming:
                self.reader = StreamReader(self.job.dataset, self.job.collate_fn, self.job.drop_last)
                self.reader.skip(skip, self.job.batch_size)
        except Exception:
            self.failure = Failure.now()

    def seed(self, seed: int, base_seed: int) -> RandomStreams | None:
        """Seed the random numbers of Python, numpy and this package, differently for each worker and epoch."""
        # numpy's generator is weak for seeds that are close to one another.
        words = np.random.SeedSequence([base_seed & (1 << 64) - 1, self.number]).generate_state(4)
        if self.method == "thread":
            return RandomStreams(
                random.Random(seed), Generator().manual_seed(seed), np.random.default_rng(words.tolist())
            )
        random.seed(seed)
        streams.manual_seed(seed)
        np.random.seed(words)
        return None

    def fetch(self, indices: Any) -> Any:
        """The batch of `indices`, for a stream of as many samples as there are; END, or a Failure."""
        if self.failure is not None:
            return self.failure
        try:
            if self.reader is not None:
                return self.reader.next_batch(indices)
            return fetch(self.job.dataset, self.job.collate_fn, self.job.batched, indices)
        except Exception:
            return Failure.now()


def fetch(dataset: Any, collate_fn: Callable[[Any], Any], batched: bool, indices: Any) -> Any:
    """The batch of the samples at `indices`; without batches, of the one at that index."""
    if not batched:
        return collate_fn(dataset[indices])
    if collate_fn is default_collate and hasattr(dataset, "collated"):
        batch = dataset.collated(indices)
        if batch is not None:
            return batch
    if callable(getattr(dataset, "__getitems__", None)):
        return collate_fn(dataset.__getitems__(indices))
    return collate_fn([dataset[index] for index in indices])
