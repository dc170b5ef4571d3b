"""A compiled model written by hand: `double`, y = 2*x + w over float32[batch, 3], as the code generator would
emit it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from tapecast.compiler.cpu.llvm_driver import object_code
from tapecast.compiler.library import Entry, KernelInfo, Library, Spec

WEIGHTS = np.array([0.5, -1.0, 3.0], np.float32)

# Whatever a process loads first lends its pool to all later models, so even this one's does all tasks.
ABI = """
@level = internal global i32 2
@parallel = internal global ptr @serial
define internal void @serial(ptr %f, ptr %context, i64 %n) {
entry:
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %task ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %task, label %end
task:
  call void %f(ptr %context, i64 %i)
  %next = add i64 %i, 1
  br label %test
end:
  ret void
}
define i32 @MODEL_level() {
  %level = load i32, ptr @level
  ret i32 %level
}
define i32 @MODEL_select(i32 %wanted) {
  %known = icmp eq i32 %wanted, 2
  %best = icmp eq i32 %wanted, 0
  %good = or i1 %known, %best
  %level = select i1 %good, i32 2, i32 0
  ret i32 %level
}
define void @MODEL_threads(i32 %n) {
  ret void
}
define ptr @MODEL_pool() {
  %pool = load ptr, ptr @parallel
  ret ptr %pool
}
define void @MODEL_share(ptr %pool) {
  store ptr %pool, ptr @parallel
  ret void
}
"""

# Each row goes through the workspace, so that a wrong one shows. Arguments: x, y, batch, workspace, threads.
FORWARD = """
@MODEL_weights = external constant [3 x float]
define i64 @MODEL_forward_workspace(ptr %sizes) {
  %batch = load i64, ptr %sizes
  %bytes = mul i64 %batch, 12
  ret i64 %bytes
}
define i32 @MODEL_forward(ptr %args) {
entry:
  %p0 = getelementptr i64, ptr %args, i64 0
  %p1 = getelementptr i64, ptr %args, i64 1
  %p2 = getelementptr i64, ptr %args, i64 2
  %p3 = getelementptr i64, ptr %args, i64 3
  %x = load ptr, ptr %p0
  %y = load ptr, ptr %p1
  %batch = load i64, ptr %p2
  %w = load ptr, ptr %p3
  %large = icmp sgt i64 %batch, 1024
  %small = icmp slt i64 %batch, 1
  %bad = or i1 %large, %small
  br i1 %bad, label %refuse, label %start
refuse:
  ret i32 1
start:
  %n = mul i64 %batch, 3
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %column = urem i64 %i, 3
  %px = getelementptr float, ptr %x, i64 %i
  %pw = getelementptr float, ptr %w, i64 %i
  %py = getelementptr float, ptr %y, i64 %i
  %pb = getelementptr [3 x float], ptr @MODEL_weights, i64 0, i64 %column
  %a = load float, ptr %px
  %a2 = fadd float %a, %a
  store float %a2, ptr %pw
  %t = load volatile float, ptr %pw
  %b = load float, ptr %pb
  %r = fadd float %t, %b
  store float %r, ptr %py
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %end, label %loop
end:
  ret i32 0
}
"""

# step: total' = total + x and y = total', both float32[2]. Arguments: total, x, total', y, workspace,
# threads.
STEP = """
define i64 @MODEL_step_workspace(ptr %sizes) {
  ret i64 0
}
define i32 @MODEL_step(ptr %args) {
  %p1 = getelementptr i64, ptr %args, i64 1
  %p2 = getelementptr i64, ptr %args, i64 2
  %p3 = getelementptr i64, ptr %args, i64 3
  %total = load ptr, ptr %args
  %x = load ptr, ptr %p1
  %new = load ptr, ptr %p2
  %y = load ptr, ptr %p3
  %t = load <2 x float>, ptr %total, align 4
  %a = load <2 x float>, ptr %x, align 4
  %s = fadd <2 x float> %t, %a
  store <2 x float> %s, ptr %new, align 4
  store <2 x float> %s, ptr %y, align 4
  ret i32 0
}
"""

FORWARD_ENTRY = Entry(
    "forward",
    (Spec("x", "float32", ("batch", 3)),),
    (Spec("y", "float32", ("batch", 3)),),
    ("batch",),
    "12*batch",
)
STEP_ENTRY = Entry(
    "step",
    (Spec("total", "float32", (2,)), Spec("x", "float32", (2,))),
    (Spec("total", "float32", (2,)), Spec("y", "float32", (2,))),
    (),
    "0",
    state=((0, 0),),
)


@cache
def compiled(text: str, name: str, target: str = "x86-64-v2") -> bytes:
    """Object code of LLVM text for a model of that name."""
    return object_code(text.replace("MODEL", name), target)


def double_library(name: str = "double", level: int = 2) -> Library:
    """The model `double`; with `level` 0 it says that this CPU has none of its levels."""
    text = ABI.replace("@level = internal global i32 2", f"@level = internal global i32 {level}") + FORWARD
    return Library(
        name=name,
        objects=(compiled(text, name),),
        weights=WEIGHTS.tobytes(),
        entries=(FORWARD_ENTRY,),
        dims={"batch": (1, 1024)},
        levels=("x86-64-v2",),
        kernels=(KernelInfo("double_add", "forward", ("model.py:3 in forward",)),),
        graph_text="graph forward(%x: float32[batch,3]):\n  return %y\n",
        options={"target": "x86-64-v2"},
    )


def expected(x: np.ndarray) -> np.ndarray:
    """What `double` gives for x."""
    return 2 * x + WEIGHTS


def counter_library() -> Library:
    """A model with the entries `forward` and `step`; `step` adds to a total that it keeps, at first (10,
    20).
    """
    return replace(
        double_library("counter"),
        objects=(compiled(ABI + FORWARD + STEP, "counter"),),
        entries=(FORWARD_ENTRY, STEP_ENTRY),
        state={"total": np.array([10, 20], np.float32).tobytes()},
    )


def aarch64_library() -> Library:
    """`double` for another processor family."""
    text = ABI + FORWARD
    return replace(double_library(), objects=(compiled(text, "double", "aarch64"),), levels=("aarch64",))
