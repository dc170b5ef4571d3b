"""Modes of the tape: whether ops are taped, and what nodes remember. One context variable holds them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, NamedTuple


class Mode(NamedTuple):
    """taping: ops leave nodes. inference: results may never enter a tape. anomaly: nodes remember their line."""

    taping: bool = True
    inference: bool = False
    anomaly: bool = False


_ordinary = Mode()
mode: ContextVar[Mode] = ContextVar("mode", default=_ordinary)


def is_grad_enabled() -> bool:
    """Whether ops are put on the tape now."""
    return mode.get().taping


def is_inference_mode_enabled() -> bool:
    return mode.get().inference


class ModeContext:
    """Changes fields of the mode for a block (`with`) or a function (as a decorator)."""

    def __init__(self, **fields: bool) -> None:
        self.fields = fields
        self.tokens: list[Any] = []

    def __enter__(self) -> None:
        self.tokens.append(mode.set(mode.get()._replace(**self.fields)))

    def __exit__(self, *exc: object) -> None:
        mode.reset(self.tokens.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with ModeContext(**self.fields):
                return function(*args, **kwargs)

        return inner


class no_grad(ModeContext):
    """Within it, ops leave nothing on the tape."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        if function is None:
            return self
        self.__init__()  # type: ignore[misc]  # used as a bare decorator: @no_grad
        return self(function)

    def __init__(self) -> None:
        super().__init__(taping=False)


class enable_grad(ModeContext):
    """Within it, ops are taped again, also inside `no_grad`."""

    def __init__(self) -> None:
        super().__init__(taping=True)


class set_grad_enabled(ModeContext):
    """Turns taping on or off: at once when called as a function, and back at the end of a `with` block."""

    def __init__(self, enabled: bool) -> None:
        super().__init__(taping=bool(enabled))
        self.tokens.append(mode.set(mode.get()._replace(taping=bool(enabled))))

    def __enter__(self) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.__exit__()
        return super().__call__(function)


class inference_mode(ModeContext):
    """As `no_grad`, and cheaper to say than to mean: results are plain values that no tape starts from."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(taping=not enabled, inference=enabled)


class detect_anomaly(ModeContext):
    """Within it, nodes remember the user's line, and a gradient that turns nan raises, naming that line."""

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(anomaly=check_nan)
