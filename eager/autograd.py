"""The public face of the tape: backward and grad, the modes, hooks' home, custom functions, checks, leak finding."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import backward as engine, functional as F, modes
from .backward import as_list, grad
from .modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .tape import Item, Node
from .tensor import Leaf, Tensor

__all__ = [
    "Function",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "live_graphs",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of the sum of `tensors`, weighted by `grad_tensors`, to the `.grad` of leaves (or `inputs`)."""
    gradients = None if grad_tensors is None else as_list(grad_tensors)
    wanted = None if inputs is None else as_list(inputs)
    engine.backward(as_list(tensors), gradients, retain_graph, create_graph, wanted)


def set_detect_anomaly(mode: bool, check_nan: bool = True) -> None:
    """Turn anomaly detection on or off for what follows in this thread; see `detect_anomaly`."""
    modes.mode.set(modes.mode.get()._replace(anomaly=mode and check_nan))


# ---- custom functions --------------------------------------------------------------------------------------


class Context:
    """What `Function.forward` leaves for `Function.backward`."""

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self.needs_input_grad: tuple[bool, ...] = ()
        self._no_grad: set[int] = set()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors; backward finds them in `saved_tensors`."""
        self._saved = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._saved

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These outputs get no gradient."""
        self._no_grad |= {id(t) for t in tensors}

    def mark_dirty(self, *tensors: Tensor) -> None:
        """These inputs were written in place by forward, which counts the write already."""

    def set_materialize_grads(self, value: bool) -> None:
        """Accepted for compatibility: a missing gradient always arrives as zeros."""


class FunctionNode(Node):
    """The tape's entry of a custom function."""

    __slots__ = ("context", "function", "outputs")

    def __init__(
        self, function: type[Function], context: Context, inputs: tuple[Any, ...], outputs: list[Tensor]
    ) -> None:
        shapes = tuple(t.array.shape if isinstance(t, Tensor) else () for t in inputs)
        edges = tuple(t.node if isinstance(t, Tensor) else None for t in inputs)
        super().__init__(None, {}, shapes, edges, None)
        self.function, self.context = function, context
        self.outputs = [(t.array.shape, t.dtype) for t in outputs]

    @property
    def name(self) -> str:
        return f"{self.function.__name__}Backward"

    def gradients(self, g: Any) -> Sequence[Any]:
        given = g if isinstance(g, tuple) else (g,)
        full = [
            F.zeros(s, dtype=d) if t is None else t for t, (s, d) in zip(given, self.outputs, strict=True)
        ]
        grads = self.function.backward(self.context, *full)
        out = list(grads) if isinstance(grads, tuple) else [grads]
        if len(out) < len(self.edges) or any(g is not None for g in out[len(self.edges) :]):
            raise RuntimeError(
                f"function {self.name} returned an incorrect number of gradients (expected {len(self.edges)}, "
                f"got {len(out)})"
            )
        return out

    def free(self) -> None:
        """Custom functions keep what they saved: it may be needed by a second pass, and goes with the node."""


class Function:
    """A function with a gradient of its own: static methods forward(ctx, …) and backward(ctx, *grads); call `apply`."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError("You must implement the backward function for custom autograd.Function.")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward without taping, and put the whole on the tape as one operation."""
        context = Context()
        context.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        with no_grad():
            result = cls.forward(context, *args)
        outputs = list(result) if isinstance(result, tuple) else [result]
        if is_grad_enabled() and any(context.needs_input_grad):
            outputs = _on_tape(cls, context, args, outputs)
        return tuple(outputs) if isinstance(result, tuple) else outputs[0]


def _on_tape(
    cls: type[Function], context: Context, args: tuple[Any, ...], outputs: list[Tensor]
) -> list[Tensor]:
    """New tensors for the outputs (an output may be an input), placed at the function's node."""
    node = FunctionNode(cls, context, args, outputs)
    placed = []
    for k, t in enumerate(outputs):
        out = t._alias() if any(t is a for a in args) else t
        if id(t) not in context._no_grad and t.is_floating_point():
            out.node = node if len(outputs) == 1 else Item(node, k, len(outputs))
        placed.append(out)
    return placed


# ---- checks ------------------------------------------------------------------------------------------------


class GradcheckError(RuntimeError):
    """A gradient that disagrees with finite differences."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Compare the gradients of `func` at float64 `inputs` with central differences of width 2·eps.

    Every element of every input that requires a gradient is moved. Raises GradcheckError (or returns False).
    """
    args = as_list(inputs)
    outputs = _differentiable(func(*args))
    try:
        for k, out in enumerate(outputs):
            weights = F.tensor(np.random.default_rng(k).normal(size=tuple(out.shape)), dtype=out.dtype)
            wanted = [x for x in args if isinstance(x, Tensor) and x.requires_grad]
            found = grad(out, wanted, weights, retain_graph=True, allow_unused=True)
            for x, g in zip(wanted, found, strict=True):
                _compare(func, args, k, weights, x, g, (eps, atol, rtol))
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _differentiable(out: Any) -> list[Tensor]:
    return [t for t in as_list(out) if t.requires_grad]


def _compare(
    func: Any,
    args: list[Any],
    k: int,
    weights: Tensor,
    x: Tensor,
    g: Tensor | None,
    limits: tuple[float, float, float],
) -> None:
    eps, atol, rtol = limits
    numeric = np.zeros(tuple(x.shape))
    for at in np.ndindex(*x.shape):
        values = []
        for step in (eps, -eps):
            before = x.array[at]
            x.array[at] = before + step
            with enable_grad():
                values.append((_differentiable(func(*args))[k].array * weights.array).sum())
            x.array[at] = before
        numeric[at] = (values[0] - values[1]) / (2 * eps)
    analytic = np.zeros(tuple(x.shape)) if g is None else g.array
    if not np.allclose(analytic, numeric, rtol, atol):
        raise GradcheckError(
            f"Jacobian mismatch for output {k}:\nnumerical:{numeric}\nanalytical:{analytic}\n"
        )


def gradgradcheck(func: Callable[..., Any], inputs: Tensor | Sequence[Tensor], **limits: Any) -> bool:
    """gradcheck of the gradient of `func`: its second order."""
    args = as_list(inputs)
    wanted = [k for k, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]

    def first_order(*xs: Any) -> Any:
        outs = _differentiable(func(*xs))
        seeds = [F.ones_like(o) + 0.5 * F.arange(o.numel(), dtype=o.dtype).reshape(o.shape) for o in outs]
        grads = grad(outs, [xs[k] for k in wanted], seeds, create_graph=True, allow_unused=True)
        found = [g for g in grads if g is not None and g.requires_grad]
        return found if found else [xs[wanted[0]] * 0]

    return gradcheck(first_order, args, **limits)


# ---- leaks -------------------------------------------------------------------------------------------------


class LiveGraph:
    """One tape that is still held: its newest operation, how many nodes hang on it, and the bytes they save."""

    def __init__(self, root: Any, nodes: int, nbytes: int, holders: list[str]) -> None:
        self.root, self.nodes, self.nbytes, self.holders = root, nodes, nbytes, holders

    def __repr__(self) -> str:
        where = f", made at {self.root.line}" if self.root.line else ""
        held = f", held by {', '.join(self.holders)}" if self.holders else ""
        return (
            f"<tape of {self.nodes} nodes ending in {self.root.name}, {self.nbytes} bytes saved{where}{held}>"
        )


def live_graphs() -> list[LiveGraph]:
    """The tapes that something still holds, largest first: what a list of losses keeps alive shows here.

    The line of the newest operation is known for what was taped under `detect_anomaly`.
    """
    nodes = [o for o in gc.get_objects() if issubclass(type(o), (Node, Item))]
    used = {edge for node in nodes for edge in node.edges if edge is not None}
    graphs = [_live_graph(root) for root in nodes if root not in used]
    return sorted(graphs, key=lambda g: (-g.nodes, -g.root.seq))


def _live_graph(root: Any) -> LiveGraph:
    seen, stack, nbytes = {root}, [root], 0
    while stack:
        node = stack.pop()
        for t in getattr(node, "inputs", None) or ():
            nbytes += t.nbytes if isinstance(t, Tensor) else 0
        for edge in node.edges:
            if edge is not None and edge not in seen and type(edge) is not Leaf:
                seen.add(edge)
                stack.append(edge)
    return LiveGraph(root, len(seen), nbytes, _holders(root))


def _holders(root: Any) -> list[str]:
    """In what kind of container, or under which variable, the tensors at the root are held."""
    tensors = [o for o in gc.get_referrers(root) if issubclass(type(o), Tensor) and o.node is root]
    found = []
    for t in tensors:
        for holder in gc.get_referrers(t):
            if isinstance(holder, (list, tuple)) and holder is not tensors:
                found.append(f"a {type(holder).__name__} of {len(holder)}")
            elif isinstance(holder, dict):
                found += [f"{key!r}" for key, value in holder.items() if value is t]
    return sorted(set(found))
