"""The `golden` fixture: texts that a test must reproduce, in tests/golden/. And how the root is collected."""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = Path(__file__).parent / "golden"


@dataclass(eq=False)
class Golden:
    """A kept text: `assert golden == text`. A test with several names each: `golden("part") == text`."""

    path: Path
    update: bool

    def __call__(self, part: str) -> "Golden":
        if not re.fullmatch(r"[\w.-]+", part):
            raise ValueError(
                f"golden(part) wants a short name for a file, got {part!r}; write golden == text"
            )
        return Golden(self.path.with_suffix(f".{part}.txt"), self.update)

    def __eq__(self, text: object) -> bool:
        if not isinstance(text, str):
            raise TypeError(f"a golden file is compared with text, got {type(text).__name__}")
        if self.update:
            self.path.parent.mkdir(exist_ok=True)
            self.path.write_text(with_newline(text), encoding="utf-8")
        return self.path.exists() and self.path.read_text(encoding="utf-8") == with_newline(text)

    def difference(self, text: str) -> list[str]:
        """Lines that say how `text` differs, for the report of a failed assertion."""
        name, advice = (
            self.path.name,
            "pytest --update-golden writes it anew: review the change, then commit it",
        )
        if not self.path.exists():
            return [f"there is no tests/golden/{name}", advice]
        kept = self.path.read_text(encoding="utf-8").splitlines()
        diff = difflib.unified_diff(kept, text.splitlines(), f"golden/{name}", "this run", lineterm="")
        return [f"the text differs from tests/golden/{name}", *diff, advice]


def with_newline(text: str) -> str:
    return text.rstrip("\n") + "\n"


def file_name(node_id: str) -> str:
    """`tests/test_fuse.py::test_chain[cpu/f32]` gives `fuse.chain[cpu_f32].txt`; no two tests share one."""
    file, _, test = node_id.partition("::")
    stem = f"{Path(file).stem.removeprefix('test_')}.{test.removeprefix('test_')}"
    return re.sub(r"[^\w.\[\]-]+", "_", stem) + ".txt"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(FOLDER / file_name(request.node.nodeid), request.config.getoption("--update-golden"))


class PlainRoot:
    """Collects the repository's root as a folder.

    Its `__init__.py` makes pytest take it for a package and import it once more, under the name of the folder
    it was cloned into. A plugin, because hooks of this file are asked about folders below it only.
    """

    @staticmethod
    def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(PlainRoot())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/ instead of comparing")


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    golden, text = (left, right) if isinstance(left, Golden) else (right, left)
    if op == "==" and isinstance(golden, Golden) and isinstance(text, str):
        return golden.difference(text)
    return None
