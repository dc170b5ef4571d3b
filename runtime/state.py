"""What a model keeps between calls: running statistics, optimiser moments, parameters of a compiled training
step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..serialized_models.container import Container
from ..serialized_models.format import STATE, Manifest, State
from .arrays import Array, dense, dtype_of
from .calling import Entrypoint
from .checking import arrays_of, bind, measure, outputs_for, shown


class Memory:
    """The state of one loaded model, by name. A call with state holds the lock: such calls run one after
    another.

    Each value has two arrays: a call reads one and writes the other, then they swap, so that a call that
    fails leaves the state as it was."""

    def __init__(self, manifest: Manifest, container: Container) -> None:
        self.lock = threading.Lock()
        self.initial = {s.name: _initial(s, container) for s in manifest.state}
        self.now = {name: array.copy() for name, array in self.initial.items()}
        self.next = {name: np.empty_like(array) for name, array in self.initial.items()}

    def read(self) -> dict[str, Array]:
        """A copy of every value."""
        with self.lock:
            return {name: array.copy() for name, array in self.now.items()}

    def write(self, values: Mapping[str, Any]) -> None:
        """Replace values. Raises KeyError or ValueError, before anything is replaced, if one does not
        belong.
        """
        for name, value in values.items():
            if name not in self.now:
                raise KeyError(f"no state is named {name}: there are {', '.join(self.now) or 'none'}")
            array, wanted = np.asarray(value), self.now[name]
            if array.shape != wanted.shape or array.dtype != wanted.dtype:
                raise ValueError(
                    f"the state {name} should be {shown(wanted)}, and {shown(array)} came: convert it"
                )
        with self.lock:
            for name, value in values.items():
                self.now[name][...] = value

    def reset(self) -> None:
        """Go back to the values in the file."""
        self.write(self.initial)

    def swap(self, names: set[str]) -> None:
        """Make what a call wrote the present value."""
        for name in names:
            self.now[name], self.next[name] = self.next[name], self.now[name]


def _initial(state: State, container: Container) -> Array:
    array = np.empty(state.shape, dtype_of(state.dtype))
    section = container.read(STATE)[state.offset : state.offset + array.nbytes]
    array.reshape(-1).view(np.uint8)[:] = np.frombuffer(section, np.uint8)
    return array


def with_memory(point: Entrypoint, memory: Memory) -> Callable[..., Any]:
    """The entry as a function of its other inputs, giving its other outputs: the state goes in and out by
    itself.
    """
    entry, signature = point.entry, point.signature
    kept = {i: t.name for i, t in enumerate(entry.inputs) if t.name in memory.now}
    replaced = {o: kept[i] for i, o in entry.state if i in kept}
    visible = [t for i, t in enumerate(entry.inputs) if i not in kept]

    def call(*args: Any, out: Any = None, threads: Any = None, **named: Any) -> Any:
        given = iter(bind(signature.name, visible, args, named))
        with memory.lock:
            values = [memory.now[kept[i]] if i in kept else next(given) for i in range(len(entry.inputs))]
            arrays = arrays_of(signature, values)
            sizes = measure(signature, arrays)
            results = outputs_for(signature, sizes, out, frozenset(replaced))
            targets = [memory.next[replaced[k]] if k in replaced else r for k, r in enumerate(results)]
            point.run([dense(a) for a in arrays], targets, sizes, threads)
            memory.swap(set(replaced.values()))
        answers = [r for k, r in enumerate(results) if k not in replaced]
        return answers[0] if len(answers) == 1 else tuple(answers)

    return call
