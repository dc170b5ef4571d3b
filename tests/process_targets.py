"""What the processes of the tests run: importable by name in any of them, and with limits of time."""

import faulthandler
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import tapecast as tc
from tapecast import nn
from tapecast.nn import functional as F


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """TimeoutError in the main thread after `seconds`, with the tracebacks of all threads."""

    def stop(*_: object) -> None:
        faulthandler.dump_traceback()
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_running(pid: int) -> bool:
    """Whether a process exists and is more than an entry that nobody has waited for."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition, seconds: float = 15) -> bool:
    """Whether the condition came true in that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


# ---- multiprocessing ----------------------------------------------------------------------------------------


def add_one(tensors, done):
    """Add 1 to each tensor from the queue until None comes."""
    for tensor in iter(tensors.get, None):
        tensor.add_(1)
        done.put(tensor.is_shared())


def fill_row(index, tensor):
    tensor[index] = index + 1


def fail_at_one(index):
    if index == 1:
        raise KeyError("lost")
    time.sleep(60)


def leave(index, code):
    os._exit(code)


def die(index):
    os.kill(os.getpid(), signal.SIGKILL)


def put_and_wait(queue):
    """Send a large tensor, then hold it for ever."""
    tensor = tc.ones(1 << 20)
    queue.put(tensor)
    time.sleep(60)


def double_array(connection):
    array = connection.recv()
    array *= 2
    connection.send(array)


def line(n: int, seed: int):
    """Inputs of shape (n, 3) and what they are to give: x @ [1, -2, 3] + 0.5."""
    x = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    return tc.tensor(x), tc.tensor(x @ np.array([[1], [-2], [3]], np.float32) + 0.5)


def train(index, model: nn.Module, steps: tc.Tensor):
    """Gradient descent on a model that others train at the same time."""
    optimizer = tc.optim.SGD(model.parameters(), lr=0.02)
    for step in range(60):
        x, y = line(16, 1000 * index + step)
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        steps[index] += 1
