"""An artifact from C and C++: the headers compile without a warning, typed and DLPack calls agree and
refuse.
"""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from doubling import FORWARD_ENTRY, counter_library, double_library

from tapecast.compiler.artifact import write_artifact
from tapecast.compiler.header import c_header, c_size, fixed_header, names_of
from tapecast.compiler.library import Entry, Spec
from tapecast.serialized_models.format import DTYPES
from tapecast.serialized_models.sizes import compile_size

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wpedantic"]
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no cc on PATH")
needs_cxx = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on PATH")

TYPED = """
#include <stdio.h>
#include <stdlib.h>
#include "double.h"

int main(void) {
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
  int64_t bytes = double_forward_workspace_bytes(2);
  void *workspace = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
  int32_t code = double_forward_call(x, y, 2, workspace, 1);
  if (code) {
    fprintf(stderr, "%s\\n", tapecast_message(code));
    return 1;
  }
  for (int i = 0; i < 6; i++) printf("%g ", y[i]);
  printf("| %d %d %d %d | %lld %d\\n", double_forward_call(NULL, y, 2, workspace, 1),
         double_forward_call(x, y, 2, NULL, 1), double_forward_call(x, y, 2, (char *)workspace + 4, 1),
         double_forward_call(x, y, 2000, workspace, 1), (long long)bytes, double_level());
  free(workspace);
  return 0;
}
"""

TENSORS = """
#include <stdio.h>
#include "double.h"

static float x[12] = {1, 2, 3, 4, 5, 6}, y[12];
static int64_t shape[2], strides[2];
static _Alignas(64) char workspace[65536];

static int32_t call(void (*change)(DLTensor *in, DLTensor *out)) {
  DLTensor in = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0}, out = in;
  DLTensor *inputs[] = {&in}, *outputs[] = {&out};
  out.data = y, shape[0] = 2, shape[1] = 3, strides[0] = 3, strides[1] = 1;
  if (change) change(&in, &out);
  return double_forward_tensors(inputs, 1, outputs, 1, workspace, 1);
}
static void offset(DLTensor *in, DLTensor *out) { in->byte_offset = 12, in->shape[0] = 1, (void)out; }
static void compact(DLTensor *in, DLTensor *out) { in->strides = strides, (void)out; }
static void strided(DLTensor *in, DLTensor *out) { strides[0] = 4, out->strides = strides, (void)in; }
static void device(DLTensor *in, DLTensor *out) { in->device.device_type = kDLCUDA, (void)out; }
static void dtype(DLTensor *in, DLTensor *out) { out->dtype.bits = 64, (void)in; }
static void rank(DLTensor *in, DLTensor *out) { in->ndim = 1, (void)out; }
static void range(DLTensor *in, DLTensor *out) { shape[0] = 1025, (void)in, (void)out; }
static void width(DLTensor *in, DLTensor *out) { shape[1] = 4, (void)in, (void)out; }
static void null(DLTensor *in, DLTensor *out) { out->data = NULL, (void)in; }
static void align(DLTensor *in, DLTensor *out) { in->byte_offset = 2, (void)out; }
static void length(DLTensor *in, DLTensor *out) {
  static int64_t other[2] = {3, 3};
  out->shape = other, (void)in;
}

int main(void) {
  void (*changes[])(DLTensor *, DLTensor *) = {NULL,   compact, offset, strided, device, dtype,
                                                rank, range, width, null, align, length};
  for (int i = 0; i < 12; i++) {
    int32_t code = call(changes[i]);
    printf("%d:%d ", tapecast_problem(code), tapecast_argument(code));
    if (i == 0 || i == 2) printf("(%g %g %g) ", y[0], y[1], y[2]);
  }
  printf("%d ", double_forward_tensors(NULL, 1, NULL, 1, NULL, 1));
  printf("%d\\n", double_forward_tensors(NULL, 0, NULL, 1, NULL, 1));
  return 0;
}
"""

Build = Callable[..., str]


def run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Compile a C program against the model `double` and give what it prints."""
    write_artifact(tmp_path / "double.so", double_library(), emit_object=True)

    def made(source: str, *link: str, compiler: tuple[str, ...] = ("cc", "-std=c11")) -> str:
        file = tmp_path / ("main.cpp" if "++" in compiler[0] else "main.c")
        file.write_text(source)
        linked = link or ("double.so", f"-Wl,-rpath,{tmp_path}")
        paths = [tmp_path / word if not word.startswith("-") else word for word in linked]
        run(*compiler, *WARNINGS, "-O1", file, *paths, "-o", tmp_path / "main")
        return run(tmp_path / "main")

    return made


@needs_cc
def test_typed_calls(build: Build):
    assert build(TYPED) == "2.5 3 9 8.5 9 15 | -258 -10 -9 1 | 24 2\n"


@needs_cc
def test_static_linking_of_the_objects(build: Build):
    assert build(TYPED, "double.o", "double.weights.o").startswith("2.5 3 9 8.5 9 15 |")


@needs_cc
def test_tensor_calls_check_everything(build: Build):
    ok = "0:0 (2.5 3 9) 0:0 0:0 (8.5 9 15) "
    assert build(TENSORS) == ok + "-8:2 -4:1 -5:2 -6:1 1:0 -7:1 -2:2 -9:1 -7:2 -2 -3\n"


@needs_cxx
def test_the_headers_are_cpp(build: Build):
    source = TYPED.replace("<stdlib.h>", "<cstdlib>").replace("NULL", "nullptr")
    source = source.replace("#include <cstdlib>", "#include <cstdlib>\nusing std::aligned_alloc;")
    assert build(source, compiler=("g++", "-std=c++17")).startswith("2.5 3 9 8.5 9 15 | -258")


@needs_cc
def test_two_models_in_one_program(tmp_path: Path):
    for library in (double_library(), counter_library()):
        write_artifact(tmp_path / f"{library.name}.so", library)
    source = '#include "double.h"\n#include "counter.h"\nint main(void) { counter_share(double_pool()); return 0; }\n'
    (tmp_path / "main.c").write_text(source)
    libraries = [tmp_path / "double.so", tmp_path / "counter.so"]
    run("cc", "-std=c11", *WARNINGS, tmp_path / "main.c", *libraries, "-o", tmp_path / "main")


NAMES = (
    "int64_t", "uintptr_t", "wchar_t", "NULL", "INT64_MAX", "tapecast_word", "double_forward",
    "double_forward_workspace", "linux", "_Bool", "__x", "DLTensor", "lengths", "printf", "self",
)  # fmt: skip


@needs_cc
@pytest.mark.parametrize("name", NAMES)
def test_names_hide_nothing_that_the_header_uses(tmp_path: Path, name: str):
    entry = Entry(
        "forward", (Spec(f"{name}.in", "float32", (name,)),), (Spec(name, "float32", (name,)),), (name,), "0"
    )
    library = replace(double_library(), entries=(entry,), dims={name: (1, 9)})
    (tmp_path / "tapecast.h").write_text(fixed_header())
    source = c_header(library) + "int main(void) { return 0; }\n"
    (tmp_path / "main.c").write_text(source)
    run("cc", "-std=gnu11", *WARNINGS, "-c", tmp_path / "main.c", "-o", tmp_path / "main.o")


@needs_cc
def test_dlpacks_own_header_may_come_first_or_be_installed(tmp_path: Path):
    torch = pytest.importorskip("torch")
    own = Path(torch.__file__).parent / "include" / "ATen" / "dlpack.h"
    if not own.exists():
        pytest.skip("this torch has no dlpack.h")
    (tmp_path / "dlpack").mkdir()
    shutil.copy(own, tmp_path / "dlpack" / "dlpack.h")
    (tmp_path / "tapecast.h").write_text(fixed_header())
    (tmp_path / "double.h").write_text(c_header(double_library()))
    for text in (
        '#include "dlpack/dlpack.h"\n#include "double.h"',
        '#include "double.h"\n#include "dlpack/dlpack.h"',
    ):
        (tmp_path / "main.c").write_text(
            text + "\nint main(void) { DLManagedTensor *t = 0; return t != 0; }\n"
        )
        for options in ([], ["-I", tmp_path]):
            if not options and "double.h" in text.splitlines()[0]:
                continue  # neither found first nor installed: our part of it is in the way, as the header says
            run("cc", "-std=c11", *WARNINGS, *options, "-c", tmp_path / "main.c", "-o", tmp_path / "main.o")


STRANGE = Entry(
    "run",
    (
        Spec("int", "int32", ("n", 2)),
        Spec("layer.0", "bool", ()),
        Spec("x", "bfloat16", ("(n-1)//2 + max(n, 3)",)),
    ),
    (Spec("x", "complex64", ("n % 3",)), Spec("args", "float16", (0,))),
    ("n",),
    "0",
    ((0, 0),),
)


@needs_cc
def test_strange_names_types_and_shapes(tmp_path: Path):
    assert names_of(STRANGE) == (["int_", "layer_0", "x"], ["x_", "args_"], ["n"])
    entries = [STRANGE, STRANGE._replace(name="none", inputs=(), outputs=(), sizes=(), state=())]
    library = replace(double_library(), entries=tuple(entries), dims={"n": (0, None)})
    (tmp_path / "tapecast.h").write_text(fixed_header())
    (tmp_path / "main.c").write_text(c_header(library))
    run("cc", "-std=c11", *WARNINGS, "-c", tmp_path / "main.c", "-o", tmp_path / "main.o")


@needs_cc
def test_sizes_are_solved_from_expressions(build: Build):
    """The same model declared with 2*n-1 rows."""
    entry = FORWARD_ENTRY._replace(
        inputs=(Spec("x", "float32", ("2*n-1", 3)),),
        outputs=(Spec("y", "float32", ("2*n-1", 3)),),
        sizes=("n",),
    )
    text = c_header(
        replace(double_library(), entries=(entry._replace(workspace="24*n"),), dims={"n": (1, 8)})
    )
    assert "tapecast_solve(length, ((2 * 0) - 1), ((2 * 1) - 1))" in text
    printed = build(TENSORS.replace('#include "double.h"', text))
    # Two rows are no odd number; one row, in the third call, is n = 1.
    assert printed.startswith("-7:1 (0 0 0) -7:1 0:0 (8.5 9 15) ")
    assert " 1:0 " in printed  # 1025 rows: n is outside its range


@needs_cc
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_has_a_c_type_of_its_size(tmp_path: Path, dtype: str):
    entry = FORWARD_ENTRY._replace(inputs=(Spec("x", dtype, ("batch",)),))
    text = c_header(replace(double_library(), entries=(entry,)))
    declared = next(line for line in text.splitlines() if "double_forward_call(const" in line)
    words = declared.split("(const ")[1].split(" *")[0]
    parts = 2 if dtype.startswith("complex") else 1
    (tmp_path / "main.c").write_text(
        f'#include <stdint.h>\n_Static_assert(sizeof({words}) * {parts} == {DTYPES[dtype]}, "size");\n'
    )
    run("cc", "-std=c11", "-c", tmp_path / "main.c", "-o", tmp_path / "main.o")


@needs_cc
def test_size_expressions_mean_the_same_in_c(tmp_path: Path):
    texts = ["2*n+m", "(n+1)//2", "(n-7)//3", "(n-7)%3", "(3-n)//2", "max(n,m)*min(n,m)", "-n+m", "n//m%4"]
    (tmp_path / "tapecast.h").write_text(fixed_header())
    values = ", ".join(c_size(text, ("n", "m")) for text in texts)
    (tmp_path / "main.c").write_text(
        '#include "tapecast.h"\nvoid f(const int64_t *sizes, int64_t *out) {\n'
        f"  const int64_t all[] = {{{values}}};\n  for (int i = 0; i < {len(texts)}; i++) out[i] = "
        f"all[i];\n}}\n"
    )
    run("cc", "-std=c11", *WARNINGS, "-shared", "-fPIC", tmp_path / "main.c", "-o", tmp_path / "sizes.so")
    library = ctypes.CDLL(str(tmp_path / "sizes.so"))
    for n in range(0, 12):
        for m in (1, 2, 5):
            out = (ctypes.c_int64 * len(texts))()
            library.f((ctypes.c_int64 * 2)(n, m), out)
            assert list(out) == [compile_size(text, ("n", "m"))(n, m) for text in texts]
