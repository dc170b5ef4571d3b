"""Functions that run around a module's forward and backward pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..hooks import RemovableHandle
from .backward_hooks import BackwardHooks


def add_hook(hooks: dict[int, Any], hook: Any, prepend: bool = False) -> RemovableHandle:
    """Add a hook after the others, or with `prepend` before them."""
    handle = RemovableHandle(hooks)
    others = dict(hooks)
    hooks[handle.id] = hook
    if prepend:
        for key in others:
            hooks[key] = hooks.pop(key)
    return handle


class Hook(NamedTuple):
    """A hook of a call: where it runs, the function, and the options it was registered with."""

    place: str  # before_forward | after_forward | before_backward | after_backward
    function: Callable[..., Any]
    with_kwargs: bool = False
    with_module: bool = False
    always_call: bool = False
    older: bool = False  # registered as a backward hook of the kind before full ones


COMPUTED = "_computed_attributes"


def mark_computed(module: Any, name: str, computed: bool = True) -> None:
    """Say that a hook computes the attribute before each forward pass, so that its value is no state; or no longer."""
    names = {*computed_attributes(module), name} if computed else {*computed_attributes(module)} - {name}
    module.__dict__[COMPUTED] = names


def computed_attributes(module: Any) -> set[str]:
    """The names of the attributes that hooks compute."""
    return vars(module).get(COMPUTED, set())


GLOBAL: dict[int, Hook] = {}
"""Hooks of the calls of all modules; they run before those of the module itself."""


class Hooks:
    """The hook methods of `Module`."""

    _call_hooks: dict[int, Hook]

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Run `hook(module, args)` before forward; what it returns, unless None, replaces the arguments.

        With `with_kwargs` it is `hook(module, args, kwargs)` and may return `(args, kwargs)`.
        """
        return add_hook(self._call_hooks, Hook("before_forward", hook, with_kwargs=with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Run `hook(module, args, output)` after forward; what it returns, unless None, replaces the output.

        With `with_kwargs` it is `hook(module, args, kwargs, output)`; with `always_call` it also runs, with
        None for the output, when forward raised.
        """
        return add_hook(
            self._call_hooks,
            Hook("after_forward", hook, with_kwargs=with_kwargs, always_call=always_call),
            prepend,
        )

    def _add_backward_hook(self, hook: Hook, prepend: bool) -> RemovableHandle:
        """RuntimeError for backward hooks of both kinds."""
        if any(h.place == hook.place and h.older != hook.older for h in self._call_hooks.values()):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        return add_hook(self._call_hooks, hook, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Run `hook(module, grad_output)` once the gradients of the outputs are known.

        What it returns, unless None, replaces them. Both are tuples, with None for outputs without gradient.
        """
        return add_hook(self._call_hooks, Hook("before_backward", hook), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Run `hook(module, grad_input, grad_output)` once the gradients of the positional inputs are known.

        What it returns, unless None, replaces `grad_input`. The output must be a tensor or a tuple of tensors.
        """
        return self._add_backward_hook(Hook("after_backward", hook), prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older name of `register_full_backward_hook`; a module takes hooks of one of the two names only."""
        return self._add_backward_hook(Hook("after_backward", hook, older=True), prepend=False)

    def _hooks_at(self, place: str) -> Iterator[Hook]:
        hooks = [*GLOBAL.values(), *self._call_hooks.values()]
        return (hook for hook in hooks if hook.place == place)


class HookedCall:
    """One call of a module that has hooks."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.output: Any = None
        self.ran: list[Hook] = []

    def run(self) -> Any:
        """The output, as the hooks leave it."""
        try:
            return self.run_in_order()
        except Exception:
            self.run_always_called()
            raise

    def run_in_order(self) -> Any:
        for hook in self.module._hooks_at("before_forward"):
            self.before_forward(hook)
        backward = self.backward_hooks()
        if backward is not None:
            self.args = backward.watch_inputs(self.args)
        self.output = self.module.forward(*self.args, **self.kwargs)
        for hook in self.module._hooks_at("after_forward"):
            self.after_forward(hook)
        return self.output if backward is None else backward.watch_outputs(self.output)

    def before_forward(self, hook: Hook) -> None:
        if not hook.with_kwargs:
            changed = hook.function(self.module, self.args)
            if changed is not None:
                self.args = changed if isinstance(changed, tuple) else (changed,)
            return
        changed = hook.function(self.module, self.args, self.kwargs)
        if changed is None:
            return
        if not (isinstance(changed, tuple) and len(changed) == 2):
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
            )
        self.args, self.kwargs = changed

    def after_forward(self, hook: Hook) -> None:
        self.ran.append(hook)
        arguments = (self.args, self.kwargs) if hook.with_kwargs else (self.args,)
        changed = hook.function(self.module, *arguments, self.output)
        if changed is not None:
            self.output = changed

    def run_always_called(self) -> None:
        """After an error: the hooks that asked for it and have not run. Their own errors only warn."""
        for hook in self.module._hooks_at("after_forward"):
            if hook.always_call and hook not in self.ran:
                try:
                    self.after_forward(hook)
                except Exception as error:
                    warnings.warn(
                        "module forward hook with ``always_call=True`` raised an exception that was silenced "
                        f"as another error was raised in forward: {error}",
                        stacklevel=4,
                    )

    def backward_hooks(self) -> BackwardHooks | None:
        before = tuple(h.function for h in self.module._hooks_at("before_backward"))
        after = tuple(h.function for h in self.module._hooks_at("after_backward"))
        return BackwardHooks(self.module, before, after) if before or after else None
