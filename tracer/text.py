"""The text of a graph: for eyes, for tests, and in the files. `parse.py` reads it back, exactly.

    graph forward(%x: float32[batch,1,8,8]) for batch in 1..1024:
      %conv1.weight = const float32[32,1,3,3] "conv1.weight"
      %0: float32[batch,32,8,8] = conv2d(%x, %conv1.weight) {stride=(1,1), padding=(1,1)}  # model.py:12 conv1
      %1 = const float32[] 0.5
      %2: float32[batch,32,8,8] = mul(%0, %1)  # model.py:13
      return %2

Inputs and constants go by their names, other values by number. Small unnamed constants stand in the text; the
others are arrays kept beside it, under the quoted name. An output that is the next value of an input (a state
pair) is written `%input <- %value`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..eager.ops.types import Aval, dtype_name
from .dims import Dim, size_text
from .expr import Range
from .graph import Graph, Node

#: A constant without a name and with at most this many elements is written out in the text.
INLINE = 8


def graph_text(graph: Graph) -> str:
    """The graph as text. Equal graphs give equal texts."""
    names = node_names(graph)
    head = ", ".join(f"%{names[n]}: {n.single}" for n in graph.inputs)
    lines = [_line(n, names) for n in graph.nodes if not n.is_input]
    returned = ", ".join(_output(graph, k, names) for k in range(len(graph.outputs)))
    body = "".join(f"  {line}\n" for line in lines)
    return (
        f"graph {graph.name}({head}){_ranges_text(graph.ranges)}:\n{body}  return {returned}".rstrip() + "\n"
    )


def node_names(graph: Graph) -> dict[Node, str]:
    """What each node is called in the text, without the `%`. No two share a name."""
    names: dict[Node, str] = {}
    taken: set[str] = set()
    for n in graph.nodes:
        if wanted := _wanted_name(n, graph.name):
            names[n] = unused(wanted, taken)
            taken.add(names[n])
    rest = (n for n in graph.nodes if n not in names)
    return names | {n: str(k) for k, n in enumerate(rest)}


def _wanted_name(n: Node, graph_name: str) -> str:
    """The name of an input or a constant that is kept beside the text; "" for values that are numbered."""
    if n.op is not None or is_inline(n):
        return ""
    name = re.sub(r"[^\w.\-]", "_", n.name) or ("input" if n.is_input else f"{graph_name}.const")
    return f"_{name}" if name.isdigit() else name


def unused(name: str, taken: set[str]) -> str:
    """`name`, or the first of `name.1`, `name.2`, … that is not taken."""
    candidate, k = name, 0
    while candidate in taken:
        k += 1
        candidate = f"{name}.{k}"
    return candidate


def is_inline(n: Node) -> bool:
    """Whether the node is a constant whose elements stand in the text."""
    return n.is_const and not n.name and n.value.size <= INLINE


def weights_of(graph: Graph) -> dict[str, Any]:
    """The arrays of the constants that are kept beside the text, by the name they have there."""
    names = node_names(graph)
    return {names[n]: n.value for n in graph.nodes if n.is_const and not is_inline(n)}


# ---- the parts of a line -------------------------------------------------------------------------------


def _line(n: Node, names: Mapping[Node, str]) -> str:
    return f"%{names[n]}{_definition(n, names)}{_comment(n)}"


def _definition(n: Node, names: Mapping[Node, str]) -> str:
    if n.op is None:
        return f" = const {n.single} {_elements(n.value) if is_inline(n) else quoted(names[n])}"
    operands = ", ".join(f"%{names[i]}" for i in n.inputs)
    attrs = ", ".join(f"{key}={attr_text(value)}" for key, value in n.attrs.items())
    return f": {type_text(n.aval)} = {n.op.name}({operands})" + (f" {{{attrs}}}" if attrs else "")


def type_text(aval: Aval | tuple[Aval, ...]) -> str:
    """`float32[batch,3]`, or `(float32[2], int64[2])` for an op with several outputs."""
    return str(aval) if isinstance(aval, Aval) else f"({', '.join(map(str, aval))})"


def _comment(n: Node) -> str:
    if not n.line and not n.scope:
        return ""
    return f"  # {_word(n.line or '-')}" + (f" {_word(n.scope)}" if n.scope else "")


def _word(text: str) -> str:
    """A word of a comment; quoted where spaces or the like would make it unclear where it ends."""
    return text if re.fullmatch(r'[^\s"#]+', text) else quoted(text)


def _output(graph: Graph, k: int, names: Mapping[Node, str]) -> str:
    replaced = [f"%{names[graph.inputs[i]]} <- " for i, o in graph.state if o == k]
    return "".join(replaced) + f"%{names[graph.outputs[k]]}"


def _ranges_text(ranges: Mapping[str, Range]) -> str:
    parts = (f"{name} in {low}..{'' if high is None else high}" for name, (low, high) in ranges.items())
    return f" for {', '.join(parts)}" if ranges else ""


def quoted(text: str) -> str:
    """A string literal free of the characters that end a part of a line."""
    return json.dumps(text).replace("#", "\\u0023").replace("}", "\\u007d")


def attr_text(value: Any) -> str:
    """An attribute: numbers, sizes, strings, dtypes, None, tuples of these; TypeError for the rest."""
    match value:
        case Dim():
            return size_text(value)
        case None | bool() | int():
            return str(value)
        case str():
            return quoted(value)
        case np.dtype():
            return dtype_name(value)
        case tuple():
            return _tuple_text(map(attr_text, value))
        case float() | complex() | np.generic():
            return scalar_text(value)
    raise TypeError(
        f"attribute {value!r}: a {type(value).__name__} cannot be written in a graph; use a tuple"
    )


def scalar_text(value: Any) -> str:
    """The shortest digits that read back to the same number of the same dtype."""
    if isinstance(value, (complex, np.complexfloating)):
        return f"complex({float(value.real)!r}, {float(value.imag)!r})"
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return str(value)
    short = str(value)
    if short.lstrip("-").isdigit():  # a bfloat16 -0.0 is "-0", which would read as the integer 0
        short += ".0"
    exact = isinstance(value, float) or np.isnan(value) or type(value)(float(short)) == value
    return short if exact else repr(float(value))


def _tuple_text(items: Iterable[str]) -> str:
    parts = list(items)
    return f"({parts[0]},)" if len(parts) == 1 else f"({','.join(parts)})"


def _elements(array: Any) -> str:
    flat = np.asarray(array).reshape(-1)
    return scalar_text(flat[0]) if array.shape == () else _tuple_text(map(scalar_text, flat))
