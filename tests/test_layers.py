"""Imports flow down only, and the two bottom layers need little: read from every file with `ast`."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Layer to the layers it may import; a layer includes its subfolders unless they are listed themselves.
# cli and the root's own files may import everything.
MAY = {
    "serialized_models": set(),
    "runtime": {"serialized_models"},
    "eager.ops": set(),
    "eager": {"eager.ops"},
    "tracer": {"eager", "eager.ops", "serialized_models"},
    "compiler": {"eager.ops", "tracer", "serialized_models"},
}
OUTSIDE = {
    "serialized_models": {"numpy"},
    "runtime": {"numpy"},
    "eager.ops": {
        "numpy",
        "scipy",
        "ml_dtypes",
        "cupy",
    },  # cupy: only once it is loaded
}


class Import(NamedTuple):
    module: str  # the importing module, e.g. tapecast.eager.tensor
    line: int
    target: str  # what it names, e.g. tapecast.eager.ops.types.Aval


def imports(source: str, module: str, is_package: bool = False) -> Iterator[Import]:
    """Every import in a file, inside functions too, with relative ones resolved."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        for target in targets(node, package):
            yield Import(module, node.lineno, target)


def targets(node: ast.AST, package: list[str]) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=base, names=names, level=level):
            start = package[: len(package) - level + 1] if level else []
            prefix = ".".join([*start, *([base] if base else [])])
            return [f"{prefix}.{alias.name}" for alias in names]
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(target)), *_]
        ):
            return [target] if name in ("import_module", "__import__") else []
    return []


def layer(dotted: str) -> str:
    """The layer of a module or name of the package; "root" for all that is in no layer."""
    name = dotted.removeprefix("tapecast.")
    found = [folder for folder in MAY if f"{name}.".startswith(f"{folder}.")]
    return max(found, key=len, default="cli" if f"{name}.".startswith("cli.") else "root")


def is_allowed(i: Import) -> bool:
    source = layer(i.module)
    if source not in MAY or i.target == "tapecast.__version__":
        return True
    if i.target.split(".")[0] == "tapecast":
        return layer(i.target) in MAY[source] | {source}
    return source not in OUTSIDE or i.target.split(".")[0] in OUTSIDE[source] | sys.stdlib_module_names


def package_files() -> list[Path]:
    folders = {name.split(".")[0] for name in MAY} | {"cli"}
    return sorted(ROOT.glob("*.py")) + sorted(f for folder in folders for f in (ROOT / folder).rglob("*.py"))


def imports_of(file: Path) -> Iterator[Import]:
    parts = ["tapecast", *file.relative_to(ROOT).with_suffix("").parts]
    is_package = parts[-1] == "__init__"
    return imports(
        file.read_text(encoding="utf-8"), ".".join(parts[:-1] if is_package else parts), is_package
    )


def test_imports_flow_down():
    found = [i for file in package_files() for i in imports_of(file)]
    assert any(layer(i.module) == "eager.ops" for i in found)
    assert [f"{i.module}:{i.line} imports {i.target}" for i in found if not is_allowed(i)] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tapecast.eager.ops.table", "from ..tensor import Tensor"),
        ("tapecast.eager.ops.table", "def late():\n    from .. import tape"),
        ("tapecast.eager.ops.table", "import tapecast"),
        ("tapecast.eager.ops.linalg", "import networkx"),
        ("tapecast.eager.tensor", "from ..tracer.graph import Graph"),
        ("tapecast.eager.nn.linear", "from ... import compiler"),
        (
            "tapecast.tracer.program",
            "import importlib\nimportlib.import_module('tapecast.compiler.pipeline')",
        ),
        ("tapecast.compiler.pipeline", "from ..eager.tensor import Tensor"),
        ("tapecast.compiler.pipeline", "from ..runtime import load"),
        ("tapecast.compiler.pipeline", "from .. import Tensor"),
        ("tapecast.runtime.load", "from ..tracer import program"),
        ("tapecast.runtime.load", "from .. import nn"),
        ("tapecast.runtime.load", "import llvmlite.binding"),
        ("tapecast.serialized_models.format", "from safetensors.numpy import save"),
    ],
)
def test_a_wrong_import_is_seen(module: str, source: str):
    assert [i for i in imports(source, module) if not is_allowed(i)]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tapecast.eager.nn.linear", "from ..ops.types import Aval\nfrom .. import tensor\nimport cupy"),
        ("tapecast.eager.ops.linalg", "import scipy.linalg\nfrom . import table\nfrom .types import Aval"),
        ("tapecast.tracer.record", "from ..eager import tensor\nfrom ..eager.ops.executor import use"),
        ("tapecast.compiler.artifact", "from .. import __version__\nfrom ..serialized_models import format"),
        ("tapecast.runtime.load", "import ctypes, numpy as np\nfrom ..serialized_models.format import read"),
        ("tapecast.cli.main", "from .. import compiler, runtime, tracer"),
        ("tapecast._aliases", "from .eager import nn"),
    ],
)
def test_a_right_import_passes(module: str, source: str):
    assert [i for i in imports(source, module) if not is_allowed(i)] == []


def test_a_package_resolves_relative_imports_from_itself():
    assert [i.target for i in imports("from . import a\nfrom ..b import c", "tapecast.eager.nn", True)] == [
        "tapecast.eager.nn.a",
        "tapecast.eager.b.c",
    ]


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_importing_a_bottom_layer_loads(name: str):
    """Packages around a module run too: its own imports do not show that. `eager` is around `eager.ops`."""
    code = f"import tapecast.{name}, sys, json; print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT.anchor)
    loaded = json.loads(run.stdout)
    expected = MAY[name] | {name, name.split(".")[0]}
    ours = [m for m in loaded if m.startswith("tapecast.") and m != "tapecast._aliases"]
    assert [m for m in ours if layer(m) not in expected] == []
    assert "cupy" not in loaded
