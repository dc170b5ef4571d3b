"""The command line: what it prints, and that an error of the user's is one sentence and exit code 2."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from doubling import counter_library, double_library, expected

from tapecast.cli.console import time_text
from tapecast.cli.errors import Failure
from tapecast.cli.main import COMMANDS, group, main
from tapecast.cli.options import sizes_of
from tapecast.compiler.artifact import write_artifact

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
    (["run", "double.so", "--input", "x.npy", "-o", "no/such/folder/y.npy"], "No such file or directory"),
    (["run", "double.so", "--method", "encode"], "double has no method encode: it has forward"),
    (["run", "double.so", "--threads", "0"], "0 is not in the range"),
    (["run", "missing.so"], "missing.so does not exist: give the path of a tapecast artifact"),
    (["run", "text.so"], "is not a tapecast artifact"),
    (["run", "."], "is a folder"),
    (["run"], "Missing argument"),
    (["inspect", "missing.so"], "missing.so does not exist"),
    (["inspect", "text.so"], "is not a tapecast artifact"),
    (["compile", "missing.tape"], "missing.tape does not exist: give the path of a program"),
    (["compile", "double.so", "-o", "no/folder/m.so"], "the folder no/folder does not exist"),
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
