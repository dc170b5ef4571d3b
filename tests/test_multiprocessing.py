"""Tensors that several processes share: through queues, pipes and the arguments of `spawn`."""

import multiprocessing
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import process_targets as targets
import pytest

import tapecast as tc
from tapecast import multiprocessing as mp, nn
from tapecast.eager.multiprocessing import segments

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory is that of Linux")
METHODS = ["fork", "spawn", "forkserver"]


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """Twenty seconds a test, and nothing left in /dev/shm."""
    before = set(os.listdir("/dev/shm"))
    with targets.time_limit(20):
        yield
    assert {name for name in os.listdir("/dev/shm") if "tapecast" in name} <= before


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request: pytest.FixtureRequest) -> Iterator[str]:
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


# ---- memory -------------------------------------------------------------------------------------------------


def test_the_names_of_the_standard_module_are_all_there():
    assert [name for name in multiprocessing.__all__ if not hasattr(mp, name)] == []
    assert tc.multiprocessing is mp and mp.Process is multiprocessing.Process
    for name in ("spawn", "start_processes", "ProcessRaisedException", "SpawnContext"):
        assert hasattr(mp, name)


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (2, 0, 3)])
def test_sharing_keeps_the_values(shape: tuple[int, ...]):
    x = tc.arange(int(np.prod(shape))).reshape(shape).to(tc.float64)
    expected = x.tolist()
    assert not x.is_shared()
    assert x.share_memory_() is x and x.is_shared() and x.tolist() == expected
    address = x.data_ptr()
    assert x.share_memory_().data_ptr() == address


@pytest.mark.parametrize("name", ["bfloat16", "float16", "bool", "complex64", "int64"])
def test_any_dtype_is_shared(name: str):
    x = tc.ones(3, dtype=getattr(tc, name))
    assert x.share_memory_().dtype == getattr(tc, name) and x.tolist() == tc.ones(3, dtype=x.dtype).tolist()


@pytest.mark.parametrize("which", ["base", "view", "detached"])
def test_views_and_bases_move_together(which: str):
    x = tc.zeros(3, 4)
    tensors = {"base": x, "view": x[1:, ::2], "detached": x.detach()}
    tensors[which].share_memory_()
    assert all(t.is_shared() for t in tensors.values())
    tensors["view"].fill_(1)
    assert x.sum() == 4 and tensors["detached"].sum() == 4


def test_a_module_is_shared_with_its_buffers_and_trains_on():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    assert model.share_memory() is model
    assert all(t.is_shared() for t in model.state_dict().values())
    optimizer = tc.optim.SGD(model.parameters(), lr=0.1)
    before = model[0].weight.detach().clone()
    model(tc.randn(5, 3)).square().sum().backward()
    optimizer.step()
    assert model[0].weight.is_shared() and not tc.equal(model[0].weight, before)


def test_shared_arrays():
    array = mp.shared_array(np.arange(6).reshape(2, 3))
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]] and tc.from_numpy(array).is_shared()
    with pytest.raises(TypeError, match="holds references"):
        mp.shared_array(np.array([object()]))


def test_strategies():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    with pytest.raises(ValueError, match="unknown sharing strategy 'disk'"):
        mp.set_sharing_strategy("disk")


def test_a_plain_pickle_holds_the_values():
    x = tc.arange(3).share_memory_()
    copy = pickle.loads(pickle.dumps(x))
    copy[0] = 7
    assert x.tolist() == [0, 1, 2] and not copy.is_shared()


@pytest.mark.usefixtures("strategy")
def test_too_little_memory_is_an_exception_with_numbers():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(
            OSError, match=r"cannot allocate 4\.0 MiB of shared memory: .*[0-9.]+ [GM]iB free"
        ):
            tc.ones(1 << 20).share_memory_()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_more_than_all_memory_is_refused():
    with pytest.raises(OSError, match=r"of shared memory: only .* are free"):
        segments.create(1 << 50)


def test_memory_goes_when_nothing_refers_to_it():
    def mapped() -> int:
        with open("/proc/self/maps", encoding="utf-8") as file:
            return sum("memfd:tapecast" in line for line in file)

    before, files = mapped(), len(os.listdir("/proc/self/fd"))
    x = tc.ones(1000).share_memory_()
    view = x[3:]
    assert mapped() == before + 1
    del x
    assert view.sum() == 997
    del view
    assert mapped() == before and len(os.listdir("/proc/self/fd")) == files


# ---- processes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_queues_carry_the_memory_itself(method: str):
    context = mp.get_context(method)
    tensors, done = context.Queue(), context.Queue()
    process = context.Process(target=targets.add_one, args=(tensors, done))
    process.start()
    x, p = tc.zeros(4), nn.Parameter(tc.zeros(2, 3).t()[1:])
    for tensor in (x, p.detach(), x[2:]):
        tensors.put(tensor)
        assert done.get(timeout=15) is True
    tensors.put(None)
    process.join(10)
    assert process.exitcode == 0
    assert x.tolist() == [1, 1, 2, 2] and p.tolist() == [[1, 1], [1, 1]]


def test_what_comes_back_is_the_same_memory():
    queue = mp.SimpleQueue()
    x = nn.Parameter(tc.zeros(3))
    queue.put((x, x.detach()))
    y, z = queue.get()
    z[0] = 5
    assert isinstance(y, nn.Parameter) and y.requires_grad
    assert x.tolist() == y.tolist() == [5, 0, 0] and x.data_ptr() == y.data_ptr()


def test_a_tensor_on_the_tape_is_not_sent():
    queue = mp.SimpleQueue()
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        queue.put(tc.ones(2, requires_grad=True) * 2)


def test_pipes_carry_shared_arrays():
    """Back too, although the sender ends at once."""
    ours, theirs = mp.Pipe()
    process = mp.get_context("fork").Process(target=targets.double_array, args=(theirs,))
    process.start()
    array = mp.shared_array(np.arange(3))
    ours.send(array)
    assert ours.recv().tolist() == array.tolist() == [0, 2, 4]
    process.join(10)


@pytest.mark.parametrize("method", METHODS)
def test_spawn_shares_its_arguments(method: str):
    x = tc.zeros(2, 2).share_memory_()
    mp.spawn(targets.fill_row, (x,), nprocs=2, start_method=method)
    assert x.tolist() == [[1, 1], [2, 2]]


def test_an_error_ends_all_processes_and_brings_its_traceback():
    with pytest.raises(
        mp.ProcessRaisedException, match=r"(?s)Process 1 terminated.*fail_at_one.*KeyError"
    ) as e:
        mp.spawn(targets.fail_at_one, nprocs=2, start_method="fork")
    assert e.value.error_index == 1 and not targets.is_running(e.value.error_pid)
    assert mp.active_children() == []
    assert str(pickle.loads(pickle.dumps(e.value))) == str(e.value)


def test_exit_codes_and_signals_are_reported():
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 3") as e:
        mp.spawn(targets.leave, (3,), start_method="fork")
    assert e.value.exit_code == 3 and e.value.signal_name is None
    with pytest.raises(mp.ProcessExitedException, match="terminated with signal SIGKILL") as e:
        mp.spawn(targets.die, start_method="fork")
    assert e.value.signal_name == "SIGKILL"


def test_spawn_without_waiting():
    x = tc.zeros(2).share_memory_()
    context = mp.spawn(targets.fill_row, (x,), nprocs=2, join=False, start_method="fork")
    assert len(context.pids()) == 2
    while not context.join(timeout=5):
        pass
    assert x.tolist() == [1, 2]


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_four_processes_train_one_model(method: str):
    """Hogwild (Niu et al. 2011): descent without locks on shared parameters."""
    tc.manual_seed(0)
    model, steps = nn.Linear(3, 1).share_memory(), tc.zeros(4).share_memory_()
    x, y = targets.line(200, seed=5)
    before = nn.functional.mse_loss(model(x), y).item()
    mp.spawn(targets.train, (model, steps), nprocs=4, start_method=method)
    after = nn.functional.mse_loss(model(x), y).item()
    assert steps.tolist() == [60] * 4
    assert after < 0.02 < 1 < before


@pytest.mark.usefixtures("strategy")
def test_a_killed_process_leaves_nothing_behind():
    context = mp.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=targets.put_and_wait, args=(queue,))
    process.start()
    tensor = queue.get()
    os.kill(process.pid, signal.SIGKILL)
    process.join(10)
    assert tensor.sum() == 1 << 20  # what has arrived stays
    assert [name for name in os.listdir("/dev/shm") if "tapecast" in name] == []


ORPHANS = """
import os, time
from tapecast import multiprocessing as mp

def sleep(index):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)

mp.spawn(sleep, nprocs=2, start_method="fork")
"""


def test_processes_end_with_their_parent():
    with subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(parent.stdout.readline()) for _ in range(2)]
        parent.kill()
    assert targets.wait_until(lambda: not any(map(targets.is_running, pids)))


def test_a_tensor_is_not_equal_to_what_is_no_number():
    """`iter(queue.get, None)` relies on it."""
    assert (tc.ones(2) == None) is False and (tc.ones(2) != "end") is True  # noqa: E711
