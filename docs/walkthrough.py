"""The texts of walkthrough.md: one small model on its way from Python to machine code, stage by stage.

    python docs/walkthrough.py            prints them
    python docs/walkthrough.py --update   writes them into walkthrough.md anew

A block of the page that begins with ```text <name> holds the text of that name below; one that begins with
```python <file> holds consecutive lines of that file. tests/test_walkthrough.py compares both.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import tapecast as tc
from tapecast import nn
from tapecast.eager.tape import Node

PAGE = Path(__file__).with_suffix(".md")
BLOCK = re.compile(r"^```(text|python) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEVEL = "x86-64-v3"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_shift = nn.Parameter(tc.linspace(-1, 1, 16))

    def forward(self, x):
        shift = self.log_shift.exp()
        return tc.relu(x + shift)


def texts() -> dict[str, str]:
    """What each stage holds, by the name its block has on the page."""
    model = Model().eval()
    x = tc.linspace(-3, 3, 64).reshape(4, 16)
    y = model(x)
    traced = tc.jit.trace(model, (x,), dynamic={"x": {0: tc.Dim("batch", max=64)}})
    with tempfile.TemporaryDirectory() as folder:
        views = compiled(traced, Path(folder))
        artifact = Path(folder, "model.so")
        loaded = tc.runtime.load(artifact)
        same = (loaded(x.numpy()) == y.detach().numpy()).all()
        members = zipfile.ZipFile(artifact).namelist()
    return {
        "eager": str(y[3, :4]),
        "tape": "\n".join(tape(y.grad_fn)),
        "recorded": str(traced.graph).rstrip(),
        "passes": lines_with(views["passes"], "fold_constants", "apply_rules"),
        "optimised": views["graph"],
        "fusion": views["fusion"],
        "canonical": views["canonical"],
        "memory": views["memory"],
        "scheduled": views["scheduled"],
        "llvm": around(views["llvm"], "fadd <8 x float>", before=5, after=4),
        "asm": around(views["asm"], "vaddps", before=1, after=2),
        "artifact": "\n".join(sorted(members)),
        "runtime": f"{loaded.signature}\nequal to eager: {same}",
    }


def tape(node: Node, depth: int = 0) -> Iterator[str]:
    """A node and those of its inputs: its name, and what it saved for the gradient."""
    saved = [type(v).__name__ for v in getattr(node, "inputs", None) or ()]
    yield f"{'  ' * depth}{node.name()}({', '.join(saved)})"
    for edge in node.edges:
        if edge is not None:
            yield from tape(edge, depth + 1)


def compiled(traced: tc.jit.TracedModule, folder: Path) -> dict[str, str]:
    """What TAPECAST_DEBUG shows of a compilation to `folder/model.so`, by view."""
    switches = {"TAPECAST_DEBUG": "all", "TAPECAST_DEBUG_DIR": str(folder / "views")}
    with mock.patch.dict(os.environ, switches):
        traced.compile(folder / "model.so", target=LEVEL)
    views: dict[str, str] = {}
    for file in sorted((folder / "views").iterdir()):
        _, view, title = file.stem.split("-", 2)
        if view == "loops":
            view = "scheduled" if title.endswith(LEVEL) else "canonical"
        text = file.read_text(encoding="utf-8").rstrip("\n")
        if view == "passes":
            views[view] = views.get(view, "") + f"{title}: {text}\n"
        elif (
            view == "graph" or view not in views
        ):  # the last graph; the level's module, not the one for the host
            views[view] = text
    return views


def lines_with(text: str, *words: str) -> str:
    return "\n".join(line for line in text.splitlines() if any(w in line for w in words))


def around(text: str, word: str, before: int, after: int) -> str:
    """The first line with `word` and its neighbours."""
    lines = text.splitlines()
    at = next(k for k, line in enumerate(lines) if word in line)
    return "\n".join(lines[at - before : at + after + 1])


def updated(page: str, found: dict[str, str]) -> str:
    """The page with the text blocks as they are now."""

    def block(match: re.Match[str]) -> str:
        kind, name, body = match.groups()
        return f"```{kind} {name}\n{found[name] + chr(10) if kind == 'text' else body}```"

    return BLOCK.sub(block, page)


if __name__ == "__main__":
    now = texts()
    if "--update" in sys.argv:
        PAGE.write_text(updated(PAGE.read_text(encoding="utf-8"), now), encoding="utf-8")
    else:
        for name, text in now.items():
            print(f"--- {name}\n{text}\n")
