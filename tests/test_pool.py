"""The thread pool, compiled, linked and driven from Python in a process of its own for each test."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tapecast.compiler.cpu.elf import link
from tapecast.compiler.cpu.llvm_driver import assembly, object_code, undefined_symbols
from tapecast.compiler.cpu.pool import EXTERNALS, MAX_THREADS, pool_text

# A task that a test can check: slot i of ctx counts its calls.
TASKS = """
define void @count(ptr %ctx, i64 %i) {
entry:
  %slot = getelementptr i64, ptr %ctx, i64 %i
  %old = load i64, ptr %slot
  %new = add i64 %old, 1
  store i64 %new, ptr %slot
  ret void
}

; each task opens a region of 5 on its own row of ctx
define void @nest(ptr %ctx, i64 %i) {
entry:
  %at = mul i64 %i, 5
  %row = getelementptr i64, ptr %ctx, i64 %at
  call void @rt_parallel(ptr @count, ptr %row, i64 5)
  ret void
}

; change the thread count in the middle of a region, then count
define void @resize(ptr %ctx, i64 %i) {
entry:
  %low = and i64 %i, 3
  %small = trunc i64 %low to i32
  call void @rt_threads(i32 %small)
  call void @count(ptr %ctx, i64 %i)
  ret void
}

; regions of 2 and of 3 tasks in turn, so that a claim of the wrong region shows
define void @alternate(ptr %ctx, i64 %times) {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %more, %next ]
  call void @rt_parallel(ptr @count, ptr %ctx, i64 2)
  call void @rt_parallel(ptr @count, ptr %ctx, i64 3)
  %more = add i64 %k, 1
  %end = icmp eq i64 %more, %times
  br i1 %end, label %out, label %next
out:
  ret void
}

; make the workers and stop them at once
define void @restart(ptr %ctx, i64 %times) {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %more, %next ]
  call void @rt_parallel(ptr @count, ptr %ctx, i64 2)
  call void @rt_stop()
  %more = add i64 %k, 1
  %end = icmp eq i64 %more, %times
  br i1 %end, label %out, label %next
out:
  ret void
}

define void @regions(ptr %fn, ptr %ctx, i64 %n, i64 %times) {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %more, %next ]
  call void @rt_parallel(ptr %fn, ptr %ctx, i64 %n)
  %more = add i64 %k, 1
  %end = icmp eq i64 %more, %times
  br i1 %end, label %out, label %next
out:
  ret void
}
"""

PRELUDE = """
import ctypes, os, signal, sys, threading, time

lib = ctypes.CDLL(sys.argv[1])
word, pointer = ctypes.c_int64, ctypes.c_void_p
lib.regions.argtypes = [pointer, pointer, word, word]
lib.alternate.argtypes = lib.restart.argtypes = [pointer, word]
lib.regions.restype = lib.alternate.restype = lib.restart.restype = None
spin = ctypes.c_int32.in_dll(lib, "rt_spin")
name = lambda f: ctypes.cast(f, pointer)

def run(n, times=1, fn=lib.count, slots=None):
    # the counts of `slots` tasks after `times` regions
    counts = (word * max(slots or n, 1))()
    lib.regions(name(fn), ctypes.addressof(counts), n, times)
    return list(counts)

def threads_are(n):
    # a joined thread stays listed for a moment
    end = time.monotonic() + 10
    while (found := len(os.listdir("/proc/self/task"))) != n and time.monotonic() < end:
        time.sleep(0.001)
    return found == n
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported pool and the tasks, in one library."""
    path = tmp_path_factory.mktemp("pool") / "libpool.so"
    module = pool_text(linkage="default") + TASKS
    path.write_bytes(link([object_code(module)], allowed=EXTERNALS, nodelete=True).data)
    return path


def run(library: Path, script: str) -> None:
    """Run a script after the prelude in a new process; a crash or a hang there is a failure of the test."""
    command = [sys.executable, "-c", PRELUDE + script, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"


def test_every_task_runs_once_in_many_regions(library: Path) -> None:
    run(
        library,
        """
lib.rt_threads(3)
for n, times in ((2, 2000), (3, 2000), (64, 500), (1000, 20)):
    assert run(n, times) == [times] * n, n
assert threads_are(3)
""",
    )


def test_sleeping_workers_are_woken(library: Path) -> None:
    run(
        library,
        """
spin.value = 0
lib.rt_threads(3)
for n in range(2, 200):
    assert run(n) == [1] * n
for _ in range(20):
    time.sleep(0.001)
    assert run(8, 5) == [5] * 8
""",
    )


def test_regions_do_not_run_tasks_of_each_other(library: Path) -> None:
    run(
        library,
        """
counts = (word * 3)()
for n in (2, 3):
    lib.rt_threads(n)
    lib.alternate(counts, word(50_000))
assert list(counts) == [200_000, 200_000, 100_000]
""",
    )


def test_tasks_run_side_by_side_and_sleepers_are_woken(library: Path) -> None:
    """Two tasks meet, so a worker runs one; the caller's ends first, so the caller has to be woken."""
    run(
        library,
        """
spin.value = 0
lib.rt_threads(2)
meeting, done = threading.Barrier(2), []

@ctypes.CFUNCTYPE(None, pointer, word)
def task(context, i):
    meeting.wait(10)
    time.sleep(0 if threading.get_native_id() == os.getpid() else 0.005)
    done.append(i)

for n in range(1, 11):
    lib.regions(task, None, 2, 1)
    assert sorted(done) == [0] * n + [1] * n
    time.sleep(0.002)
""",
    )


def test_no_task_one_task_and_one_thread(library: Path) -> None:
    run(
        library,
        """
assert run(4, 3) == [3] * 4 and threads_are(1)       # a pool of one thread, as it comes
lib.rt_threads(2)
assert run(0) == [0] and run(-5, slots=2) == [0, 0] and run(1, 7) == [7]
assert threads_are(1)                                # nothing yet that a worker could help with
assert run(2) == [1, 1] and threads_are(2)
""",
    )


def test_callers_at_once(library: Path) -> None:
    run(
        library,
        """
lib.rt_threads(2)
wrong = []

def caller():
    for _ in range(100):
        if run(16, 10) != [10] * 16:
            wrong.append(1)

callers = [threading.Thread(target=caller) for _ in range(3)]
for t in callers: t.start()
for t in callers: t.join()
assert not wrong
""",
    )


def test_region_inside_a_region(library: Path) -> None:
    run(
        library,
        """
lib.rt_threads(3)
assert run(7, 200, lib.nest, slots=35) == [200] * 35
""",
    )


def test_fork_gives_the_child_its_own_workers(library: Path) -> None:
    run(
        library,
        """
lib.rt_threads(3)
assert run(8, 50) == [50] * 8
child = os.fork()
if child == 0:
    ok = run(8, 50) == [50] * 8 and threads_are(3)
    lib.rt_stop()
    grandchild = os.fork()
    if grandchild == 0:
        os._exit(0 if run(8, 5) == [5] * 8 and threads_are(3) else 1)
    os._exit(0 if ok and os.waitpid(grandchild, 0)[1] == 0 else 1)
assert os.waitpid(child, 0)[1] == 0
assert run(8, 50) == [50] * 8 and threads_are(3)
""",
    )


def test_fork_while_another_thread_is_in_a_region(library: Path) -> None:
    run(
        library,
        """
lib.rt_threads(2)
go = True

def busy():
    while go:
        run(8, 200)

t = threading.Thread(target=busy)
t.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        os._exit(0 if run(8, 50) == [50] * 8 and threads_are(2) else 1)
    assert os.waitpid(child, 0)[1] == 0
go = False
t.join()
""",
    )


def test_stop_joins_the_workers_and_the_pool_restarts(library: Path) -> None:
    run(
        library,
        """
lib.rt_stop()
lib.rt_threads(3)
for _ in range(100):
    assert run(6) == [1] * 6 and threads_are(3)
    lib.rt_stop()
    assert threads_are(1)
lib.rt_stop()
""",
    )


def test_stop_of_workers_that_have_hardly_begun(library: Path) -> None:
    run(
        library,
        """
lib.rt_threads(4)
counts = (word * 2)()
lib.restart(counts, word(500))
assert list(counts) == [500, 500] and threads_are(1)
""",
    )


def test_stop_while_another_thread_is_in_a_region(library: Path) -> None:
    run(
        library,
        """
lib.rt_threads(2)
wrong = []

def caller():
    for _ in range(100):
        if run(16, 20) != [20] * 16:
            wrong.append(1)

t = threading.Thread(target=caller)
t.start()
while t.is_alive():
    lib.rt_stop()
t.join()
lib.rt_stop()
assert not wrong and threads_are(1)
""",
    )


def test_thread_count_changes_between_regions(library: Path) -> None:
    run(
        library,
        f"""
for n in (2, 4, 3, 2, 5) * 10:
    lib.rt_threads(n)
    assert run(32, 3) == [3] * 32 and threads_are(n)
lib.rt_threads(1)
assert run(32, 3) == [3] * 32
lib.rt_threads(-7)
assert run(32, 3) == [3] * 32
lib.rt_threads({MAX_THREADS + 1})                       # taken for the most there may be
""",
    )


def test_thread_count_changes_inside_regions_and_beside_them(library: Path) -> None:
    run(
        library,
        """
lib.rt_threads(2)
go = True

def change():
    n = 0
    while go:
        lib.rt_threads(1 + n % 4)
        n += 1

t = threading.Thread(target=change)
t.start()
for _ in range(50):
    assert run(16, 5, lib.resize) == [5] * 16
go = False
t.join()
lib.rt_threads(3)
assert run(16) == [1] * 16 and threads_are(3)
""",
    )


def test_threads_that_the_system_refuses_are_done_without(library: Path) -> None:
    run(
        library,
        """
import resource

resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))      # room for the stacks of some, not of 1000
lib.rt_threads(1000)
assert run(100, 10) == [10] * 100
assert 1 < len(os.listdir("/proc/self/task")) < 1000
lib.rt_stop()
assert threads_are(1)
""",
    )


def test_workers_take_no_signals(library: Path) -> None:
    run(
        library,
        """
lib.rt_threads(3)
meeting = threading.Barrier(3)                                  # a thread's mask is not its own until it runs
lib.regions(ctypes.CFUNCTYPE(None, pointer, word)(lambda context, i: meeting.wait(10)), None, 3, 1)
for thread in os.listdir("/proc/self/task"):
    if int(thread) != os.getpid():
        status = open(f"/proc/self/task/{thread}/status").read()
        blocked = int(status.split("SigBlk:")[1].split()[0], 16)
        assert blocked >> (signal.SIGINT - 1) & 1 and blocked >> (signal.SIGTERM - 1) & 1
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()    # and the caller's mask is as before
""",
    )


@pytest.mark.parametrize(("arch", "target"), [("x86_64", "x86-64-v2"), ("aarch64", "aarch64")])
def test_needs_only_what_it_says(arch: str, target: str) -> None:
    assert undefined_symbols(object_code(pool_text(arch), target)) == sorted(EXTERNALS)


def test_names_can_be_hidden_prefixed_and_exported() -> None:
    program = """
declare void @m_parallel(ptr, ptr, i64)
define void @go(ptr %task) {
  call void @m_parallel(ptr %task, ptr null, i64 9)
  ret void
}
"""
    objects = [object_code(program), object_code(pool_text(prefix="m_"))]
    assert set(link(objects).symbols) == {"go"}
    exported = link([object_code(pool_text(prefix="m_", linkage="default"))]).symbols
    assert set(exported) == {"m_parallel", "m_threads", "m_stop", "m_spin"}


def test_internal_pool_that_nobody_calls_vanishes() -> None:
    assert "syscall" not in assembly(pool_text(linkage="internal"))


def test_unknown_architecture() -> None:
    with pytest.raises(ValueError, match="no thread pool for architecture 'riscv64'"):
        pool_text("riscv64")


AARCH64_LOADER = Path("/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1")

# A program: 200 regions of 64 tasks on 4 threads, then a status of 0 if every task ran 200 times.
START = """
@counts = internal global [64 x i64] zeroinitializer
declare void @_exit(i32)
define void @start() {
entry:
  call void @rt_threads(i32 4)
  call void @regions(ptr @count, ptr @counts, i64 64, i64 200)
  call void @rt_stop()
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %more, %right ]
  %at = getelementptr i64, ptr @counts, i64 %i
  %n = load volatile i64, ptr %at
  %same = icmp eq i64 %n, 200
  br i1 %same, label %right, label %wrong
right:
  %more = add i64 %i, 1
  %end = icmp eq i64 %more, 64
  br i1 %end, label %out, label %next
wrong:
  call void @_exit(i32 1)
  unreachable
out:
  call void @_exit(i32 0)
  unreachable
}
"""


@pytest.mark.skipif(
    shutil.which("qemu-aarch64") is None or not AARCH64_LOADER.exists(),
    reason="no qemu-aarch64, or no aarch64 C library to run under it",
)
def test_aarch64_pool_runs(tmp_path: Path) -> None:
    module = pool_text("aarch64", linkage="internal") + TASKS + START
    program = link([object_code(module, "aarch64")])
    data = bytearray(program.data)
    struct.pack_into("<Q", data, 24, program.symbols["start"])  # an entry point makes it a program
    (tmp_path / "program").write_bytes(data)
    command = ["qemu-aarch64", "-L", AARCH64_LOADER.parents[1], AARCH64_LOADER, tmp_path / "program"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
