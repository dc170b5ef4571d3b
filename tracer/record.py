"""Recording: an executor that runs every op for real and notes it as a node.

It stands in the context and not in the arguments, so ops on plain tensors (parameters, masks, positions) are
recorded like those on the inputs. In-place ops and writes through views are functional here: the eager engine
binds a tensor to a new traced value instead of writing memory, so the graph that results is pure.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..eager.nn.module import current_scope
from ..eager.ops import executor
from ..eager.ops.table import Op
from ..eager.ops.types import Aval, aval_of
from ..eager.tensor import Tensor
from .build import Builder, Symbol, items
from .dims import plain, value_of
from .graph import Graph, Node
from .source import user_line
from .text import INLINE, type_text


class TracerError(RuntimeError):
    """A program that cannot be recorded as it stands. The message names the user's line and the ways out."""


class TracerWarning(UserWarning):
    """Something in a recording that is probably not meant."""


class Write(NamedTuple):
    """The first write to a tensor in a recording: what it held before, and the user's line."""

    tensor: weakref.ref[Tensor]
    before: Any
    line: str


class Traced(Symbol):
    """A real array and the node that stands for it."""

    __slots__ = ("array", "recorder")

    def __init__(self, node: Node, array: Any, recorder: Recorder) -> None:
        super().__init__(node)
        self.array, self.recorder = array, recorder

    def concrete(self, reason: str) -> Any:
        """The array where freezing is allowed, else TracerError. `reason`: what reads it, as `bool()`."""
        return self.recorder.read(self, reason)


class Recorder(Builder):
    """Runs and notes. `names`: what arrays known before are called, by id. `nodes`: everything, in order."""

    def __init__(self, names: Mapping[int, str] | None = None, allow_freeze: bool = False) -> None:
        super().__init__()
        self.names, self.allow_freeze = dict(names or {}), allow_freeze
        self.nodes: list[Node] = []
        self.small: dict[tuple[Any, ...], Node] = {}
        self.frozen: set[str] = set()
        self.kept: list[Any] = []  # arrays whose ids are keys of `constants` and must not be given out again
        self.writes: dict[int, Write] = {}

    def note(self, node: Node) -> Node:
        self.nodes.append(node)
        return node

    def input(self, array: Any, shape: Sequence[int], name: str) -> Traced:
        """A traced input: a real array, and the shape it has with dynamic sizes as `Dim`s."""
        node = self.note(Node(None, aval=Aval(tuple(shape), array.dtype), name=name))
        return Traced(node, array, self)

    def traced(self, array: Any) -> Traced:
        """A constant as a traced value: ops on it are noted even where eager code takes a short cut."""
        return Traced(self.node_of(array), array, self)

    def constant(self, array: Any) -> Node:
        name = self.names.get(id(array), "")
        if name or array.size > INLINE:
            return self.note(
                Node(None, aval=aval_of(array), value=array, name=name, line="" if name else user_line())
            )
        # Small constants are copied: their node may outlive a buffer that is written to. Equal ones are one
        # node.
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self.small:
            self.small[key] = self.note(Node(None, aval=aval_of(array), value=array.copy(), line=user_line()))
        self.kept.append(array)
        return self.small[key]

    def __call__(self, op: Op, values: Sequence[Any], attrs: dict[str, Any]) -> Any:
        nodes = tuple(map(self.node_of, values))
        arrays = [v.array if isinstance(v, Traced) else v for v in values]
        aval = op.infer(*(n.single for n in nodes), **attrs)  # before the run: its errors name sizes
        out = executor.run_eagerly(op, arrays, {key: plain(value) for key, value in attrs.items()})
        self.check(op, aval, out)
        node = self.note(Node(op, nodes, attrs, aval, line=user_line(), scope=".".join(current_scope.get())))
        if isinstance(aval, Aval):
            return Traced(node, out, self)
        return tuple(Traced(self.note(n), a, self) for n, a in zip(items(node), out, strict=True))

    def check(self, op: Op, aval: Aval | tuple[Aval, ...], out: Any) -> None:
        """The shape rule and the run must agree: a defect of the op otherwise."""
        avals, outs = ((aval,), (out,)) if isinstance(aval, Aval) else (aval, out)
        for a, o in zip(avals, outs, strict=True):
            if tuple(map(value_of, a.shape)) != tuple(o.shape) or a.dtype != o.dtype:
                raise AssertionError(
                    f"{op.name}: the shape rule says {type_text(aval)}, the run gave {aval_of(o)}"
                )

    def read(self, value: Traced, reason: str) -> Any:
        """The contents of a traced value, for Python: an error, or frozen with one warning for each line."""
        line, node = user_line(), value.node
        origin = f" (made by {node.label}{f' at {node.line}' if node.line else ''})"
        what = f"{line}: {reason} reads the contents of a traced tensor, {node.single}{origin}"
        if not self.allow_freeze:
            raise TracerError(
                f"{what}; the value of this run would be frozen into the program. Choose with tc.where or "
                "tc.cond instead of a branch, keep numbers as tensors instead of reading them, or pass "
                "allow_freeze=True to freeze the value with a warning"
            )
        if line not in self.frozen:
            self.frozen.add(line)
            warnings.warn(
                f"{what}; the value of this run is frozen into the program", TracerWarning, stacklevel=2
            )
        return value.array

    def wrote(self, tensor: Tensor, before: Any) -> None:
        """The eager engine gave a tensor another value, in place of writing its memory.

        The value is laid out as what it replaces: whether a later reshape is a view depends on that.
        """
        old, new = getattr(before, "array", before), tensor.array
        if isinstance(new, Traced) and new.array.strides != old.strides:
            laid_out = np.empty_like(old)
            laid_out[...] = new.array
            tensor.array = Traced(new.node, laid_out, self)
        known = self.writes.get(id(tensor))
        if known is None or known.tensor() is not tensor:
            self.writes[id(tensor)] = Write(weakref.ref(tensor), before, user_line())

    def first_value(self, tensor: Tensor) -> Any:
        """The array a tensor held before it was first written to; None for one that was not."""
        write = self.writes.get(id(tensor))
        if write is None or write.tensor() is not tensor:
            return None
        return getattr(write.before, "array", write.before)

    def undo(self) -> list[Write]:
        """Give tensors from before the recording their arrays back; the writes to those still alive."""
        outer = [
            w for w in self.writes.values() if not isinstance(w.before, Traced) and w.tensor() is not None
        ]
        for write in outer:
            tensor = write.tensor()
            if tensor is not None:
                tensor.array = write.before
        return outer

    def graph(self, inputs: Sequence[Node], outputs: Sequence[Node], name: str) -> Graph:
        """What the outputs need of what was noted, in the order it was noted, after the inputs."""
        live = set(outputs)
        for n in reversed(self.nodes):
            if n in live:
                live.update(n.inputs)
        nodes = [n for n in self.nodes if n in live and n not in inputs]
        return Graph(tuple(inputs), (*inputs, *nodes), tuple(outputs), name=name)


def with_state(
    graph: Graph, names: Sequence[str], arrays: Mapping[str, Any], written: Sequence[str]
) -> Graph:
    """The graph with the constants called `names` as inputs after the others.

    `arrays` are what they hold, also those the graph does not read. The last outputs of `graph` are the next
    values of `written`, in that order.
    """
    constants = {n.name: n.single for n in graph.nodes if n.is_const and n.name}
    state = {name: Node(None, aval=constants.get(name) or aval_of(arrays[name]), name=name) for name in names}
    new: dict[Node, Node] = {}
    for n in graph.nodes:
        replaced = state.get(n.name) if n.is_const else None
        new[n] = replaced or n.with_inputs(tuple(new[i] for i in n.inputs))
    inputs = (*(new[i] for i in graph.inputs), *state.values())
    rest = [n for n in new.values() if n not in inputs]
    first_in, first_out = len(graph.inputs), len(graph.outputs) - len(written)
    pairs = [(first_in + list(names).index(name), first_out + k) for k, name in enumerate(written)]
    return Graph(inputs, (*inputs, *rest), tuple(new[o] for o in graph.outputs), tuple(pairs), graph.name)
