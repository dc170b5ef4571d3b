"""The command line: what it prints, and that an error of the user's is one sentence and exit code 2."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from doubling import counter_library, double_library, expected

from tapecast.cli.console import time_text
from tapecast.cli.errors import Failure
from tapecast.cli.main import COMMANDS, group, main
from tapecast.cli.options import sizes_of
from tapecast.cli.verify_command import larger_sizes
from tapecast.compiler.artifact import write_artifact
from tapecast.compiler.verify import LARGEST

X = np.arange(6, dtype=np.float32).reshape(2, 3)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line; exit code, standard output and standard error."""

    def made(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(a) for a in args])
        return int(stop.value.code or 0), *capsys.readouterr()

    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two models and some arrays."""
    monkeypatch.chdir(tmp_path)
    write_artifact("double.so", double_library())
    write_artifact("counter.so", counter_library())
    np.save("x.npy", X)
    np.save("wide.npy", np.zeros((2, 4), np.float32))
    np.save("objects.npy", np.array([None], object), allow_pickle=True)
    np.savez("several.npz", X, X)
    Path("text.so").write_text("#!/bin/sh\n")
    return tmp_path


def test_run_prints_the_result(run: Run, folder: Path):
    code, out, _ = run("run", "double.so", "--input", "x.npy")
    assert code == 0
    assert out.startswith("float32[2, 3]\n[[ 0.5  1.   7. ]\n")


@pytest.mark.parametrize("given", [["x.npy"], ["x=x.npy"]])
def test_run_writes_the_result(run: Run, folder: Path, given: list[str]):
    assert run("run", "double.so", "--input", *given, "-o", "y.npy", "--threads", 1) == (0, "", "")
    assert (np.load("y.npy") == expected(X)).all()


def test_run_has_methods(run: Run, folder: Path):
    np.save("two.npy", np.ones(2, np.float32))
    code, out, _ = run("run", "counter.so", "--method", "step", "--input", "two.npy")
    assert (code, out) == (0, "float32[2]\n[11. 21.]\n")


def test_inspect_shows_everything(run: Run, folder: Path):
    code, out, _ = run("inspect", "counter.so", "--kernels", "--graph")
    assert code == 0
    for part in (
        "forward(x: float32[batch, 3]) -> float32[batch, 3]",
        "batch: 1 to 1024",
        "total: float32[2]",
        "x86-64: x86-64-v2",
        "not compared with its program",
        "intact",
        "double_add",
        "model.py:3 in forward",
        "graph forward(%x: float32[batch,3]):",
    ):
        assert part in out


ERRORS = [
    (["run", "double.so"], "takes 1 input (x), and 0 came"),
    (["run", "double.so", "--input", "wide.npy"], "x should be float32[batch, 3]"),
    (["run", "double.so", "--input", "missing.npy"], "missing.npy does not exist: give a .npy file"),
    (["run", "double.so", "--input", "text.so"], "text.so is no .npy file of numbers"),
    (["run", "double.so", "--input", "objects.npy"], "objects.npy is no .npy file of numbers"),
    (["run", "double.so", "--input", "several.npz"], "several.npz is no .npy file of numbers"),
    (["run", "double.so", "--input", "x=x.npy", "--input", "x.npy"], "has no name and follows one that has"),
    (["run", "double.so", "--input", "y=x.npy"], "one named y came"),
    (["run", "double.so", "--input", "x.npy", "-o", "a", "-o", "b"], "1 outputs, and -o names 2 files"),
    (["run", "double.so", "--input", "x.npy", "-o", "no/such/folder/y.npy"], "folder does not exist; make"),
    (["run", "double.so", "--method", "encode"], "double has no method encode: it has forward"),
    (["run", "double.so", "--threads", "0"], "0 is not in the range"),
    (["run", "missing.so"], "missing.so does not exist: give the path of a tapecast artifact"),
    (["run", "text.so"], "is not a tapecast artifact"),
    (["run", "."], "is a folder"),
    (["run"], "Missing argument"),
    (["inspect", "missing.so"], "missing.so does not exist"),
    (["inspect", "text.so"], "is not a tapecast artifact"),
    (["compile", "missing.tape"], "missing.tape does not exist: give the path of a program"),
    (["compile", "double.so", "-o", "no/folder/m.so"], "no/folder does not exist"),
    (["verify", "missing.tape", "double.so"], "missing.tape does not exist"),
    (["bench", ".", "double.so"], ". is a folder"),
    (["launch"], "No such command"),
]


@pytest.mark.parametrize(("args", "message"), ERRORS, ids=[" ".join(args) for args, _ in ERRORS])
def test_errors_are_one_sentence(run: Run, folder: Path, args: list[str], message: str):
    code, out, error = run(*args)
    assert (code, out) == (2, "")
    assert error.startswith("tapecast: ") and error.count("\n") == 1
    assert message in error


# ---- programs --------------------------------------------------------------------------------------------

GRAPHS = """\
graph forward(%x: float32[batch,3]) for batch in 1..64:
  %w = const float32[3,4] "w"
  %0: float32[batch,4] = matmul(%x, %w)
  %1: float32[batch,4] = tanh(%0)
  return %1
graph count(%y: float32[2], %total: float32[2]):
  %0: float32[2] = add(%total, %y)
  %1: float32[2] = neg(%0)
  return %1, %0
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `net.tape`, entries `forward` and `count` (which keeps a total), and `net.so` made from
    it.
    """
    from tapecast.eager.tensor import Tensor
    from tapecast.tracer.parse import parse_all
    from tapecast.tracer.program import Method, Program
    from tapecast.tracer.storage import save

    weights = {"w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)}
    graphs = parse_all(GRAPHS, weights)
    count = replace(graphs["count"], state=((1, 1),))
    one = {"tensor": 0}
    methods = {
        "forward": Method(graphs["forward"], {"dict": [["x", one]]}, one),
        "count": Method(count, {"dict": [["y", one]]}, one),
    }
    tensors = {"w": Tensor(weights["w"]), "total": Tensor(np.array([10, 20], np.float32))}
    folder = tmp_path_factory.mktemp("programs")
    save(Program(methods, tensors, ("total",)), folder / "net.tape")
    with pytest.raises(SystemExit) as stop:
        main(["compile", str(folder / "net.tape"), "--target", "x86-64-v2"])
    assert stop.value.code == 0
    np.save(folder / "x.npy", X)
    np.save(folder / "two.npy", np.ones(2, np.float32))
    return folder


def test_compile_then_run(run: Run, programs: Path):
    code, _, error = run("run", programs / "net.so", "--input", programs / "x.npy", "-o", programs / "y.npy")
    assert (code, error) == (0, "")
    w = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    assert np.allclose(np.load(programs / "y.npy"), np.tanh(X @ w), atol=1e-6)
    assert (programs / "net.h").exists() and (programs / "tapecast.h").exists()


def test_state_of_a_program_is_kept_by_the_model(run: Run, programs: Path):
    code, out, _ = run("run", programs / "net.so", "--method", "count", "--input", programs / "two.npy")
    assert (code, out) == (0, "float32[2]\n[-11. -21.]\n")


def test_files_named_like_the_header_get_other_symbols(run: Run, programs: Path):
    output = programs / "tapecast_net.so"
    assert run("compile", programs / "net.tape", "-o", output, "--no-verify", "--target=native")[0] == 0
    assert run("inspect", output)[1].startswith("m_tapecast_net")


def test_a_folder_is_no_program(tmp_path: Path):
    from tapecast import jit

    with pytest.raises(jit.ProgramError, match=r"is a folder: give the path of a tapecast program"):
        jit.load(tmp_path)


def test_a_program_is_not_written_over_an_artifact(programs: Path):
    from tapecast import jit

    traced = jit.load(programs / "net.tape")
    with pytest.raises(FileExistsError, match=r"net\.so exists and is no tapecast program"):
        traced.save(programs / "net.so")
    with pytest.raises(FileExistsError, match=r"net\.tape exists and is no tapecast artifact"):
        traced.compile(programs / "net.tape")


def test_compile_reports_and_names_symbols(run: Run, programs: Path):
    code, out, _ = run(
        "compile", programs / "net.tape", "-o", programs / "other.so", "--target=native", "--name=mine"
    )
    assert code == 0
    assert all(part in out for part in ("kernels for x86-64-v", "code ", "forward: error ", "count: error "))
    code, out, _ = run("inspect", programs / "other.so")
    assert out.startswith("mine") and "yes, " in out


def test_verify_agrees(run: Run, programs: Path):
    code, out, _ = run("verify", programs / "net.tape", programs / "net.so")
    assert code == 0
    assert all(part in out for part in ("forward", "count", "batch=64"))
    assert "not tried" not in out  # the range ends at 64


def test_verify_says_which_sizes_it_does_not_try(run: Run):
    ranges = {"a": (1, 64), "b": (1, 65), "c": (100, 200), "d": (100, 100), "e": (0, None)}
    assert larger_sizes(ranges, LARGEST) == "b above 64, c above 100, e above 64"
    assert f"none above {LARGEST}" in " ".join(run("verify", "--help")[1].split())


def test_verify_finds_another_model(run: Run, programs: Path, folder: Path):
    code, out, error = run("verify", programs / "net.tape", "double.so")
    assert (code, out) == (2, "")
    assert "the program has the entry points forward, count and the model forward" in error


def test_verify_fails_for_wrong_numbers(run: Run, programs: Path, folder: Path):
    """The same program with other weights is another model: exit code 1."""
    from tapecast import jit

    traced = jit.load(programs / "net.tape")
    traced.program.tensors["w"].array[...] *= 1.01
    traced.save("wrong.tape")
    code, _, error = run("verify", "wrong.tape", programs / "net.so")
    assert code == 1
    assert error.startswith("tapecast: forward output 0") and error.count("\n") == 1


def test_bench_times_every_stage(run: Run, programs: Path):
    files = (programs / "net.tape", programs / "net.so")
    code, out, error = run("bench", *files, "--size", "batch=8", "--seconds", 0.05, "--threads", 1)
    assert (code, error) == (0, "")
    for part in (
        "net.forward, batch=8",
        "eager",
        "compiled",
        "first call",
        "median",
        "compile",
        "load",
        "1 thread",
    ):
        assert part in out
    code, out, _ = run("bench", *files, "--method=count", "--seconds=0.01", "--no-compile")
    assert "net.count" in out and "│ compile │" not in out


def test_inspect_shows_a_program(run: Run, programs: Path):
    code, out, _ = run("inspect", programs / "net.tape", "--graph")
    assert code == 0
    for part in ("forward(x: float32[batch,3])", "batch: 1 to 64", "total", "tensors", "matmul(%x, %w)"):
        assert part in out


def save_wider(path: Path) -> None:
    """A program with the same entry points, of which one takes another shape."""
    from tapecast.tracer.parse import parse_all
    from tapecast.tracer.program import Method, Program
    from tapecast.tracer.storage import save

    text = GRAPHS.replace("batch,3", "batch,5").replace("[3,4]", "[5,4]")
    graphs = parse_all(text, {"w": np.ones((5, 4), np.float32)})
    one = {"tensor": 0}
    arguments = {"forward": [["x", one]], "count": [["y", one], ["total", one]]}
    methods = {name: Method(graph, {"dict": arguments[name]}, one) for name, graph in graphs.items()}
    save(Program(methods, {}), path)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["compile", "net.tape", "--target", "vax"], "target must be one of portable"),
        (["compile", "net.tape", "--name", "a b"], "want a C identifier"),
        (["compile", "net.tape", "--target", "cuda"], "artifacts for GPUs do not exist yet"),
        (["compile", "net.tape", "-o", "net.tape"], "net.tape is the program itself"),
        (["compile", "net.tape", "-o", "./net.tape"], "net.tape is the program itself"),
        (
            ["compile", "net.tape", "-o", "x.npy"],
            "x.npy exists and is no tapecast artifact, so it is not repl",
        ),
        (["compile", "net.tape", "-o", "."], ". is a folder: give the path of a file in it"),
        (["compile", "net.tape", "-o", "no/m.so"], "no/m.so cannot be written: the folder"),
        (["compile", "net.tape", "-o", "m.h"], "m.h: the compiler writes the C headers m.h and tapecast.h"),
        (["compile", "net.tape", "-o", "tapecast.so"], "the C headers tapecast.h and tapecast.h"),
        (["compile", "net.tape", "--name", "tapecast"], "belongs to tapecast.h; choose another name"),
        (["verify", "net.so", "net.tape"], "net.so is a compiled model: give the program first"),
        (["bench", "net.so", "net.tape"], "net.so is a compiled model: give the program first"),
        (["verify", "net.so", "net.so"], "net.so is a library and no tapecast program"),
        (
            ["bench", "wide.tape", "net.so"],
            "takes (x:float32[batch,5]), of the model (x:float32[batch,3]): give",
        ),
        (
            ["verify", "wide.tape", "net.so"],
            "takes (x:float32[batch,5]), of the model (x:float32[batch,3]): give",
        ),
        (["compile", "net.so"], "is a library and no tapecast program"),
        (["run", "net.tape"], "it is a tapecast program: compile it first"),
        (["bench", "net.tape", "net.so", "--size", "rows=1"], "the model has the sizes batch"),
        (
            ["bench", "net.tape", "net.so", "--method", "encode"],
            "has no method encode: it has forward, count",
        ),
    ],
)
def test_wrong_use_of_programs(
    run: Run, programs: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], message: str
):
    monkeypatch.chdir(programs)
    if "wide.tape" in args:
        save_wider(Path("wide.tape"))
    code, out, error = run(*args)
    assert (code, out) == (2, "")
    assert error.startswith("tapecast: ") and error.count("\n") == 1
    assert message in error


# ---- the command -----------------------------------------------------------------------------------------


def test_help_lists_every_command(run: Run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(name in out for name in COMMANDS)
    assert run()[0] == 0
    assert run("--version")[1].startswith("tapecast, version ")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run: Run, name: str):
    code, out, _ = run(name, "--help")
    assert code == 0 and "Options:" in out
    command = group.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None and (command.help or "").split()[0] in COMMANDS[name]


def test_python_m_tapecast_is_the_command_and_running_needs_no_compiler(folder: Path):
    code = (
        "import sys, runpy; sys.argv = ['tapecast', 'run', 'double.so', '--input', 'x.npy', '-o', 'y.npy']\n"
        "try: runpy.run_module('tapecast', run_name='__main__')\n"
        "except SystemExit as stop: print(stop.code)\n"
        "print(*sorted(m for m in sys.modules if m.startswith('tapecast.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    status, modules = done.stdout.splitlines()
    assert status == "0" and (np.load("y.npy") == expected(X)).all()
    assert not [
        m for m in modules.split() if m.startswith(("tapecast.eager", "tapecast.tracer", "tapecast.compiler"))
    ]


RANGES = {"batch": (1, 1024), "n": (5, None)}


def test_sizes():
    assert sizes_of([], RANGES) == {"batch": 1, "n": 5}
    assert sizes_of(["n=7", "batch=64"], RANGES) == {"batch": 64, "n": 7}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["rows=3"], "gives rows, and the model has the sizes batch, n"),
        (["batch"], "should be NAME=VALUE"),
        (["batch=many"], "batch should be a number, 1 to 1024, and it is many"),
        (["batch=2000"], "1 to 1024"),
        (["n=4"], "at least 5"),
        (["n=5", "n=6"], "gives n twice"),
    ],
)
def test_wrong_sizes(texts: list[str], message: str):
    with pytest.raises(Failure, match=message):
        sizes_of(texts, RANGES)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.50 s"), (0.0341, "34.1 ms"), (1.25e-6, "1.25 µs"), (0.5e-6, "0.50 µs"), (0.123456, "123 ms")],
)
def test_times_for_people(seconds: float, text: str):
    assert time_text(seconds) == text
