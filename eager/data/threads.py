"""Worker threads of a loader: they share the dataset with the program, and suit one that waits or leaves the GIL."""

from __future__ import annotations

import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import Any

from .worker import END, Failure, Job, Worker


class ThreadHandle:
    """One worker thread; its batches are objects, not messages."""

    def __init__(self, job: Job, number: int, ready: threading.Condition) -> None:
        self.number, self.ready = number, ready
        self.tasks: SimpleQueue[Any] = SimpleQueue()
        self.results: deque[tuple[str, int, Any]] = deque()
        self.copied = self.extra = None
        self.ended = False
        self.where = f"thread {number}"
        name = f"DataLoader worker {number}"
        self.thread = threading.Thread(target=self.run, args=(job,), name=name, daemon=True)
        self.thread.start()

    def describe(self) -> str:
        """For messages about this worker."""
        return f"worker {self.number} (thread, {'alive' if self.thread.is_alive() else 'dead'})"

    def run(self, job: Job) -> None:
        worker = Worker(job, self.number, "thread")
        while (message := self.tasks.get()) is not None and not self.ended:
            kind, serial, *content = message
            if kind == "begin":
                worker.begin(*content)
                continue
            value = worker.fetch(*content)
            found = "end" if value is END else "failure" if isinstance(value, Failure) else "batch"
            with self.ready:
                self.results.append((found, serial, value))
                self.ready.notify_all()
            del message, content, value

    def open(self, kind: str, body: Any) -> Any:
        return body

    def discard(self, kind: str, body: Any) -> None:
        pass


class Threads:
    """The worker threads of an iterator."""

    def __init__(self, job: Job) -> None:
        self.broken = self.warned = False
        self.serial = 0
        self.ready = threading.Condition()
        self.workers = [ThreadHandle(job, number, self.ready) for number in range(job.num_workers)]

    def send(self, number: int, kind: str, *content: Any) -> None:
        self.workers[number].tasks.put((kind, *content))

    def wait(self, handle: ThreadHandle | None, timeout: float | None) -> bool:
        """Wait until this worker, or any, has a result; False after `timeout` seconds."""
        wanted = self.workers if handle is None else [handle]
        with self.ready:
            return self.ready.wait_for(lambda: any(worker.results for worker in wanted), timeout)

    def close(self, grace: float) -> None:
        """Tell the threads to end, and wait `grace` seconds for it; what they do goes on in the background else."""
        for worker in self.workers:
            worker.ended = True
            worker.tasks.put(None)
        end = time.monotonic() + grace
        for worker in self.workers:
            worker.thread.join(max(0, end - time.monotonic()))
