"""`tapecast.compile`: a model or function that is traced and compiled when it is called, and called in this process."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from . import runtime
from .compiler.cpu.llvm_driver import CompileError
from .eager.functional import from_numpy
from .eager.modes import is_grad_enabled
from .eager.nn.module import Module
from .eager.tensor import Tensor
from .jit import trace
from .tracer.record import TracerError

#: Compilations of one function after which it is called as it is: sizes or weights change with every call.
MOST = 16


class Calls:
    """The compiled forms of one function, by what they were compiled for."""

    def __init__(self, function: Callable[..., Any], module: Module | None) -> None:
        self.function, self.module = function, module
        self.made: dict[Any, Any] = {}
        self.given_up = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (
            self.given_up
            or kwargs
            or not all(isinstance(a, Tensor) for a in args)
            or self.differentiates(args)
        ):
            return self.function(*args, **kwargs)
        key = tuple((a.dtype, tuple(a.shape)) for a in args), self.weights()
        model = self.made.get(key)
        if model is None:
            model = self.compiled(args)
            if model is None:
                return self.function(*args)
            self.made[key] = model
        found = model(*(a.detach().numpy() for a in args))
        return tuple(map(from_numpy, found)) if isinstance(found, tuple) else from_numpy(found)

    def differentiates(self, args: tuple[Any, ...]) -> bool:
        """Whether the call goes on the tape, or is one of training, which is eager's."""
        if self.module is not None and self.module.training:
            return True
        if not is_grad_enabled():
            return False
        parameters = () if self.module is None else self.module.parameters()
        return any(t.requires_grad for t in (*args, *parameters))

    def weights(self) -> tuple[Any, ...]:
        """What tells whether a parameter or buffer has been written to since."""
        if self.module is None:
            return ()
        tensors = (*self.module.parameters(), *self.module.buffers())
        return tuple((id(t.array), t._version) for t in tensors)

    def compiled(self, args: tuple[Any, ...]) -> Any:
        """The function compiled for arguments like these; None, with a warning, where it cannot be."""
        if len(self.made) >= MOST:
            return self.give_up(f"it has been compiled for {MOST} sizes or states of its weights already")
        try:
            traced = trace(self.module or self.function, args, check=False)
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model.so")
                traced.compile(path, target="native", verify=False)
                with open(path, "rb") as file:
                    return runtime.load(file.read())
        except (TracerError, NotImplementedError, CompileError) as error:
            return self.give_up(str(error))

    def give_up(self, reason: str) -> None:
        name = (
            type(self.module).__name__ if self.module else getattr(self.function, "__name__", "the function")
        )
        self.given_up = reason
        warnings.warn(f"compile: {name} runs eagerly from now on: {reason}", stacklevel=4)


class OptimizedModule(Module):
    """A module whose calls outside of training and of the tape are compiled. All else is that of the module inside,
    `_orig_mod`, under whose name the state dict has its entries."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["_calls"] = Calls(module, module)
        self.training = module.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._calls(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "_orig_mod" not in self.__dict__.get("_modules", ()):
                raise
            return getattr(self._modules["_orig_mod"], name)


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """The model or function with its calls compiled, for this process: trace and compile at the first call of a kind.

    A call is compiled where it is not differentiated (under no_grad, or with nothing that requires a gradient), a
    module is in eval mode and all arguments are tensors; every other call is the model's own. Each new set of shapes,
    and each write to a parameter or buffer, is compiled anew, at most MOST times, after which, as for what cannot be
    compiled, a warning says why calls are eager. As a decorator it takes the settings alone. `fullgraph`, `dynamic`,
    `backend`, `mode` and `options` are accepted for PyTorch's sake and change nothing; `disable` returns the model.

    To ship a model, use jit.trace(...).compile(path) and runtime.load(path)."""
    if model is None:
        return lambda wrapped: compile(wrapped, disable=disable)
    if disable:
        return model
    if isinstance(model, Module):
        return OptimizedModule(model)
    if not callable(model):
        raise TypeError(f"compile wants a module or a function, got {type(model).__name__}")
    calls = Calls(model, None)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return calls(*args, **kwargs)

    return update_wrapper(wrapper, model)
