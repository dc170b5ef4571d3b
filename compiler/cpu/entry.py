"""Entry points as LLVM text: the argument block, the checks on sizes, the calls of kernels, the choice of level.

The block is one array of 64-bit words: pointers of inputs, pointers of outputs, sizes, the workspace, the number
of threads. See docs/design/abi.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..loops import Kernel
from ..unit import Location, Unit
from .builder import Function, Value, literal
from .detect import NUMBERS, detect_text
from .emit import Emitter, Variant
from .indexing import size_name
from .pool import pool_text

#: What a call returns when an index from data was out of range: TAPECAST_INDEX of tapecast.h.
BAD_INDEX = -11

Dims = Mapping[str, tuple[int, int | None]]


def entry_function(
    library: str, unit: Unit, kernels: Mapping[str, Kernel], variant: Variant, dims: Dims
) -> Function:
    """`i32 <library>_<entry><suffix>(args)`: 0, the position of a size that is out of its range, or BAD_INDEX."""
    f = Function(
        f"{library}_{unit.name}{variant.suffix}", [("args", "ptr")], result="i32", linkage="hidden",
        attributes=variant.level.attributes,
    )  # fmt: skip
    words = _Words(f, unit)
    _check_sizes(f, unit, dims)
    emitter = Emitter(f, Kernel("", (), (*unit.sizes, "threads"), ()), variant)
    status = None if unit.status is None else words.pointer(library, Location("temp", unit.status), emitter)
    if status is not None:
        f.store(literal(0, "int32"), status.name)
    for step in unit.steps:
        kernel = kernels[step.kernel]
        pointers = [words.pointer(library, step.where[b.name], emitter) for b in kernel.buffers]
        sizes = [Value(f"%{size_name(n)}", "int64") for n in kernel.sizes]
        f.call(step.kernel + variant.suffix, "void", *pointers, *sizes)
    if status is not None:
        bad = Value(f.assign(f"icmp ne i32 {f.load(status.name, 'int32').name}, 0"), "bool")
        f.when(bad, lambda: f.ret(literal(BAD_INDEX, "int32")))
    f.ret(literal(0, "int32"))
    return f


class _Words:
    """The words of the argument block, loaded once: `%threads` and every size by name, pointers by position."""

    def __init__(self, f: Function, unit: Unit) -> None:
        self.f = f
        n, m, k = len(unit.inputs), len(unit.outputs), len(unit.sizes)
        self.inputs = [self.word(i, "ptr") for i in range(n)]
        self.outputs = [self.word(n + i, "ptr") for i in range(m)]
        for i, name in enumerate(unit.sizes):
            f.emit(f"%{size_name(name)} = load i64, ptr {self.place(n + m + i)}, align 8")
        self.workspace = self.word(n + m + k, "ptr")
        f.emit(f"%{size_name('threads')} = load i64, ptr {self.place(n + m + k + 1)}, align 8")

    def place(self, i: int) -> str:
        return self.f.gep("%args", literal(i, "int64"), "int64")

    def word(self, i: int, dtype: str) -> Value:
        return self.f.load(self.place(i), dtype)

    def pointer(self, library: str, where: Location, emitter: Emitter) -> Value:
        match where.kind, where.at:
            case "input", int(k):
                return self.inputs[k]
            case "output", int(k):
                return self.outputs[k]
            case "weight", int(offset):
                return Value(self.f.gep(f"@{library}_weights", literal(offset, "int64"), "int8"), "ptr")
            case "temp", offset if not isinstance(offset, int):
                return Value(self.f.gep(self.workspace.name, emitter.scalar(offset), "int8"), "ptr")
        raise ValueError(f"no such place: {where}")


def _check_sizes(f: Function, unit: Unit, dims: Dims) -> None:
    for k, name in enumerate(unit.sizes, 1):
        low, high = dims[name]
        bounds = [("slt", low)] + ([] if high is None else [("sgt", high)])
        for test, bound in bounds:
            bad = Value(f.assign(f"icmp {test} i64 %{size_name(name)}, {bound}"), "bool")
            f.when(bad, lambda k=k: f.ret(literal(k, "int32")))  # type: ignore[misc]


def host_text(
    library: str, units: Sequence[Unit], levels: Sequence[str], workspaces: Sequence[Function]
) -> str:
    """The level-independent part: exported entry points, workspace sizes, level choice, the thread pool."""
    numbers = [NUMBERS[level] for level in levels]
    parts = [
        pool_text(prefix=f"{library}_rt_", linkage="internal"),
        detect_text(f"{library}_detect"),
        _level_text(library, numbers),
        _POOL_API.replace("MODEL", library),
        *(_dispatch_text(library, u.name, numbers) for u in units),
        *(w.text() for w in workspaces),
        *sorted(set().union(*(w.declarations for w in workspaces))),
    ]
    return "\n".join(parts)


def workspace_function(library: str, unit: Unit, variant: Variant) -> Function:
    """`i64 <library>_<entry>_workspace(sizes)`: bytes of workspace a call needs."""
    f = Function(f"{library}_{unit.name}_workspace", [("sizes", "ptr")], result="i64", linkage="external")
    for i, name in enumerate(unit.sizes):
        place = f.gep("%sizes", literal(i, "int64"), "int64")
        f.emit(f"%{size_name(name)} = load i64, ptr {place}, align 8")
    emitter = Emitter(f, Kernel("", (), unit.sizes, ()), variant)
    f.ret(emitter.scalar(unit.workspace))
    return f


def _dispatch_text(library: str, entry: str, numbers: Sequence[int]) -> str:
    """`i32 <library>_<entry>(args)`: the entry of the level in use, or -1 when there is none."""
    name = f"{library}_{entry}"
    cases = " ".join(f"i32 {n}, label %v{n}" for n in numbers)
    lines = [f"declare hidden i32 @{name}_v{n}(ptr)" for n in numbers]
    lines += [
        f"define i32 @{name}(ptr %args) nounwind {{",
        f"  %level = load i32, ptr @{library}_level_in_use, align 4",
        f"  switch i32 %level, label %none [{cases}]",
    ]
    for n in numbers:
        lines += [f"v{n}:", f"  %r{n} = tail call i32 @{name}_v{n}(ptr %args)", f"  ret i32 %r{n}"]
    return "\n".join([*lines, "none:", "  ret i32 -1", "}"])


def _level_text(library: str, numbers: Sequence[int]) -> str:
    """The level in use: set by a constructor when the library is loaded, lowered on request by `_select`."""
    best = "  %b0 = add i32 0, 0\n"
    for k, n in enumerate(numbers, 1):
        best += (
            f"  %f{k} = icmp sge i32 %have, {n}\n  %w{k} = icmp sle i32 {n}, %most\n  %u{k} = and i1 %f{k}, %w{k}\n"
            f"  %b{k} = select i1 %u{k}, i32 {n}, i32 %b{k - 1}\n"
        )
    return (
        _LEVELS.replace("MODEL", library).replace("BEST", best.rstrip()).replace("LAST", f"%b{len(numbers)}")
    )


_LEVELS = """\
@MODEL_level_in_use = internal global i32 0, align 4
%MODEL_constructor = type { i32, ptr, ptr }
@llvm.global_ctors = appending global [1 x %MODEL_constructor] [
  %MODEL_constructor { i32 65535, ptr @MODEL_start, ptr null }]
define internal i32 @MODEL_best(i32 %most) nounwind {
  %have = call i32 @MODEL_detect()
BEST
  ret i32 LAST
}
define internal void @MODEL_start() nounwind {
  %level = call i32 @MODEL_best(i32 99)
  store i32 %level, ptr @MODEL_level_in_use, align 4
  ret void
}
define i32 @MODEL_level() nounwind {
  %level = load i32, ptr @MODEL_level_in_use, align 4
  ret i32 %level
}
define i32 @MODEL_select(i32 %wanted) nounwind {
  %any = icmp eq i32 %wanted, 0
  %most = select i1 %any, i32 99, i32 %wanted
  %level = call i32 @MODEL_best(i32 %most)
  %exact = icmp eq i32 %level, %wanted
  %good = or i1 %any, %exact
  %there = icmp ne i32 %level, 0
  %use = and i1 %good, %there
  br i1 %use, label %set, label %no
set:
  store i32 %level, ptr @MODEL_level_in_use, align 4
  ret i32 %level
no:
  ret i32 0
}
"""

_POOL_API = """\
@MODEL_parallel = hidden global ptr @MODEL_rt_parallel, align 8
define void @MODEL_threads(i32 %n) nounwind {
  call void @MODEL_rt_threads(i32 %n)
  ret void
}
define ptr @MODEL_pool() nounwind {
  %pool = load ptr, ptr @MODEL_parallel, align 8
  ret ptr %pool
}
define void @MODEL_share(ptr %pool) nounwind {
  store ptr %pool, ptr @MODEL_parallel, align 8
  ret void
}
"""
