"""Hooks on tensors, and keeping the gradients of non-leaves."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from .tensor import Leaf, Tensor, next_sequence


class RemovableHandle:
    """What registering a hook gives: `remove()` takes it off again."""

    def __init__(self, hooks: dict[int, Any]) -> None:
        self.hooks = hooks
        self.id = next_sequence()

    def remove(self) -> None:
        self.hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_hook(tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook` with the tensor's gradient in a backward pass; what it returns, if anything, replaces it."""
    node = place_or(tensor, "cannot register a hook on a tensor that doesn't require gradient")
    if node.hooks is None:
        node.hooks = {}
    handle = RemovableHandle(node.hooks)
    node.hooks[handle.id] = hook
    return handle


def register_post_accumulate_grad_hook(tensor: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook` with this leaf each time after its `.grad` was added to."""
    node = place_or(tensor, "cannot register a hook on a tensor that doesn't require gradient")
    if type(node) is not Leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if node.post_hooks is None:
        node.post_hooks = {}
    handle = RemovableHandle(node.post_hooks)
    node.post_hooks[handle.id] = hook
    return handle


def retain_grad(tensor: Tensor) -> None:
    """Keep this non-leaf's gradient in `.grad` at the next backward pass."""
    node = place_or(tensor, "can't retain_grad on Tensor that has requires_grad=False")
    if type(node) is not Leaf:
        node.retained = weakref.ref(tensor)


def place_or(tensor: Tensor, message: str) -> Any:
    if tensor.node is None:
        raise RuntimeError(message)
    return tensor.node
