"""The fast path of a call, as source text made for one signature.

A call that has exactly the arrays an entry takes should cost about a microsecond besides the model's own
work. So no loop over arguments is left in it: the text is made and compiled when the model loads, as
`dataclasses` makes its methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..serialized_models.format import Entry, Tensor
from ..serialized_models.sizes import Reading, names_in, readings, rename
from .arrays import DATA_OFFSET, DENSE, LAYOUT_IS_KNOWN, WRITABLE

Dims = Mapping[str, tuple[int, int | None]]
Slots = Sequence[int | None]


def fast_source(
    entry: Entry, dims: Dims, inputs: Slots = (), outputs: Slots = (), changed: Sequence[int] = ()
) -> str:
    """The text of `call(*args, out, threads, **named)` for an entry as its callers see it.

    `a0…` are arguments, `y0…` results, `h0…` shapes, `s0…` sizes, `t0…` dtypes. `inputs` and `outputs` say
    for each word of the native call which slot of the state it is, None for one of the caller's; `changed`
    are the slots that the call replaces. What is not just right goes to `checked`."""
    sizes = {name: f"s{k}" for k, name in enumerate(entry.sizes)}
    count = len(entry.inputs)
    inputs, outputs = inputs or [None] * count, outputs or [None] * len(entry.outputs)
    words = [*_words("a", "here", inputs), *_words("y", "there", outputs), *sizes.values()]
    lines = [
        "def call(*args, out=None, threads=None, **named):",
        *_checks(entry, dims, sizes),
        "    try:",
        "        scratch = free.pop()",
        "    except IndexError:",
        "        scratch = new_scratch()",
        *(_reserve(entry, sizes) if names_in(entry.workspace) else []),
        *_results_made(entry, sizes, count),
        *_native(words, any(slot is not None for slot in (*inputs, *outputs)), changed),
        "    free.append(scratch)",
        "    if code:",
        "        raise failed(code)",
        f"    return {_results(len(entry.outputs))}",
    ]
    return "\n".join(lines) + "\n"


def _words(letter: str, side: str, slots: Slots) -> list[str]:
    """The address of each array: of the caller's by its number among those, of state by its slot."""
    numbers = iter(range(len(slots)))
    return [_address(f"{letter}{next(numbers)}") if slot is None else f"{side}[{slot}]" for slot in slots]


def _address(name: str) -> str:
    return f"memory[id({name}) + {DATA_OFFSET} >> 3]" if LAYOUT_IS_KNOWN else f"address({name})"


def _results_made(entry: Entry, sizes: dict[str, str], count: int) -> list[str]:
    """The arrays of the results: new ones, or for a single result the caller's."""
    lines = [f"y{k} = empty({_shape(t, sizes)}, t{k + count})" for k, t in enumerate(entry.outputs)]
    if len(lines) == 1:
        lines = ["if out is None:", f"    {lines[0]}", "else:", "    y0 = out"]
    return [f"    {line}" for line in lines]


def _results(count: int) -> str:
    names = ", ".join(f"y{k}" for k in range(count))
    return names if count == 1 else f"({names})"


def _checks(entry: Entry, dims: Dims, sizes: dict[str, str]) -> list[str]:
    """Take the arguments apart; whatever goes wrong is for `checked` to explain or to put right."""
    count = range(len(entry.inputs))
    found = readings([t.shape for t in entry.inputs], entry.sizes)
    return [
        "    try:",
        f"        {''.join(f'a{k}, ' for k in count) or '()'} = args",
        *(f"        h{k} = a{k}.shape" for k in count),
        *(f"        {sizes[r.size]} = {_read(r, sizes)}" for r in found),
        f"        right = {' and '.join(_conditions(entry, dims, sizes))}",
        "    except (AttributeError, IndexError, TypeError, ValueError):",
        "        right = False",
        "    if not right:",
        "        return checked(args, named, out, threads)",
    ]


def _read(reading: Reading, sizes: dict[str, str]) -> str:
    """The value of a size, from the shape of an input."""
    length = f"h{reading.input}[{reading.axis}]"
    if reading.text == reading.size:
        return length
    return f"solve({length}, {', '.join(rename(end, sizes) for end in reading.ends())})"


def _conditions(entry: Entry, dims: Dims, sizes: dict[str, str]) -> list[str]:
    """What the fast path takes: arrays of numpy's own class, of the right dtype, layout and shape."""
    arrays = [
        f"a{k}.__class__ is ndarray and a{k}.dtype is t{k} and a{k}.flags.num & {DENSE} == {DENSE}"
        for k in range(len(entry.inputs))
    ]
    shapes = [f"h{k} == {_shape(t, sizes)}" for k, t in enumerate(entry.inputs)]
    ranges = [
        f"{low} <= {sizes[name]}" + ("" if high is None else f" <= {high}")
        for name, (low, high) in ((name, dims[name]) for name in entry.sizes)
    ]
    return [*arrays, *shapes, *ranges, "threads is None and not named", _good_out(entry, sizes)]


def _good_out(entry: Entry, sizes: dict[str, str]) -> str:
    """No `out`, or an array that the one result fits into as it is and that no input lies in."""
    if len(entry.outputs) != 1:
        return "out is None"
    count = len(entry.inputs)
    apart = "".join(f" and not may_share_memory(out, a{k})" for k in range(count))
    right = f"out.__class__ is ndarray and out.dtype is t{count} and out.flags.num & {WRITABLE} == {WRITABLE}"
    return f"(out is None or {right} and out.shape == {_shape(entry.outputs[0], sizes)}{apart})"


def _shape(tensor: Tensor, sizes: dict[str, str]) -> str:
    return f"({''.join(f'{rename(str(axis), sizes)}, ' for axis in tensor.shape)})"


def _reserve(entry: Entry, sizes: dict[str, str]) -> list[str]:
    return [
        f"    need = {rename(entry.workspace, sizes)}",
        "    if need > scratch.bytes:",
        "        scratch.reserve(need)",
    ]


def _native(words: Sequence[str], has_state: bool, changed: Sequence[int]) -> list[str]:
    """The call itself; with state under its lock, and what the call wrote becomes the present state."""
    lines = [f"pack(scratch.block, 0, {', '.join(words)})"] if words else []
    lines.append("code = native(scratch.address)")
    if changed:
        lines += [
            "if not code:",
            f"    for k in {tuple(changed)}:",
            "        here[k], there[k] = there[k], here[k]",
        ]
    return (
        ["    with lock:", *(f"        {line}" for line in lines)]
        if has_state
        else [f"    {line}" for line in lines]
    )
