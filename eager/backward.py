"""The backward pass: gradients of one node, and the walk over the tape from the youngest node to the oldest."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from . import tape
from .caller import place_text
from .modes import ModeContext, enable_grad, mode
from .ops.reads import reads_of
from .ops.table import TABLE
from .tape import Item, Node, PackedNode
from .tensor import Leaf, Storage, Tensor

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)

# ---- gradients of one node ---------------------------------------------------------------------------------


def gradients(node: Any, g: Any, create: bool) -> Sequence[Any]:
    """The gradient of each input (None where there is none), given the output's."""
    if type(node) is Node:
        return op_gradients(node, g, create, node)
    if type(node) is PackedNode:
        if node.inputs is None:
            raise RuntimeError(FREED)
        return op_gradients(node.unpacked(), g, create, node)
    return node.gradients(g)


def op_gradients(node: Node, g: Any, create: bool, owner: Node) -> Sequence[Any]:
    """Apply the op's gradient rules for the operands that want one. The output is at `owner` on the tape."""
    if node.inputs is None:
        raise RuntimeError(FREED)
    op = node.op
    if op.vjp is None:
        return decomposed_gradients(node, g, create)
    if op.holomorphic and is_complex(g):
        return conjugated(rule_gradients(node, conjugated(g), owner))
    return rule_gradients(node, g, owner)


def is_complex(g: Any) -> bool:
    return any(one is not None and one.array.dtype.kind == "c" for one in (g if type(g) is tuple else (g,)))


def conjugated(g: Any) -> Any:
    """The conjugate of a gradient, or of each of several.

    A rule written for real numbers computes g·f'(x) for a complex-differentiable f; the gradient is g·conj(f'(x)).
    """
    if isinstance(g, tuple | list):
        return tuple(map(conjugated, g))
    return g if g is None or g.array.dtype.kind != "c" else tape.F.conj(g)


def rule_gradients(node: Node, g: Any, owner: Node) -> Sequence[Any]:
    """What the op's rules say for the operands that want a gradient."""
    op, attrs, inputs, vjp = node.op, node.attrs, node.inputs, node.op.vjp
    assert inputs is not None
    out = None if node.out is None else saved_output(node, owner)
    if callable(vjp):
        check_saved(node, range(len(inputs)))
        return vjp(tape.F, g, out, *inputs, **attrs)
    grads: list[Any] = []
    for k, edge in enumerate(node.edges):
        rule = vjp[k] if edge is not None else None
        if rule is None:
            grads.append(None)
            continue
        check_saved(node, reads_of(op).positions(k, len(inputs)))
        grads.append(rule(tape.F, g, out, *inputs, **attrs))
    return grads


def saved_output(node: Node, owner: Node) -> Any:
    """The output as the rules see it: its saved value, at the node's place on the tape. A tuple of several."""
    if type(node.out) is tuple:
        count = len(node.out)
        return tuple(tape.wrap(value, Item(owner, k, count)) for k, value in enumerate(node.out))
    if node.storage is not None and node.storage.written > node.seq:
        raise stale(node, node.storage, "output", node.out)
    out = Tensor(node.out)
    out.node = owner
    return out


def check_saved(node: Node, positions: Iterable[int]) -> None:
    """RuntimeError if one of these saved inputs was written to since."""
    assert node.inputs is not None
    for k in positions:
        t = node.inputs[k]
        if isinstance(t, Tensor) and t.storage is not None and t.storage.written > node.seq:
            raise stale(node, t.storage, f"input {k}", t.array)


def stale(node: Node, storage: Storage, what: str, value: Any) -> RuntimeError:
    later = [line for seq, line in storage.writes or () if seq > node.seq]
    expected = storage.version - len(later)
    shape = list(map(int, value.shape))
    return RuntimeError(
        f"one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{value.dtype} {shape}], which is {what} of {node.name}, is at version {storage.version}; expected version "
        f"{expected} instead. It was last written at {place_text(later[-1])}. Write out of place there, or clone "
        "the tensor before."
    )


def decomposed_gradients(node: Node, g: Any, create: bool) -> Sequence[Any]:
    """The gradient of a composite without a rule of its own: compute it again from its parts and differentiate."""
    assert node.inputs is not None
    check_saved(node, range(len(node.inputs)))
    with enable_grad():
        inner = [fresh_copy(t, edge is not None) for t, edge in zip(node.inputs, node.edges, strict=True)]
        out = node.op.decompose(tape.F, *inner, **node.attrs)
    wanted = [t for t, edge in zip(inner, node.edges, strict=True) if edge is not None]
    grads = iter(grad([out], wanted, [g], create_graph=create, allow_unused=True))
    return [None if edge is None else next(grads) for edge in node.edges]


def fresh_copy(t: Tensor, wants_grad: bool) -> Tensor:
    """The value at a new place on the tape, one step behind its old one."""
    if not wants_grad:
        return t.detach()
    out = Tensor(t.array)
    out.node = Node(TABLE["clone"], {}, (t.array.shape,), (t.node,), None)
    return out


# ---- the walk ----------------------------------------------------------------------------------------------


class Walk:
    """One backward pass: gradients waiting at nodes, taken from the youngest node to the oldest."""

    def __init__(self, keep: bool, create: bool, within: set[Any] | None, wanted: Iterable[Any]) -> None:
        self.keep, self.create, self.within = keep, create, within
        self.waiting: dict[Any, Any] = {}
        self.heap: list[tuple[int, Any]] = []
        self.found: dict[Any, Any] = dict.fromkeys(wanted)
        self.leaves: list[tuple[Leaf, Tensor]] = []
        self.at_end: list[Any] = []  # called when all gradients have come

    def add(self, node: Any, g: Tensor) -> None:
        """A gradient arrives at a node: summed with those already there."""
        there = self.waiting.get(node)
        if there is None:
            self.waiting[node] = g
            heapq.heappush(self.heap, (-node.seq, node))
        else:
            self.waiting[node] = there + g

    def run(self) -> None:
        anomaly = mode.get().anomaly and mode.get().check_nan
        while self.heap:
            _, node = heapq.heappop(self.heap)
            g = self.waiting.pop(node)
            if node_hooks(node):
                g = run_hooks(node, g)
            if node in self.found:
                self.found[node] = g
            if type(node) is Leaf:
                self.leaves.append((node, g))
                continue
            if type(node) is Item:
                self.hand_up(node, g)
                continue
            self.step(node, g, anomaly)

    def hand_up(self, item: Item, g: Tensor) -> None:
        """An output's gradient goes to its place among those of the op's outputs."""
        parent = item.edges[0]
        if self.within is not None and parent not in self.within:
            return
        slots = self.waiting.get(parent)
        if slots is None:
            slots = self.waiting[parent] = [None] * item.count
            heapq.heappush(self.heap, (-parent.seq, parent))
        slots[item.index] = g

    def step(self, node: Any, g: Any, anomaly: bool) -> None:
        within = self.within
        if within is not None and not any(e is not None and e in within for e in node.edges):
            return
        if node.node_hooks is not None:
            g = run_node_hooks(node, "before", g)
        grads = gradients(node, tuple(g) if type(g) is list else g, self.create)
        if node.node_hooks is not None:
            grads = run_node_hooks(node, "after", grads, g)
        inputs = node.inputs
        for k, edge in enumerate(node.edges):
            if edge is None or (within is not None and edge not in within):
                continue
            gk = grads[k]
            if gk is None:
                continue
            if anomaly:
                check_finite(node, gk)
            saved = inputs[k]
            shape = (
                saved
                if type(saved) is tuple
                else saved.array.shape
                if isinstance(saved, Tensor)
                else saved.shape
            )
            if gk.array.shape != shape:
                gk = tape.F.sum_to(gk, shape)
            self.add(edge, gk)
        if not self.keep:
            node.free()


def node_hooks(node: Any) -> bool:
    return node.hooks is not None or (type(node) is not Leaf and node.retained is not None)


def run_hooks(node: Any, g: Any) -> Any:
    """A tensor's hooks see its gradient, and may replace it."""
    for hook in list((node.hooks or {}).values()):
        changed = hook(g)
        g = g if changed is None else changed
    if type(node) is not Leaf and node.retained is not None:
        tensor = node.retained()
        if tensor is not None:
            tensor.grad = g if tensor.grad is None else tensor.grad + g
    return g


def run_node_hooks(node: Any, kind: str, grads: Any, *more: Any) -> Any:
    """A node's hooks see its gradients as tuples, and may replace them."""
    given = tuple(grads) if isinstance(grads, tuple | list) else (grads,)
    seen = [g if isinstance(g, tuple | list) else (g,) for g in more]
    for hook in [hook for when, hook in list((node.node_hooks or {}).values()) if when == kind]:
        changed = hook(given, *map(tuple, seen))
        given = given if changed is None else tuple(changed)
    return given if more or isinstance(grads, tuple | list) else given[0]


def check_finite(node: Any, g: Tensor) -> None:
    if np.isnan(g._read_cpu("detect_anomaly")).any():
        where = node.line or "a line outside detect_anomaly()"
        raise RuntimeError(
            f"Function '{node.name}' returned nan values in its backward; its forward is at {where}"
        )


def note(root: Any) -> None:
    """Told of the root of each backward pass; `autograd.leaks` puts itself here."""


def backward(
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | None = None,
) -> None:
    """Add the gradients of `tensors` to `.grad` of the leaves they depend on (only of `inputs`, if given).

    Nothing is written unless the whole walk succeeds.
    """
    roots = seeds(tensors, gradients)
    if inputs is not None and not inputs:
        raise RuntimeError("'inputs' argument to backward() cannot be empty.")
    for node, _ in roots:
        note(node)
    wanted = None if inputs is None else [place(t) for t in inputs]
    keep = create_graph if retain_graph is None else retain_graph
    walk = walk_from(roots, keep, create_graph, wanted)
    found = [(node.tensor(), g) for node, g in walk.leaves]
    if inputs is not None:
        found = [(t, walk.found[t.node]) for t in inputs]
    with ModeContext(taping=create_graph):
        for tensor, g in found:
            if tensor is not None and g is not None:
                accumulate(tensor, g, create_graph)


def grad(
    outputs: Sequence[Tensor] | Tensor,
    inputs: Sequence[Tensor] | Tensor,
    grad_outputs: Sequence[Tensor | None] | Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of `outputs` (weighted by `grad_outputs`) with respect to `inputs`, as a tuple.

    `is_grads_batched`: the first axis of `grad_outputs` numbers weightings, and that of the results with them.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got False"
        )
    outputs, inputs = as_list(outputs), as_list(inputs)
    if is_grads_batched:
        options = (retain_graph, create_graph, allow_unused, materialize_grads)
        return batched_grad(outputs, inputs, as_list(grad_outputs), *options)
    roots = seeds(outputs, None if grad_outputs is None else as_list(grad_outputs))
    keep = create_graph if retain_graph is None else retain_graph
    nodes = [place(t) for t in inputs]
    found = walk_from(roots, keep, create_graph, nodes).found
    grads = [found[node] for node in nodes]
    if materialize_grads:
        return tuple(tape.F.zeros_like(t) if g is None else g for t, g in zip(inputs, grads, strict=True))
    if not allow_unused and any(g is None for g in grads):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True "
            "if this is the desired behavior."
        )
    return tuple(grads)


def batched_grad(
    outputs: list[Tensor],
    inputs: list[Tensor],
    weightings: list[Tensor | None],
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Tensor | None, ...]:
    """`grad` for each of the weightings along the first axis, stacked."""
    count = next(int(w.array.shape[0]) for w in weightings if w is not None)
    keep = create_graph if retain_graph is None else retain_graph
    rows = [
        grad(
            outputs,
            inputs,
            [None if w is None else w[i] for w in weightings],
            retain_graph=keep or i < count - 1,
            create_graph=create_graph,
            allow_unused=allow_unused,
            materialize_grads=materialize_grads,
        )
        for i in range(count)
    ]
    return tuple(None if column[0] is None else tape.F.stack(column) for column in zip(*rows, strict=True))


def as_list(value: Any) -> list[Any]:
    return [value] if isinstance(value, Tensor) else list(value)


def place(t: Tensor) -> Any:
    """A tensor's place on the tape; RuntimeError when it has none."""
    if t.node is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return t.node


def seeds(tensors: Sequence[Tensor], gradients: Sequence[Tensor | None] | None) -> list[tuple[Any, Tensor]]:
    """Where the walk starts, with what: 1 for a scalar without a gradient given."""
    given = [None] * len(tensors) if gradients is None else list(gradients)
    if len(given) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(given)} gradients")
    return [(t.node, seed(t, g)) for t, g in zip(tensors, given, strict=True)]


def seed(t: Tensor, g: Tensor | None) -> Tensor:
    if t.node is None:
        raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
    if g is None:
        if t.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return tape.F.ones_like(t)
    if tuple(g.array.shape) != tuple(t.array.shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {g.shape} and output[0] has a shape of {t.shape}."
        )
    return g


def walk_from(roots: list[tuple[Any, Tensor]], keep: bool, create: bool, wanted: list[Any] | None) -> Walk:
    within = None if wanted is None else leading_to(wanted, [node for node, _ in roots])
    walk = Walk(keep, create, within, wanted or ())
    with ModeContext(taping=create):
        for node, g in roots:
            if within is None or node in within:
                walk.add(node, g)
        token = _walk.set(walk)
        try:
            walk.run()
            for call in walk.at_end:
                call()
        finally:
            _walk.reset(token)
    return walk


_walk: ContextVar[Walk | None] = ContextVar("walk", default=None)


def current_walk() -> Walk | None:
    """The backward pass that runs now."""
    return _walk.get()


def leading_to(wanted: list[Any], roots: list[Any]) -> set[Any]:
    """The nodes, reachable from the roots, from which a wanted node is reachable (itself included)."""
    users: dict[Any, list[Any]] = {}
    stack, seen = list(roots), set(roots)
    while stack:
        node = stack.pop()
        for edge in node.edges:
            if edge is None:
                continue
            users.setdefault(edge, []).append(node)
            if edge not in seen:
                seen.add(edge)
                stack.append(edge)
    stack = [node for node in wanted if node in seen]
    out = set(stack)
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in out:
                out.add(user)
                stack.append(user)
    return out


def accumulate(tensor: Tensor, g: Tensor, create: bool) -> None:
    """Add to `.grad`: in place where one is held already, else a dense copy that nothing else shares."""
    if tensor.grad is None:
        tensor.grad = tape.F.clone(g) if create else tape.F.clone(g).detach_()
    elif create:
        tensor.grad = tensor.grad + g
    else:
        tensor.grad.add_(g)
    leaf = tensor.node
    if type(leaf) is Leaf and leaf.post_hooks:
        for hook in list(leaf.post_hooks.values()):
            hook(tensor)
