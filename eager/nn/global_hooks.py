"""Hooks that run for all modules: around their calls and backward passes, and on what they register.

For tools that look into any model, such as profilers. They run before the hooks of the module itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..hooks import RemovableHandle
from .hooks import GLOBAL, Hook, add_hook
from .registry import REGISTRATION_HOOKS


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run `hook(module, args)` before every forward; what it returns, unless None, replaces the arguments."""
    return add_hook(GLOBAL, Hook("before_forward", hook))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Run `hook(module, args, output)` after every forward; what it returns, unless None, replaces the output."""
    return add_hook(GLOBAL, Hook("after_forward", hook, with_kwargs=with_kwargs, always_call=always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run `hook(module, grad_output)` in every module's backward pass, before it; see `Module`'s method."""
    return add_hook(GLOBAL, Hook("before_backward", hook))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run `hook(module, grad_input, grad_output)` in every module's backward pass; see `Module`'s method."""
    return add_hook(GLOBAL, Hook("after_backward", hook))


register_module_backward_hook = register_module_full_backward_hook


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run `hook(module, name, parameter)` on registering; what it returns, unless None, is registered instead."""
    return add_hook(REGISTRATION_HOOKS, ("parameter", hook))


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run `hook(module, name, buffer)` on registering; what it returns, unless None, is registered instead."""
    return add_hook(REGISTRATION_HOOKS, ("buffer", hook))


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run `hook(module, name, child)` on registering; what it returns, unless None, is registered instead."""
    return add_hook(REGISTRATION_HOOKS, ("module", hook))
