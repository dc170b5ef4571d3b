"""Loaders with workers: what comes in which order, from which memory, and what happens when something goes wrong."""

import json
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections import namedtuple
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np
import process_targets as targets
import pytest

import tapecast as tc
from tapecast.eager.data import memory, parallel
from tapecast.eager.multiprocessing import segments
from tapecast.utils import data
from tapecast.utils.data import DataLoader, SharedList, TensorDataset

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory is that of Linux")
METHODS = ["multiprocessing", "thread"]
Point = namedtuple("Point", ["x", "y"])


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """Twenty seconds a test; nothing left in /dev/shm, and no process."""
    before = set(os.listdir("/dev/shm"))
    with targets.time_limit(20):
        yield
        assert targets.wait_until(lambda: multiprocessing.active_children() == [], 5)
    assert {name for name in os.listdir("/dev/shm") if "tapecast" in name} <= before


def numbers(loader) -> list:
    return [batch.tolist() if isinstance(batch, tc.Tensor) else batch for batch in loader]


def second(loader) -> list:
    return [batch[1].tolist() for batch in loader]


# ---- order and contents ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    "options", [{}, {"shuffle": True}, {"drop_last": True}, {"prefetch_factor": 5}], ids=str
)
def test_workers_change_nothing_about_the_batches(options: dict, workers: int, method: str):
    def batches(**more):
        tc.manual_seed(3)
        prefetch = options if more else {k: v for k, v in options.items() if k != "prefetch_factor"}
        loader = DataLoader(targets.Rows(23, 5), 4, **prefetch, **more)
        return [[[t.tolist() for t in batch] for batch in loader] for _ in range(2)]

    assert batches(num_workers=workers, worker_method=method) == batches()


def test_samplers_batch_samplers_and_single_samples():
    d = targets.Rows(6, 2)
    assert second(DataLoader(d, 2, sampler=[5, 1, 3], num_workers=2)) == [[5, 1], [3]]
    assert second(DataLoader(d, batch_sampler=[[1, 2, 3], [0]], num_workers=2)) == [[1, 2, 3], [0]]
    single = list(DataLoader(d, batch_size=None, num_workers=2))
    assert [i for _, i in single] == list(range(6)) and single[2][0].tolist() == [2, 2]
    assert list(DataLoader(d, 3, num_workers=2, collate_fn=len)) == [3, 3]


def test_tensor_datasets_and_subsets():
    x = tc.randn(50, 3)
    d = data.Subset(TensorDataset(x, tc.arange(50)), range(49, -1, -1))
    batches = list(DataLoader(d, 8, num_workers=2))
    assert tc.equal(tc.cat([b[0] for b in batches]), x.flip(0))
    assert tc.cat([b[1] for b in batches]).tolist() == list(range(49, -1, -1))


class Kinds(data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, i):
        return i


def kinds(samples):
    """All that a batch may hold."""
    shared = tc.arange(6.0).reshape(2, 3)
    large = np.arange(120000, dtype=np.float64).reshape(300, 400)
    return {
        "tensors": [tc.tensor(1), tc.ones(2, 0), tc.ones(3, dtype=tc.bfloat16), tc.tensor([True, False])],
        "views": (shared, shared.t(), shared[:, 1]),
        "arrays": [large, large.T, large[::2, ::-3], np.array(5), np.array([1 + 2j]), np.zeros((0, 2))],
        "objects": np.array([{"a": 1}, None], dtype=object),
        "records": np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]),
        "text": ("é" * 30000, b"\x00" * 70000, "x"),
        "point": Point(samples[0], None),
        "parameter": tc.nn.Parameter(tc.ones(2)),
    }


def plain(value):
    """A nested value as one to compare."""
    if isinstance(value, tc.Tensor):
        return type(value).__name__, str(value.dtype), tuple(value.shape), value.requires_grad, value.tolist()
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tolist()
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    return type(value), [plain(v) for v in value] if isinstance(value, list | tuple) else value


def test_anything_arrives_as_it_was():
    for batch in DataLoader(Kinds(), 1, num_workers=1, collate_fn=kinds):
        expected = kinds([batch["point"].x])
        assert plain(batch) == plain(expected)
        assert all(t.is_shared() for t in batch["views"])
        assert segments.segment_of(batch["arrays"][0]) is not None


class Many(data.Dataset):
    """Sample i: the given number of arrays."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return [np.full(3 + 30000 * (k % 100 == 0), i + k) for k in range(self.count)]


def test_batches_of_thousands_of_arrays():
    for i, sample in enumerate(DataLoader(Many(3000), batch_size=None, num_workers=2)):
        assert len(sample) == 3000 and all((t == i + k).all() for k, t in enumerate(sample))


class Indices(targets.Rows):
    def __getitem__(self, i):
        return i


def test_many_long_tasks_and_many_results_at_once():
    """More than the pipe and the socket hold."""
    order = [list(range(20000))] * 20 + [[0]] * 600
    loader = DataLoader(
        Indices(20000), batch_sampler=order, num_workers=1, prefetch_factor=600, collate_fn=len
    )
    assert list(loader) == list(map(len, order))


def refuse(samples):
    return tc.ones(2, requires_grad=True) * 2


def test_a_batch_on_the_tape_is_refused():
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        next(iter(DataLoader(Kinds(), num_workers=1, collate_fn=refuse)))


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_other_start_methods(context: str):
    d = data.StackDataset(targets.Rows(6), SharedList(range(6)))
    loader = DataLoader(d, 2, num_workers=2, multiprocessing_context=context)
    assert [batch[1].tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]


def test_contexts():
    context = multiprocessing.get_context("fork")
    loader = DataLoader(targets.Rows(3), num_workers=1, multiprocessing_context=context)
    assert loader.multiprocessing_context is context and second(loader) == [[0], [1], [2]]
    with pytest.raises(TypeError, match="should be a valid context object"):
        DataLoader([1], num_workers=1, multiprocessing_context=5)


def test_out_of_order_the_first_that_is_ready_comes_first():
    loader = DataLoader(targets.Slow(1.5, 6), num_workers=2, in_order=False)
    got = numbers(loader)
    assert got[0] != [0] and sorted(got) == [[i] for i in range(6)]
    assert numbers(DataLoader(targets.Slow(0.3), num_workers=2)) == [[0], [1], [2], [3]]


@pytest.mark.parametrize(("workers", "prefetch"), [(1, 1), (2, None), (2, 3)])
def test_so_many_batches_are_under_way(workers: int, prefetch: int | None):
    d = targets.Counted(40)
    batches = iter(DataLoader(d, num_workers=workers, prefetch_factor=prefetch))
    ahead = workers * (prefetch or 2)
    assert targets.wait_until(lambda: d.fetched.sum() == ahead)
    for _ in range(3):
        next(batches)
    assert targets.wait_until(lambda: d.fetched.sum() == ahead + 3)
    time.sleep(0.1)
    assert d.fetched.sum() == ahead + 3 and d.fetched.max() == 1


def test_attributes_are_fixed():
    loader = DataLoader([1, 2], num_workers=1)
    for name in ("batch_size", "sampler", "dataset", "drop_last"):
        with pytest.raises(
            ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"
        ):
            setattr(loader, name, None)
    assert len(iter(loader)) == 2
    with pytest.raises(ValueError, match="worker_method should be one of multiprocessing, thread"):
        DataLoader([1], worker_method="fibre")


# ---- memory ---------------------------------------------------------------------------------------------------


def test_batches_stay_while_they_are_held():
    held = list(DataLoader(targets.Rows(60), 2, num_workers=2))
    for number, (x, y) in enumerate(held):
        assert y.tolist() == [2 * number, 2 * number + 1]
        assert (x == y.reshape(2, 1)).all()


@pytest.mark.parametrize("size", [3, 30000])
def test_views_arrays_and_every_other_batch_stay_too(size: int):
    rng, held = np.random.default_rng(0), []
    for x, y in DataLoader(targets.Rows(400, size), 2, num_workers=2):
        if rng.random() < 0.4:
            held.append((x[1:, :2].numpy(), y[1].item()))
        if len(held) > 10:
            held.pop(int(rng.integers(10)))
        assert all((array == i).all() for array, i in held)


def test_memory_is_used_again():
    addresses = {x.data_ptr() for x, _ in DataLoader(targets.Rows(200), 2, num_workers=2)}
    assert len(addresses) <= 2 * 5
    small = {x.data_ptr() >> 18 for x, _ in DataLoader(targets.Rows(9000, 3), 2, num_workers=1)}
    assert len(small) <= 8


def test_batches_of_all_sizes_do_not_pile_up():
    class Sizes(data.Dataset):
        def __len__(self):
            return 120

        def __getitem__(self, i):
            return np.full(20000 + 5000 * (i % 17), i, np.int64)

    iterator = iter(DataLoader(Sizes(), batch_size=None, num_workers=1))
    assert all((x == i).all() for i, x in enumerate(iterator))
    mapped = iterator.pool.workers[0].mapped.segments
    assert len(mapped) <= 8


def test_a_batch_may_be_written_to_and_sent_on():
    queue = multiprocessing.SimpleQueue()
    for x, y in DataLoader(targets.Rows(8), 2, num_workers=2):
        x += 1
        queue.put(x)
        assert tc.equal(queue.get(), (y + 1).reshape(2, 1).expand(2, 30000).float())


def test_descriptors_do_not_pile_up():
    loader = DataLoader(targets.Rows(40), 2, num_workers=2)
    before = len(os.listdir("/proc/self/fd"))
    held = list(loader)
    assert len(os.listdir("/proc/self/fd")) == before and len(held) == 20


def shrink(worker):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def test_a_full_segment_is_an_exception():
    loader = DataLoader(targets.Rows(4, 1 << 20), num_workers=1, worker_init_fn=shrink)
    with pytest.raises(OSError, match=r"cannot allocate 4\.0 MiB of shared memory: .*free in"):
        next(iter(loader))


def test_too_few_descriptors_are_noticed_before_the_start():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 8, limit[1]))
    try:
        with pytest.raises(OSError, match=rf"num_workers=4: \d+ of {used + 8} are open .*`ulimit -n 4096`"):
            iter(DataLoader([1], num_workers=4))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_running_out_of_descriptors_is_an_exception():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    batches = iter(DataLoader(targets.Slow(0.5), num_workers=1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limit[1]))
    try:
        with pytest.raises(
            OSError, match=r"memory of worker 0 .* no file descriptor left .*`ulimit -n 4096`"
        ):
            next(batches)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


class ThreadsInside(targets.Rows):
    def __getitem__(self, i):
        with ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(lambda k: data.default_collate([np.full(20000, i + k)] * 2), range(8)))
        return tc.stack(parts)


def test_a_dataset_may_collate_in_threads():
    for i, x in enumerate(DataLoader(ThreadsInside(6), batch_size=None, num_workers=1)):
        assert (x == i + tc.arange(8).reshape(8, 1, 1)).all()


def test_too_little_memory_is_noticed_before_the_start(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments, "free_space", lambda: 1 << 20)
    monkeypatch.setattr(segments, "strategy", ["file_system"])
    with pytest.raises(OSError, match=r"1\.0 MiB free in /dev/shm.*--shm-size=8g"):
        iter(DataLoader([1], num_workers=4))


def test_copied_memory_is_noticed_and_a_shared_list_has_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parallel, "COPIED_LIMIT", 6 << 20)
    names = [f"name {i}" for i in range(150000)]
    expected = [[sum(map(len, names))]] * 4

    def measured(forked: bool) -> memory.Memory:
        out = original(forked)
        out.pause, out.next = 0, 0
        return out

    original = memory.Memory
    monkeypatch.setattr("tapecast.eager.data.processes.Memory", measured)
    with pytest.warns(
        UserWarning, match=r"has copied [\d.]+ MiB .*process_targets.Objects \(its `names`: list of 150000"
    ):
        assert numbers(DataLoader(targets.Objects(names), num_workers=1)) == expected
    assert (
        numbers(DataLoader(targets.Objects(SharedList(names)), num_workers=1)) == expected
    )  # warnings are errors


# ---- random numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
def test_random_numbers_differ_by_worker_and_epoch_and_can_be_repeated(persistent: bool):
    def epochs():
        tc.manual_seed(11)
        loader = DataLoader(targets.Randoms(8), 2, num_workers=2, persistent_workers=persistent)
        return [[[t.tolist() for t in batch] for batch in loader] for _ in range(2)]

    runs = epochs()
    assert runs == epochs()
    for kind in (1, 2, 3):
        drawn = [number for epoch in runs for batch in epoch for number in batch[kind]]
        assert len(set(drawn)) == len(drawn) == 16


def test_a_generator_decides_the_seeds():
    def drawn():
        return numbers(
            DataLoader(targets.Randoms(4), 2, num_workers=1, generator=tc.Generator().manual_seed(1))
        )

    assert [t.tolist() for t in drawn()[0]] == [t.tolist() for t in drawn()[0]]


class ThreadRandoms(targets.Rows):
    def __getitem__(self, i):
        rng = data.get_worker_info().rng
        return (
            rng.random_generator.random(),
            rng.numpy_generator.random(),
            tc.rand(1, generator=rng.torch_generator).item(),
        )


def test_threads_have_streams_of_their_own():
    def drawn():
        tc.manual_seed(0)
        loader = DataLoader(ThreadRandoms(8), num_workers=2, worker_method="thread")
        return [[t.item() for t in batch] for batch in loader]

    first = drawn()
    assert first == drawn() and len({x for batch in first for x in batch}) == 24


# ---- workers --------------------------------------------------------------------------------------------------


def test_workers_know_who_they_are():
    batches = list(DataLoader(targets.Infos(6), num_workers=3, worker_init_fn=targets.mark))
    ids, counts, seeds, marked, pids = ([batch[k].item() for batch in batches] for k in range(5))
    assert ids == [0, 1, 2, 0, 1, 2] and set(counts) == {3} and all(marked)
    assert [s - seeds[0] for s in seeds[:3]] == [0, 1, 2]
    assert len(set(pids)) == 3 and os.getpid() not in pids
    assert data.get_worker_info() is None


def test_worker_processes_compute_in_one_thread():
    before = targets.blas_threads()
    assert numbers(DataLoader(targets.BlasThreads(2), num_workers=1)) == [[1], [1]]
    assert targets.blas_threads() == before


def test_threads_know_who_they_are():
    loader = DataLoader(targets.Infos(4), num_workers=2, worker_method="thread")
    assert [batch[0].item() for batch in loader] == [0, 1, 0, 1]
    assert {batch[4].item() for batch in loader} == {os.getpid()} and data.get_worker_info() is None


def test_persistent_workers_stay():
    loader = DataLoader(targets.Infos(4), num_workers=2, persistent_workers=True)
    epochs = [[batch[4].item() for batch in loader] for _ in range(3)]
    assert epochs[0] == epochs[1] == epochs[2]
    next(iter(loader))  # leaves an epoch before its end
    assert [batch[4].item() for batch in loader] == epochs[0]
    older = iter(loader)
    iter(loader)
    with pytest.raises(RuntimeError, match="another over the same DataLoader has begun"):
        next(older)


@pytest.mark.parametrize("method", METHODS)
def test_an_epoch_that_was_left_does_not_show_in_the_next(method: str):
    loader = DataLoader(
        targets.Rows(40), 2, num_workers=2, persistent_workers=True, prefetch_factor=4, worker_method=method
    )
    for _ in range(3):
        for _batch in loader:
            break
        assert second(loader) == [[2 * i, 2 * i + 1] for i in range(20)]


def test_two_passes_at_once():
    loader = DataLoader(targets.Rows(6, 2), 2, num_workers=1)
    assert [(a[1].tolist(), b[1].tolist()) for a, b in zip(loader, loader, strict=True)] == [
        ([0, 1], [0, 1]),
        ([2, 3], [2, 3]),
        ([4, 5], [4, 5]),
    ]


# ---- streams --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_streams_take_turns(method: str):
    def batches(short, size, **more):
        return numbers(
            DataLoader(targets.Share(10, short), size, num_workers=2, worker_method=method, **more)
        )

    assert batches(0, 2) == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]
    assert batches(0, 2, drop_last=True) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert batches(4, 2) == [[0], [1, 3], [5, 7], [9]]
    assert batches(5, 2) == [[1, 3], [5, 7], [9]]
    assert batches(0, None) == list(range(10))
    assert sorted(chain(*batches(3, 2, in_order=False))) == [0, 1, 2, 3, 5, 7, 9]


def test_streams_of_persistent_workers_begin_anew():
    loader = DataLoader(targets.Share(6, 1), 1, num_workers=2, persistent_workers=True)
    assert numbers(loader) == numbers(loader) == [[0], [1], [2], [3], [5]]


class Sized(targets.Share):
    def __len__(self):
        return 2


def test_a_stream_longer_than_it_said_warns():
    loader = DataLoader(Sized(4), num_workers=2)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match=r"reported to be 2 .*let each read its own part"):
        assert [batch.item() for batch in iter(loader)] == [0, 1, 2, 3]


# ---- errors ---------------------------------------------------------------------------------------------------

ERRORS = {
    "ValueError": (lambda: ValueError("wrong"), ValueError),
    "KeyError": (lambda: KeyError("wrong"), KeyError),
    "OSError": (lambda: FileNotFoundError(2, "wrong", "file"), FileNotFoundError),
    "two arguments": (lambda: targets.TwoArguments("wrong", 1), RuntimeError),
    "StopIteration": (lambda: StopIteration("wrong"), RuntimeError),
    "local class": (lambda: type("Local", (Exception,), {})("wrong"), RuntimeError),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ERRORS)
def test_errors_keep_their_type_and_traceback_and_the_loader_goes_on(name: str, method: str):
    make, kind = ERRORS[name]
    batches = iter(DataLoader(targets.Failing(make), num_workers=2, worker_method=method))
    assert [next(batches).item() for _ in range(3)] == [0, 1, 2]
    where = "process" if method == "multiprocessing" else "thread"
    with pytest.raises(
        Exception, match=rf"(?s)Caught \w+ in DataLoader worker {where} 1\.\nOriginal Trac.*wrong"
    ) as e:
        next(batches)
    assert type(e.value) is kind or (name == "local class" and type(e.value).__name__ == "Local")
    assert "process_targets.py" in str(e.value) and "\n" in repr(e.value.args[0]) + "\n"
    assert [batch.item() for batch in batches] == [4, 5]


def fail(worker):
    raise ValueError(f"not {worker}")


def test_an_error_of_the_init_function_comes_with_the_first_batch():
    batches = iter(DataLoader([1, 2], num_workers=1, worker_init_fn=fail))
    with pytest.raises(ValueError, match=r"(?s)DataLoader worker process 0.*not 0"):
        next(batches)


@pytest.mark.parametrize("method", METHODS)
def test_a_timeout_names_the_worker(method: str):
    d = targets.Slow(3 if method == "thread" else 60)
    batches = iter(DataLoader(d, num_workers=2, timeout=0.5, worker_method=method))
    with pytest.raises(
        RuntimeError, match=r"timed out after 0.5 seconds, waiting for worker 0 \(.*alive\).*batch 0"
    ):
        next(batches)
    with pytest.raises(StopIteration):
        next(batches)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (targets.kill_me, r"worker 0 \(pid \d+\) is killed by signal: SIGKILL.*memory runs out"),
        (targets.leave_me, r"worker 0 \(pid\(s\) \d+\) exited unexpectedly with exit code 3"),
    ],
)
@pytest.mark.parametrize("in_order", [True, False])
def test_a_dead_worker_is_noticed(end, message: str, in_order: bool):
    with pytest.raises(RuntimeError, match=message):
        list(DataLoader(targets.Suicidal(end), num_workers=2, in_order=in_order))


def test_a_worker_that_dies_between_epochs_is_noticed():
    loader = DataLoader(targets.Infos(2), num_workers=1, persistent_workers=True)
    (pid,) = {batch[4].item() for batch in loader}
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="killed by signal: SIGKILL"):
        list(loader)
    assert len(list(loader)) == 2  # with new workers


# ---- programs -------------------------------------------------------------------------------------------------

PROGRAM = """
import os, sys, time
sys.path.insert(0, {folder!r})
from process_targets import *

class Pids(Rows):
    def __getitem__(self, i):
        return os.getpid()

def start(seconds, **options):
    d = Slow(seconds, 50)
    d.__class__.__getitem__ = lambda self, i: time.sleep(self.seconds) or os.getpid()
    return data.DataLoader(d, num_workers=2, **options)
"""


def program(text: str) -> subprocess.Popen:
    """A running program, in a process group of its own."""
    code = PROGRAM.format(folder=str(Path(__file__).parent)) + textwrap.dedent(text)
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_workers_end_with_their_parent():
    running = program("""
        loader = start(0.01)
        pids = {batch.item() for batch in zip(*[iter(loader)] * 1) for batch in batch}
        print(*{next(it).item() for it in [iter(loader)] for _ in range(8)}, flush=True)
        it = iter(loader)
        print(*{next(it).item() for _ in range(8)}, flush=True)
        time.sleep(60)
    """)
    with running:
        running.stdout.readline()
        pids = [int(pid) for pid in running.stdout.readline().split()]
        assert len(pids) == 2 and all(map(targets.is_running, pids))
        running.kill()
    assert targets.wait_until(lambda: not any(map(targets.is_running, pids)), 10)


@pytest.mark.parametrize("where", ["in next", "in the body"])
def test_ctrl_c_gives_one_traceback(where: str):
    running = program(f"""
        for batch in start({5 if where == "in next" else 0.05}):
            print("go", flush=True)
            time.sleep({0 if where == "in next" else 60})
    """ if where != "in next" else """
        print("go", flush=True)
        for batch in start(5):
            pass
    """)  # fmt: skip
    with running:
        assert running.stdout.readline() == "go\n"
        time.sleep(0.7)
        begin = time.monotonic()
        os.killpg(running.pid, signal.SIGINT)
        _, errors = running.communicate(timeout=15)
    assert time.monotonic() - begin < 8
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt"), errors
    assert running.returncode != 0


@pytest.mark.parametrize(
    "rest",
    [
        "next(iter(start(0.01))); it = iter(start(0.01)); next(it)",
        "it = iter(start(0.01, persistent_workers=True)); next(it); loader = start(0.01); list(loader); list(loader)",
        "it = iter(start(0.01, persistent_workers=True, worker_method='thread')); next(it)",
        "it = iter(start(30))",
        "held = list(start(0.01)); it = iter(start(0.01)); next(it); raise SystemExit(0)",
    ],
)
def test_programs_end(rest: str):
    running = program(rest)
    with running:
        output = running.communicate(timeout=15)
    assert output == ("", "") and running.returncode == 0


# ---- going on in the middle -----------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [0, 3, 8])
@pytest.mark.parametrize("seeded", [False, True])
def test_an_epoch_goes_on_where_it_was_left(workers: int, taken: int, seeded: bool):
    def loader(seed, workers=workers):
        generator = tc.Generator().manual_seed(seed) if seeded else None
        return DataLoader(targets.Rows(30, 2), 4, shuffle=True, num_workers=workers, generator=generator)

    tc.manual_seed(5)
    first = loader(1)
    batches = iter(first)
    head = [next(batches)[1].tolist() for _ in range(taken)]
    state = json.loads(json.dumps(first.state_dict()))
    tail = second(batches)
    following = second(first) if seeded else None

    tc.manual_seed(77)
    other = loader(2, workers=2 - workers)
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert second(other) == tail and len(head) + len(tail) == 8
    assert not seeded or second(other) == following


def test_a_state_between_epochs_gives_the_next_one():
    loader = DataLoader(targets.Rows(9, 2), 2, shuffle=True)
    list(loader)
    state = loader.state_dict()
    expected = second(loader)
    tc.manual_seed(123)
    loader.load_state_dict(state)
    assert second(loader) == expected


@pytest.mark.parametrize("taken", range(9))
def test_streams_go_on_too(taken: int):
    def loader():
        return DataLoader(targets.Share(17, 2), 2, num_workers=2, worker_method="thread")

    first = loader()
    batches = iter(first)
    for _ in range(min(taken, 7)):
        next(batches)
    state = json.loads(json.dumps(first.state_dict()))
    other = loader()
    other.load_state_dict(state)
    assert numbers(other) == numbers(batches)


def test_streams_without_workers_go_on():
    loader = DataLoader(targets.Share(7), 2)
    batches = iter(loader)
    next(batches)
    loader.load_state_dict(loader.state_dict())
    assert numbers(loader) == numbers(batches) == [[2, 3], [4, 5], [6]]


# ---- SharedList -----------------------------------------------------------------------------------------------


def test_a_shared_list_is_a_sequence():
    items = [{"a": 1}, "text", None, np.arange(5), [1.5, np.ones((2, 2))], b"bytes"]
    shared = SharedList(items)
    assert (
        len(shared) == 6
        and shared[0] == {"a": 1}
        and shared[-1] == b"bytes"
        and shared[1:3] == ["text", None]
    )
    assert shared[3].tolist() == [0, 1, 2, 3, 4] and shared[4][1].tolist() == [[1, 1], [1, 1]]
    assert (
        "text" in list(shared)[:2] and shared.nbytes > 0 and re.match(r"SharedList\(6 objects", repr(shared))
    )
    assert len(SharedList([])) == 0
    with pytest.raises(ValueError, match="read-only"):
        shared[3][0] = 1
    with pytest.raises(IndexError, match="index 6 is out of range for a SharedList of 6"):
        shared[6]
