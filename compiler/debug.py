"""Looking inside the compiler. The only place that reads `TAPECAST_DEBUG` and its companions.

TAPECAST_DEBUG        what to show, e.g. `passes,loops`: the names in VIEWS, or `all`
TAPECAST_DEBUG_DIR    a folder for numbered files; without it the text goes to standard error
TAPECAST_STOP_AFTER   the graph pass to end with, e.g. `fold_constants`
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from ..tracer.graph import Graph

#: The stages of `pipeline.py` in order. `loops` has each kernel twice: canonical, and as each level runs it.
VIEWS = ("passes", "graph", "fusion", "loops", "memory", "llvm", "asm", "time")


@dataclass(frozen=True)
class Debug:
    """What to show and where. `folder` None: standard error."""

    views: frozenset[str] = frozenset()
    folder: Path | None = None
    stop_after: str = ""
    numbers: Iterator[int] = field(default_factory=count, repr=False, compare=False)

    def shows(self, view: str) -> bool:
        return view in self.views

    def show(self, view: str, title: str, text: str | Callable[[], str]) -> None:
        """Show a text if its view is on; one that is dear to make is given as a function."""
        if not self.shows(view):
            return
        body = text if isinstance(text, str) else text()
        if self.folder is None:
            print(f"--- {view}: {title}\n{body}", file=sys.stderr)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{next(self.numbers):03}-{view}-{re.sub(r'[^A-Za-z0-9_.-]+', '_', title)}.txt"
        (self.folder / name).write_text(body + "\n", encoding="utf-8")

    def watch(self, name: str, before: Graph, after: Graph) -> None:
        """What a graph pass did, for `run_passes`; with `graph` on, the graph it gave as well."""
        self.show("passes", name, lambda: changes(before, after))
        if change_counts(before, after):
            self.show("graph", f"{after.name} after {name}", lambda: str(after))


def from_environment(environ: Mapping[str, str] = os.environ) -> Debug:
    """Read the switches. ValueError for a view that does not exist."""
    words = [w.strip() for w in environ.get("TAPECAST_DEBUG", "").split(",") if w.strip()]
    unknown = [w for w in words if w not in (*VIEWS, "all")]
    if unknown:
        raise ValueError(f"TAPECAST_DEBUG: {unknown[0]!r} is not one of {', '.join(VIEWS)} or all")
    folder = environ.get("TAPECAST_DEBUG_DIR", "")
    return Debug(
        frozenset(VIEWS if "all" in words else words),
        Path(folder) if folder else None,
        environ.get("TAPECAST_STOP_AFTER", ""),
    )


def changes(before: Graph, after: Graph) -> str:
    """`41 -> 37 nodes: -4 reshape +1 const`, or that nothing changed."""
    counts = change_counts(before, after)
    parts = [f"{n:+d} {label}" for label, n in sorted(counts.items())]
    size = f"{len(before.nodes)} -> {len(after.nodes)} nodes"
    return f"{size}: {' '.join(parts)}" if parts else f"{size}: same operations"


def change_counts(before: Graph, after: Graph) -> dict[str, int]:
    """How many more or fewer nodes of each kind there are."""
    counts = Counter(kind_of(n) for n in after.nodes)
    counts.subtract(kind_of(n) for n in before.nodes)
    return {label: n for label, n in counts.items() if n}


def kind_of(n: object) -> str:
    op = getattr(n, "op", None)
    return op.name if op else "input" if getattr(n, "is_input", False) else "const"
