"""The tour in docs/ shows what the program prints today, and lines that stand in the files it names."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def walkthrough() -> ModuleType:
    spec = importlib.util.spec_from_file_location("walkthrough", ROOT / "docs/walkthrough.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_what_each_stage_holds(walkthrough: ModuleType):
    page = walkthrough.PAGE.read_text(encoding="utf-8")
    now = walkthrough.texts()
    shown = {name for kind, name, _ in walkthrough.BLOCK.findall(page) if kind == "text"}
    assert shown == set(now)
    assert page == walkthrough.updated(page, now), "python docs/walkthrough.py --update writes the page anew"


def test_quoted_lines_stand_in_their_files(walkthrough: ModuleType):
    page = walkthrough.PAGE.read_text(encoding="utf-8")
    quotes = [(file, lines) for kind, file, lines in walkthrough.BLOCK.findall(page) if kind == "python"]
    assert len(quotes) >= 5
    assert [file for file, lines in quotes if lines not in (ROOT / file).read_text(encoding="utf-8")] == []


def test_files_named_in_the_tour_exist(walkthrough: ModuleType):
    page = walkthrough.PAGE.read_text(encoding="utf-8")
    names = {word for word in page.split("`")[1::2] if "/" in word and " " not in word}
    assert names and [name for name in names if not (ROOT / name).exists()] == []
