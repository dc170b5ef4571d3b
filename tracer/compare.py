"""Two recordings of a program at different sizes must be one graph. If not: where, and what is to blame."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from .dims import Pin, SizeLog
from .expr import names, text
from .graph import Graph, Node
from .text import attr_text, type_text


@dataclass(frozen=True)
class Difference:
    """The first place where two graphs part: the user's line, a sentence, and the node of the first graph
    there.

    `frozen`: only a constant's contents differ, which is how a value read in the program shows.
    """

    line: str
    what: str
    frozen: bool = False


def difference(first: Graph, second: Graph) -> Difference | None:
    """The first difference in kind, operands, attributes, types or constants; None for the same program."""
    numbers = [{n: k for k, n in enumerate(g.nodes)} for g in (first, second)]
    for a, b in zip_longest(first.nodes, second.nodes):
        if (found := _node_difference(a, b, *numbers)) is not None:
            return found
    ends = [[numbers[k][o] for o in g.outputs] for k, g in enumerate((first, second))]
    if ends[0] != ends[1] or first.state != second.state:
        return Difference("", "other values are returned")
    return None


def _node_difference(
    a: Node | None, b: Node | None, in_first: dict[Node, int], in_second: dict[Node, int]
) -> Difference | None:
    if a is None or b is None:
        extra = a or b
        assert extra is not None
        return Difference(
            extra.line, f"{extra.label} is only in {'one' if a is None else 'the other'} of the runs"
        )
    line = a.line or b.line
    if a.op is not b.op or a.is_input != b.is_input:
        return Difference(line, f"the one run does {a.label} where the other does {b.label}")
    if [in_first[i] for i in a.inputs] != [in_second[i] for i in b.inputs]:
        return Difference(line, f"{a.label} takes other operands")
    if (attr := _attr_difference(a, b)) != "":
        return Difference(line, f"{a.label} has {attr}")
    if type_text(a.aval) != type_text(b.aval):
        return Difference(
            line, f"{a.label} is {type_text(a.aval)} in the one run, {type_text(b.aval)} in the other"
        )
    if a.is_const and not same_constant(a, b):
        return Difference(line, f"a constant {a.single} has other contents", frozen=True)
    return None


def _attr_difference(a: Node, b: Node) -> str:
    for key in {**a.attrs, **b.attrs}:
        left, right = (attr_text(n.attrs[key]) if key in n.attrs else "nothing" for n in (a, b))
        if left != right:
            return f"{key}={left} in the one run, {key}={right} in the other"
    return ""


def same_constant(a: Node, b: Node) -> bool:
    """Whether two constants are one array, or arrays of the same bytes, or one named parameter."""
    return a.value is b.value or (bool(a.name) and a.name == b.name) or _bytes(a.value) == _bytes(b.value)


def _bytes(array: Any) -> bytes:
    return bytes(array.tobytes())


def blame(first: SizeLog, second: SizeLog, found: Difference) -> str:
    """What made a size a plain number or decided a branch: a sentence, "" where nothing was noted."""
    for a, b in zip_longest(first.guards, second.guards):
        if a is None or b is None:
            break
        if str(a) == str(b) and a.outcome != b.outcome:
            return f"{at(a.line)}`{a}` is {a.outcome} in the one run and {b.outcome} in the other"
    pins = [p for p in first.pins if names(p.size)]
    best = [p for p in pins if p.line == found.line] or pins
    return _pin_text(best[-1]) if best else ""


def _pin_text(pin: Pin) -> str:
    return f"{at(pin.line)}{pin.what} makes a plain number of the size {text(pin.size)}"


def at(line: str) -> str:
    """`at model.py:12, `, or nothing where no user line is known."""
    return f"at {line}, " if line else ""
