"""`spawn`: the same function in several processes; the first that fails ends them all, and its error is raised."""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

PR_SET_PDEATHSIG = 1  # Linux, prctl(2)


class ProcessException(Exception):
    """A process of `spawn` failed: `error_index` is its rank, `error_pid` its process id."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process raised an exception; the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """A process ended with an exit code (`exit_code`) or by a signal (`signal_name`, else None)."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


class ProcessContext:
    """The running processes of `start_processes`, and the pipes on which they report an error."""

    def __init__(self, processes: Sequence[Any], reports: Sequence[Any]) -> None:
        self.processes, self.reports = list(processes), list(reports)
        self.sentinels = {process.sentinel: index for index, process in enumerate(self.processes)}

    def pids(self) -> list[int]:
        """The process ids, by rank."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process ends, at most `timeout` seconds; True once all have ended well.

        When one failed the others are asked to end after `grace_period` seconds, made to some time later, and
        its error is raised: ProcessRaisedException or ProcessExitedException.
        """
        ready = multiprocessing.connection.wait(list(self.sentinels), timeout=timeout)
        ended = [self.sentinels.pop(sentinel) for sentinel in ready]
        for index in ended:
            self.processes[index].join()
        failed = [index for index in ended if self.processes[index].exitcode != 0]
        if not failed:
            return not self.sentinels
        self.end_all(grace_period or 0)
        raise self.error_of(failed[0])

    def end_all(self, grace_period: float) -> None:
        for end, wait in (
            (lambda p: None, grace_period),
            (lambda p: p.terminate(), 10),
            (lambda p: p.kill(), 10),
        ):
            for process in self.processes:
                if process.is_alive():
                    end(process)
            deadline = time.monotonic() + wait
            for process in self.processes:
                process.join(max(0, deadline - time.monotonic()))

    def error_of(self, index: int) -> ProcessException:
        """The exception to raise for the process of rank `index`."""
        process, report = self.processes[index], self.reports[index]
        pid = int(process.pid)
        text = received(report)
        if text is not None:
            message = f"\n\n-- Process {index} terminated with the following error:\n{text}"
            return ProcessRaisedException(message, index, pid)
        if process.exitcode < 0:
            name = signal_name(-process.exitcode)
            message = f"process {index} terminated with signal {name}"
            return ProcessExitedException(message, index, pid, process.exitcode, name)
        message = f"process {index} terminated with exit code {process.exitcode}"
        return ProcessExitedException(message, index, pid, process.exitcode)


SpawnContext = ProcessContext


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in processes i = 0 ... nprocs - 1; with `join` wait until all have ended.

    When a process fails the others are ended and its exception is raised, with the traceback that it had there:
    ProcessRaisedException, or ProcessExitedException for one that was killed or left with an exit code. With
    `join=False` the ProcessContext is returned: call its `join()` until that is True. `fn` must be defined at the
    top level of a module, for it is sent by name. Tensors in `args` are shared.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """As `spawn`, also by the start methods "fork" and "forkserver"."""
    context = multiprocessing.get_context(start_method)
    processes, reports = [], []
    for index in range(nprocs):
        report, writer = context.Pipe(duplex=False)
        process = context.Process(target=run, args=(fn, index, args, writer, os.getpid()), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        writer.close()
        processes.append(process)
        reports.append(report)
    running = ProcessContext(processes, reports)
    if not join:
        return running
    while not running.join():
        pass
    return None


def run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], report: Any, parent: int) -> None:
    """What each process runs."""
    end_with_parent(parent)
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent was interrupted too, and raises it
    except Exception:
        report.send_bytes(pickle.dumps(traceback.format_exc()))
        sys.exit(1)


def received(report: Any) -> str | None:
    """The traceback that a process sent before it ended."""
    try:
        return pickle.loads(report.recv_bytes()) if report.poll() else None
    except (EOFError, OSError):
        return None


def end_with_parent(parent: int) -> None:
    """Have the system interrupt this process when the parent ends, so that none stays behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
        if os.getppid() != parent and multiprocessing.get_start_method(allow_none=True) != "forkserver":
            sys.exit(1)  # it ended before


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
