"""Tables and numbers as all commands print them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 160
"""Columns of a table that goes to a file or another program."""


def show(*parts: object) -> None:
    """Print to standard output; plain and unwrapped where that is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    for part in parts:
        if isinstance(part, str):
            console.print(part, markup=False, soft_wrap=True)
        else:
            console.print(part)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A table; columns whose name ends in `>` are aligned to the right, as numbers are."""
    made = Table(title=title, title_justify="left", show_header=any(columns))
    for name in columns:
        made.add_column(
            name.removesuffix(">"), justify="right" if name.endswith(">") else "left", overflow="fold"
        )
    for row in rows:
        made.add_row(*(str(cell).replace("[", r"\[") for cell in row))
    return made


def time_text(seconds: float) -> str:
    """Seconds for people, to three digits: `1.25 µs`, `34.1 ms`, `2.50 s`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            value = seconds * factor
            return f"{value:.{max(0, 2 - len(str(int(value))) + 1)}f} {unit}"
    raise AssertionError
