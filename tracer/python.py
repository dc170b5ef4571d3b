"""A program as Python: what `traced.code` shows, to read, to run, and to change by hand.

    from tapecast.jit import call, sizes, tensor

    def forward(w, x):
        batch, = sizes("batch", x, ("batch", 1, 8, 8))
        v0 = call("conv2d", x, w["conv1.weight"], stride=(1,1), padding=(1,1))  # model.py:12 conv1
        v1 = tensor(0.5, "float32", ())
        v2 = call("mul", v0, v1)  # model.py:13
        return v2

`w` is `traced.weights`. What a graph carries from call to call comes in as further arguments and goes out as further
results, each named in a comment.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..eager import tape
from ..eager.ops.table import lookup
from ..eager.ops.types import DTYPES, dtype_name
from ..eager.tensor import Tensor
from .dims import dims_in, parse_expr
from .evaluate import solved
from .expr import evaluate
from .graph import ITEM, Graph, Node
from .text import attr_text, is_inline, node_names, scalar_text, unused

HEADER = "from tapecast.jit import call, sizes, tensor\n"


def python_code(graphs: Mapping[str, Graph]) -> str:
    """The source of a module with a function for each graph."""
    return "\n\n".join([HEADER, *map(_function, graphs.values())])


def call(name: str, *operands: Any, **attrs: Any) -> Any:
    """Apply the table's operator `name`: operands as the table wants them, one dtype, attributes complete.

    `call("item", outputs, index=1)` picks an output of an operator that has several. KeyError with near names for one
    that does not exist.
    """
    if name == ITEM.name:
        return operands[0][attrs["index"]]
    return tape.apply(lookup(name), *operands, **attrs)


def tensor(elements: Any, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """A constant of the program: a number or a flat tuple of them, in the given dtype and shape."""
    return Tensor(np.array(elements, DTYPES[dtype]).reshape(shape))


def sizes(names: str, *inputs: Any) -> tuple[int, ...]:
    """The dynamic sizes called `names` (with spaces between), from inputs and their declared shapes in turn."""
    pairs = list(zip(inputs[::2], inputs[1::2], strict=True))
    axes = [(parse_expr(str(e)), n) for t, shape in pairs for e, n in zip(shape, t.shape, strict=True)]
    known: dict[str, int] = {}
    for lone in (True, False):  # axes that are one size first, then formulas of what is not known yet
        for e, n in axes:
            if not isinstance(e, int) and (e[0] == "dim") == lone:
                known.update(solved(e, n, known))
    for e, n in axes:
        if evaluate(e, known) != n:
            raise ValueError(
                f"an axis of the inputs has {n} elements, the program wants {evaluate(e, known)}"
            )
    return tuple(known[name] for name in names.split())


def _function(graph: Graph) -> str:
    names = _identifiers(graph)
    parameters = ", ".join(["w", *(names[n] for n in graph.inputs)])
    types = ", ".join(f"{names[n]}: {n.single}" for n in graph.inputs)
    lines = [f'"""{types}"""', *_sizes_line(graph, names)]
    lines += [_line(n, names) for n in graph.nodes if n.op is not None or is_inline(n)]
    body = "".join(f"    {line}\n" for line in [*lines, _return(graph, names)])
    return f"def {graph.name}({parameters}):\n{body}"


def _identifiers(graph: Graph) -> dict[Node, str]:
    """What each node is called in Python: inputs by their names, constants as items of `w`, values by number."""
    out: dict[Node, str] = {}
    taken = {"w", "call", "sizes", "tensor", *graph.ranges}
    texts = node_names(graph)
    for n in graph.inputs:
        name = re.sub(r"\W", "_", texts[n])
        name = f"_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name
        out[n] = unused(name, taken).replace(".", "_")
        taken.add(out[n])
    for n in graph.nodes:
        if n not in out:
            kept = n.is_const and not is_inline(n)
            out[n] = f"w[{texts[n]!r}]" if kept else f"v{texts[n]}"
    return out


def _sizes_line(graph: Graph, names: Mapping[Node, str]) -> list[str]:
    if not graph.ranges:
        return []
    shaped = [n for n in graph.inputs if any(dims_in(n.shape))]
    inputs = ", ".join(f"{names[n]}, {_shape(n.shape)}" for n in shaped)
    return [f'{", ".join(graph.ranges)}, = sizes("{" ".join(graph.ranges)}", {inputs})']


def _shape(shape: Sequence[int]) -> str:
    parts = [text if text.isdigit() else f'"{text}"' for text in map(attr_text, shape)]
    return f"({', '.join(parts)},)"


def _line(n: Node, names: Mapping[Node, str]) -> str:
    if n.op is None:
        return f"{names[n]} = tensor({_elements(n.value)}, {dtype_name(n.dtype)!r}, {tuple(n.value.shape)!r})"
    attrs = [f"{key}={_attr(value)}" for key, value in n.attrs.items()]
    arguments = ", ".join([repr(n.op.name).replace("'", '"'), *(names[i] for i in n.inputs), *attrs])
    where = " ".join(filter(None, (n.line, n.scope)))
    return f"{names[n]} = call({arguments})" + (f"  # {where}" if where else "")


def _attr(value: Any) -> str:
    """An attribute as the text has it; a dtype as its name, numbers that are not finite as Python spells them."""
    if isinstance(value, np.dtype):
        return repr(dtype_name(value))
    if isinstance(value, tuple):
        return f"({''.join(f'{_attr(v)}, ' for v in value)})".replace(", )", ",)" if len(value) == 1 else ")")
    return _finite(attr_text(value)) if isinstance(value, (float, np.generic)) else attr_text(value)


def _finite(text: str) -> str:
    return f'float("{text}")' if text in ("inf", "-inf", "nan") else text


def _elements(array: Any) -> str:
    flat = [_finite(scalar_text(x)) for x in np.asarray(array).reshape(-1)]
    return flat[0] if array.shape == () else f"({''.join(f'{x}, ' for x in flat)})"


def _return(graph: Graph, names: Mapping[Node, str]) -> str:
    replaced = {o: graph.inputs[i].name for i, o in graph.state}
    note = "; ".join(f"{names[graph.outputs[o]]}: the next {name}" for o, name in replaced.items())
    values = ", ".join(names[o] for o in graph.outputs)
    return f"return {values}" + (f"  # {note}" if note else "")
