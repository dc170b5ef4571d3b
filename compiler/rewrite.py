"""Rewrite rules as equations: `left` and `right` are functions of a namespace of table ops, and mean the
same.

    rule("neg of neg", lambda T, x: T.neg(T.neg(x)), lambda T, x: x)

Positional parameters stand for operands, keyword-only ones for attributes, each for the same thing wherever
it occurs. Run on the namespace `PATTERNS` the left side is a pattern; run on `NODES` the right side makes
nodes, typed by each op's shape rule; run on `ARRAYS` both sides compute, which is how the tests compare them
bit for bit. Rules that are not exact are applied under fast_math only. The rules themselves are in
`rules.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..eager.ops.table import Op, lookup
from ..tracer.build import call
from ..tracer.check import same_type
from ..tracer.graph import Node
from ..tracer.text import attr_text

Side = Callable[..., Any]
Condition = Callable[..., bool]


class Hole(NamedTuple):
    """A parameter of a rule: an operand or an attribute."""

    name: str


class Pattern(NamedTuple):
    """An op on patterns, with attributes that are values or holes."""

    op: Op
    args: tuple[Pattern | Hole, ...]
    attrs: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Rule:
    """`left` may become `right` where `where` holds; see `rule`."""

    name: str
    left: Side
    right: Side
    where: Condition | None
    exact: bool
    pattern: Pattern
    operands: tuple[str, ...]
    attributes: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


def rule(name: str, left: Side, right: Side, where: Condition | None = None, exact: bool = True) -> Rule:
    """An equation. `where(*operand nodes, **attributes)` is a condition on what the parameters stand for.

    `exact=False`: both sides are the same in real arithmetic, not in rounding or for inf and nan.
    """
    parameters = list(inspect.signature(left).parameters.values())[1:]
    operands = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
    attributes = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    holes = {a: Hole(a) for a in attributes}
    pattern = left(PATTERNS, *map(Hole, operands), **holes)
    return Rule(name, left, right, where, exact, pattern, operands, attributes)


# ---- the three meanings of an equation ---------------------------------------------------------------------


class _Patterns:
    """`T.op(...)` is a pattern."""

    def __getattr__(self, name: str) -> Callable[..., Pattern]:
        op = lookup(name)
        return lambda *args, **attrs: Pattern(op, args, attrs)


class _Nodes:
    """`T.op(...)` is a node. `line` and `scope` are those of the node that is replaced."""

    def __init__(self, line: str = "", scope: str = "") -> None:
        self.line, self.scope = line, scope

    def __getattr__(self, name: str) -> Callable[..., Node]:
        return lambda *nodes, **attrs: call(lookup(name), *nodes, line=self.line, scope=self.scope, **attrs)


class _Arrays:
    """`T.op(...)` is computed by numpy."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = lookup(name)
        return lambda *arrays, **attrs: op.run(np, *arrays, **attrs)


PATTERNS, NODES, ARRAYS = _Patterns(), _Nodes(), _Arrays()

# ---- matching ----------------------------------------------------------------------------------------------

Found = dict[str, Any]


def match(pattern: Pattern | Hole, node: Node, found: Found) -> bool:
    """Does the node have this form? Fills `found` with what the holes stand for."""
    if isinstance(pattern, Hole):
        return found.setdefault(pattern.name, node) is node
    if node.op is not pattern.op or len(node.inputs) != len(pattern.args):
        return False
    return match_attrs(pattern.attrs, node.attrs, found) and all(
        match(p, i, found) for p, i in zip(pattern.args, node.inputs, strict=True)
    )


def match_attrs(wanted: Mapping[str, Any], attrs: Mapping[str, Any], found: Found) -> bool:
    """Attributes are compared as text, so that 1 is not True and a dynamic size not its example."""
    if wanted.keys() != attrs.keys():
        return False
    for name, want in wanted.items():
        if isinstance(want, Hole):
            want = found.setdefault(want.name, attrs[name])
        if attr_text(want) != attr_text(attrs[name]):
            return False
    return True


def rewritten(rules: Iterable[Rule], node: Node) -> tuple[Rule, Node] | None:
    """The first rule that applies, and what it makes of the node.

    A result of another type (an equation that holds up to broadcasting, say) is not taken.
    """
    for r in rules:
        found: Found = {}
        if not match(r.pattern, node, found):
            continue
        operands = [found[name] for name in r.operands]
        attributes = {name: found[name] for name in r.attributes}
        if r.where is not None and not r.where(*operands, **attributes):
            continue
        new = r.right(_Nodes(node.line, node.scope), *operands, **attributes)
        if same_type(new.aval, node.aval):
            return r, new
    return None


def by_op(rules: Sequence[Rule]) -> dict[Op, list[Rule]]:
    """Rules by the op they begin with, each list in the given order."""
    out: dict[Op, list[Rule]] = {}
    for r in rules:
        out.setdefault(r.pattern.op, []).append(r)
    return out
