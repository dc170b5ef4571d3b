"""Functions with a gradient of their own: `Function`, and its place on the tape."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from .. import functional as F, tape
from ..backward import FREED, stale
from ..caller import user_line
from ..modes import is_grad_enabled, mode, no_grad
from ..ops.types import is_differentiable
from ..tape import Item, Node
from ..tensor import Tensor
from ..writes import check_writable, follow, put_through


class Context:
    """What `Function.forward` leaves for `Function.backward`; further attributes may be put on it."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()
        self._saved: tuple[Any, ...] | None = ()
        self._no_grad: tuple[Tensor, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._materialize = True
        self._node: Callable[[], FunctionNode | None] = lambda: None  # a weak reference

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs and outputs; backward finds them in `saved_tensors`."""
        self._saved = tensors

    save_for_forward = save_for_backward

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that were kept. RuntimeError after they were freed, or if one was written to since."""
        if self._saved is None:
            raise RuntimeError(FREED)
        return tuple(self._restored(value) for value in self._saved)

    def _restored(self, value: Any) -> Any:
        node = self._node()
        if isinstance(value, tape.Packed):
            return value.unpacked()
        if isinstance(value, Output):
            return value.tensor(node)
        if node is not None and isinstance(value, Tensor) and value.storage is not None:
            if value.storage.written > node.seq:
                raise stale(node, value.storage, "a saved tensor", value.array)
        return value

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These outputs get no gradient."""
        self._no_grad = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """These inputs were written in place by forward, and are returned by it."""
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (as by default) or None for an output that no gradient came to."""
        self._materialize = value


class Output:
    """A saved output: its value alone, as the tensor would hold on to the node that holds on to it."""

    def __init__(self, tensor: Tensor, index: int, count: int) -> None:
        self.array, self.storage, self.index, self.count = tensor.array, tensor.storage, index, count

    def tensor(self, node: FunctionNode | None) -> Tensor:
        out = Tensor(self.array)
        if node is not None and is_differentiable(self.array.dtype):
            out.node = node if self.count == 1 else Item(node, self.index, self.count)
        return out


class FunctionNode(Node):
    """The tape's entry of a custom function."""

    __slots__ = ("context", "function", "outputs")

    def __init__(
        self, function: type[Function], context: Context, inputs: tuple[Any, ...], outputs: list[Any]
    ) -> None:
        shapes = tuple(t.array.shape if isinstance(t, Tensor) else () for t in inputs)
        edges = tuple(t.node if isinstance(t, Tensor) else None for t in inputs)
        super().__init__(None, {}, shapes, edges, None)
        self.function, self.context = function, context
        self.outputs = [(t.array.shape, t.dtype) if isinstance(t, Tensor) else None for t in outputs]
        self.label = f"{function.__name__}Backward"
        if mode.get().anomaly:
            self.line = user_line()

    def gradients(self, g: Any) -> Sequence[Any]:
        """The gradients of the inputs, from backward."""
        given = list(g) if isinstance(g, tuple) else [g]
        if self.context._materialize:
            for k, (found, output) in enumerate(zip(given, self.outputs, strict=True)):
                if found is None and output is not None:
                    given[k] = F.zeros(output[0], dtype=output[1])
        grads = self.function._vjp(self.context, given)
        out = list(grads) if isinstance(grads, tuple | list) else [grads]
        wanted = len(self.edges)
        if len(out) < wanted or any(extra is not None for extra in out[wanted:]):
            raise RuntimeError(
                f"function {self.name} returned an incorrect number of gradients (expected {wanted}, got {len(out)})"
            )
        self._check(out)
        return out

    def _check(self, grads: list[Any]) -> None:
        for k, (g, edge) in enumerate(zip(grads, self.edges, strict=False)):
            if g is not None and edge is not None and not isinstance(g, Tensor):
                raise TypeError(
                    f"{self.name}: expected a Tensor or None as gradient {k}, got {type(g).__name__}"
                )

    def free(self) -> None:
        """Let go of saved tensors."""
        if self.context._saved:
            self.context._saved = None


class Function:
    """A function with a gradient of its own: static methods forward and backward(ctx, *grads); call `apply`.

    Either `forward(ctx, *args)`, or `forward(*args)` and `setup_context(ctx, inputs, output)`. backward returns a
    gradient, or None, for every argument; written in differentiable operations it can be differentiated again.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @classmethod
    def _vjp(cls, context: Context, grads: list[Any]) -> Any:
        other = getattr(cls, "vjp", None)
        return (other if other is not None and cls.backward is Function.backward else cls.backward)(
            context, *grads
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward without taping, and put the whole on the tape as one operation."""
        context = Context()
        context.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        taping = is_grad_enabled() and any(context.needs_input_grad)
        nodes = tuple(a.node if isinstance(a, Tensor) else None for a in args)
        with no_grad():
            result = cls._run(context, args)
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        if taping:
            outputs = on_tape(cls, context, args, nodes, outputs)
        return type(result)(outputs) if isinstance(result, tuple | list) else outputs[0]

    @classmethod
    def _run(cls, context: Context, args: tuple[Any, ...]) -> Any:
        if cls.setup_context is Function.setup_context:
            return cls.forward(context, *args)
        result = cls.forward(*args)
        cls.setup_context(context, args, result)
        return result


def on_tape(
    cls: type[Function], context: Context, args: tuple[Any, ...], edges: tuple[Any, ...], outputs: list[Any]
) -> list[Any]:
    """The outputs, placed at the function's node. One that is an input becomes a tensor of its own, unless dirty."""
    for t in context._dirty:
        if any(t is a for a in args):
            check_writable(t)
    node = FunctionNode(cls, context, args, outputs)
    node.edges = edges
    context._node = weakref.ref(node)
    keep_outputs(context, outputs)
    placed = []
    for k, t in enumerate(outputs):
        if not isinstance(t, Tensor):
            placed.append(t)
            continue
        dirty = among(t, context._dirty)
        out = t if dirty or not among(t, args) else t._alias()
        if not among(t, context._no_grad) and is_differentiable(t.array.dtype):
            place(out, node if len(outputs) == 1 else Item(node, k, len(outputs)), dirty)
        placed.append(out)
    return placed


def among(t: Any, others: Sequence[Any]) -> bool:
    return any(t is other for other in others)


def place(out: Tensor, node: Any, dirty: bool) -> None:
    """Put a tensor at a node; one that was written through a view gives its base a new history too."""
    base = out._base
    if not dirty or base is None:
        out.node = node
        return
    value = out._alias()
    value.node = node
    new = put_through(base, out.link.path, value)  # type: ignore[union-attr]
    base.node = new.node
    follow(base, True, False)


def keep_outputs(context: Context, outputs: list[Any]) -> None:
    """Saved outputs become values; what hooks of saved tensors want packed is packed."""
    kept: list[Any] = []
    saving = mode.get().saving
    for t in context._saved or ():
        index = next((k for k, out in enumerate(outputs) if out is t), None)
        if saving is not None and isinstance(t, Tensor):
            kept.append(tape.Packed(t, saving))
        elif isinstance(t, Tensor) and index is not None:
            kept.append(Output(t, index, len(outputs)))
        else:
            kept.append(t)
    context._saved = tuple(kept)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """For a backward that cannot be differentiated: doing so raises, and its operations are not taped."""

    @wraps(backward)
    def inner(ctx: Any, *grads: Any) -> Any:
        taped = is_grad_enabled() and any(isinstance(g, Tensor) and g.requires_grad for g in grads)
        with no_grad():
            found = backward(ctx, *grads)
        if not taped:
            return found
        outputs = found if isinstance(found, tuple) else (found,)
        refused = tuple(Refused.apply(t, *grads) if isinstance(t, Tensor) else t for t in outputs)
        return refused if isinstance(found, tuple) else refused[0]

    return inner


class Refused(Function):
    """Hands its first argument on; its gradient is an error."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *depends: Any) -> Tensor:
        return value.detach().clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
