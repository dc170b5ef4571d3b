"""The thread pool of a compiled library, as LLVM text: Linux (futex), 64-bit little-endian processors.

- ``void rt_parallel(void (*fn)(void *ctx, int64 i), void *ctx, int64 n)`` calls ``fn(ctx, i)`` once for
  each i in 0 .. n-1, on the caller and the workers, and returns when all calls have.
- ``void rt_threads(int32 n)``: the threads of later regions, caller included; 1 to 1024, at first 1.
- ``void rt_stop(void)`` joins the workers; a later region makes new ones.  Not from within a task.
- ``int32 rt_spin``: how often a waiting thread looks before it sleeps; 0 suits machines shared with others.

All may be used from any thread at any time.  What holds:

- A task is claimed by compare-exchange on one word, generation and next index together, so a worker that
  wakes late can claim nothing of another region; and the caller waits for the tasks, not for the workers,
  so a worker that is not scheduled delays nobody.
- A region inside another, or beside one of another thread, runs serially on its caller.
- After ``fork`` the child sees another pid, forgets the workers it does not have, and makes its own.
- Workers have all signals blocked: handlers run on the program's own threads.
- A new thread count is taken up by the next region of two or more threads, which replaces the workers while
  it alone holds the pool.  After ``rt_threads(1)`` the workers sleep until then, or until ``rt_stop``.
- Where the system refuses threads, the pool works with those it got.

Link with ``nodelete``: workers outlive a ``dlclose`` that no ``rt_stop`` precedes.  The functions of libc in
``EXTERNALS`` are ones whose oldest versions are the present ones; those of ``pthread_cond_*`` are not.
"""

from string import Template
from typing import Literal

Linkage = Literal["hidden", "internal", "default"]

MAX_THREADS = 1024
EXTERNALS = frozenset({"syscall", "getpid", "pthread_create", "pthread_join", "pthread_sigmask"})
"""What the pool needs from libc, for the linker's list of allowed symbols."""

_STATE = """\
; ---- state.  "The holder" is the thread that has set @rt_busy: it alone writes what says so.
; Words written by many threads have cache lines of their own (pairs of lines, for adjacent-line prefetch).

; generation << 32 | next task.  The holder opens a region by a new generation with index 0 and closes it by
; index 0xffffffff; workers raise the index by compare-exchange.  Workers sleep on its upper half.
@rt_word = internal global i64 4294967295, align 128
; tasks of this region that have returned; also the futex of a sleeping holder
@rt_done = internal global i32 0, align 128
; 1 once the holder may be asleep on @rt_done
@rt_asleep = internal global i32 0, align 4
; workers that sleep, or are about to
@rt_sleepers = internal global i32 0, align 128
; the region: function, context, number of tasks; written by the holder before it opens the region
@rt_function = internal global ptr null, align 128
@rt_context = internal global ptr null, align 8
@rt_count = internal global i32 0, align 4
; 1 while a thread holds the pool
@rt_busy = internal global i32 0, align 128
; pid of the process the state belongs to; minus its pid while one of its threads resets it; 0 at first
@rt_owner = internal global i32 0, align 4
; threads asked for, caller included; written by anyone
@rt_wanted = internal global i32 1, align 4
; the number of threads the workers were made for, 0 if there are none; holder's
@rt_built = internal global i32 0, align 4
; workers that exist: fewer than asked for where the system refused some; holder's
@rt_workers = internal global i32 0, align 4
; their pthread_t; holder's
@rt_ids = internal global [$max x i64] zeroinitializer, align 8
; 1 while the workers are told to return; holder's
@rt_stopping = internal global i32 0, align 4
; spin iterations before sleep; written by anyone
@rt_spin = $linkage global i32 20000, align 4
; a sigset_t of all signals (1024 bits in glibc and musl)
@rt_all_signals = internal constant [16 x i64] [$signals]

declare i64 @syscall(i64, ...) nounwind
declare i32 @getpid() nounwind
declare i32 @pthread_create(ptr, ptr, ptr, ptr) nounwind
declare i32 @pthread_join(i64, ptr) nounwind
declare i32 @pthread_sigmask(i32, ptr, ptr) nounwind
declare i32 @llvm.umin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)
declare void @$pause_intrinsic"""

_SYSTEM = """\
; ---- system calls: 128 is FUTEX_PRIVATE_FLAG, 0 FUTEX_WAIT, 1 FUTEX_WAKE
define internal void @rt_futex_wait(ptr %word, i32 %seen) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i64 128, i32 %seen, ptr null)
  ret void
}

define internal void @rt_futex_wake(ptr %word, i32 %most) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i64 129, i32 %most)
  ret void
}

define internal void @rt_yield() nounwind {
  %r = call i64 (i64, ...) @syscall(i64 $sched_yield)
  ret void
}

define internal void @rt_pause() nounwind alwaysinline {
  call void @$pause_call
  ret void
}"""

_DRAIN = """\
; ---- claim and run tasks until the open region, if any, has none left
; The exchange succeeds only if @rt_word still has the value first read: the region of that value was open
; throughout, and function, context and count, read in between, are its own.  Their loads acquire: if one saw
; a later region's value, that region's view of @rt_word would come with it, and the exchange would fail.
define internal void @rt_drain() nounwind noinline {
entry:
  br label %next
next:
  %word = load atomic i64, ptr @rt_word acquire, align 8
  %function = load atomic ptr, ptr @rt_function acquire, align 8
  %context = load atomic ptr, ptr @rt_context acquire, align 8
  %count = load atomic i32, ptr @rt_count acquire, align 4
  %index = trunc i64 %word to i32
  %left = icmp ult i32 %index, %count
  br i1 %left, label %claim, label %out
claim:
  %raised = add i64 %word, 1
  %exchange = cmpxchg weak ptr @rt_word, i64 %word, i64 %raised acq_rel monotonic, align 8
  %won = extractvalue { i64, i1 } %exchange, 1
  br i1 %won, label %run, label %next
run:
  %i = zext i32 %index to i64
  call void %function(ptr %context, i64 %i)
  ; release: the task's writes are before the count; and one total order with @rt_asleep, see @rt_wait
  %before = atomicrmw add ptr @rt_done, i32 1 seq_cst, align 4
  %now = add i32 %before, 1
  %last = icmp eq i32 %now, %count
  br i1 %last, label %finished, label %next
finished:
  %asleep = load atomic i32, ptr @rt_asleep seq_cst, align 4
  %rouse = icmp ne i32 %asleep, 0
  br i1 %rouse, label %wake, label %next
wake:
  ; the holder may be awake, or even in its next region, by now: it checks the count again whenever it wakes
  call void @rt_futex_wake(ptr @rt_done, i32 1)
  br label %next
out:
  ret void
}"""

_WORKER = """\
; ---- a worker: drain, spin for a new generation, then sleep for one
; @rt_word is read before @rt_stopping: @rt_retire writes them in the other order, so a worker that still
; reads 0 has an older generation in hand and will see it change.
define internal ptr @rt_worker(ptr %unused) nounwind {
entry:
  br label %top
top:
  %word = load atomic i64, ptr @rt_word acquire, align 8
  %generation = lshr i64 %word, 32
  %stopping = load atomic i32, ptr @rt_stopping acquire, align 4
  %stop = icmp ne i32 %stopping, 0
  br i1 %stop, label %out, label %work
work:
  call void @rt_drain()
  %spins = load atomic i32, ptr @rt_spin monotonic, align 4
  br label %spin
spin:
  %k = phi i32 [ %spins, %work ], [ %fewer, %again ]
  %now = load atomic i64, ptr @rt_word acquire, align 8
  %g = lshr i64 %now, 32
  %new = icmp ne i64 %g, %generation
  br i1 %new, label %top, label %patient
patient:
  %done = icmp sle i32 %k, 0
  br i1 %done, label %sleep, label %again
again:
  call void @rt_pause()
  %fewer = add i32 %k, -1
  br label %spin
sleep:
  ; One total order with @rt_open: either it sees this sleeper and wakes it, or the generation is already new
  ; and the system call returns at once.
  %s0 = atomicrmw add ptr @rt_sleepers, i32 1 seq_cst, align 4
  %seen = trunc i64 %generation to i32
  call void @rt_futex_wait(ptr getelementptr (i8, ptr @rt_word, i64 4), i32 %seen)
  %s1 = atomicrmw sub ptr @rt_sleepers, i32 1 seq_cst, align 4
  br label %top
out:
  ret ptr null
}"""

_BUILD = """\
; ---- make the workers of a pool of %threads; by the holder, when there are none
define internal void @rt_build(i32 %threads) nounwind noinline {
entry:
  ; new threads inherit the mask: all signals blocked (2 is SIG_SETMASK)
  %mask = alloca [16 x i64], align 8
  %m0 = call i32 @pthread_sigmask(i32 2, ptr @rt_all_signals, ptr %mask)
  %most = add i32 %threads, -1
  br label %next
next:
  %made = phi i32 [ 0, %entry ], [ %more, %created ]
  %enough = icmp uge i32 %made, %most
  br i1 %enough, label %out, label %create
create:
  %i = zext i32 %made to i64
  %id = getelementptr [$max x i64], ptr @rt_ids, i64 0, i64 %i
  %status = call i32 @pthread_create(ptr %id, ptr null, ptr @rt_worker, ptr null)
  %granted = icmp eq i32 %status, 0
  br i1 %granted, label %created, label %out
created:
  %more = add i32 %made, 1
  br label %next
out:
  store i32 %made, ptr @rt_workers, align 4
  store i32 %threads, ptr @rt_built, align 4
  %m1 = call i32 @pthread_sigmask(i32 2, ptr %mask, ptr null)
  ret void
}"""

_RETIRE = """\
; ---- join all workers; by the holder, between regions
define internal void @rt_retire() nounwind noinline {
entry:
  ; the generation changes after the order to stop is given, see @rt_worker
  store atomic i32 1, ptr @rt_stopping release, align 4
  %word = load atomic i64, ptr @rt_word monotonic, align 8
  %later = add i64 %word, 4294967296
  store atomic i64 %later, ptr @rt_word seq_cst, align 8
  call void @rt_futex_wake(ptr getelementptr (i8, ptr @rt_word, i64 4), i32 2147483647)
  %workers = load i32, ptr @rt_workers, align 4
  br label %next
next:
  %k = phi i32 [ 0, %entry ], [ %more, %join ]
  %all = icmp uge i32 %k, %workers
  br i1 %all, label %out, label %join
join:
  %i = zext i32 %k to i64
  %at = getelementptr [$max x i64], ptr @rt_ids, i64 0, i64 %i
  %id = load i64, ptr %at, align 8
  %r = call i32 @pthread_join(i64 %id, ptr null)
  %more = add i32 %k, 1
  br label %next
out:
  store i32 0, ptr @rt_workers, align 4
  store i32 0, ptr @rt_built, align 4
  store atomic i32 0, ptr @rt_stopping release, align 4
  ret void
}"""

_FIT = """\
; ---- have the workers of a pool of %threads, whatever there was; by the holder, between regions
define internal void @rt_fit(i32 %threads) nounwind {
entry:
  %built = load i32, ptr @rt_built, align 4
  %same = icmp eq i32 %built, %threads
  br i1 %same, label %out, label %change
change:
  call void @rt_retire()
  call void @rt_build(i32 %threads)
  br label %out
out:
  ret void
}"""

_HOLD = """\
; ---- become the holder if the pool is free: true on success
define internal i1 @rt_hold() nounwind {
entry:
  %pid = call i32 @getpid()
  %owner = load atomic i32, ptr @rt_owner acquire, align 4
  %ours = icmp eq i32 %owner, %pid
  br i1 %ours, label %claim, label %foreign
foreign:
  ; first use, or a child after fork, whose copy of the state may be of any moment: one thread takes it over
  %minus = sub i32 0, %pid
  %started = icmp eq i32 %owner, %minus
  br i1 %started, label %refused, label %adopt
adopt:
  %taking = cmpxchg ptr @rt_owner, i32 %owner, i32 %minus acquire monotonic, align 4
  %chosen = extractvalue { i32, i1 } %taking, 1
  br i1 %chosen, label %reset, label %refused
reset:
  store atomic i64 4294967295, ptr @rt_word monotonic, align 8
  store atomic i32 0, ptr @rt_sleepers monotonic, align 4
  store atomic i32 0, ptr @rt_stopping monotonic, align 4
  store i32 0, ptr @rt_workers, align 4
  store i32 0, ptr @rt_built, align 4
  store atomic i32 0, ptr @rt_busy monotonic, align 4
  store atomic i32 %pid, ptr @rt_owner release, align 4
  br label %claim
claim:
  ; acquire pairs with the release of the last holder, whose writes are then ours to go on from
  %taken = cmpxchg ptr @rt_busy, i32 0, i32 1 acquire monotonic, align 4
  %held = extractvalue { i32, i1 } %taken, 1
  ret i1 %held
refused:
  ret i1 false
}"""

_OPEN = """\
; ---- publish a region and wake as many sleepers as it has tasks for; returns the word without its index
define internal i64 @rt_open(ptr %function, ptr %context, i32 %count) nounwind {
entry:
  store atomic i32 0, ptr @rt_done monotonic, align 4
  store atomic i32 0, ptr @rt_asleep monotonic, align 4
  ; release, for the loads of @rt_drain
  store atomic ptr %function, ptr @rt_function release, align 8
  store atomic ptr %context, ptr @rt_context release, align 8
  store atomic i32 %count, ptr @rt_count release, align 4
  %closed = load atomic i64, ptr @rt_word monotonic, align 8
  %generation = and i64 %closed, -4294967296
  %opened = add i64 %generation, 4294967296
  ; release: everything above is before it; and one total order with @rt_sleepers, see @rt_worker
  store atomic i64 %opened, ptr @rt_word seq_cst, align 8
  %sleepers = load atomic i32, ptr @rt_sleepers seq_cst, align 4
  %any = icmp ne i32 %sleepers, 0
  br i1 %any, label %rouse, label %out
rouse:
  %others = add i32 %count, -1
  %most = call i32 @llvm.umin.i32(i32 %others, i32 %sleepers)
  call void @rt_futex_wake(ptr getelementptr (i8, ptr @rt_word, i64 4), i32 %most)
  br label %out
out:
  ret i64 %opened
}"""

_WAIT = """\
; ---- wait until %count tasks have returned
define internal void @rt_wait(i32 %count) nounwind {
entry:
  %spins = load atomic i32, ptr @rt_spin monotonic, align 4
  br label %spin
spin:
  %k = phi i32 [ %spins, %entry ], [ %fewer, %again ]
  %d = load atomic i32, ptr @rt_done acquire, align 4
  %all = icmp eq i32 %d, %count
  br i1 %all, label %out, label %patient
patient:
  %over = icmp sle i32 %k, 0
  br i1 %over, label %sleep, label %again
again:
  call void @rt_pause()
  %fewer = add i32 %k, -1
  br label %spin
sleep:
  ; One total order with the end of @rt_drain: either the last task sees @rt_asleep and wakes us, or we see
  ; its count.
  store atomic i32 1, ptr @rt_asleep seq_cst, align 4
  %now = load atomic i32, ptr @rt_done seq_cst, align 4
  %complete = icmp eq i32 %now, %count
  br i1 %complete, label %out, label %rest
rest:
  call void @rt_futex_wait(ptr @rt_done, i32 %now)
  br label %sleep
out:
  ret void
}"""

_SERIAL = """\
; ---- all tasks on the caller
define internal void @rt_serial(ptr %function, ptr %context, i64 %n) nounwind {
entry:
  %none = icmp sle i64 %n, 0
  br i1 %none, label %out, label %next
next:
  %i = phi i64 [ 0, %entry ], [ %more, %next ]
  call void %function(ptr %context, i64 %i)
  %more = add i64 %i, 1
  %end = icmp eq i64 %more, %n
  br i1 %end, label %out, label %next
out:
  ret void
}"""

_PARALLEL = """\
; ---- the entry points
define $linkage void @rt_parallel(ptr %function, ptr %context, i64 %n) nounwind {
entry:
  %threads = load atomic i32, ptr @rt_wanted monotonic, align 4
  %alone = icmp ule i32 %threads, 1
  ; fewer than 2 tasks, or more than the index can count
  %from2 = add i64 %n, -2
  %unfit = icmp ugt i64 %from2, 4294967292
  %plain = or i1 %alone, %unfit
  br i1 %plain, label %serial, label %hold
hold:
  %held = call i1 @rt_hold()
  br i1 %held, label %region, label %serial
region:
  call void @rt_fit(i32 %threads)
  %count = trunc i64 %n to i32
  %opened = call i64 @rt_open(ptr %function, ptr %context, i32 %count)
  call void @rt_drain()
  call void @rt_wait(i32 %count)
  %closed = or i64 %opened, 4294967295
  store atomic i64 %closed, ptr @rt_word release, align 8
  store atomic i32 0, ptr @rt_busy release, align 4
  ret void
serial:
  call void @rt_serial(ptr %function, ptr %context, i64 %n)
  ret void
}"""

_THREADS = """\
define $linkage void @rt_threads(i32 %n) nounwind {
entry:
  %least = call i32 @llvm.smax.i32(i32 %n, i32 1)
  %threads = call i32 @llvm.umin.i32(i32 %least, i32 $max)
  store atomic i32 %threads, ptr @rt_wanted monotonic, align 4
  ret void
}"""

_STOP = """\
define $linkage void @rt_stop() nounwind {
entry:
  br label %try
try:
  %held = call i1 @rt_hold()
  br i1 %held, label %retire, label %later
later:
  ; a region of another thread is under way
  call void @rt_yield()
  br label %try
retire:
  call void @rt_retire()
  store atomic i32 0, ptr @rt_busy release, align 4
  ret void
}"""

# Linux system call numbers, and the instruction that makes a waiting loop slow.  On aarch64 ``yield`` does
# nothing on most cores, while an instruction barrier takes about as long as ``pause``.
_ARCHITECTURES = {
    "x86_64": {
        "futex": "202",
        "sched_yield": "24",
        "pause_intrinsic": "llvm.x86.sse2.pause()",
        "pause_call": "llvm.x86.sse2.pause()",
    },
    "aarch64": {
        "futex": "98",
        "sched_yield": "124",
        "pause_intrinsic": "llvm.aarch64.isb(i32)",
        "pause_call": "llvm.aarch64.isb(i32 15)",
    },
}

_PARTS = (
    _STATE,
    _SYSTEM,
    _DRAIN,
    _WORKER,
    _BUILD,
    _RETIRE,
    _FIT,
    _HOLD,
    _OPEN,
    _WAIT,
    _SERIAL,
    _PARALLEL,
    _THREADS,
    _STOP,
)


def pool_text(arch: str = "x86_64", *, prefix: str = "rt_", linkage: Linkage = "hidden") -> str:
    """The pool as one module of LLVM text, with no triple.

    ``prefix`` begins every name it defines.  ``linkage`` is that of the four names above: ``"hidden"`` for
    other objects of the same library, ``"internal"`` for text that is put in the same module, ``"default"``
    to export them.
    """
    if arch not in _ARCHITECTURES:
        raise ValueError(f"no thread pool for architecture {arch!r}: known are {', '.join(_ARCHITECTURES)}")
    values = {
        **_ARCHITECTURES[arch],
        "max": str(MAX_THREADS),
        "signals": ", ".join(["i64 -1"] * 16),
        "linkage": "" if linkage == "default" else linkage,
    }
    text = Template("\n\n".join(_PARTS) + "\n").substitute(values)
    return text.replace("@rt_", f"@{prefix}")
