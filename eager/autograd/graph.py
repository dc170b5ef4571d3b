"""The tape from outside: hooks of saved tensors and of several gradients, and the places of tensors on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from ..caller import user_place
from ..hooks import RemovableHandle
from ..modes import ModeContext
from ..tape import Node
from ..tensor import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


_refused: ContextVar[str | None] = ContextVar("refused", default=None)


class saved_tensors_hooks(ModeContext):
    """Within it, what the tape saves goes through `pack_hook(tensor)`, and `unpack_hook` of that gives it back.

    To keep activations on a disk, say, or in half precision. The hooks must not change the tensor in place.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        super().__init__(saving=(pack_hook, unpack_hook))

    def __enter__(self) -> None:
        if (message := _refused.get()) is not None:
            raise RuntimeError(message)
        super().__enter__()


class save_on_cpu(saved_tensors_hooks):
    """Within it, what the tape saves is kept in main memory, and moved back for the backward pass."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(
            lambda tensor: (tensor.device, tensor.detach().cpu()),
            lambda packed: packed[1].to(device=packed[0]),
        )


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Within it, setting hooks of saved tensors raises RuntimeError(error_message)."""

    token = _refused.set(error_message)
    try:
        yield
    finally:
        _refused.reset(token)


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Within it, saved tensors are copied, so that they may be written to before the backward pass."""
    with saved_tensors_hooks(lambda tensor: tensor.detach().clone(), lambda packed: packed):
        yield


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` in a backward pass when the gradients of `tensors` are known.

    mode "all": `fn(gradients)` with the gradient of each, or None where the pass reached none, at its end; "any":
    `fn(gradient)` at the first one.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    watch = Watch(tensors, fn, mode == "any")
    return watch.handle


class Watch:
    """The gradients of several tensors, gathered during one backward pass."""

    def __init__(self, tensors: Sequence[Tensor], fn: Callable[..., None], first: bool) -> None:
        self.fn, self.first, self.count = fn, first, len(tensors)
        self.walk: Any = None
        self.grads: list[Any] = []
        self.done = False
        handles = [t.register_hook(self.hook_of(k)) for k, t in enumerate(tensors)]
        self.handle = Handles(handles)

    def hook_of(self, k: int) -> Callable[[Tensor], None]:
        def hook(g: Tensor) -> None:
            from ..backward import current_walk

            walk = current_walk()
            if walk is not self.walk:
                self.walk, self.grads, self.done = walk, [None] * self.count, False
                if not self.first and walk is not None:
                    walk.at_end.append(self.finish)
            self.grads[k] = g
            if self.first and not self.done:
                self.done = True
                self.fn(g)

        return hook

    def finish(self) -> None:
        self.walk = None
        self.fn(self.grads)


class Handles(RemovableHandle):
    """Removes several hooks at once."""

    def __init__(self, handles: list[RemovableHandle]) -> None:
        super().__init__({})
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


class GradientEdge(NamedTuple):
    """A place where a gradient arrives: a node, and which of its outputs."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of a tensor arrives; ValueError for one that has none."""
    if tensor.node is None:
        raise ValueError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    return GradientEdge(tensor.node, 0)


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count a write that went past the tensor: what saved its value before will refuse to be differentiated."""
    for t in [tensor] if isinstance(tensor, Tensor) else tensor:
        t.shared_storage().bump(user_place())
