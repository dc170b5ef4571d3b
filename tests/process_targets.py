"""What the processes of the tests run: importable by name in any of them, and with limits of time."""

import ctypes
import faulthandler
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import tapecast as tc
from tapecast import multiprocessing as mp, nn
from tapecast.nn import functional as F
from tapecast.utils import data


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


# ---- workers of a loader --------------------------------------------------------------------------------------


class Rows(data.Dataset):
    """Sample i: an array of `size` numbers i, and i."""

    def __init__(self, n: int = 20, size: int = 30000):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return np.full(self.size, i, np.float32), i


class Randoms(Rows):
    """Sample i: the worker, and a random number of each kind."""

    def __getitem__(self, i):
        info = data.get_worker_info()
        return info.id, random.randrange(1 << 30), np.random.randint(1 << 30), int(tc.randint(1 << 30, ()))


class Infos(Rows):
    """Sample i: what is known of the worker."""

    def __getitem__(self, i):
        info = data.get_worker_info()
        return info.id, info.num_workers, info.seed, info.dataset.marked, os.getpid()

    marked = False


def mark(worker):
    data.get_worker_info().dataset.marked = True


class Failing(Rows):
    """Sample 3 raises the exception that `make` makes."""

    def __init__(self, make, n: int = 6):
        super().__init__(n)
        self.make = make

    def __getitem__(self, i):
        if i == 3:
            raise self.make()
        return i


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


class Slow(Rows):
    """Sample 0 takes `seconds`."""

    def __init__(self, seconds: float, n: int = 4):
        super().__init__(n)
        self.seconds = seconds

    def __getitem__(self, i):
        if i == 0:
            time.sleep(self.seconds)
        return i


class Suicidal(Rows):
    """Sample 2 ends the process."""

    def __init__(self, end):
        super().__init__(6)
        self.end = end

    def __getitem__(self, i):
        if i == 2:
            self.end()
        return i


def kill_me():
    os.kill(os.getpid(), signal.SIGKILL)


def leave_me():
    os._exit(3)


class Counted(Rows):
    """Counts in shared memory how many samples were fetched."""

    def __init__(self, n: int):
        super().__init__(n)
        self.fetched = mp.shared_array(np.zeros(n, np.int64))

    def __getitem__(self, i):
        self.fetched[i] += 1
        return i


class Share(data.IterableDataset):
    """Worker w of n streams w, w + n, ... below `n`; `skip` samples fewer for worker 0."""

    def __init__(self, n: int, short: int = 0):
        self.n, self.short = n, short

    def __iter__(self):
        info = data.get_worker_info()
        if info is None:
            return iter(range(self.n))
        end = self.n - self.short * info.num_workers if info.id == 0 else self.n
        return iter(range(info.id, end, info.num_workers))


class BlasThreads(Rows):
    """Sample i: how many threads numpy's products use."""

    def __getitem__(self, i):
        return blas_threads()


def blas_threads() -> int:
    with open("/proc/self/maps", encoding="utf-8") as file:
        path = next(line.split()[-1] for line in file if "openblas" in line and "numpy" in line)
    return ctypes.CDLL(path).scipy_openblas_get_num_threads64_()


class Objects(data.Dataset):
    """Reading a sample touches every object of a container."""

    def __init__(self, names):
        self.names = names

    def __len__(self):
        return 4

    def __getitem__(self, i):
        time.sleep(0.05)
        return sum(map(len, self.names))
