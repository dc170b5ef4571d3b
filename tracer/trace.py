"""`trace`: record a program, record it again at other sizes, and compare the graph with eager runs."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..eager.nn import scope
from ..eager.nn.hooks import computed_attributes
from ..eager.nn.module import Module
from ..eager.ops import executor
from ..eager.ops.types import aval_of
from ..eager.tensor import Tensor
from .auto import dynamic_axes
from .check import check as check_graph
from .compare import Difference, at, blame, difference
from .dims import Dim, SizeLog, dims_in, log_sizes
from .examples import Sizes, other_sizes, recording_sizes
from .graph import Graph, Node
from .inputs import Dynamic, Inputs, check_examples, inputs_of
from .program import Method, Program, TracedModule
from .record import Recorder, Traced, TracerError, TracerWarning, Write, with_state
from .replay import replay
from .source import error_line
from .state import (
    GENERATOR,
    State,
    added,
    kept,
    modules_in,
    named_state,
    put_back,
    reachable,
    rebound,
    restored,
)
from .tree import Structure, flatten, is_tensor, unflatten

#: How many sizes at which a branch of the user's goes the other way are recorded as well.
WITNESSES = 4


@dataclass(frozen=True)
class Entry:
    """One entry point to be: what is called, on which inputs, in which mode (None: as the modules are)."""

    name: str
    function: Callable[..., Any]
    inputs: Inputs
    modules: tuple[Module, ...]
    training: bool | None

    def call(self, tensors: Sequence[Tensor]) -> Any:
        """Run the function on tensors in place of the examples."""
        arguments = unflatten(self.inputs.structure, tensors)
        args = [arguments.pop(name) for name in list(arguments)[: self.inputs.positional]]
        rest = args.pop() if self.inputs.variadic else ()
        with self.mode(), self.inside():
            return self.function(*args, *rest, **arguments)

    @contextmanager
    def mode(self) -> Iterator[None]:
        """The modules in this entry's mode; afterwards as they were, module by module."""
        if self.training is None:
            yield
            return
        before = [(m, m.training) for root in self.modules for m in root.modules()]
        try:
            for m, _ in before:
                m.training = self.training
            yield
        finally:
            for m, training in before:
                m.training = training

    @contextmanager
    def inside(self) -> Iterator[None]:
        """For a method of a module: paths of submodules begin at that module, as in a call of it."""
        owner = getattr(self.function, "__self__", None)
        tokens = scope.enter(owner) if isinstance(owner, Module) else None
        try:
            yield
        finally:
            if tokens is not None:
                scope.leave(tokens)


@dataclass(frozen=True)
class Recording:
    """One run, recorded. The last outputs of `graph` are the next values of the state in `written`."""

    graph: Graph
    outputs: Structure
    written: tuple[str, ...]
    log: SizeLog
    sizes: Sizes


def trace(
    fn_or_module: Callable[..., Any],
    example_inputs: Any = (),
    *,
    dynamic: Dynamic | Literal["auto"] | None = None,
    methods: Mapping[str, Any] | None = None,
    modes: Sequence[str] | None = None,
    check: bool = True,
    allow_freeze: bool = False,
    state: Sequence[Any] | None = None,
) -> TracedModule:
    """Record a function or module into a program of typed graphs, which runs, prints, saves and compiles.

    * `example_inputs`: a tuple of arguments (tensors, arrays, plain values, nested containers), or a dict of
      keyword arguments. Plain values become part of the program.
    * `dynamic`: input name or position -> {axis: `Dim` or name}. Those sizes stay free in the program; all
      other sizes are those of the example. The size that the example has, 0 and 1 included, makes no
      difference. "auto" finds the axes that may vary, and how far down, by recording at other sizes; the
      program's text shows them. It takes several recordings an axis.
    * `methods`: name -> example inputs, for several entry points of a module.
    * `modes`: "eval", "train" or both. A module that works differently in train mode must
      be in eval mode unless this says otherwise. The first
      mode's entry point has the method's name, the other's has its mode appended: `forward_train`.
    * `check`: compare the graphs with eager runs on other values, at the smallest and at middle sizes.
    * `allow_freeze`: values that Python reads (`.item()`, `bool()`) are frozen, with a warning for each line.
    * `state`: modules, optimizers and tensors that the function changes, for a training step.

    TracerError names the user's line where the program depends on data or on a size, and what can be done.
    """
    owners = [*reachable(fn_or_module), *(state or ())]
    _check_mode(owners, modes, state)
    if dynamic == "auto":
        dynamic = _found_dynamic(fn_or_module, example_inputs, methods, modes, allow_freeze, state)
    entries = list(_entries(fn_or_module, example_inputs, dynamic or {}, methods, modes, owners))
    held = _settled(owners, entries, allow_freeze)
    recordings = [_recorded(entry, held, allow_freeze) for entry in entries]
    program = _program(entries, recordings, held)
    for entry in entries if check else ():
        replay(program, entry, held, lenient=allow_freeze)
    for method in program.methods.values():
        _warn_of_odd_ends(method)
    return TracedModule(program)


def _found_dynamic(
    function: Callable[..., Any],
    examples: Any,
    methods: Mapping[str, Any] | None,
    modes: Sequence[str] | None,
    allow_freeze: bool,
    state: Sequence[Any] | None,
) -> Dynamic:
    """The axes that may vary (`auto.py`). A program that cannot be recorded at all says so when it is traced."""
    if methods:
        raise ValueError('dynamic="auto" is for one entry point: with methods=, name the axes of each input')

    def works(dynamic: Dynamic) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TracerWarning)
            try:
                trace(
                    function, examples, dynamic=dynamic, modes=modes, allow_freeze=allow_freeze, state=state
                )
            except Exception:
                return False
        return True

    return dynamic_axes(inputs_of(function, examples, {})[0], works)


def _check_mode(owners: Sequence[Any], modes: Sequence[str] | None, state: Sequence[Any] | None) -> None:
    for mode in modes or ():
        if mode not in ("eval", "train"):
            raise ValueError(f'modes: "eval" and "train" are the modes of a module, got {mode!r}')
    if modes is None and state is None:
        for root in modules_in(owners):
            for name, m in root.named_modules():
                if m.training and reads_mode(type(m)):
                    where = f"{type(root).__name__}{f'.{name}' if name else ''}"
                    kind = f", a {type(m).__name__}," if name else ""
                    raise TracerError(
                        f"{where}{kind} is in train mode and works differently there, which is what would be "
                        'recorded: call .eval() first, or pass modes=("train",)'
                    )


def reads_mode(kind: type) -> bool:
    """Whether a module class asks for its mode: some function of it has the attribute `training`."""
    classes = kind.__mro__[: kind.__mro__.index(Module)]
    functions = (f for c in classes for f in vars(c).values())
    return any("training" in names for f in functions for names in _names_in(getattr(f, "__code__", None)))


def _names_in(code: Any) -> Iterator[tuple[str, ...]]:
    """The names and attributes used by a code object, and by the functions inside it."""
    if code is not None:
        yield (*code.co_names, *(c for c in code.co_consts if c == "training"))
        for inner in code.co_consts:
            yield from _names_in(inner if hasattr(inner, "co_names") else None)


def _entries(
    function: Callable[..., Any],
    examples: Any,
    dynamic: Dynamic,
    methods: Mapping[str, Any] | None,
    modes: Sequence[str] | None,
    owners: Sequence[Any],
) -> Iterator[Entry]:
    calls = {name: (getattr(function, name), args) for name, args in methods.items()} if methods else {}
    calls = calls or {"forward": (function, examples)}
    roots, used = tuple(modules_in(owners)), set()
    for name, (target, args) in calls.items():
        inputs, found = inputs_of(target, args, dynamic)
        used |= found
        check_examples(inputs, inputs.example_sizes())
        for k, mode in enumerate(modes or (None,)):
            training = None if mode is None else mode == "train"
            yield Entry(name if k == 0 else f"{name}_{mode}", target, inputs, roots, training)
    if unknown := [key for key in dynamic if key not in used]:
        raise ValueError(
            f"dynamic: there is no input {unknown[0]!r}; the tensors are {', '.join(inputs.names)}"
        )


# ---- recording -----------------------------------------------------------------------------------------


def _settled(owners: Sequence[Any], entries: Sequence[Entry], allow_freeze: bool) -> State:
    """The state, once a run whose effects are undone has made the optimizers create theirs."""
    taken = {name for entry in entries for name in entry.inputs.names}
    held = named_state(owners, taken)
    if held.optimizers:
        for entry in entries:
            sizes = entry.inputs.example_sizes()
            recorder = Recorder({}, allow_freeze)
            before = kept(held)
            with restored(held), warnings.catch_warnings():
                warnings.simplefilter("ignore", TracerWarning)
                _run(recorder, entry, sizes, entry.inputs.arrays(sizes))
                start = added(held, before, recorder.first_value)
                recorder.undo()
            put_back(held, start)
        held = named_state(owners, taken)
    return held


def _recorded(entry: Entry, state: State, allow_freeze: bool) -> Recording:
    """The recording of an entry, confirmed at other sizes and on other values."""
    inputs, rng = entry.inputs, np.random.default_rng(0)
    example, fixed = inputs.example_sizes(), inputs.fixed_sizes()
    sizes = recording_sizes(inputs.ranges, example, fixed)
    first = _record(entry, sizes, inputs.arrays(sizes), state, allow_freeze)
    others = [other_sizes(inputs.ranges, sizes, fixed), *_witnesses(first, inputs)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)  # each line has been named by the first recording
        for other in others:
            _compare(first, _record_other(entry, first, other, rng, state, allow_freeze), allow_freeze)
    return first


def _record(entry: Entry, sizes: Sizes, arrays: Sequence[Any], state: State, allow_freeze: bool) -> Recording:
    before = state.arrays
    recorder = Recorder({id(array): name for name, array in before.items()}, allow_freeze)
    with restored(state) as attributes, log_sizes() as log:
        before[GENERATOR] = recorder.traced(before[GENERATOR])
        state.generator.state = Tensor(before[GENERATOR])
        inputs, out = _run(recorder, entry, sizes, arrays)
        leaves: list[tuple[str, Any]] = []
        structure = flatten(out, "output", leaves, _is_output)
        _check_attributes(state, attributes)
        bound = rebound(state, attributes)
        after = {name: bound.get(id(t), t).array for name, t in state.tensors.items()}
        after[GENERATOR] = state.generator.state.array
        written = {name: array for name, array in after.items() if array is not before[name]}
        outputs = [recorder.node_of(_output_value(name, leaf)) for name, leaf in leaves]
        outputs += [recorder.node_of(value) for value in written.values()]
        del out, leaves, bound
        _check_writes(recorder.undo(), state)
    return Recording(recorder.graph(inputs, outputs, entry.name), structure, tuple(written), log, sizes)


def _run(recorder: Recorder, entry: Entry, sizes: Sizes, arrays: Sequence[Any]) -> tuple[list[Node], Any]:
    """Call the function under the recorder: the input nodes, and what it returns."""
    shapes = entry.inputs.bound(sizes)
    traced = [recorder.input(*each) for each in zip(arrays, shapes, entry.inputs.names, strict=True)]
    with executor.use(recorder):
        out = entry.call([_like(t, x) for t, x in zip(traced, entry.inputs.tensors, strict=True)])
    return [t.node for t in traced], out


def _check_attributes(state: State, before: Sequence[Mapping[str, Any]]) -> None:
    """What a module keeps in a plain attribute is lost: an error where it was a tensor before, else a warning.

    Not of attributes that the module computes anew before each use, as `weight_norm` does.
    """
    for module, attributes in zip(state.modules, before, strict=True):
        for name, value in vars(module).items():
            if not (is_tensor(value) and isinstance(value.array, Traced)) or name in computed_attributes(
                module
            ):
                continue
            message = (
                f"{type(module).__name__}.{name} is set to a value of the recording, which a program does "
                "not keep: make it a buffer (register_buffer), or return the value"
            )
            if is_tensor(attributes.get(name)):
                raise TracerError(message)
            warnings.warn(message, TracerWarning, stacklevel=2)


def _check_writes(writes: Sequence[Write], state: State) -> None:
    """TracerError for a tensor that outlives the run, was written in it, and is no declared state."""
    known = {id(t) for t in state.tensors.values()}
    suspects = [w for w in writes if not {id(t) for t in _with_bases(w.tensor())} & known]
    if suspects:
        gc.collect()  # tensors of the run that only a cycle keeps alive
    for write in suspects:
        tensor = write.tensor()
        if tensor is not None:
            raise TracerError(
                f"{at(write.line)}a tensor {aval_of(tensor.array)} from outside the program is changed in "
                "place, which a program cannot do: pass it in `state`, register it as a buffer of the "
                "module, or return the new value"
            )


def _with_bases(tensor: Tensor | None) -> Iterator[Tensor]:
    """A tensor and those it is a view of."""
    while tensor is not None:
        yield tensor
        tensor = None if tensor.link is None else tensor.link.base


def _like(value: Any, example: Tensor) -> Tensor:
    """A tensor holding a traced value, which asks for a gradient if the example does."""
    tensor = Tensor(value)
    tensor.requires_grad = example.requires_grad
    return tensor


def _is_output(value: Any) -> bool:
    return is_tensor(value) or isinstance(value, Dim)


def _output_value(name: str, leaf: Any) -> Any:
    if isinstance(leaf, Dim):
        raise TracerError(
            f"{name} is the size {leaf}; a program returns tensors: return tc.full((), size) instead"
        )
    return leaf.array


def _record_other(
    entry: Entry, first: Recording, sizes: Sizes, rng: np.random.Generator, state: State, allow_freeze: bool
) -> Recording:
    """A recording at other sizes: on values drawn at random or, if it fails on them, on repeated ones."""
    arrays = entry.inputs.arrays(sizes, None if allow_freeze else rng)
    try:
        return _record(entry, sizes, arrays, state, allow_freeze)
    except TracerError:
        raise
    except Exception:
        try:
            return _record(entry, sizes, entry.inputs.arrays(sizes), state, allow_freeze)
        except Exception as error:
            raise TracerError(_fails_text(error, first.sizes, sizes)) from error


def _fails_text(error: Exception, works: Sizes, sizes: Sizes) -> str:
    if works == sizes:
        return f"{at(error_line(error))}the program fails when it is run a second time: {error}"
    return (
        f"{at(error_line(error))}the program works for {_sizes_text(works)} and fails for "
        f"{_sizes_text(sizes)}: {error}. Both are in the declared ranges: narrow them with Dim(min=, "
        "max=), or write the line so that it holds for every size"
    )


def _sizes_text(sizes: Sizes) -> str:
    return ", ".join(f"{name}={n}" for name, n in sizes.items()) or "the example"


def _witnesses(first: Recording, inputs: Inputs) -> list[Sizes]:
    """Sizes in range at which a comparison in the user's code comes out the other way than recorded."""
    ranges = inputs.ranges
    out: list[Sizes] = []
    for guard in first.log.guards:
        if guard.user and len(out) < WITNESSES and all(guard.holds(s) == guard.outcome for s in out):
            flipped = next(
                (s for s in _one_changed(first.sizes, ranges) if guard.holds(s) != guard.outcome), None
            )
            out += [flipped] if flipped else []
    return out


def _one_changed(sizes: Sizes, ranges: Mapping[str, Any]) -> Iterator[Sizes]:
    """The given sizes with one set to other values in its range: small ones first, then the largest."""
    for name, (low, high) in ranges.items():
        top = low + 4096 if high is None else min(high, low + 4096)
        for n in [*range(low, top + 1), *([] if high is None else [high])]:
            yield {**sizes, name: n}


def _compare(first: Recording, second: Recording, allow_freeze: bool) -> None:
    found = difference(first.graph, second.graph)
    if found is None and (first.outputs, first.written) == (second.outputs, second.written):
        return
    if found is None:
        raise TracerError(
            "the program returns or changes other things in a second run; return the same ones always"
        )
    if found.frozen and allow_freeze:
        return
    raise TracerError(_differs_text(first, second, found, blame(first.log, second.log, found)))


def _differs_text(first: Recording, second: Recording, found: Difference, cause: str) -> str:
    if first.sizes == second.sizes or (found.frozen and not cause):
        return (
            f"{at(found.line)}the program is not the same in a second run on other values: {found.what}. "
            "Something outside the program goes into it, such as random numbers of numpy or a counter; "
            "pass it as an input"
        )
    return (
        f"{at(found.line)}the program for {_sizes_text(first.sizes)} is not the one for "
        f"{_sizes_text(second.sizes)}: {found.what}{f'; {cause}' if cause else ''}. Compute with x.shape "
        "and tensors instead of plain numbers, divide tensors by the size rather than the size by numbers, "
        "narrow the range with Dim(min=, max=), or leave the axis out of `dynamic`"
    )


# ---- the program ---------------------------------------------------------------------------------------


def _program(entries: Sequence[Entry], recordings: Sequence[Recording], state: State) -> Program:
    """What one entry point writes is an input of every other that reads it."""
    written = sorted({name for r in recordings for name in r.written}, key=list(state.arrays).index)
    methods = {}
    for entry, r in zip(entries, recordings, strict=True):
        reads = {n.name for n in r.graph.nodes if n.is_const}
        names = [name for name in written if name in reads or name in r.written]
        graph = check_graph(with_state(r.graph, names, state.arrays, r.written))
        place = entry.inputs.positional - 1 if entry.inputs.variadic else None
        methods[entry.name] = Method(graph, entry.inputs.structure, r.outputs, place, entry.training)
    constants = {n.name for m in methods.values() for n in m.graph.nodes if n.is_const and n.name}
    tensors = {name: t for name, t in state.tensors.items() if name in constants or name in written}
    if GENERATOR in written:
        tensors[GENERATOR] = state.generator.get_state()
    return Program(methods, tensors, tuple(written))


def _warn_of_odd_ends(method: Method) -> None:
    """Warn of outputs that depend on no input, and inputs that no output depends on."""
    graph = method.graph
    fed: dict[Node, bool] = {}
    for n in graph.nodes:
        fed[n] = n.is_input or any(fed[i] for i in n.inputs) or any(dims_in(tuple(n.attrs.values())))
    for k, out in enumerate(graph.outputs):
        if not fed[out]:
            _warn(f"{graph.name}: output {k} depends on no input: it is the same at every call{_where(out)}")
    users = graph.consumers()
    paired = {i for i, _ in graph.state}
    for k, n in enumerate(graph.inputs):
        if not users[n] and n not in graph.outputs and k not in paired:
            _warn(f"{graph.name}: the input {n.name} is not used")


def _where(n: Node) -> str:
    return f" (made at {n.line})" if n.line else ""


def _warn(message: str) -> None:
    warnings.warn(message, TracerWarning, stacklevel=4)
