"""Worker processes of a loader: how they are started, spoken to, watched and ended.

Each worker has a pipe for its tasks and a socket for its batches, so that one that is killed breaks nothing that
others use. Messages are short, for batches lie in shared memory (`ring`).
"""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import pickle
import resource
import select
import signal
import socket
import struct
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..multiprocessing import segments
from ..multiprocessing.segments import Segment, amount
from ..multiprocessing.spawning import signal_name
from ..settings import set_num_threads
from . import collate
from .memory import Memory
from .ring import COMMON, Mapped, Ring
from .worker import END, Failure, Job, Worker

LONGEST = 1 << 17  # bytes of a message on the socket
PATIENCE = 2.0  # seconds between looks at whether the parent is alive
DESCRIPTORS = 6  # that the loader takes for each worker, those of starting it included


# ---- in the worker -------------------------------------------------------------------------------------------


def main(
    job: Job,
    number: int,
    tasks: Any,
    results: socket.socket,
    parent: int,
    inherited: list[Any],
    strategy: str,
) -> None:
    """What a worker process runs until the loader closes the pipe or is gone."""
    signal.signal(signal.SIGINT, lambda *_: None)  # the parent is interrupted too, and raises it once
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for other in inherited:
        other.close()
    gc.freeze()  # a collection would write to all objects, and so copy the parent's memory
    use_one_thread()
    segments.strategy[0] = strategy
    try:
        ProcessLoop(job, number, tasks, results, parent, Memory(forked=bool(inherited))).run()
    except (BrokenPipeError, ConnectionError):
        pass  # nobody listens any more


def use_one_thread() -> None:
    """Let compiled models and numpy's products run in one thread: the other cores are for the other workers."""
    os.environ["TAPECAST_NUM_THREADS"] = "1"
    set_num_threads(1)


class ProcessLoop:
    """Takes tasks from the pipe and sends batches to the socket."""

    def __init__(
        self, job: Job, number: int, tasks: Any, results: socket.socket, parent: int, memory: Memory
    ) -> None:
        self.worker = Worker(job, number, "multiprocessing")
        self.tasks, self.results, self.parent = tasks, results, parent
        self.results.settimeout(PATIENCE)
        self.ring = Ring(self.announce)
        self.memory = memory
        collate.allocator[:] = [self.ring.empty]

    def run(self) -> None:
        while message := self.next_message():
            kind, serial, *content = pickle.loads(message)
            if kind == "begin":
                self.worker.begin(*content)
                continue
            indices, released = content
            self.ring.released.extend(released)
            value = self.worker.fetch(indices)
            self.reply(serial, value)
            del value

    def next_message(self) -> bytes | None:
        """The next task; nothing when the loader is done or gone."""
        poll = select.poll()
        poll.register(self.tasks.fileno(), select.POLLIN)
        while not poll.poll(PATIENCE * 1000):
            if not self.parent_is_alive():
                return None
        try:
            return self.tasks.recv_bytes()
        except (EOFError, OSError):
            return None

    def parent_is_alive(self) -> bool:
        process = multiprocessing.parent_process()
        if process is not None and not process.is_alive():
            return False
        return (
            os.getppid() == self.parent or multiprocessing.get_start_method(allow_none=True) == "forkserver"
        )

    def reply(self, serial: int, value: Any) -> None:
        if value is END:
            self.send(("end", serial, None, None))
            return
        kind, body = self.packed(value)
        self.send((kind, serial, body, self.memory.latest))
        self.memory.look()  # after the batch, which it takes longer to measure than to send

    def packed(self, value: Any) -> tuple[str, Any]:
        """What to send of a batch; of a Failure, too where a batch cannot be sent."""
        if not isinstance(value, Failure):
            try:
                return "batch", self.ring.pack(value)[0]
            except Exception:
                value = Failure.now()
        try:
            return "failure", self.ring.pack(value)[0]
        except Exception:  # the type is not one that another process finds by its name
            return "failure", self.ring.pack(Failure(None, value.name, value.text))[0]

    def announce(self, number: int, segment: Segment | None) -> None:
        if segment is None:
            self.send(("drop", number, None, None))
        else:
            assert segment.fd is not None
            self.send(("segment", number, segment.size, None), [segment.fd])

    def send(self, message: tuple[Any, ...], descriptors: list[int] | None = None) -> None:
        data = pickle.dumps(message, protocol=5)
        while True:
            try:
                socket.send_fds(self.results, [data], descriptors or [])
                return
            except TimeoutError:
                if not self.parent_is_alive():
                    raise BrokenPipeError from None


# ---- in the loader -------------------------------------------------------------------------------------------


class Handle:
    """The loader's end of one worker."""

    def __init__(self, number: int, process: Any, tasks: Any, results: socket.socket) -> None:
        self.number, self.process, self.tasks, self.socket = number, process, tasks, results
        self.mapped = Mapped()
        self.results: deque[tuple[str, int, Any]] = deque()
        self.broken = False  # the process has died, or what it says cannot be taken in any more
        self.copied: int | None = None
        self.extra: int | None = None

    @property
    def where(self) -> str:
        return f"process {self.number}"

    def describe(self) -> str:
        """For messages about this worker."""
        state = "alive" if self.process.is_alive() else "dead"
        return f"worker {self.number} (pid {self.process.pid}, {state})"

    def receive(self) -> bool:
        """Take in one message if there is one."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self.socket, LONGEST, 1)
        except (BlockingIOError, ConnectionError):
            return False
        if not data:
            return False
        kind, number, content, report = pickle.loads(data)
        if kind == "segment":
            if not descriptors:
                self.broken = True
                raise OSError(errno.EMFILE, OUT_OF_DESCRIPTORS.format(worker=self.describe()))
            self.mapped.segments[number] = segment = Segment(descriptors[0], content)
            segment.close()
        elif kind == "drop":
            del self.mapped.segments[number]
        else:
            self.results.append((kind, number, content))
        if report is not None:
            self.extra, self.copied = report
        return True

    def open(self, kind: str, body: Any) -> Any:
        """The batch or Failure of a message."""
        return END if kind == "end" else self.mapped.unpack(body)

    def discard(self, kind: str, body: Any) -> None:
        if kind != "end":
            self.mapped.discard(body)

    def close(self) -> None:
        """Tell the worker to end. Closing the pipe would do, did not other processes hold its end as well."""
        if not self.tasks.closed:
            with suppress(OSError):
                os.write(self.tasks.fileno(), header(0))
        HANDLES.discard(self)
        self.tasks.close()
        self.socket.close()


HANDLES: weakref.WeakSet[Handle] = weakref.WeakSet()


def ends_of_loaders() -> list[Any]:
    """This process's ends of the pipes and sockets of all workers, which a forked worker is to close."""
    return [end for handle in HANDLES for end in (handle.tasks, handle.socket)]


class Processes:
    """The worker processes of an iterator."""

    def __init__(self, job: Job, context: Any, in_flight: int) -> None:
        context = context or multiprocessing
        if isinstance(context, str):
            context = multiprocessing.get_context(context)
        check_resources(job.num_workers, in_flight)
        self.creator = os.getpid()
        self.warned = False  # of memory that is copied
        self.serial = 0  # of the epoch
        self.workers: list[Handle] = []
        self.poll = select.poll()
        self.by_socket: dict[int, Handle] = {}
        self.by_sentinel: dict[int, Handle] = {}
        try:
            for number in range(job.num_workers):
                self.start(job, number, context)
        except BaseException:
            self.close(0)
            raise

    @property
    def broken(self) -> bool:
        """Whether there is no going on."""
        return any(handle.broken for handle in self.workers)

    def start(self, job: Job, number: int, context: Any) -> None:
        reader, writer = context.Pipe(duplex=False)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        forks = context.get_start_method() == "fork"
        inherited = [*ends_of_loaders(), writer, ours] if forks else []
        process = context.Process(
            target=main,
            args=(job, number, reader, theirs, os.getpid(), inherited, segments.strategy[0]),
            daemon=True,
        )
        with without_interrupt():
            process.start()
        reader.close()
        theirs.close()
        os.set_blocking(writer.fileno(), False)
        ours.setblocking(False)
        handle = Handle(number, process, writer, ours)
        self.workers.append(handle)
        HANDLES.add(handle)
        self.by_socket[ours.fileno()] = self.by_sentinel[process.sentinel] = handle
        self.poll.register(ours.fileno(), select.POLLIN)
        self.poll.register(process.sentinel, select.POLLIN)

    def send(self, number: int, kind: str, *content: Any) -> None:
        """Send a task; what the worker says meanwhile is taken in, for it may wait for that."""
        handle = self.workers[number]
        if kind == "task":
            content = (*content, handle.mapped.take_released())
        body = pickle.dumps((kind, *content), protocol=5)
        data = memoryview(header(len(body)) + body)
        while data:
            try:
                data = data[os.write(handle.tasks.fileno(), data) :]
            except BlockingIOError:
                while handle.receive():
                    pass
                select.select([handle.socket], [handle.tasks], [], 0.5)
            except BrokenPipeError:
                self.raise_if_dead(handle)
                return

    def wait(self, handle: Handle | None, timeout: float | None) -> bool:
        """Wait until this worker, or any, has a result; False after `timeout` seconds. RuntimeError for a dead one."""
        wanted = self.workers if handle is None else [handle]
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            for worker in wanted:
                while worker.receive():
                    pass
            if any(worker.results for worker in wanted):
                return True
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            self.take_in(None if left is None else left * 1000)

    def take_in(self, milliseconds: float | None) -> None:
        for descriptor, _ in self.poll.poll(milliseconds):
            if (handle := self.by_socket.get(descriptor)) is not None:
                if not handle.receive():
                    self.poll.unregister(descriptor)  # its other end is closed; the process is about to end
                continue
            handle = self.by_sentinel[descriptor]
            while handle.receive():
                pass
            self.raise_if_dead(handle)

    def raise_if_dead(self, handle: Handle) -> None:
        handle.process.join(timeout=5)
        code, pid = handle.process.exitcode, handle.process.pid
        handle.broken = True
        raise RuntimeError(died(handle.number, pid, code))

    def close(self, grace: float) -> None:
        """End the processes: those that have not ended `grace` seconds after they were told to are made to."""
        if os.getpid() != self.creator:
            return
        for handle in self.workers:
            handle.close()
        end = time.monotonic() + grace
        for action, wait in ((None, grace), ("terminate", 1.0), ("kill", 5.0)):
            end = time.monotonic() + wait
            for handle in self.workers:
                if action is not None and handle.process.is_alive():
                    getattr(handle.process, action)()
            for handle in self.workers:
                handle.process.join(max(0, end - time.monotonic()))


def header(length: int) -> bytes:
    """What the pipes of the standard library write before a message of so many bytes."""
    return (
        struct.pack("!i", length)
        if length <= 0x7FFFFFFF
        else struct.pack("!i", -1) + struct.pack("!Q", length)
    )


@contextmanager
def without_interrupt() -> Iterator[None]:
    """Ctrl-C waits; processes started here inherit that, until they are ready for it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


OUT_OF_DESCRIPTORS = (
    "the memory of {worker} of a DataLoader did not arrive, because this process has no file descriptor left for it; "
    "raise the limit (`ulimit -n 4096`), or close files and sockets"
)
HINTS: dict[int, str] = {
    signal.SIGKILL: " The system does that when memory runs out: use fewer workers or smaller batches.",
    signal.SIGBUS: " That is a file that became shorter, or a full /dev/shm, in the dataset's own memory maps.",
}


def died(number: int, pid: int, code: int | None) -> str:
    """The message about a worker that ended without being asked to."""
    if code is not None and code < 0:
        hint = HINTS.get(-code, "")
        return f"DataLoader worker {number} (pid {pid}) is killed by signal: {signal_name(-code)}.{hint}"
    return (
        f"DataLoader worker {number} (pid(s) {pid}) exited unexpectedly with exit code {code}. With the start methods "
        '"spawn" and "forkserver" the dataset must be importable, and the main module guarded by '
        '`if __name__ == "__main__":`.'
    )


def check_resources(num_workers: int, in_flight: int) -> None:
    """OSError, with numbers and a remedy, where descriptors or shared memory do not suffice for the workers."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    needed = DESCRIPTORS * num_workers + 2
    if limit != resource.RLIM_INFINITY and used + needed > limit:
        raise OSError(
            errno.EMFILE,
            f"too few file descriptors for num_workers={num_workers}: {used} of {limit} are open and about {needed} "
            f"more are needed; raise the limit (`ulimit -n {max(4096, 2 * (used + needed))}`) or use fewer workers",
        )
    memory = COMMON * num_workers * max(1, in_flight // max(1, num_workers))
    if (free := segments.free_space()) < memory:
        shortage = segments.shortage(memory, f"{amount(free)} free")
        raise OSError(
            errno.ENOSPC,
            f"too little shared memory for num_workers={num_workers}: {shortage}",
        )
