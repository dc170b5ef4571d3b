"""The iterator of a loader with workers, which are kept busy ahead of the program."""

from __future__ import annotations

import warnings
import weakref
from typing import TYPE_CHECKING, Any

import numpy.random  # noqa: F401  # which numpy loads on its first use: once here, not in every worker

from .iterators import LoaderIterator
from .memory import COPIED_LIMIT, growth_warning
from .processes import Processes
from .threads import Threads
from .worker import END, Failure, Job

if TYPE_CHECKING:
    from .dataloader import DataLoader

GRACE = 5.0  # seconds for workers to end after the last batch
GRACE_WHEN_LEFT = 1.0  # and for those whose batches nobody wants


class WorkerIterator(LoaderIterator):
    """Keeps `prefetch_factor` batches under way at each worker.

    With `in_order` the workers take turns, which makes the order that of the sampler; a worker whose stream has
    ended is left out. Without, the first batch that is ready comes first.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.ahead = 2 if loader.prefetch_factor is None else max(1, loader.prefetch_factor)
        self.pool: Any = loader._pool or new_pool(loader, self.ahead)
        if not loader.persistent_workers:
            weakref.finalize(self, self.pool.close, GRACE_WHEN_LEFT)
        elif loader._pool is None:
            loader._pool = self.pool
            weakref.finalize(loader, self.pool.close, GRACE_WHEN_LEFT)
        super().__init__(loader)

    def begin(self) -> None:
        super().begin()
        progress, n = self.progress, self.loader.num_workers
        self.pool.serial = self.serial = self.pool.serial + 1
        self.pending = [0] * n  # batches under way
        self.given = list(progress.workers) or [0] * n
        if len(self.given) != n:
            raise ValueError(f"the state is one of {len(self.given)} workers, but num_workers={n}")
        progress.workers = self.given
        self.turn = progress.turn if self.loader.is_iterable else progress.batches % n
        for worker in range(n):
            skip = self.given[worker] if self.loader.is_iterable else 0
            self.pool.send(worker, "begin", self.serial, self.base_seed, skip)
        for worker in [(self.turn + i) % n for i in range(n)] * self.ahead:
            self.ask(worker)

    def ask(self, worker: int) -> None:
        """Give a worker its next task, if there is one."""
        if self.loader.is_iterable and worker in self.progress.ended:
            return
        indices = next(self.indices, END)
        if indices is not END:
            self.pool.send(worker, "task", self.serial, indices)
            self.pending[worker] += 1

    def next_batch(self) -> Any:
        if self.pool.serial != self.serial:
            raise RuntimeError(
                "this iteration has ended, because another over the same DataLoader has begun: its workers are "
                "persistent and can do one at a time; pass persistent_workers=False"
            )
        try:
            return self.next_result()
        except KeyboardInterrupt:
            self.stop(0)
            raise
        except (RuntimeError, OSError):
            if self.pool.broken:
                self.stop(0)
            raise

    def next_result(self) -> Any:
        while (handle := self.next_handle()) is not None:
            kind, value = self.take(handle)
            number = handle.number
            self.pending[number] -= 1
            if self.loader.is_iterable and kind == "end":
                self.progress.ended.append(number)
                continue
            self.given[number] += 1
            self.ask(number)
            self.check_growth(handle)
            if kind == "failure":
                self.progress.batches += 1
                value.reraise(handle.where)
            return value
        return END

    def next_handle(self) -> Any:
        """The worker whose result comes next; None when nothing is to come."""
        n = len(self.pending)
        waiting = [w for w in range(n) if self.is_waiting(w)]
        if not waiting:
            return None
        if not self.loader.in_order:
            return self.first_ready(waiting)
        number = next(w for w in ((self.turn + i) % n for i in range(n)) if w in waiting)
        self.progress.turn = self.turn = (number + 1) % n
        self.await_result(self.pool.workers[number])
        return self.pool.workers[number]

    def is_waiting(self, worker: int) -> bool:
        return self.pending[worker] > 0 and not (self.loader.is_iterable and worker in self.progress.ended)

    def first_ready(self, waiting: list[int]) -> Any:
        while True:
            for worker in waiting:
                self.drop_old(self.pool.workers[worker])
                if self.pool.workers[worker].results:
                    return self.pool.workers[worker]
            self.await_result(None)

    def await_result(self, handle: Any) -> None:
        while True:
            if handle is not None:
                self.drop_old(handle)
                if handle.results:
                    return
            if not self.pool.wait(handle, self.loader.timeout or None):
                late = [handle] if handle is not None else self.pool.workers
                names = ", ".join(worker.describe() for worker in late)
                self.stop(0)
                raise RuntimeError(
                    f"DataLoader timed out after {self.loader.timeout} seconds, waiting for {names} to fetch batch "
                    f"{self.progress.batches}"
                )
            if handle is None:
                return

    def drop_old(self, handle: Any) -> None:
        """Give back what belongs to an epoch that was left before its end."""
        while handle.results and handle.results[0][1] != self.serial:
            kind, _, body = handle.results.popleft()
            handle.discard(kind, body)

    def take(self, handle: Any) -> tuple[str, Any]:
        kind, _, body = handle.results.popleft()
        value = handle.open(kind, body)
        return ("failure" if isinstance(value, Failure) else kind), value

    def check_growth(self, handle: Any) -> None:
        if self.pool.warned or not handle.copied or handle.copied < COPIED_LIMIT:
            return
        self.pool.warned = True
        n, dataset = self.loader.num_workers, self.loader.dataset
        warnings.warn(
            growth_warning(handle.number, handle.process.pid, handle.copied, n, dataset), stacklevel=5
        )

    def finish(self) -> None:
        if not self.loader.persistent_workers:
            self.stop(GRACE)

    def stop(self, grace: float) -> None:
        """End the workers; there are no more batches."""
        self.exhausted = True
        self.pool.close(grace)
        if self.loader._pool is self.pool:
            self.loader._pool = None


def new_pool(loader: DataLoader[Any], ahead: int) -> Any:
    """The workers of a loader, as processes or threads."""
    job = Job(
        loader.dataset,
        loader.collate_fn,
        loader.batch_sampler is not None,
        loader.is_iterable,
        loader.batch_size,
        loader.drop_last,
        loader.worker_init_fn,
        loader.num_workers,
    )
    if loader.worker_method == "thread":
        return Threads(job)
    return Processes(job, loader.multiprocessing_context, ahead * loader.num_workers)
