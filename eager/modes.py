"""Modes of the tape: whether ops are taped, and what nodes remember. One context variable holds them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial, wraps
from inspect import isgeneratorfunction
from typing import Any, NamedTuple


class Mode(NamedTuple):
    """taping: ops leave nodes. inference: results may never enter a tape. anomaly: nodes remember their line.

    check_nan: a gradient that turns nan raises. saving: what packs saved tensors, and what unpacks them.
    """

    taping: bool = True
    inference: bool = False
    anomaly: bool = False
    check_nan: bool = True
    saving: tuple[Callable[[Any], Any], Callable[[Any], Any]] | None = None


_ordinary = Mode()
mode: ContextVar[Mode] = ContextVar("mode", default=_ordinary)


def is_grad_enabled() -> bool:
    """Whether ops are put on the tape now."""
    return mode.get().taping


def is_inference_mode_enabled() -> bool:
    return mode.get().inference


class ModeContext:
    """Changes fields of the mode for a block (`with`) or a function, also a generator's (as a decorator)."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        self.tokens: list[Any] = []

    def __enter__(self) -> Any:
        self.tokens.append(mode.set(mode.get()._replace(**self.fields)))

    def __exit__(self, *exc: object) -> None:
        mode.reset(self.tokens.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(function, type):
            function.__init__ = self(function.__init__)  # type: ignore[misc]
            return function
        if isgeneratorfunction(function):
            return self._around_generator(function)

        @wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with ModeContext(**self.fields):
                return function(*args, **kwargs)

        return inner

    def _around_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The mode holds while the generator runs, and not where its values are used."""

        @wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            resume: Callable[[], Any] = lambda: next(generator)  # noqa: E731
            while True:
                try:
                    with ModeContext(**self.fields):
                        value = resume()
                except StopIteration as stop:
                    return stop.value
                try:
                    sent = yield value
                    resume = partial(generator.send, sent)
                except GeneratorExit:
                    generator.close()
                    raise
                except BaseException as error:
                    resume = partial(generator.throw, error)

        return inner


class BareDecorator(ModeContext):
    """A context whose class is a decorator too: `@no_grad` and `@no_grad()`."""

    def __new__(cls, function: Any = None, *args: Any) -> Any:
        self = super().__new__(cls)
        if not callable(function):
            return self
        self.__init__()  # type: ignore[misc]
        return self(function)


class no_grad(BareDecorator):
    """Within it, ops leave nothing on the tape."""

    def __init__(self) -> None:
        super().__init__(taping=False)


class enable_grad(BareDecorator):
    """Within it, ops are taped again, also inside `no_grad`."""

    def __init__(self) -> None:
        super().__init__(taping=True)


class set_grad_enabled(ModeContext):
    """Turns taping on or off: at once when called as a function, and back at the end of a `with` block."""

    def __init__(self, mode: bool) -> None:
        super().__init__(taping=bool(mode))
        self.tokens.append(_set(taping=bool(mode)))

    def __enter__(self) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.__exit__()
        return super().__call__(function)


class inference_mode(BareDecorator):
    """As `no_grad`, and cheaper to say than to mean: results are plain values that no tape starts from."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__(taping=not mode and is_grad_enabled(), inference=bool(mode))


class detect_anomaly(ModeContext):
    """Within it, nodes remember the user's line, and a gradient that turns nan raises, naming that line."""

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(anomaly=True, check_nan=check_nan)


class set_detect_anomaly(ModeContext):
    """Turns anomaly detection on or off: at once when called as a function, back at the end of a `with` block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(anomaly=bool(mode), check_nan=check_nan)
        self.tokens.append(_set(anomaly=bool(mode), check_nan=check_nan))

    def __enter__(self) -> None:
        pass


def _set(**fields: Any) -> Any:
    return mode.set(mode.get()._replace(**fields))


def is_anomaly_enabled() -> bool:
    """Whether nodes remember the user's line."""
    return mode.get().anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether a gradient that turns nan raises, under `detect_anomaly`."""
    return mode.get().check_nan
