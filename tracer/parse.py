"""Reads the text of graphs: the inverse of `text.py`, print -> parse -> print being the identity."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..eager.ops.table import lookup
from ..eager.ops.types import DTYPES, Aval
from . import dims
from .expr import Range
from .graph import ITEM, Graph, Node


class ParseError(ValueError):
    """A text that is no graph; the message has the number of the line and what is wrong in it."""


HEAD = re.compile(r"graph (\w+)\((.*)\)(?: for (.*))?:")
TYPE = re.compile(r"(\w+)\[([^\]]*)\]")
INPUT = re.compile(r"%([\w.\-]+): (\w+\[[^\]]*\])")
CONST = re.compile(r"%([\w.\-]+) = const (\w+\[[^\]]*\]) (.+)")
NODE = re.compile(r"%([\w.\-]+): (\(.*?\)|\w+\[[^\]]*\]) = (\w+)\(([^)]*)\)(?: \{(.*)\})?")
OUTPUT = re.compile(r"((?:%[\w.\-]+ <- )*)%([\w.\-]+)")
RANGE = re.compile(r"(\w+) in (\d+)\.\.(\d*)")
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')


def parse(text: str, weights: Mapping[str, Any] | None = None) -> Graph:
    """The graph a text describes. `weights`: arrays of the constants that stand beside the text, by name.

    Without `weights` these constants are zeros of the right shape, which take no memory: enough to look at
    the graph and to run passes that read no values. ParseError names the line where the text is no graph.
    """
    graphs = parse_all(text, weights)
    if len(graphs) != 1:
        raise ParseError(f"the text holds {len(graphs)} graphs, {', '.join(graphs)}; parse_all reads several")
    return next(iter(graphs.values()))


def parse_all(text: str, weights: Mapping[str, Any] | None = None) -> dict[str, Graph]:
    """All graphs of a text, by name, in order."""
    graphs: dict[str, Graph] = {}
    reader: _Reader | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            reader = _Reader(line, weights) if line.startswith("graph ") else reader
            if reader is None:
                raise ValueError('a text of graphs begins with "graph"')
            reader.read(line.strip())
        except (ValueError, KeyError, TypeError, SyntaxError) as error:
            raise ParseError(f"line {number}: {error.args[0]} in: {line.strip()}") from None
        if reader.graph is not None:
            graphs[reader.graph.name] = reader.graph
    if reader is None or reader.graph is None:
        raise ParseError("the text ends before a return line: it is empty or was cut short")
    return graphs


class _Reader:
    """Reads the lines of one graph; `graph` is there after its return line."""

    def __init__(self, head: str, weights: Mapping[str, Any] | None) -> None:
        match = _match(HEAD, head.strip(), "graph name(%input: type, ...):")
        self.name, inputs, ranges = match.groups()
        self.weights = weights
        self.ranges = parse_ranges(ranges or "")
        self.graph: Graph | None = None
        self.nodes: dict[str, Node] = {}
        for found in INPUT.finditer(inputs):
            self.define(found[1], Node(None, aval=self.aval(found[2]), name=found[1]))
        self.inputs = tuple(self.nodes.values())

    def define(self, name: str, node: Node) -> None:
        if name in self.nodes:
            raise ValueError(f"%{name} is defined twice")
        self.nodes[name] = node

    def read(self, line: str) -> None:
        line, _, comment = line.partition("#")
        line = line.strip()
        if line.startswith("graph "):
            return
        if self.graph is not None:
            raise ValueError("a line after the return line")
        if line.startswith("return"):
            self.graph = self.finish(line.removeprefix("return").strip())
        elif (found := CONST.fullmatch(line)) is not None:
            self.constant(found, *_words(comment))
        else:
            self.operation(line, *_words(comment))

    def constant(self, found: re.Match[str], line: str, scope: str) -> None:
        name, aval = found[1], self.aval(found[2])
        named = found[3].startswith('"')
        value = self.weight(json.loads(found[3]), aval) if named else elements(found[3], aval)
        self.define(
            name, Node(None, aval=aval, value=value, name=name if named else "", line=line, scope=scope)
        )

    def weight(self, name: str, aval: Aval) -> Any:
        if self.weights is None:
            return np.broadcast_to(np.zeros((), aval.dtype), aval.shape)
        if name not in self.weights:
            raise KeyError(f"the constant {name!r} is not among the weights")
        return self.weights[name]

    def operation(self, text: str, line: str, scope: str) -> None:
        found = _match(NODE, text, "%name: type = op(%operand, ...) {attribute=value, ...}")
        name, types, op, operands, attrs = found.groups()
        avals = tuple(self.aval(t[0]) for t in TYPE.finditer(types))
        node = Node(
            ITEM if op == ITEM.name else lookup(op),
            tuple(self.node(o) for o in operands.split(", ") if o),
            parse_attrs(attrs or "", self.ranges),
            avals if types.startswith("(") else avals[0],
            line=line,
            scope=scope,
        )
        self.define(name, node)

    def node(self, reference: str) -> Node:
        name = reference.strip().removeprefix("%")
        if name not in self.nodes:
            raise ValueError(f"%{name} is used before it is defined")
        return self.nodes[name]

    def finish(self, returned: str) -> Graph:
        parts = [_match(OUTPUT, part, "return %value, ...") for part in returned.split(", ") if part]
        outputs = tuple(self.node(part[2]) for part in parts)
        pairs = [(name, k) for k, part in enumerate(parts) for name in part[1].split(" <- ") if name]
        state = sorted((self.inputs.index(self.node(name)), k) for name, k in pairs)
        return Graph(self.inputs, tuple(self.nodes.values()), outputs, tuple(state), self.name)

    def aval(self, text: str) -> Aval:
        dtype, sizes = _match(TYPE, text, "dtype[size,...]").groups()
        if dtype not in DTYPES:
            raise TypeError(f"{dtype} is not one of the dtypes {', '.join(DTYPES)}")
        items = ast.parse(f"({sizes},)" if sizes else "()", mode="eval").body
        assert isinstance(items, ast.Tuple)
        return Aval(tuple(dims.size(dims.expr_from_ast(i), self.ranges) for i in items.elts), DTYPES[dtype])


def parse_ranges(text: str) -> dict[str, Range]:
    """`batch in 1..1024, h in 1..` as a mapping from name to (smallest, largest or None)."""
    parts = [_match(RANGE, part, "name in low..high") for part in text.split(", ") if part]
    return {part[1]: (int(part[2]), int(part[3]) if part[3] else None) for part in parts}


def parse_attrs(text: str, ranges: Mapping[str, Range]) -> dict[str, Any]:
    """The attributes between braces."""
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {str(k.arg): attr_value(k.value, ranges) for k in call.keywords}


WORDS: dict[str, Any] = {"inf": float("inf"), "nan": float("nan"), **DTYPES}


def attr_value(node: ast.expr, ranges: Mapping[str, Range]) -> Any:
    """What an attribute's text means: a literal, a dtype, a tuple, or a size with names in it."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=items):
            return tuple(attr_value(item, ranges) for item in items)
        case ast.Name(id=word) if word in WORDS:
            return WORDS[word]
        case ast.UnaryOp(op=ast.USub(), operand=operand) if _is_number(operand):
            return -attr_value(operand, ranges)
        case ast.Call(func=ast.Name(id="complex"), args=parts):
            return complex(*(attr_value(part, ranges) for part in parts))
    return dims.size(dims.expr_from_ast(node), ranges)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in ("inf", "nan"))


def elements(text: str, aval: Aval) -> Any:
    """The array of a constant that is written out."""
    value = attr_value(ast.parse(text, mode="eval").body, {})
    flat = np.array(
        [_element(v, aval) for v in (value if isinstance(value, tuple) else (value,))], aval.dtype
    )
    return flat.reshape(aval.shape)


def _element(value: Any, aval: Aval) -> Any:
    return aval.dtype.type(value)


def _match(pattern: re.Pattern[str], text: str, wanted: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"expected {wanted}, found {text!r}")
    return found


def _words(comment: str) -> tuple[str, str]:
    """The line and the scope of a comment."""
    words = [json.loads(w) if w.startswith('"') else w for w in WORD.findall(comment)]
    line, scope = (*words, "", "")[:2]
    return ("" if line == "-" else line), scope
