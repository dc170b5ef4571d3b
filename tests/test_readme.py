"""The first example of the README runs, prints the graph that the README shows, and learns what it says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def first_block(language: str, start: str = "") -> str:
    return re.search(rf"```{language}\n({start}.*?)```", README, re.DOTALL)[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(scope="module")
def output(folder: Path) -> str:
    (folder / "train.py").write_text(first_block("python"), encoding="utf-8")
    command = [sys.executable, "-P", "-W", "error", "train.py"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert run.returncode == 0, run.stderr
    assert {"model.tape", "model.so"} <= {file.name for file in folder.iterdir()}
    return run.stdout


def test_the_graph_is_the_one_shown(output: str):
    assert output.startswith(first_block("", "graph forward"))


def test_the_compiled_network_tells_the_quadrants_apart(output: str):
    tells_apart(output.split("return %2")[1])


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on PATH")
def test_the_c_example_does_the_same(output: str, folder: Path):
    (folder / "main.c").write_text(first_block("c"), encoding="utf-8")
    (command,) = re.findall("^gcc .*$", README, re.MULTILINE)
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=folder)
    assert run.returncode == 0, run.stderr
    tells_apart(run.stdout)


def tells_apart(scores: str) -> None:
    table = scores.replace("[", "").replace("]", "")
    same, opposite = ([float(score) for score in row.split()] for row in table.strip().splitlines())
    assert same[1] > same[0]
    assert opposite[0] > opposite[1]
