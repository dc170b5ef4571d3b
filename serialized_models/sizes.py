"""Size expressions: the texts in which shapes and workspaces depend on dynamic sizes, such as `2*batch+1`.

The language has names, non-negative ints, `+ - * // %`, `max(a, b)`, `min(a, b)` and brackets, with Python's
meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<number>\d+)|(?P<mark>//|[-+*%(),]))", re.ASCII)
FUNCTIONS = ("max", "min")
_GLOBALS: dict[str, object] = {"max": max, "min": min, "__builtins__": {}}

Shape = tuple[int | str, ...]


def tokens(text: str) -> list[str]:
    """The words of an expression. Raises ValueError for characters that are in none."""
    found, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(
                f"the size {text!r} has {text[at:].lstrip()[:1]!r}, which no size expression has"
            )
        found.append(match.group().strip())
        at = match.end()
    return found


def is_name(token: str) -> bool:
    """Whether a token stands for a size, not for a number, a mark or a function."""
    return (token[0].isalpha() or token[0] == "_") and token not in FUNCTIONS


def names_in(text: str) -> list[str]:
    """The sizes an expression depends on, each once, in order of appearance."""
    return list(dict.fromkeys(t for t in tokens(text) if is_name(t)))


def rename(text: str, names: dict[str, str]) -> str:
    """The expression with other names for its sizes."""
    return " ".join(names.get(t, t) if is_name(t) else t for t in tokens(text))


def compile_size(text: str | int, sizes: Sequence[str]) -> Callable[..., int]:
    """A function of the values of `sizes`, in order, that gives the value of the expression.

    Raises ValueError for text that is no expression over `sizes`. The language has no power, attribute,
    string or call but max and min, so that Python may evaluate what passes."""
    if unknown := [n for n in names_in(str(text)) if n not in sizes]:
        raise ValueError(f"the size {text!r} depends on {unknown[0]}, which is none of ({', '.join(sizes)})")
    safe = {name: f"s{k}" for k, name in enumerate(sizes)}
    source = f"lambda {', '.join(safe.values())}: {rename(str(text), safe)}"
    try:
        function: Callable[..., int] = eval(compile(source, "<size>", "eval"), dict(_GLOBALS))
    except SyntaxError:
        raise ValueError(f"the size {text!r} is not an expression") from None
    return function


class Reading(NamedTuple):
    """How a size is found: from the length of `axis` of input `input`, whose expression is `text`."""

    size: str
    input: int
    axis: int
    text: str

    def ends(self) -> tuple[str, str]:
        """The expression at 0 and at 1 of the size; between them it is a line, on which `solve` finds the
        size.
        """
        return rename(self.text, {self.size: "0"}), rename(self.text, {self.size: "1"})


def readings(shapes: Sequence[Shape], sizes: Sequence[str]) -> list[Reading]:
    """A reading for each size, in an order in which each needs only sizes before it.

    Axes that are a size come first, then expressions with one unknown. Raises ValueError for a size that none
    gives."""
    axes = [(str(a), i, k) for i, s in enumerate(shapes) for k, a in enumerate(s) if isinstance(a, str)]
    found: list[Reading] = []
    for size in sizes:
        found += [Reading(size, i, k, a) for a, i, k in axes if a == size][:1]
    while len(found) < len(sizes):
        known = {r.size for r in found}
        unknown = [(set(names_in(a)) - known, a, i, k) for a, i, k in axes]
        new = next((Reading(u.pop(), i, k, a) for u, a, i, k in unknown if len(u) == 1), None)
        if new is None:
            missing = next(s for s in sizes if s not in known)
            raise ValueError(f"no axis of an input gives the size {missing}")
        found.append(new)
    return found


def solve(length: int, at_0: int, at_1: int) -> int:
    """The n at which the line through `at_0` at 0 and `at_1` at 1 reaches `length`, rounded down; 0 if it is
    flat.
    """
    return (length - at_0) // (at_1 - at_0) if at_1 != at_0 else 0
