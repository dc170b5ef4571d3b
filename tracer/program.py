"""A traced program, graphs and the tensors they read: it runs on the eager engine, saves and compiles."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..eager import modes, tape
from ..eager.functional import inplace
from ..eager.random import default_generator
from ..eager.tensor import Tensor
from .dims import resolve
from .evaluate import last_uses, sizes_of
from .expr import Range
from .graph import ITEM, Graph, Node
from .inputs import call_arguments, is_array
from .python import python_code
from .state import GENERATOR
from .text import weights_of
from .tree import Structure, difference, flatten, unflatten

#: Makes the compiler's function `(program, path, **options) -> report` available; set by the package's root.
_compiler: list[Callable[[], Callable[..., Any]]] = []


def register_compiler(load: Callable[[], Callable[..., Any]]) -> None:
    """Say how to get the compiler: `load()` imports it and returns `compile(program, path, **options)`."""
    _compiler[:] = [load]


@dataclass(frozen=True)
class Method:
    """One entry point. The inputs of `graph` are the tensors of `arguments`, then state; its outputs
    likewise.

    `arguments` and `outputs` are structures (`tree.py`); `varargs` is the position of a `*args` parameter.
    `training`: the mode it was recorded in, None for one without modes.
    """

    graph: Graph
    arguments: Structure
    outputs: Structure
    varargs: int | None = None
    training: bool | None = None


@dataclass(frozen=True)
class Program:
    """Entry points by name; the tensors that constants and state inputs hold; which of them are state."""

    methods: dict[str, Method]
    tensors: dict[str, Tensor]
    state: tuple[str, ...] = ()

    @property
    def graphs(self) -> dict[str, Graph]:
        """The graphs by name, their constants having the values that the tensors have now."""
        return {name: _with_values(m.graph, self.tensors) for name, m in self.methods.items()}

    @property
    def dims(self) -> dict[str, Range]:
        """The range of every dynamic size."""
        found = {name: r for m in self.methods.values() for name, r in m.graph.ranges.items()}
        return dict(sorted(found.items()))


def _with_values(graph: Graph, tensors: Mapping[str, Tensor]) -> Graph:
    def current(n: Node, inputs: tuple[Node, ...]) -> Node:
        tensor = tensors.get(n.name) if n.is_const else None
        if tensor is None:
            return n.with_inputs(inputs)
        return n if tensor.array is n.value else replace(n, value=tensor.array)

    return graph.rebuild(current)


class TracedModule:
    """What `trace` returns: call it like what was traced, in eager mode and with gradients, or `save` or
    `compile` it.

    Parameters are those of the traced module, shared and not copied. Entry points other than the first are
    attributes: `traced.encode(x)`.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._first = next(iter(program.methods))
        self._modes = {m.training for m in program.methods.values()}
        self.training = bool(program.methods[self._first].training)

    # ---- calling ---------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the first entry point, in the mode set by `train` and `eval`."""
        return self.run(self._first, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        program = self.__dict__.get("program")
        if program is None or name not in program.methods:
            known = ", ".join(program.methods) if program else ""
            raise AttributeError(
                f"a traced module has no attribute {name!r}; its entry points are {known}", name=name
            )
        return lambda *args, **kwargs: self.run(name, *args, **kwargs)

    def run(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Run the entry point `name`. TypeError or ValueError for arguments that are not as traced."""
        method = self.program.methods[self._in_mode(name)]
        arguments = call_arguments(method.arguments, method.varargs, args, kwargs)
        leaves: list[tuple[str, Any]] = []
        items = [[key, flatten(value, key, leaves, is_array)] for key, value in arguments.items()]
        if problem := difference(method.arguments, {"dict": items}, name):
            raise TypeError(problem)
        tensors = [leaf if isinstance(leaf, Tensor) else Tensor(leaf) for _, leaf in leaves]
        return unflatten(method.outputs, self._evaluate(method.graph, tensors))

    def _in_mode(self, name: str) -> str:
        """The entry point behind a name in the present mode: `forward` or `forward_train`."""
        wanted = {m: method.training for m, method in self.program.methods.items()}
        if len(self._modes) < 2 or wanted[name] == self.training:
            return name
        other = f"{name}_{'train' if self.training else 'eval'}"
        return other if other in wanted else name

    def _evaluate(self, graph: Graph, inputs: list[Tensor]) -> list[Tensor]:
        """Run a graph on the tape; afterwards the state tensors hold their next values."""
        names = [n.name for n in graph.inputs[len(inputs) :]]
        state = [default_generator.state if k == GENERATOR else self.program.tensors[k] for k in names]
        results = evaluate_on_tape(graph, [*inputs, *state], self.program.tensors)
        with modes.no_grad():
            for i, o in graph.state:
                self._set_state(names[i - len(inputs)], results[o])
        return results[: len(results) - len(graph.state)]

    def _set_state(self, name: str, value: Tensor) -> None:
        """Random numbers come from the generator that eager code draws from, whichever program draws them."""
        if name == GENERATOR:
            default_generator.state = value.detach()
        else:
            inplace.copy_(self.program.tensors[name], value)

    # ---- looking ---------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph of the first entry point."""
        return self.program.graphs[self._first]

    @property
    def graphs(self) -> dict[str, Graph]:
        """The graphs of all entry points."""
        return self.program.graphs

    @property
    def text(self) -> str:
        """All graphs as text, with types: the form that is stored."""
        return "\n".join(map(str, self.graphs.values()))

    @property
    def code(self) -> str:
        """All graphs as Python (`python.py`): `exec(traced.code)` defines `forward(w, x)`; w is `traced.weights`."""
        return python_code(self.graphs)

    @property
    def weights(self) -> dict[str, Tensor]:
        """The constants of all graphs by the names they have in `code` and in the text."""
        named = self.program.tensors
        return {
            key: named.get(key, Tensor(value))
            for g in self.graphs.values()
            for key, value in weights_of(g).items()
        }

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{name}({', '.join(n.name for n in m.graph.inputs)})" for name, m in self.program.methods.items()
        )
        return f"TracedModule({parts})"

    # ---- as a module -----------------------------------------------------------------------------------

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors that ask for gradients, by name."""
        return ((name, t) for name, t in self.program.tensors.items() if t.requires_grad)

    def parameters(self) -> Iterator[Tensor]:
        return (t for _, t in self.named_parameters())

    def state_dict(self) -> dict[str, Tensor]:
        """All named tensors the program reads, detached."""
        return {name: t.detach() for name, t in self.program.tensors.items()}

    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> None:
        """Copy values into the program's tensors. KeyError for a name that is missing; others are ignored."""
        with modes.no_grad():
            for name, tensor in self.program.tensors.items():
                if name not in state_dict:
                    raise KeyError(f"load_state_dict: {name} is missing")
                inplace.copy_(tensor, state_dict[name])

    def train(self, mode: bool = True) -> TracedModule:
        """Choose the entry points recorded in train mode. RuntimeError where there are none."""
        if mode != self.training and mode not in self._modes:
            traced, asked = ("eval", "train") if mode else ("train", "eval")
            raise RuntimeError(
                f"the program was traced in {traced} mode only and cannot change to {asked}: trace it with "
                'modes=("eval", "train")'
            )
        self.training = mode
        return self

    def eval(self) -> TracedModule:
        """`train(False)`."""
        return self.train(False)

    # ---- files -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `model.tape`. An existing file is replaced as a whole or not at all."""
        from .storage import save

        save(self.program, path)

    def compile(self, path: str | os.PathLike[str], **options: Any) -> Any:
        """Compile to one native file, with the compiler's `options`; returns its report."""
        if not _compiler:
            raise RuntimeError("compile: no compiler is registered; import tapecast.jit, which registers it")
        return _compiler[0]()(self.program, path, **options)


def evaluate_on_tape(graph: Graph, inputs: list[Tensor], named: Mapping[str, Tensor]) -> list[Tensor]:
    """The outputs of a graph computed by the eager engine, gradients included. `named`: constants by name."""
    sizes = sizes_of(graph, [t.array for t in inputs])
    values: dict[Node, Any] = dict(zip(graph.inputs, inputs, strict=True))
    last = last_uses(graph)
    for n in graph.nodes:
        if n not in values:
            values[n] = _on_tape(n, [values[i] for i in n.inputs], named, sizes)
        for dead in last.get(n, ()):
            del values[dead]
    return [values[o] for o in graph.outputs]


def _on_tape(n: Node, operands: list[Any], named: Mapping[str, Tensor], sizes: Mapping[str, int]) -> Any:
    if n.op is None:
        return named[n.name] if n.name in named else Tensor(n.value)
    if n.op is ITEM:
        return operands[0][n.attrs["index"]]
    return tape.apply(n.op, *operands, **{key: resolve(attr, sizes) for key, attr in n.attrs.items()})
