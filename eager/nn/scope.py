"""The path of the module that is running, such as ("layer1", "0", "conv"), for tracers and messages.

A path is relative to the outermost module of the call. The caller names what it calls: it looks up its
descendants' names once and again after any registration, so a call costs two dictionary look-ups.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .registry import Registry

Path = tuple[str, ...]

current_scope: ContextVar[Path] = ContextVar("module path", default=())
"""Path of the innermost module whose forward is running; () outside of modules and in the outermost one."""

_caller: ContextVar[Registry | None] = ContextVar("calling module", default=None)


class Structure:
    """Counts registrations of children anywhere: names looked up at an older count may be stale."""

    version = 0


def enter(module: Registry) -> tuple[Token[Any], Token[Path]]:
    """Make `module` the running one; hand what it returns to `leave`."""
    caller = _caller.get()
    path = () if caller is None else current_scope.get() + name_below(caller, module)
    return _caller.set(module), current_scope.set(path)


def leave(tokens: tuple[Token[Any], Token[Path]]) -> None:
    _caller.reset(tokens[0])
    current_scope.reset(tokens[1])


def name_below(caller: Registry, module: Registry) -> Path:
    """The path from `caller` to `module`; the class name for a module that is not registered below it."""
    version, names = caller.__dict__.get("_names_below", (-1, {}))
    if version != Structure.version:
        names = {m: tuple(name.split(".")) for name, m in caller.named_modules() if name}
        caller.__dict__["_names_below"] = (Structure.version, names)
    # A module that calls itself (recursion) stays where it is.
    return names.get(module) or (() if module is caller else (type(module).__name__,))
