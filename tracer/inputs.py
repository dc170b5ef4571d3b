"""The inputs of a traced function: their names, which axes are dynamic, and examples at any size."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..eager.device import CPU, device_of, move
from ..eager.tensor import Tensor
from . import dims
from .dims import Dim
from .evaluate import solved
from .examples import Sizes, resized
from .expr import Range
from .tree import Structure, flatten

#: `{"x": {0: Dim("batch")}}`: input (by name or position) to axis to size.
Dynamic = Mapping[Any, Mapping[int, Dim | str]]


@dataclass(frozen=True)
class Inputs:
    """The tensors among the arguments of one entry point.

    `shapes` hold a Dim on every dynamic axis, `tensors` are the examples; `structure` is that of the
    arguments (a dict by parameter name). `positional` of these are passed by position, the last of them
    being the function's `*args` if `variadic`.
    """

    names: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    shapes: tuple[tuple[int, ...], ...]
    structure: Structure
    positional: int = 0
    variadic: bool = False

    @property
    def ranges(self) -> dict[str, Range]:
        return dims.merge_ranges(n for shape in self.shapes for n in shape)

    def example_sizes(self) -> Sizes:
        """The dynamic sizes that the examples have."""
        axes = [
            (dims.expr_of(n), int(m))
            for shape, t in zip(self.shapes, self.tensors, strict=True)
            for n, m in zip(shape, t.shape, strict=True)
        ]
        sizes: Sizes = {}
        for plain in (True, False):  # axes that are a lone Dim first, then formulas of what is not known yet
            for e, m in axes:
                if not isinstance(e, int) and (e[0] == "dim") == plain:
                    sizes.update(solved(e, m, sizes))
        return {name: sizes[name] for name in self.ranges}

    def fixed_sizes(self) -> set[int]:
        return {int(n) for shape in self.shapes for n in shape if not isinstance(n, Dim)}

    def bound(self, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
        """The shapes, with Dims that have the values of `sizes`."""
        return [tuple(n.bind(sizes) if isinstance(n, Dim) else n for n in shape) for shape in self.shapes]

    def elements(self, sizes: Mapping[str, int]) -> int:
        return sum(prod(dims.resolve(shape, sizes)) for shape in self.shapes)

    def arrays(self, sizes: Mapping[str, int], rng: np.random.Generator | None = None) -> list[Any]:
        """Arrays of these sizes made of the examples' values, in order or drawn at random."""
        return [
            move(resized(move(t.array, CPU), dims.resolve(shape, sizes), rng), device_of(t.array))
            for t, shape in zip(self.tensors, self.shapes, strict=True)
        ]


def arguments_of(function: Callable[..., Any], examples: Any) -> tuple[dict[str, Any], int, bool]:
    """The example inputs by parameter name, how many go by position, and whether the last of these is
    `*args`.

    `examples`: a tuple of positional arguments, a dict of keyword arguments, or one tensor. TypeError where
    they do not fit the function.
    """
    args, kwargs = ((), examples) if isinstance(examples, dict) else (_positional(examples), {})
    target = getattr(function, "forward", function)
    try:
        signature = inspect.signature(target)
    except ValueError:  # a builtin without a signature
        return {f"arg{k}": a for k, a in enumerate(args)} | kwargs, len(args), False
    bound = signature.bind(*args, **kwargs).arguments
    kinds = [p.kind for name, p in signature.parameters.items() if name in bound]
    if inspect.Parameter.VAR_KEYWORD in kinds:  # the last one always
        bound |= bound.popitem()[1]
    if variadic := inspect.Parameter.VAR_POSITIONAL in kinds:
        return bound, kinds.index(inspect.Parameter.VAR_POSITIONAL) + 1, variadic
    return bound, kinds.count(inspect.Parameter.POSITIONAL_ONLY), variadic


def _positional(examples: Any) -> tuple[Any, ...]:
    return tuple(examples) if isinstance(examples, (tuple, list)) else (examples,)


def inputs_of(function: Callable[..., Any], examples: Any, dynamic: Dynamic) -> tuple[Inputs, set[Any]]:
    """The inputs, and the keys of `dynamic` that name one of them."""
    arguments, positional, variadic = arguments_of(function, examples)
    leaves: list[tuple[str, Any]] = []
    items = [[name, flatten(value, name, leaves, is_array)] for name, value in arguments.items()]
    tensors = [value if isinstance(value, Tensor) else Tensor(value) for _, value in leaves]
    names = [name for name, _ in leaves]
    keys = {key: key if isinstance(key, str) else _by_position(key, arguments) for key in dynamic}
    used = {key for key, name in keys.items() if name in names}
    axes = {keys[key]: dynamic[key] for key in used}
    shapes = [_shape(name, t, axes.get(name, {})) for name, t in zip(names, tensors, strict=True)]
    inputs = Inputs(tuple(names), tuple(tensors), tuple(shapes), {"dict": items}, positional, variadic)
    return inputs, used


def _by_position(key: int, arguments: Mapping[str, Any]) -> str:
    names = list(arguments)
    return names[key] if -len(names) <= key < len(names) else ""


def is_array(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray))


def _shape(name: str, tensor: Tensor, axes: Mapping[int, Dim | str]) -> tuple[int, ...]:
    shape: list[int] = list(map(int, tensor.shape))
    for axis, size in axes.items():
        if not -len(shape) <= axis < len(shape):
            raise ValueError(f"dynamic: {name} has {len(shape)} axes, there is no axis {axis}")
        d = Dim(size) if isinstance(size, str) else size
        if not isinstance(d, Dim):
            raise TypeError(
                f'dynamic: axis {axis} of {name} wants a Dim or its name, such as "batch", got {size!r}'
            )
        shape[axis] = d
    return tuple(shape)


def check_examples(inputs: Inputs, sizes: Mapping[str, int]) -> None:
    """ValueError where an example is outside a declared range or does not fit a declared formula."""
    for name, (low, high) in inputs.ranges.items():
        if not (low <= sizes[name] and (high is None or sizes[name] <= high)):
            raise ValueError(
                f"dynamic: {name} is {sizes[name]} in the example, outside its range {low}..{high or ''}"
            )
    for name, shape, tensor in zip(inputs.names, inputs.shapes, inputs.tensors, strict=True):
        for axis, (n, m) in enumerate(zip(shape, tensor.shape, strict=True)):
            if (wanted := dims.evaluate(n, sizes)) != int(m):
                raise ValueError(
                    f"dynamic: axis {axis} of {name} is {n}, here {wanted}, but the example has {m}"
                )


def call_arguments(
    structure: Structure, place: int | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by parameter name; `place` is the position of `*args` among them, if there is
    one.

    TypeError for an argument that is missing, unknown or given twice.
    """
    names = [name for name, _ in structure["dict"]]
    if place is not None:
        args = [*args[:place], tuple(args[place:])]
    if len(args) > len(names):
        raise TypeError(f"{len(names)} arguments are wanted ({', '.join(names)}), {len(args)} came")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in given or name not in names:
            how = "given twice" if name in given else "unknown"
            raise TypeError(f"the argument {name} is {how}; wanted are {', '.join(names)}")
        given[name] = value
    if missing := [name for name in names if name not in given]:
        raise TypeError(f"the argument {missing[0]} is missing; wanted are {', '.join(names)}")
    return {name: given[name] for name in names}
