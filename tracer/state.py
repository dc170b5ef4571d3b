"""What a program may read and change besides its inputs: parameters, buffers, optimizer state, random
keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..eager.nn.module import Module
from ..eager.nn.registry import STORES
from ..eager.optim.optimizer import Optimizer
from ..eager.random import Generator, default_generator
from ..eager.tensor import Tensor
from .dims import value_of
from .text import unused

LONE = "state.0"

#: The name of the random generator's key, an input and output of programs that draw random numbers.
GENERATOR = "random.state"

#: The attributes of one module, by name.
Attributes = dict[str, Any]

#: The state of one optimizer: parameter to name to value.
Kept = dict[Any, dict[str, Any]]


@dataclass(frozen=True)
class State:
    """What a program can read and change.

    `tensors` have one name each. A run may also bind attributes of the `modules` to new tensors, add tensors
    to the state of the `optimizers`, and advance the `generator`.
    """

    tensors: dict[str, Tensor]
    modules: tuple[Module, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    generator: Generator = default_generator

    @property
    def arrays(self) -> dict[str, Any]:
        """What the tensors hold now, and the key of the next random numbers."""
        return {name: t.array for name, t in self.tensors.items()} | {GENERATOR: self.generator.state.array}


def named_state(things: Iterable[Any], taken: Iterable[str] = ()) -> State:
    """The tensors of modules (parameters, all buffers), optimizers, containers and lone ones, each once.

    Names are those of a module's state dict, `fc.weight.momentum_buffer` for what an optimizer keeps about
    `fc.weight`, and `state.0` for a lone tensor; none of those in `taken`. TypeError for anything else.
    """
    things = list(things)
    found: dict[str, Tensor] = {}
    known: dict[int, str] = {}
    for thing in things:
        for wanted, tensor in list(_tensors_of(thing, known)):
            if id(tensor) not in known:
                name = unused(re.sub(r"[^\w.\-]", "_", wanted), {*found, *taken})
                found[name], known[id(tensor)] = tensor, name
    modules = dict.fromkeys(m for root in modules_in(things) for m in root.modules())
    return State(found, tuple(modules), tuple(optimizers_in(things)))


def _tensors_of(thing: Any, known: Mapping[int, str]) -> Iterator[tuple[str, Tensor]]:
    match thing:
        case Module():
            yield from thing.named_parameters()
            yield from thing.named_buffers()
        case Optimizer():
            yield from _optimizer_state(thing, known)
        case Tensor():
            yield LONE, thing
        case dict():
            for key, value in thing.items():
                for name, tensor in _tensors_of(value, known):
                    yield (str(key) if name == LONE else f"{key}.{name}"), tensor
        case list() | tuple():
            for value in thing:
                yield from _tensors_of(value, known)
        case _:
            raise TypeError(
                f"state: a {type(thing).__name__} holds no tensors that a trace knows of; pass modules, "
                "optimizers, tensors, or lists and dicts of these"
            )


def _optimizer_state(optimizer: Optimizer, known: Mapping[int, str]) -> Iterator[tuple[str, Tensor]]:
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for k, param in enumerate(params):
        name = known.get(id(param), f"param.{k}")
        yield name, param
        for key, value in sorted(optimizer.state.get(param, {}).items()):
            if isinstance(value, Tensor):
                yield f"{name}.{key}", value
    for group in optimizer.param_groups:
        for key, value in sorted(group.items()):
            if isinstance(value, Tensor):
                yield f"optimizer.{key}", value


def modules_in(things: Iterable[Any]) -> list[Module]:
    """The modules among things and inside lists, tuples and dicts of them."""
    return [thing for thing in _unpacked(things) if isinstance(thing, Module)]


def optimizers_in(things: Iterable[Any]) -> list[Optimizer]:
    """The optimizers among things and inside lists, tuples and dicts of them."""
    return [thing for thing in _unpacked(things) if isinstance(thing, Optimizer)]


def _unpacked(things: Iterable[Any]) -> Iterator[Any]:
    for thing in things:
        match thing:
            case list() | tuple():
                yield from _unpacked(thing)
            case dict():
                yield from _unpacked(thing.values())
            case _:
                yield thing


def added(state: State, before: list[Kept], first: Callable[[Tensor], Any]) -> list[Kept]:
    """The optimizers' state as it should be before the first step, given a run that made what was missing.

    Optimizers make their state in the first step. `first` gives the array that a tensor held before it was
    first written to, or None: such a tensor (a momentum that is set to the first gradient) starts from zeros.
    """
    out = []
    for optimizer, known in zip(state.optimizers, before, strict=True):
        new: Kept = {}
        for param, values in optimizer.state.items():
            old = known.get(param, {})
            new[param] = {
                key: old[key] if key in old else _start(value, first) for key, value in values.items()
            }
        out.append(new)
    return out


def _start(value: Any, first: Callable[[Tensor], Any]) -> Any:
    if not isinstance(value, Tensor):
        return value
    found = first(value)
    return Tensor(
        np.zeros(tuple(map(value_of, value.shape)), value.array.dtype) if found is None else np.array(found)
    )


def kept(state: State) -> list[Kept]:
    """Copies of the optimizers' dicts; the tensors in them are not copied."""
    return [{param: dict(values) for param, values in o.state.items()} for o in state.optimizers]


def put_back(state: State, dicts: list[Kept]) -> None:
    for optimizer, values in zip(state.optimizers, dicts, strict=True):
        optimizer.state.clear()
        optimizer.state.update(values)


def reachable(function: Callable[..., Any]) -> list[Any]:
    """What a function can change without being given it: its method's object, modules it names."""
    out: list[Any] = [function] if isinstance(function, Module) else []
    if isinstance(owner := getattr(function, "__self__", None), Module):
        out.append(owner)
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    values = [names[name] for name in (code.co_names if code else ()) if name in names]
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # a variable that is assigned later
            values.append(cell.cell_contents)
    return out + [value for value in values if isinstance(value, (Module, Optimizer))]


def rebound(state: State, before: list[Attributes]) -> dict[int, Tensor]:
    """Buffers whose attribute was bound to another tensor since `before`: id of the old tensor to the new
    one.
    """
    return {
        id(old): new
        for module, attributes in zip(state.modules, before, strict=True)
        for name, old in attributes["_buffers"].items()
        if old is not None and (new := module._buffers.get(name)) is not None and new is not old
    }


def attributes_of(state: State) -> list[Attributes]:
    """Copies of the modules' attributes: what `restored` puts back."""
    return [{k: dict(v) if k in STORES else v for k, v in vars(m).items()} for m in state.modules]


@contextmanager
def restored(state: State, copy: bool = False) -> Iterator[list[Attributes]]:
    """Afterwards tensors, attributes of modules, optimizers and the generator are what they were before.

    `copy`: also the contents of tensors are put back, for a run that writes into memory; a recording never
    does. Yields the modules' attributes as they are before.
    """
    attributes, dicts, key = attributes_of(state), kept(state), state.generator.state
    tensors = [
        (t, (t.array, t.grad, t.node), copied(t.array) if copy else None) for t in state.tensors.values()
    ]
    try:
        yield attributes
    finally:
        for tensor, (array, grad, node), contents in tensors:
            if contents is not None:
                array[...] = contents
            tensor.array, tensor.grad, tensor.node = array, grad, node
        for module, before in zip(state.modules, attributes, strict=True):
            vars(module).clear()
            vars(module).update({k: dict(v) if k in STORES else v for k, v in before.items()})
        put_back(state, dicts)
        state.generator.state = key


def copied(array: Any) -> Any:
    return array.copy()
