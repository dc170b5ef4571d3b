"""A loaded model: what `load` returns."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from ..serialized_models.container import Container
from ..serialized_models.format import STATE, Manifest
from .arrays import Array
from .calling import Entrypoint
from .checking import counted, describe
from .library import function
from .state import Memory


class Model:
    """A compiled model. `model(x)` calls its first entry point; all are attributes as well:
    `model.encode(x)`.

    Arguments are numpy arrays or anything with `__dlpack__` or `__array__`, of the dtype and shape in
    `signature`; strided ones are copied once. The result is a numpy array, or a tuple of arrays for several
    outputs. `out=` gives arrays to write to, `threads=` bounds the threads of one call. Raises TypeError or
    ValueError, saying what was wanted and what came. Calls from several threads run side by side, except
    those of entries with state.
    """

    manifest: Mapping[str, Any]
    """The manifest as it stands in the file."""

    methods: Mapping[str, Callable[..., Any]]
    """Every entry point by name, for names that are also attributes of this class."""

    def __init__(
        self,
        library: ctypes.CDLL,
        manifest: Manifest,
        memory: Memory,
        points: Mapping[str, Entrypoint],
        methods: Mapping[str, Callable[..., Any]],
    ) -> None:
        self.name, self.manifest, self.methods = manifest.name, manifest.text, methods
        self.threads = next(iter(points.values())).threads
        self._library, self._memory, self._points = library, memory, points
        self._levels, self._dims = manifest.levels, manifest.dims

    @property
    def signature(self) -> str:
        """The entry points with dtypes, shapes and ranges, one a line."""
        return "\n".join(describe(p.front, self._dims) for p in self._points.values())

    def __call__(self, *args: Any, **named: Any) -> Any:
        return next(iter(self.methods.values()))(*args, **named)

    def __repr__(self) -> str:
        entries = self.signature.replace("\n", "; ")
        return f"<Model {self.name}, level {self.level}, {counted(self.threads, 'thread')}: {entries}>"

    @property
    def level(self) -> str:
        """The CPU level of the code in use, such as "x86-64-v3"."""
        return level_name(function(self._library, f"{self.name}_level", ctypes.c_int32)(), self._levels)

    def use_level(self, level: str | None) -> str:
        """Use code of a lower CPU level, or of the best again (None); every model of the same file follows.

        Returns the level in use. Raises ValueError if the file or this CPU does not have it.
        """
        number = 0 if level is None else level_number(level, self._levels)
        found: int = function(self._library, f"{self.name}_select", ctypes.c_int32, ctypes.c_int32)(number)
        if found == 0:
            raise ValueError(
                f"{self.name} cannot use {level}: the file has {', '.join(self._levels)}; choose one"
            )
        return level_name(found, self._levels)

    def pure(self, name: str) -> Callable[..., Any]:
        """The entry `name` as a function of all its inputs, state included, that gives all its outputs.

        It neither reads nor changes what the model keeps between calls.
        """
        return self._points[name].pure().function()

    def state(self) -> dict[str, Array]:
        """Copies of the values kept between calls, by name; empty for a model without state."""
        return self._memory.read()

    def load_state(self, values: Mapping[str, Any]) -> None:
        """Replace some or all of the values kept between calls."""
        self._memory.write(values)

    def reset(self) -> None:
        """Set the values kept between calls to those in the file."""
        self._memory.reset()


def level_name(number: int, levels: tuple[str, ...]) -> str:
    """The name of a level in the numbers of the ABI: 2 to 4 for x86-64-v2 to v4, 1 for the file's only
    level.
    """
    named = f"x86-64-v{number}"
    return named if number > 1 or named in levels else levels[-1]


def level_number(level: str, levels: tuple[str, ...]) -> int:
    """The ABI's number of a level. Raises ValueError for a level that the file does not have."""
    if level not in levels:
        raise ValueError(
            f"the level {level} is not in this file: it has {', '.join(levels)}; choose one of these"
        )
    return int(level[-1]) if level.startswith("x86-64-v") else 1


def make_model(library: ctypes.CDLL, manifest: Manifest, container: Container, threads: int) -> Model:
    """A model of its own class, whose call goes straight to the entry's function."""
    memory = Memory(manifest.state, container.read(STATE))
    points = {e.name: Entrypoint(library, manifest, e, threads, memory) for e in manifest.entries}
    methods = {name: point.function() for name, point in points.items()}
    members = {name: staticmethod(m) for name, m in methods.items() if not hasattr(Model, name)}
    members["__call__"] = staticmethod(next(iter(methods.values())))
    return type("Model", (Model,), members)(library, manifest, memory, points, methods)
