"""Writes `eager/signatures.pyi`: the methods that `eager/methods.py` gives Tensor, for type checkers and editors.

    python tools/signatures.py

Run it after a change of the public functions; `tests/test_signatures.py` fails until it is done.
"""

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tapecast.eager import tensor

TARGET = Path(tensor.__file__).with_name("signatures.pyi")
HEADER = '''# Written by tools/signatures.py from the functions themselves.
import builtins
from collections.abc import Callable, Sequence
from typing import Any

from .functional.histograms import Histogram
from .functional.reduction import MinMax, ValuesIndices
from .hooks import RemovableHandle
from .linalg import results
from .memory_format import memory_format as MemoryFormat
from .random import Generator
from .storage import UntypedStorage
from .tensor import Tensor

class Methods:
    """What a Tensor can do besides what its class says."""

'''


class Builtins(ast.NodeTransformer):
    """Writes `builtins.float` for `float`: inside the class that name is a method."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        inside = node.id in vars(tensor.Tensor)
        return ast.Attribute(ast.Name("builtins"), node.id) if inside else node


def attached() -> Iterator[str]:
    """The names that Tensor has beyond those in the body of its class."""
    module = ast.parse(Path(tensor.__file__).read_text(encoding="utf-8"))
    body = next(n for n in module.body if isinstance(n, ast.ClassDef) and n.name == "Tensor").body
    written = {name for node in body for name in names_bound(node)}
    made = {"__module__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__firstlineno__"}
    yield from sorted(vars(tensor.Tensor).keys() - written - made)


def names_bound(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def annotation(text: Any) -> str:
    return (
        "Any"
        if text is inspect.Parameter.empty
        else ast.unparse(Builtins().visit(ast.parse(text, mode="eval")))
    )


def parameter(p: inspect.Parameter) -> str:
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    plain = p.default is None or type(p.default) in (bool, int, str)
    default = "" if p.default is p.empty else f" = {p.default!r}" if plain else " = ..."
    return f"{star}{p.name}: {annotation(p.annotation)}{default}"


def parameters(found: list[inspect.Parameter]) -> Iterator[str]:
    """The parameters after the first, which is `self`."""
    yield "self"
    starred = False
    for p in found[1:]:
        if p.kind is p.KEYWORD_ONLY and not starred:
            yield "*"
        starred |= p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)
        yield parameter(p)


def method(name: str, function: Callable[..., Any] | property) -> str:
    if isinstance(function, property):
        return f"    @property\n    def {name}(self) -> Tensor: ...\n"
    signature = inspect.signature(function)
    found = list(signature.parameters.values())
    takes = ", ".join(parameters(found[:2] if name.startswith("__") else found))  # `x + y` passes no options
    ignore = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
    return f"    def {name}({takes}) -> {annotation(signature.return_annotation)}: ...{ignore}\n"


def stub() -> str:
    """The text of the file."""
    text = HEADER + "".join(method(name, vars(tensor.Tensor)[name]) for name in attached())
    command = [sys.executable, "-P", "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    TARGET.write_text(stub(), encoding="utf-8")
