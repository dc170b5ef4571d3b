"""Full backward hooks: a module's gradients, seen and changed as a whole."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import Function
from ..tensor import Tensor

Grads = tuple[Any, ...]


class Gate(Function):
    """Hands tensors through, and on the way back their gradients, all together, through `visit`."""

    @staticmethod
    def forward(ctx: Any, visit: Callable[[Grads], Grads], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.visit = visit
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, *ctx.visit(grads)


def gated(visit: Callable[[Grads], Grads], values: Sequence[Any]) -> tuple[Any, ...] | None:
    """`values` with its differentiable tensors sent through a gate; None if there are none.

    `visit` sees a gradient, or None, for each value.
    """
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]
    if not places:
        return None

    def at_places(grads: Grads) -> Grads:
        by_place = dict(zip(places, grads, strict=True))
        seen = visit(tuple(by_place.get(i) for i in range(len(values))))
        return tuple(seen[i] for i in places)

    out = list(values)
    for i, tensor in zip(places, Gate.apply(at_places, *(values[i] for i in places)), strict=True):
        out[i] = tensor
    return tuple(out)


class BackwardHooks:
    """The backward hooks of one call: a gate before the module for the inputs, one behind for the outputs."""

    def __init__(
        self, module: Any, before: Sequence[Callable[..., Any]], after: Sequence[Callable[..., Any]]
    ) -> None:
        self.module, self.before, self.after = module, before, after
        self.grad_output: Grads | None = None
        self.inputs = 0
        self.watches_inputs = False

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.inputs = len(args)
        watched = gated(self.at_inputs, args) if self.after else None
        self.watches_inputs = watched is not None
        return args if watched is None else watched

    def watch_outputs(self, output: Any) -> Any:
        if not isinstance(output, Tensor | tuple):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                f"received {type(output)}",
                stacklevel=5,
            )
            return output
        watched = gated(self.at_outputs, output if isinstance(output, tuple) else (output,))
        if watched is None:
            return output
        return type(output)(watched) if isinstance(output, tuple) else watched[0]

    def at_outputs(self, grads: Grads) -> Grads:
        for hook in self.before:
            grads = self.checked(hook(self.module, grads), grads, "backward pre hook", "grad_output")
        self.grad_output = grads
        if not self.watches_inputs:
            # No input has a gradient: the outputs' is the last moment at which the hooks can run.
            for hook in self.after:
                if hook(self.module, (None,) * self.inputs, grads) is not None:
                    raise RuntimeError(
                        "Backward hooks for Modules where no input requires gradient should always return None"
                    )
        return grads

    def at_inputs(self, grads: Grads) -> Grads:
        if self.grad_output is None:
            raise RuntimeError(
                f"the inputs of {type(self.module).__name__} got a gradient before its outputs; backward hooks "
                "need outputs that depend on the inputs through the module's output alone"
            )
        for hook in self.after:
            grads = self.checked(
                hook(self.module, grads, self.grad_output), grads, "backward hook", "grad_input"
            )
        return grads

    def checked(self, changed: Any, grads: Grads, kind: str, what: str) -> Grads:
        """What a hook returned as a tuple; RuntimeError when it has another length. None: no change."""
        if changed is None:
            return grads
        changed = changed if isinstance(changed, tuple) else (changed,)
        if len(changed) != len(grads):
            raise RuntimeError(
                f"{kind} returned an invalid number of {what}, got {len(changed)}, but expected {len(grads)}"
            )
        return changed
