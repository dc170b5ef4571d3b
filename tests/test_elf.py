"""The linker: libraries that work in a process of their own and that tools read; errors that explain."""

import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tapecast.compiler.cpu.elf import LinkError, link, link_system
from tapecast.compiler.cpu.llvm_driver import object_code, undefined_symbols

ARITHMETIC = """
; data, constants, zeros, pointers to functions, and functions and data of libc
@counter = internal global i32 5
@zeros = internal global [1000 x i32] zeroinitializer, align 64
@table = internal constant [2 x ptr] [ptr @plus, ptr @times]
@doubles = internal constant [4 x double] [double 0.5, double 1.5, double 2.5, double 3.5]
@visible = global i32 77
@environ = external global ptr
declare i32 @getpid()
declare i64 @syscall(i64, ...)

define internal i32 @plus(i32 %x, i32 %y) noinline {
  %r = add i32 %x, %y
  ret i32 %r
}
define internal i32 @times(i32 %x, i32 %y) noinline {
  %r = mul i32 %x, %y
  ret i32 %r
}
define i32 @apply(i64 %which, i32 %x, i32 %y) {
  %at = getelementptr ptr, ptr @table, i64 %which
  %f = load ptr, ptr %at
  %r = call i32 %f(i32 %x, i32 %y)
  ret i32 %r
}
define i32 @count() {
  %old = load i32, ptr @counter
  %new = add i32 %old, 1
  store i32 %new, ptr @counter
  %last = getelementptr i32, ptr @zeros, i64 999
  %z = load i32, ptr %last
  %sum = add i32 %z, %new
  store i32 %sum, ptr %last
  ret i32 %sum
}
define double @constant(i64 %i) {
  %at = getelementptr double, ptr @doubles, i64 %i
  %x = load double, ptr %at
  ret double %x
}
define i32 @pid_by_call() {
  %r = call i32 @getpid()
  ret i32 %r
}
define i64 @pid_by_number() {
  %r = call i64 (i64, ...) @syscall(i64 39)
  ret i64 %r
}
define ptr @pid_function() {
  ret ptr @getpid
}
define ptr @environment() {
  %r = load ptr, ptr @environ
  ret ptr %r
}
define i32 @see() {
  %r = load i32, ptr @visible
  ret i32 %r
}
"""

ARITHMETIC_RESULTS = """
assert lib.apply(0, 20, 3) == 23 and lib.apply(1, 20, 3) == 60
assert [lib.count() for _ in range(3)] == [6, 13, 21]
lib.constant.restype, lib.constant.argtypes = ctypes.c_double, [ctypes.c_int64]
assert [lib.constant(i) for i in range(4)] == [0.5, 1.5, 2.5, 3.5]
assert lib.pid_by_call() == lib.pid_by_number() == os.getpid()
lib.pid_function.restype = ctypes.c_void_p
assert ctypes.CFUNCTYPE(ctypes.c_int)(lib.pid_function())() == os.getpid()
lib.environment.restype = ctypes.c_void_p
assert lib.environment() == ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ").value
visible = ctypes.c_int32.in_dll(lib, "visible")
assert visible.value == 77
visible.value = 78
assert lib.see() == 78
"""

WEIGHTS = """
@weights = external constant [0 x float]
@bias = external constant [0 x float]
@direct = external hidden constant [0 x float]
define float @weight(i64 %i) {
  %at = getelementptr float, ptr @weights, i64 %i
  %x = load float, ptr %at
  ret float %x
}
define float @biased(i64 %i) {
  %at = getelementptr float, ptr @bias, i64 %i
  %x = load float, ptr %at
  %nearby = getelementptr float, ptr @direct, i64 %i
  %y = load float, ptr %nearby
  %r = fadd float %x, %y
  ret float %r
}
define i64 @place(ptr %unused) {
  %r = ptrtoint ptr @weights to i64
  ret i64 %r
}
"""

EVEN = """
@calls = hidden global i32 0
declare hidden i1 @odd(i32)
define i1 @even(i32 %n) {
  %zero = icmp eq i32 %n, 0
  br i1 %zero, label %yes, label %no
yes:
  ret i1 true
no:
  %less = sub i32 %n, 1
  %r = call i1 @odd(i32 %less)
  ret i1 %r
}
"""
ODD = """
@calls = external hidden global i32
@even_function = hidden constant ptr @even
declare i1 @even(i32)
define hidden i1 @odd(i32 %n) {
  %old = load i32, ptr @calls
  %new = add i32 %old, 1
  store i32 %new, ptr @calls
  %zero = icmp eq i32 %n, 0
  br i1 %zero, label %no, label %maybe
maybe:
  %less = sub i32 %n, 1
  %f = load volatile ptr, ptr @even_function
  %r = call i1 %f(i32 %less)
  ret i1 %r
no:
  ret i1 false
}
define i32 @odd_calls() {
  %r = load i32, ptr @calls
  ret i32 %r
}
"""

CONSTRUCTORS = """
@llvm.global_ctors = appending global [3 x { i32, ptr, ptr }] [
  { i32, ptr, ptr } { i32 65535, ptr @last, ptr null },
  { i32, ptr, ptr } { i32 200, ptr @second, ptr null },
  { i32, ptr, ptr } { i32 101, ptr @first, ptr null }]
@order = global i32 0
declare i32 @getpid()
define internal void @note(i32 %digit) noinline {
  %pid = call i32 @getpid()       ; not to be run by the optimiser
  %real = icmp ne i32 %pid, 0
  %old = load i32, ptr @order
  %shifted = mul i32 %old, 10
  %new = add i32 %shifted, %digit
  %kept = select i1 %real, i32 %new, i32 0
  store i32 %kept, ptr @order
  ret void
}
define internal void @first() {
  call void @note(i32 1)
  ret void
}
define internal void @second() {
  call void @note(i32 2)
  ret void
}
define internal void @last() {
  call void @note(i32 3)
  ret void
}
"""

ANSWER = "define i32 @answer() {\n  ret i32 42\n}\n"
LIBC = frozenset({"getpid", "syscall", "environ"})


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def run(path: Path, script: str) -> None:
    """Run a script on the loaded library `lib` in a new process; a crash there is a failure of the test."""
    command = [
        sys.executable,
        "-c",
        f"import ctypes, os, sys\nlib = ctypes.CDLL(sys.argv[1])\n{script}",
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"


def by_us(objects: Sequence[bytes], path: Path, **options: object) -> None:
    path.write_bytes(link(objects, **options).data)  # type: ignore[arg-type]


needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no cc to link or compile with")
LINKERS = [pytest.param(by_us, id="ours"), pytest.param(link_system, id="system", marks=needs_cc)]


@pytest.mark.parametrize("linker", LINKERS)
def test_code_and_data_of_one_object(linker: Callable[..., None], tmp_path: Path) -> None:
    for opt in (0, 3):
        linker([object_code(ARITHMETIC, opt=opt)], tmp_path / f"{opt}.so")
        run(tmp_path / f"{opt}.so", ARITHMETIC_RESULTS)


@pytest.mark.parametrize("linker", LINKERS)
def test_blobs_are_read_where_they_are(linker: Callable[..., None], tmp_path: Path) -> None:
    blobs = {"weights": floats(*range(5000)), "bias": floats(0.5, 1.5, 2.5), "direct": floats(100, 200, 300)}
    linker([object_code(WEIGHTS)], tmp_path / "b.so", blobs=blobs)
    run(
        tmp_path / "b.so",
        """
for f in (lib.weight, lib.biased):
    f.restype, f.argtypes = ctypes.c_float, [ctypes.c_int64]
assert [lib.weight(i) for i in range(5000)] == list(range(5000))
assert [lib.biased(i) for i in range(3)] == [100.5, 201.5, 302.5]
lib.place.restype = ctypes.c_int64
assert lib.place() % 64 == 0
assert not hasattr(lib, "weights")
""",
    )


@pytest.mark.parametrize("linker", LINKERS)
def test_objects_call_each_other(linker: Callable[..., None], tmp_path: Path) -> None:
    linker([object_code(EVEN), object_code(ODD)], tmp_path / "two.so")
    run(
        tmp_path / "two.so",
        """
lib.even.restype = ctypes.c_bool
assert [lib.even(n) for n in range(6)] == [True, False] * 3
assert lib.odd_calls() == 0 + 1 + 1 + 2 + 2 + 3
assert not hasattr(lib, "odd") and not hasattr(lib, "calls")
""",
    )


@pytest.mark.parametrize("linker", LINKERS)
def test_constructors_run_at_load_by_priority(linker: Callable[..., None], tmp_path: Path) -> None:
    linker([object_code(CONSTRUCTORS)], tmp_path / "c.so")
    run(tmp_path / "c.so", 'assert ctypes.c_int32.in_dll(lib, "order").value == 123')


@pytest.mark.parametrize("kind", ["global", "constant"])
@pytest.mark.parametrize("number", [0, 3])
def test_library_of_one_variable(kind: str, number: int, tmp_path: Path) -> None:
    by_us([object_code(f"@only = {kind} i32 {number}")], tmp_path / "v.so")
    run(tmp_path / "v.so", f"assert ctypes.c_int32.in_dll(lib, 'only').value == {number}")


def test_variable_of_no_size_has_an_address(tmp_path: Path) -> None:
    by_us([object_code("@none = constant [0 x i32] zeroinitializer")], tmp_path / "z.so")
    run(tmp_path / "z.so", "assert lib.none")


def test_function_without_instructions(tmp_path: Path) -> None:
    by_us([object_code("define void @nothing() {\n  unreachable\n}\n")], tmp_path / "n.so")
    run(tmp_path / "n.so", "assert lib.nothing")


def test_destructors_run_at_close(tmp_path: Path) -> None:
    module = """
@llvm.global_dtors = appending global [1 x { i32, ptr, ptr }] [
  { i32, ptr, ptr } { i32 65535, ptr @bye, ptr null }]
declare void @_exit(i32)
define internal void @bye() {
  call void @_exit(i32 0)
  ret void
}
"""
    by_us([object_code(module)], tmp_path / "d.so")
    run(tmp_path / "d.so", "import _ctypes\n_ctypes.dlclose(lib._handle)\nos._exit(1)")


@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize("nodelete", [False, True])
def test_nodelete_keeps_the_library(linker: Callable[..., None], nodelete: bool, tmp_path: Path) -> None:
    linker([object_code(ANSWER)], tmp_path / "kept.so", nodelete=nodelete)
    run(
        tmp_path / "kept.so",
        f"""
import _ctypes
_ctypes.dlclose(lib._handle)
assert ("kept.so" in open("/proc/self/maps").read()) == {nodelete}
""",
    )


def test_memory_protection(tmp_path: Path) -> None:
    """Nothing is both writable and executable; relocated constants, and blobs, are read-only."""
    objects = [object_code(ARITHMETIC), object_code(WEIGHTS)]
    blobs = {name: floats(1.0) for name in ("weights", "bias", "direct")}
    by_us(objects, tmp_path / "p.so", blobs=blobs)
    run(
        tmp_path / "p.so",
        """
rights = {line.split()[1] for line in open("/proc/self/maps") if "p.so" in line}
assert rights == {"r--p", "r-xp", "rw-p"}, rights
stack = next(line.split()[1] for line in open("/proc/self/maps") if "[stack]" in line)
assert stack == "rw-p", stack
lines = [line.split() for line in open("/proc/self/maps") if "p.so" in line]
assert [line[1] for line in lines] == ["r--p", "r-xp", "r--p", "rw-p", "r--p"], lines
""",
    )


def test_image_says_where_things_are() -> None:
    blobs = {"weights": floats(*range(1000)), "bias": b"\1\2\3", "direct": b""}
    image = link([object_code(WEIGHTS)], blobs=blobs)
    assert set(image.symbols) == {"weight", "biased", "place"}
    assert image.blob_offset == image.blob_offsets["weights"] and image.blob_offset % 4096 == 0
    for name, blob in blobs.items():
        at = image.blob_offsets[name]
        assert image.data[at : at + len(blob)] == blob and at % 64 == 0
    assert link([object_code(ANSWER)]).blob_offset == 0 and link([object_code(ANSWER)]).blob_offsets == {}


@pytest.mark.parametrize("slack", [0, 512, 100_000])
def test_space_before_the_blobs_is_free(slack: int, tmp_path: Path) -> None:
    image = link([object_code(ARITHMETIC), object_code(WEIGHTS)], blobs=THREE_BLOBS, blob_slack=slack)
    data = bytearray(image.data)
    data[image.blob_offset - slack : image.blob_offset] = b"\xa5" * slack
    (tmp_path / "s.so").write_bytes(data)
    run(tmp_path / "s.so", ARITHMETIC_RESULTS)


THREE_BLOBS = {name: floats(1, 2, 3) for name in ("weights", "bias", "direct")}


def test_blobs_may_be_any_buffer() -> None:
    plain = link([object_code(WEIGHTS)], blobs=THREE_BLOBS)
    views = {name: memoryview(blob).cast("f") for name, blob in THREE_BLOBS.items()}
    assert link([object_code(WEIGHTS)], blobs=views) == plain  # type: ignore[arg-type]


def test_same_input_gives_same_bytes() -> None:
    objects = [object_code(ARITHMETIC), object_code(WEIGHTS)]
    again = [object_code(ARITHMETIC), object_code(WEIGHTS)]
    assert link(objects, blobs=THREE_BLOBS, soname="a.so") == link(again, blobs=THREE_BLOBS, soname="a.so")


@pytest.mark.parametrize("target", ["x86-64-v2", "aarch64"])
@pytest.mark.skipif(shutil.which("readelf") is None, reason="no readelf")
def test_readelf_and_nm_find_nothing_wrong(target: str, tmp_path: Path) -> None:
    path = tmp_path / "r.so"
    objects = [object_code(m, target) for m in (ARITHMETIC, WEIGHTS, CONSTRUCTORS)]
    by_us(objects, path, blobs=THREE_BLOBS, soname="libr.so.1", nodelete=True)
    read = subprocess.run(["readelf", "-aW", path], capture_output=True, text=True, check=True)
    assert read.stderr == "" and "arning" not in read.stdout
    for text in ("[libc.so.6]", "[libr.so.1]", "NOW NODELETE", "GNU_RELRO", "INIT_ARRAY"):
        assert text in read.stdout, text
    names = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True)
    assert names.stderr == ""
    kinds = {line.split()[-1]: line.split()[-2] for line in names.stdout.splitlines()}
    assert kinds["apply"] == "T" and kinds["visible"] == "D" and kinds["getpid"] == "U"


@needs_cc
def test_c_program_links_against_it(tmp_path: Path) -> None:
    by_us([object_code(ARITHMETIC)], tmp_path / "libours.so", soname="libours.so")
    (tmp_path / "main.c").write_text(
        "extern int visible; int apply(long, int, int);\n"
        "int main(void) { return apply(1, 6, 7) == 42 && visible == 77 ? 0 : 1; }\n"
    )
    command = ["cc", "main.c", "-L.", "-lours", "-Wl,-rpath,$ORIGIN", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    assert subprocess.run([tmp_path / "main"], check=False, timeout=60).returncode == 0


# Another processor

AARCH64_LOADER = Path("/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1")
needs_qemu = pytest.mark.skipif(
    shutil.which("qemu-aarch64") is None or not AARCH64_LOADER.exists(),
    reason="no qemu-aarch64, or no aarch64 C library to run under it",
)

# A program: the loader jumps to @start, which exits with a bit for each wrong result of the library.
START = """
@order = external global i32
declare i32 @apply(i64, i32, i32)
declare i32 @count()
declare double @constant(i64)
declare i32 @pid_by_call()
declare ptr @pid_function()
declare float @weight(i64)
declare float @biased(i64)
declare i1 @even(i32)
declare i32 @odd_calls()
declare void @_exit(i32)
define void @start() {
  %a = call i32 @apply(i64 1, i32 6, i32 7)
  %a.bad = icmp ne i32 %a, 42
  %c1 = call i32 @count()
  %c2 = call i32 @count()
  %c.bad = icmp ne i32 %c2, 13
  %d = call double @constant(i64 2)
  %d.bad = fcmp une double %d, 2.5
  %p = call i32 @pid_by_call()
  %getpid = call ptr @pid_function()
  %q = call i32 %getpid()
  %p.bad = icmp ne i32 %p, %q
  %w = call float @weight(i64 2)
  %b = call float @biased(i64 1)
  %wb = fadd float %w, %b
  %w.bad = fcmp une float %wb, 7.0
  %e = call i1 @even(i32 7)
  %calls = call i32 @odd_calls()
  %e.bad = icmp ne i32 %calls, 4
  %o = load i32, ptr @order
  %o.bad = icmp ne i32 %o, 123
  %bits = insertelement <8 x i1> zeroinitializer, i1 %a.bad, i32 0
  %bits1 = insertelement <8 x i1> %bits, i1 %c.bad, i32 1
  %bits2 = insertelement <8 x i1> %bits1, i1 %d.bad, i32 2
  %bits3 = insertelement <8 x i1> %bits2, i1 %p.bad, i32 3
  %bits4 = insertelement <8 x i1> %bits3, i1 %w.bad, i32 4
  %bits5 = insertelement <8 x i1> %bits4, i1 %e.bad, i32 5
  %bits6 = insertelement <8 x i1> %bits5, i1 %e, i32 6
  %bits7 = insertelement <8 x i1> %bits6, i1 %o.bad, i32 7
  %byte = bitcast <8 x i1> %bits7 to i8
  %status = zext i8 %byte to i32
  call void @_exit(i32 %status)
  unreachable
}
"""


@needs_qemu
@pytest.mark.parametrize("opt", [0, 3])
def test_aarch64_library_runs(opt: int, tmp_path: Path) -> None:
    modules = (ARITHMETIC, WEIGHTS, EVEN, ODD, CONSTRUCTORS)
    objects = [object_code(m, "aarch64", opt=opt) for m in modules]
    (tmp_path / "libours.so").write_bytes(link(objects, blobs=THREE_BLOBS).data)
    program = link([object_code(START, "aarch64", opt=opt)], needed=("libours.so", "libc.so.6"))
    data = bytearray(program.data)
    struct.pack_into("<Q", data, 24, program.symbols["start"])  # an entry point makes it a program
    (tmp_path / "program").write_bytes(data)
    folders = f"{tmp_path}:{AARCH64_LOADER.parent}"
    command = ["qemu-aarch64", AARCH64_LOADER, "--library-path", folders, tmp_path / "program"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_aarch64_instructions_reach_their_targets() -> None:
    module = """
@table = internal constant [4 x i32] [i32 17, i32 18, i32 19, i32 20], align 16
define ptr @here() {
  ret ptr @table
}
define i32 @inner(i32 %x) noinline {
  %r = mul i32 %x, %x
  ret i32 %r
}
define i32 @outer(i32 %x) {
  %y = call i32 @inner(i32 %x)
  %r = add i32 %y, 1
  ret i32 %r
}
"""
    image = link([object_code(module, "aarch64")])
    at = image.symbols["here"]
    adrp, add = words(image.data, at, 2)
    pages = signed((adrp >> 29 & 3) | (adrp >> 5 & 0x7FFFF) << 2, 21)
    target = (at >> 12 << 12) + (pages << 12) + (add >> 10 & 0xFFF)
    assert (adrp & 0x9F00001F, add & 0xFFC003FF) == (0x90000000, 0x91000000)
    assert words(image.data, target, 4) == (17, 18, 19, 20)
    code = words(image.data, image.symbols["outer"], 8)
    i, branch = next((i, w) for i, w in enumerate(code) if w >> 26 == 0b100101)
    assert image.symbols["outer"] + 4 * (i + signed(branch & 0x3FFFFFF, 26)) == image.symbols["inner"]


def signed(field: int, bits: int) -> int:
    return field - (1 << bits if field >> (bits - 1) else 0)


def words(data: bytes, address: int, count: int) -> tuple[int, ...]:
    """32-bit words at an address, through the program headers."""
    (number,) = struct.unpack_from("<H", data, 56)
    for i in range(number):
        kind, _, offset, start, _, size = struct.unpack_from("<IIQQQQ", data, 64 + 56 * i)
        if kind == 1 and start <= address < start + size:
            return struct.unpack_from(f"<{count}I", data, offset + address - start)
    raise AssertionError(f"{address:#x} is not loaded")


# Errors


def test_undefined_symbol_outside_the_allowed() -> None:
    module = """
declare float @llvm.exp.f32(float)
declare i32 @getpid()
define float @softplus(float %x) {
  %r = call float @llvm.exp.f32(float %x)
  ret float %r
}
define i32 @pid() {
  %r = call i32 @getpid()
  ret i32 %r
}
"""
    assert undefined_symbols(object_code(module)) == ["expf", "getpid"]
    with pytest.raises(
        LinkError, match=r"outside the allowed list: 'expf' \(used by 'softplus'\)\."
    ) as error:
        link([object_code(module)], allowed={"getpid"})
    assert "getpid" not in str(error.value)
    assert link([object_code(module)], allowed={"getpid", "expf"}).symbols.keys() == {"softplus", "pid"}


def test_hidden_symbol_that_nobody_defines() -> None:
    with pytest.raises(
        LinkError, match="declared hidden but defined in no object: 'odd' \\(used by 'even'\\)"
    ):
        link([object_code(EVEN)])


def test_symbol_defined_twice() -> None:
    with pytest.raises(LinkError, match="'answer' is defined twice, in objects 0 and 1"):
        link([object_code(ANSWER), object_code(ANSWER)])
    with pytest.raises(LinkError, match="'answer' is both a blob and defined in object 0"):
        link([object_code(ANSWER)], blobs={"answer": b"42"})


def test_weak_definition_gives_way(tmp_path: Path) -> None:
    weak = "define weak i32 @answer() {\n  ret i32 1\n}\n"
    caller = "declare i32 @answer()\ndefine i32 @ask() {\n  %r = call i32 @answer()\n  ret i32 %r\n}\n"
    for i, first in enumerate(([weak, ANSWER], [ANSWER, weak], [weak, weak.replace("1", "7")])):
        by_us([object_code(m) for m in (*first, caller)], tmp_path / f"{i}.so")
        run(tmp_path / f"{i}.so", f"assert lib.ask() == lib.answer() == {1 if i == 2 else 42}")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a little-endian ELF64 object"),
        (b"MZ" + bytes(100), "not a little-endian ELF64 object"),
        (b"\x7fELF\x02\x01\x01" + bytes(3), "damaged ELF object of 10 bytes"),
    ],
)
def test_not_an_object(data: bytes, message: str) -> None:
    with pytest.raises(LinkError, match=message):
        link([data])


def test_damaged_object() -> None:
    obj = object_code(ARITHMETIC)
    for length in range(0, len(obj), 97):
        with pytest.raises(LinkError):
            link([obj[:length]])


def test_library_is_not_an_object() -> None:
    with pytest.raises(LinkError, match="not a relocatable object: its ELF type is 3"):
        link([link([object_code(ANSWER)]).data])


def test_no_objects_and_mixed_machines() -> None:
    with pytest.raises(LinkError, match="no objects"):
        link([])
    with pytest.raises(LinkError, match=r"for one machine of x86-64 \(62\), aarch64 \(183\).*\[62, 183\]"):
        link([object_code(ANSWER), object_code(ANSWER.replace("answer", "other"), "aarch64")])
    with pytest.raises(LinkError, match="ELF machines \\[243\\]"):
        link([object_code(ANSWER, "generic-rv64", triple="riscv64-unknown-linux-gnu")])


def test_thread_local_data_is_refused() -> None:
    module = "@t = internal thread_local global i32 1\ndefine ptr @f() {\n  ret ptr @t\n}\n"
    with pytest.raises(LinkError, match="thread-local"):
        link([object_code(module)])


def test_direct_reference_to_an_external() -> None:
    module = """
@elsewhere = external dso_local global i32
define i32 @f() {
  %r = load i32, ptr @elsewhere
  ret i32 %r
}
"""
    with pytest.raises(LinkError, match="'elsewhere' is outside the library but its address is taken as if"):
        link([object_code(module)])


def test_system_linker_says_what_went_wrong(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="no 'no-such-cc' on PATH"):
        link_system([object_code(ANSWER)], tmp_path / "x.so", compiler="no-such-cc")


@needs_cc
def test_system_linker_fails_on_undefined_symbols(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match=r"failed with status 1:(.|\n)*odd"):
        link_system([object_code(EVEN)], tmp_path / "x.so")
