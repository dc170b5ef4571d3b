"""What is installed, what `import tapecast` costs, and the module names it answers to."""

import ast
import importlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tapecast
from tapecast import _aliases

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PROJECT["tool"]["setuptools"]["packages"]
NOT_SHIPPED = {"tests", "docs", "examples", "benchmarks", "tools", "build", "dist", "__pycache__"}


def run_python(code: str, *options: str, **env: str) -> str:
    """Output of a fresh interpreter whose working directory is not the repository."""
    command = [sys.executable, *options, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT.anchor, env=os.environ | env)
    assert run.returncode == 0, run.stderr
    return run.stdout


def shipped_files() -> Iterator[Path]:
    """The files of the repository that belong in the package, relative to its root."""
    for folder, names, files in os.walk(ROOT):
        names[:] = [n for n in names if n not in NOT_SHIPPED and n[0] != "." and not n.endswith(".egg-info")]
        inside = Path(folder).relative_to(ROOT)
        suffixes = (".py", ".pyi", ".typed") if inside == Path() else ("",)
        yield from (inside / f for f in files if f.endswith(suffixes) and f[0] != "." and f != "README.md")


def test_every_folder_of_python_files_is_a_listed_package():
    folders = {file.parent for file in shipped_files() if file.suffix == ".py"}
    assert sorted(PACKAGES) == sorted(".".join(["tapecast", *folder.parts]) for folder in folders)
    assert [folder for folder in folders if not (ROOT / folder / "__init__.py").exists()] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel built from a copy, so that the tree stays clean and an old build/ cannot add files."""
    tree = tmp_path_factory.mktemp("copy") / "any name"
    hidden = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, tree, ignore=hidden)
    build = "import setuptools.build_meta as b; b.build_wheel('dist')"
    run = subprocess.run([sys.executable, "-c", build], capture_output=True, text=True, cwd=tree)
    assert run.returncode == 0, run.stderr
    return zipfile.ZipFile(next((tree / "dist").glob("*.whl")))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile):
    inside = {Path(name) for name in wheel.namelist() if ".dist-info/" not in name}
    assert {Path("tapecast") / file for file in shipped_files()} == inside


def test_the_wheel_describes_the_package(wheel: zipfile.ZipFile):
    names = {Path(name).name: name for name in wheel.namelist() if ".dist-info/" in name}
    metadata = wheel.read(names["METADATA"]).decode()
    assert f"Version: {tapecast.__version__}\n" in metadata
    assert "License-Expression: Apache-2.0\n" in metadata
    assert b"tapecast = tapecast.cli:main" in wheel.read(names["entry_points.txt"])
    assert "LICENSE" in names


def outside_imports() -> set[str]:
    files = [ROOT / file for file in shipped_files() if file.suffix == ".py"]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    from_ = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0}
    return {str(name).split(".")[0] for name in plain | from_} - set(sys.stdlib_module_names)


def test_every_outside_import_is_declared():
    """By a dependency or by an extra that users install; what only tests need must not be imported."""
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [
        *PROJECT["project"]["dependencies"],
        *extras["cuda"],
        *extras["mpi"],
        *extras["onnx"],
        *extras["plot"],
    ]
    declared = {re.match(r"[\w-]+", line)[0].replace("-", "_") for line in wanted}
    assert outside_imports() <= {"tapecast", "cupy", *declared}


def test_import_is_fast_and_loads_no_part():
    """30 ms of processor time for the best of five, as a promise to short scripts; measured 7 ms."""
    code = """if True:
        import json, sys, time
        start = time.process_time()
        import tapecast
        seconds = time.process_time() - start
        print(json.dumps([seconds, sorted(m for m in sys.modules if m.startswith(("tapecast", "numpy")))]))
    """
    runs = [json.loads(run_python(code)) for _ in range(5)]
    assert runs[0][1] == ["tapecast", "tapecast._aliases"]
    assert min(seconds for seconds, _ in runs) < 0.030


def test_listing_the_names_loads_no_part():
    code = "import sys, tapecast; dir(tapecast); print([m for m in sys.modules if m.startswith('tapecast.')])"
    assert run_python(code).strip() == "['tapecast._aliases']"


STUB = {
    node.module or "": [alias.name for alias in node.names]
    for node in ast.parse((ROOT / "__init__.pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
}


@pytest.mark.parametrize("module", STUB)
def test_every_public_name_is_there(module: str):
    """A name is what its module defines, or a module in it."""
    path = ".".join(filter(None, ["tapecast", module]))
    home = vars(importlib.import_module(path))
    for name in STUB[module]:
        value = getattr(tapecast, name)
        assert value is home.get(name) or value is sys.modules.get(f"{path}.{name}"), name
    assert set(STUB[module]) <= set(dir(tapecast))


def test_every_public_function_that_pytorch_has_at_its_root_is_at_ours():
    torch = pytest.importorskip("torch")
    functions = importlib.import_module("tapecast.eager.functional").__all__
    wanted = {name for name in functions if callable(getattr(torch, name, None))}
    missing = sorted(wanted - set(dir(tapecast)))
    assert missing == [], "add them to __init__.pyi, below .eager.functional"


def test_public_names_are_unique():
    names = [name for names in STUB.values() for name in names]
    assert sorted(set(names)) == sorted(names)


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'tapecast' has no attribute 'zeroes'"):
        tapecast.zeroes  # noqa: B018


@pytest.mark.parametrize("alias", _aliases.ALIASES)
def test_an_alias_is_the_module(alias: str):
    real = importlib.import_module(f"tapecast.{_aliases.ALIASES[alias]}")
    assert importlib.import_module(f"tapecast.{alias}") is real
    assert real.__spec__ is not None and real.__spec__.name == real.__name__


@pytest.fixture
def shortcut(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`tapecast.shortcut` for `tapecast.eager.ops`, whose modules are there without anything else."""
    monkeypatch.setitem(_aliases.ALIASES, "shortcut", "eager.ops")
    monkeypatch.setitem(_aliases.ALIASES, "shortcut.kinds", "eager.ops.types")
    yield
    for name in [name for name in sys.modules if name.startswith("tapecast.shortcut")]:
        del sys.modules[name]
    vars(tapecast).pop("shortcut", None)


@pytest.mark.usefixtures("shortcut")
def test_modules_below_an_alias_are_not_loaded_twice():
    below = importlib.import_module("tapecast.shortcut.types")
    assert below is importlib.import_module("tapecast.eager.ops.types")
    assert below.__name__ == below.__spec__.name == "tapecast.eager.ops.types"


@pytest.mark.usefixtures("shortcut")
def test_an_alias_works_as_attribute_and_in_every_import_statement():
    assert tapecast.shortcut is sys.modules["tapecast.eager.ops"]
    from tapecast import shortcut
    from tapecast.shortcut import types
    from tapecast.shortcut.types import Aval

    assert shortcut is tapecast.shortcut
    assert Aval is types.Aval


@pytest.mark.usefixtures("shortcut")
def test_an_alias_inside_another_comes_first():
    assert importlib.import_module("tapecast.shortcut.kinds") is importlib.import_module(
        "tapecast.eager.ops.types"
    )


@pytest.mark.usefixtures("shortcut")
def test_classes_are_pickled_under_their_real_name():
    aval = importlib.import_module("tapecast.shortcut.types").Aval
    assert pickle.loads(pickle.dumps(aval)) is aval
    assert b"tapecast.eager.ops.types" in pickle.dumps(aval)


@pytest.mark.usefixtures("shortcut")
def test_a_missing_module_is_named_as_it_was_asked_for():
    with pytest.raises(ModuleNotFoundError, match=r"'tapecast\.shortcut\.nothing'"):
        importlib.import_module("tapecast.shortcut.nothing")


@pytest.mark.usefixtures("shortcut")
def test_reload_keeps_the_real_module():
    module = importlib.import_module("tapecast.shortcut.kinds")
    before = dict(vars(module))
    try:
        assert importlib.reload(module) is module
        assert sys.modules["tapecast.shortcut.kinds"] is sys.modules["tapecast.eager.ops.types"] is module
    finally:
        vars(module).update(before)


def test_the_finder_is_installed_once():
    _aliases.install()
    assert sum(isinstance(finder, _aliases.AliasFinder) for finder in sys.meta_path) == 1


def test_the_order_of_imports_does_not_depend_on_other_folders(tmp_path: Path):
    """`make demo` makes build/; no module becomes first-party because a folder has its name."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(
        ROOT / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns("__pycache__")
    )
    for module in ["build", *(file.stem for file in (tmp_path / "benchmarks").glob("*.py"))]:
        (tmp_path / module).mkdir()
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "I", "."]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


def test_benchmarks_leave_no_folder_behind(tmp_path: Path):
    env = {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT / "benchmarks")}
    assert run_python("import models", **env) == "" and not list(tmp_path.iterdir())
    code = "import models, os; assert models.folder() == models.folder(); print(os.listdir(os.environ['TMPDIR']))"
    assert "tapecast-bench-" in run_python(code, **env) and not list(tmp_path.iterdir())
