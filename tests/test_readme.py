"""The first example of the README runs, prints the graph that the README shows, and learns what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def first_block(language: str, start: str = "") -> str:
    return re.search(rf"```{language}\n({start}.*?)```", README, re.DOTALL)[1]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("readme")
    (folder / "train.py").write_text(first_block("python"), encoding="utf-8")
    command = [sys.executable, "-P", "-W", "error", "train.py"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert run.returncode == 0, run.stderr
    assert {"model.tape", "model.so"} <= {file.name for file in folder.iterdir()}
    return run.stdout


def test_the_graph_is_the_one_shown(output: str):
    assert output.startswith(first_block("", "graph forward"))


def test_the_compiled_network_tells_the_quadrants_apart(output: str):
    table = output.split("return %2")[1].replace("[", "").replace("]", "")
    same, opposite = ([float(score) for score in row.split()] for row in table.strip().splitlines())
    assert same[1] > same[0]
    assert opposite[0] > opposite[1]
