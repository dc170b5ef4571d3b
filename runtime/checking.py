"""The checks of a call in full: they convert what can be converted and explain what cannot.

The fast path of `calling.py` passes arrays that are right at once and leaves all others to these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..serialized_models.format import Entry, Tensor
from ..serialized_models.sizes import compile_size, names_in, readings, solve
from .arrays import Array, dense, dtype_of, is_dtype, to_array

Dims = Mapping[str, tuple[int, int | None]]
Sizes = tuple[int, ...]


class Reader(NamedTuple):
    """How a size is read from an axis; `ends`, if that is an expression, gives its length at 0 and 1 of the
    size.
    """

    size: str
    input: int
    axis: int
    ends: tuple[Callable[..., int], Callable[..., int]] | None


class Signature(NamedTuple):
    """An entry with its shapes as functions of the sizes. `name` is the model's and the entry's:
    `resnet.forward`.
    """

    name: str
    entry: Entry
    dims: Dims
    input_shapes: tuple[Callable[..., tuple[int, ...]], ...]
    output_shapes: tuple[Callable[..., tuple[int, ...]], ...]
    readers: tuple[Reader, ...]

    def giver(self, size: str) -> str:
        """The name of the input that gives a size."""
        return next(self.entry.inputs[r.input].name for r in self.readers if r.size == size)


def signature_of(model: str, entry: Entry, dims: Dims) -> Signature:
    """Prepare the checks of an entry."""
    shapes = [_shape_function(t, entry.sizes) for t in (*entry.inputs, *entry.outputs)]
    count = len(entry.inputs)
    readers = tuple(_readers(entry))
    return Signature(
        f"{model}.{entry.name}", entry, dims, tuple(shapes[:count]), tuple(shapes[count:]), readers
    )


def _readers(entry: Entry) -> Iterator[Reader]:
    known: list[str] = []
    for r in readings([t.shape for t in entry.inputs], entry.sizes):
        low, high = r.ends()
        ends = None if r.text == r.size else (compile_size(low, known), compile_size(high, known))
        yield Reader(r.size, r.input, r.axis, ends)
        known.append(r.size)


def _shape_function(tensor: Tensor, sizes: Sequence[str]) -> Callable[..., tuple[int, ...]]:
    axes = [compile_size(axis, sizes) for axis in tensor.shape]
    return lambda *values: tuple(axis(*values) for axis in axes)


def outside(entry: Entry, state: Collection[str]) -> Entry:
    """The entry as its callers see it: without the inputs that are named in `state` and the outputs replacing
    them.
    """
    hidden = {i for i, t in enumerate(entry.inputs) if t.name in state}
    replaced = {o for i, o in entry.state if i in hidden}
    inputs = tuple(t for i, t in enumerate(entry.inputs) if i not in hidden)
    outputs = tuple(t for o, t in enumerate(entry.outputs) if o not in replaced)
    return entry._replace(inputs=inputs, outputs=outputs, state=())


def describe(entry: Entry, dims: Dims | None = None) -> str:
    """The signature for people: `forward(x: float32[batch, 3]) -> float32[batch, 3]   with batch 1 to 1024`.

    Without `dims` it leaves out the ranges.
    """
    inputs = ", ".join(f"{t.name}: {t}" for t in entry.inputs)
    outputs = [str(t) for t in entry.outputs]
    result = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    ranges = ", ".join(f"{name} {range_text(dims[name])}" for name in entry.sizes) if dims else ""
    return f"{entry.name}({inputs}) -> {result}" + (f"   with {ranges}" if ranges else "")


def range_text(bounds: tuple[int, int | None]) -> str:
    """`1 to 1024`, or `at least 1`."""
    low, high = bounds
    return f"at least {low}" if high is None else f"{low} to {high}"


def bind(name: str, inputs: Sequence[Tensor], args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """The arguments in order. Raises TypeError if one is missing, unknown or given twice."""
    wanted = [t.name for t in inputs]
    takes = f"{name} takes {counted(len(wanted), 'input')} ({', '.join(wanted)})"
    if len(args) > len(wanted):
        raise TypeError(f"{takes}, and {len(args)} came: leave out the last {len(args) - len(wanted)}")
    if unknown := [n for n in named if n not in wanted]:
        raise TypeError(f"{takes}, and one named {unknown[0]} came: use one of these names")
    if twice := [n for n in wanted[: len(args)] if n in named]:
        raise TypeError(f"{takes}, and {twice[0]} came by position and by name: give it once")
    if missing := [n for n in wanted[len(args) :] if n not in named]:
        raise TypeError(f"{takes}, and {len(args) + len(named)} came: give {', '.join(missing)} as well")
    return [*args, *(named[n] for n in wanted[len(args) :])]


def counted(number: int, noun: str, nouns: str = "") -> str:
    """`1 thread`, `2 threads`."""
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"


def arrays_of(signature: Signature, values: Sequence[Any]) -> list[Array]:
    """Each value as an array of the wanted dtype, any strides. Raises TypeError where it is none."""
    return [_array_of(signature.name, t, v) for t, v in zip(signature.entry.inputs, values, strict=True)]


def _array_of(name: str, tensor: Tensor, value: Any) -> Array:
    wanted = f"{name}: input {tensor.name} should be {tensor}"
    try:
        array = to_array(value, tensor.dtype)
    except TypeError as error:
        raise TypeError(f"{wanted}, and {error}") from None
    if not is_dtype(array, tensor.dtype):
        order = "" if array.dtype.isnative else " in foreign byte order"
        raise TypeError(
            f"{wanted}, and {shown(array)}{order} came: convert it with "
            f"{tensor.name}.astype({tensor.dtype!r})"
        )
    return array


def shown(array: Array) -> str:
    """An array in a message: `float32[2, 3]`."""
    return f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"


def measure(signature: Signature, arrays: Sequence[Array]) -> Sizes:
    """The values of the entry's sizes. Raises ValueError if a shape, a relation or a range does not hold."""
    _check_ranks(signature, arrays)
    sizes = _read_sizes(signature, arrays)
    values = tuple(sizes[name] for name in signature.entry.sizes)
    _check_shapes(signature, arrays, values)
    for size in signature.entry.sizes:
        _check_range(signature, size, sizes[size])
    return values


def _check_ranks(signature: Signature, arrays: Sequence[Array]) -> None:
    for tensor, array in zip(signature.entry.inputs, arrays, strict=True):
        if array.ndim != len(tensor.shape):
            raise ValueError(
                f"{signature.name}: input {tensor.name} should be {tensor}, with "
                f"{counted(len(tensor.shape), 'axis', 'axes')}, "
                f"and {shown(array)} came with {array.ndim}: reshape it"
            )


def _read_sizes(signature: Signature, arrays: Sequence[Array]) -> dict[str, int]:
    """Each size's value, from the axis that gives it."""
    sizes: dict[str, int] = {}
    for reader in signature.readers:
        length = arrays[reader.input].shape[reader.axis]
        if reader.ends is not None:
            values = sizes.values()
            length = solve(length, reader.ends[0](*values), reader.ends[1](*values))
        sizes[reader.size] = length
    return sizes


def _check_shapes(signature: Signature, arrays: Sequence[Array], values: Sizes) -> None:
    for tensor, array, shape in zip(signature.entry.inputs, arrays, signature.input_shapes, strict=True):
        wanted = shape(*values)
        if array.shape != wanted:
            raise ValueError(
                f"{signature.name}: input {tensor.name} should be {tensor}, here {list(wanted)}"
                f"{_since(signature, tensor, values)}, and {shown(array)} came: give shapes that fit"
            )


def _since(signature: Signature, tensor: Tensor, values: Sizes) -> str:
    """The sizes of a tensor that other inputs decided: `, as batch is 2 in q`."""
    used = {n for axis in tensor.shape for n in names_in(str(axis))}
    known = [(n, v) for n, v in zip(signature.entry.sizes, values, strict=True) if n in used]
    return "".join(
        f", as {n} is {v} in {signature.giver(n)}" for n, v in known if signature.giver(n) != tensor.name
    )


def _check_range(signature: Signature, size: str, value: int) -> None:
    low, high = signature.dims[size]
    if value < low or (high is not None and value > high):
        advice = "split it" if high is not None and value > high else "pad it"
        raise ValueError(
            f"{signature.name}: the size {size} should be {range_text((low, high))}, and it is {value} in "
            f"input "
            f"{signature.giver(size)}: {advice}, or compile the model for a wider range"
        )


def outputs_for(signature: Signature, sizes: Sizes, out: Any) -> list[Array]:
    """Arrays to write to, new or the caller's. Raises TypeError or ValueError for an `out` that does not
    fit.
    """
    count = len(signature.entry.outputs)
    given: Sequence[Any] = [None] * count
    if out is not None:
        given = out if isinstance(out, (tuple, list)) else (out,)
    if len(given) != count:
        raise ValueError(
            f"{signature.name}: out should be {counted(count, 'array')}, and {len(given)} came: give one "
            f"for each"
        )
    return [_output(signature, place, sizes, array) for place, array in enumerate(given)]


def _output(signature: Signature, place: int, sizes: Sizes, array: Any) -> Array:
    tensor, shape = signature.entry.outputs[place], signature.output_shapes[place](*sizes)
    if array is None:
        return np.empty(shape, dtype_of(tensor.dtype))
    wanted = (
        f"{signature.name}: out {tensor.name} should be a writable row-major numpy array "
        f"{tensor.dtype}{list(shape)}"
    )
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{wanted}, and {type(array).__name__} came: make it with numpy.empty")
    if not (
        is_dtype(array, tensor.dtype)
        and array.shape == shape
        and dense(array) is array
        and array.flags.writeable
    ):
        kind = "" if array.flags.c_contiguous else ", not row-major"
        kind += "" if array.flags.writeable else ", read-only"
        raise ValueError(f"{wanted}, and {shown(array)}{kind} came: make it with numpy.empty")
    return array
