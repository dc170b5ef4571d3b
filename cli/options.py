"""Options that several commands have, and reading their values."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from .errors import Failure

size_option = click.option(
    "--size", "sizes", multiple=True, metavar="NAME=N", help="The value of a dynamic size; may be repeated."
)
threads_option = click.option("--threads", type=click.IntRange(1), help="Threads a call may use.")


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """`name=value` texts as a dict. Raises Failure for a text without `=` or a name given twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise Failure(f"{option} should be NAME=VALUE, and {text!r} came: write it as batch=64")
        if name in found:
            raise Failure(f"{option} gives {name} twice: give it once")
        found[name] = value
    return found


def sizes_of(
    texts: Iterable[str], ranges: dict[str, tuple[int, int | None]], default: int = 1
) -> dict[str, int]:
    """Values for every dynamic size: the given ones, else the least allowed value from `default` on.

    Raises Failure for an unknown name, for what is no number, and for a value outside the range.
    """
    given = pairs(texts, "--size")
    if unknown := [name for name in given if name not in ranges]:
        raise Failure(f"--size gives {unknown[0]}, and the model has the sizes {', '.join(ranges) or 'none'}")
    return {name: _size(name, given.get(name), bounds, default) for name, bounds in ranges.items()}


def _size(name: str, text: str | None, bounds: tuple[int, int | None], default: int) -> int:
    low, high = bounds
    if text is None:
        return max(low, default if high is None else min(default, high))
    allowed = f"{low} to {high}" if high is not None else f"at least {low}"
    if not text.isdigit() or int(text) < low or (high is not None and int(text) > high):
        raise Failure(f"--size {name} should be a number, {allowed}, and it is {text}")
    return int(text)


def existing(path: str, what: str) -> Path:
    """The path of a file. Raises Failure if there is none."""
    found = Path(path)
    if not found.is_file():
        state = "is a folder" if found.is_dir() else "does not exist"
        raise Failure(f"{path} {state}: give the path of {what}")
    return found
