"""The tape: every differentiable op leaves a node, and `backward` walks the nodes in reverse order of making.

A node is (op, attributes, saved inputs, edges to the nodes of its inputs, sequence number). Nothing owns nodes but
the tensors and nodes after them, so a tape that is no longer needed is freed by reference counting. What a
gradient rule does not read is not kept: of such an input only its shape and dtype stay.
"""

from __future__ import annotations

import heapq
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from .ops.executor import current
from .ops.reads import READ, UNUSED, Reads, reads_of
from .ops.table import TABLE, Op
from .ops.types import is_differentiable
from .tensor import Leaf, Storage, Tensor, View, next_sequence

#: The module of public functions, in which gradient rules are written; `functional` enters itself here.
F: Any = None

# ---- modes -------------------------------------------------------------------------------------------------


class Mode(NamedTuple):
    """taping: ops leave nodes. inference: results may never enter a tape. anomaly: nodes remember their line."""

    taping: bool = True
    inference: bool = False
    anomaly: bool = False


mode: ContextVar[Mode] = ContextVar("mode", default=Mode())


def is_grad_enabled() -> bool:
    """Whether ops are put on the tape now."""
    return mode.get().taping


def is_inference_mode_enabled() -> bool:
    return mode.get().inference


class ModeContext:
    """Changes fields of the mode for a block (`with`) or a function (as a decorator)."""

    def __init__(self, **fields: bool) -> None:
        self.fields = fields
        self.tokens: list[Any] = []

    def __enter__(self) -> None:
        self.tokens.append(mode.set(mode.get()._replace(**self.fields)))

    def __exit__(self, *exc: object) -> None:
        mode.reset(self.tokens.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with ModeContext(**self.fields):
                return function(*args, **kwargs)

        return inner


class no_grad(ModeContext):
    """Within it, ops leave nothing on the tape."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        if function is None:
            return self
        self.__init__()  # type: ignore[misc]  # used as a bare decorator: @no_grad
        return self(function)

    def __init__(self) -> None:
        super().__init__(taping=False)


class enable_grad(ModeContext):
    """Within it, ops are taped again, also inside `no_grad`."""

    def __init__(self) -> None:
        super().__init__(taping=True)


class set_grad_enabled(ModeContext):
    """Turns taping on or off: at once when called as a function, and back at the end of a `with` block."""

    def __init__(self, enabled: bool) -> None:
        super().__init__(taping=bool(enabled))
        self.tokens.append(mode.set(mode.get()._replace(taping=bool(enabled))))

    def __enter__(self) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.__exit__()
        return super().__call__(function)


class inference_mode(ModeContext):
    """As `no_grad`, and cheaper to say than to mean: results are plain values that no tape starts from."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(taping=not enabled, inference=enabled)


class detect_anomaly(ModeContext):
    """Within it, nodes remember the user's line, and a gradient that turns nan raises, naming that line."""

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(anomaly=check_nan)


# ---- nodes -------------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """What is kept of an input whose contents no rule reads."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)


#: What PyTorch calls the ops whose names differ.
NAMES = {"matmul": "Mm", "linear": "Addmm", "conv2d": "Convolution", "reshape": "View", "cast": "ToCopy"}


class Node:
    """One taped operation. `inputs` are saved tensors or `Shape`s; `edges` the nodes they came from, or None."""

    __slots__ = (
        "__weakref__",
        "attrs",
        "edges",
        "hooks",
        "inputs",
        "label",
        "line",
        "op",
        "out",
        "retained",
        "seq",
        "storage",
    )

    op: Any
    attrs: dict[str, Any]
    inputs: tuple[Any, ...] | None
    edges: tuple[Any, ...]
    out: Any
    seq: int
    storage: Storage | None
    hooks: dict[int, Any] | None
    retained: Any
    line: str
    label: str

    def __init__(
        self, op: Any, attrs: dict[str, Any], inputs: tuple[Any, ...], edges: tuple[Any, ...], out: Any
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.inputs = inputs
        self.edges = edges
        self.out = out
        self.seq = next_sequence()
        self.storage = self.hooks = self.retained = None
        self.line = self.label = ""

    @property
    def name(self) -> str:
        """PyTorch's kind of name: MulBackward0."""
        label = self.label or NAMES.get(self.op.name) or "".join(map(str.capitalize, self.op.name.split("_")))
        return label if "Backward" in label else f"{label}Backward0"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return tuple((edge, 0) for edge in self.edges)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def gradients(self, g: Any, create: bool) -> Sequence[Any]:
        """The gradient of each input (None where there is none), given the output's."""
        return op_gradients(self, g, create)

    def free(self) -> None:
        """Let go of saved values; nodes that read none stay usable."""
        reads = reads_of(self.op)
        if reads.any:
            self.inputs = self.out = None


class Item:
    """The place on the tape of one output of an op that has several."""

    __slots__ = ("__weakref__", "count", "edges", "hooks", "index", "retained", "seq", "storage")
    line = label = ""

    def __init__(self, parent: Node, index: int, count: int) -> None:
        self.edges, self.index, self.count = (parent,), index, count
        self.seq = next_sequence()
        self.hooks = self.retained = self.storage = None

    @property
    def name(self) -> str:
        return self.edges[0].name

    def __repr__(self) -> str:
        return f"<{self.name}>"


# ---- doing an op -------------------------------------------------------------------------------------------

_new = Tensor.__new__


def apply(op: Op, *inputs: Tensor, **attrs: Any) -> Any:
    """Run a table op on tensors and tape it: the one way anything is computed. A tuple for several outputs."""
    value = current.get()(op, [t.array for t in inputs], attrs)
    node = None
    if mode.get().taping:
        for t in inputs:
            if t.node is not None:
                node = record(op, inputs, attrs, value)
                break
    if type(value) is tuple:
        return tuple(
            wrap(v, None if node is None else Item(node, k, len(value))) for k, v in enumerate(value)
        )
    out = _new(Tensor)
    out.array = value
    out.node = node
    out.grad = out.storage = out.link = None
    return out


def wrap(value: Any, node: Any) -> Tensor:
    """A tensor of a value at a place on the tape; a value without gradients is at none."""
    out = Tensor(value)
    out.node = node if is_differentiable(value.dtype) else None
    return out


def record(op: Op, inputs: tuple[Tensor, ...], attrs: dict[str, Any], value: Any) -> Node | None:
    """The node of an op just done, or None where no gradient passes."""
    if op.vjp is None and op.decompose is None:
        return None
    first = value[0] if type(value) is tuple else value
    if first.dtype.kind in "biu":
        return None
    reads = reads_of(op)
    edges = tuple([t.node for t in inputs])
    if reads.all_inputs:
        saved = inputs
    elif reads.no_inputs:
        saved = tuple([t.array.shape for t in inputs])
    else:
        saved = kept(reads, inputs)
    node = Node(op, attrs, saved, edges, value if reads.out else None)
    if mode.get().anomaly:
        node.line = user_line()
    return node


def kept(reads: Reads, inputs: tuple[Tensor, ...]) -> tuple[Any, ...]:
    """Of each input what the gradient rules need: the tensor, its shape and dtype, or its shape."""
    out = []
    for k, t in enumerate(inputs):
        use = reads.of(k)
        if use == READ:
            out.append(t)
        elif use == UNUSED:
            out.append(t.array.shape)
        else:
            out.append(Shape(t.array.shape, t.array.dtype))
    return tuple(out)


def apply_view(op: Op, x: Tensor, **attrs: Any) -> Tensor:
    """As `apply`, for an op whose result shares the operand's memory: the result remembers its base."""
    out = apply(op, x, **attrs)
    if shares_memory(out.array, x.array):
        link_view(out, x, op, attrs)
    return out


def shares_memory(a: Any, b: Any) -> bool:
    """Whether a view op's result shares its operand's memory: a reshape may have had to copy."""
    if type(a) is not np.ndarray:
        a, b = getattr(a, "array", a), getattr(b, "array", b)
    try:
        owner_a, owner_b = a.base, b.base
    except AttributeError:  # a value without memory, as while a graph is built from shapes alone
        return True
    if (a if owner_a is None else owner_a) is (b if owner_b is None else owner_b):
        return True
    # A strided view has a holder of the memory as its base, and is itself the base of its views.
    return type(a) is np.ndarray and np.may_share_memory(a, b)


def link_view(out: Tensor, x: Tensor, op: Op, attrs: dict[str, Any]) -> None:
    of = x.link
    base, path = (x, ()) if of is None or of.detached else (of.base, of.path)
    out.storage = storage = x.shared_storage()
    out.link = View(base, (*path, (op, attrs)))
    storage.add_alias(out)


def labelled(out: Tensor, label: str) -> Tensor:
    """Name the node after the public function, where that is built from ops of other names."""
    node = out.node
    if type(node) is Node:
        node.label = label
    return out


PACKAGE = __name__.partition(".eager")[0]
_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def user_line() -> str:
    """The innermost frame outside the package, as `file.py:12 in function`."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"


def _is_ours(frame: Any) -> bool:
    name = frame.f_globals.get("__name__", "")
    return bool(name == PACKAGE or name.startswith(PACKAGE + "."))


# ---- gradients of one node ---------------------------------------------------------------------------------


def op_gradients(node: Node, g: Any, create: bool) -> Sequence[Any]:
    """Apply the op's gradient rules for the operands that want one."""
    if node.inputs is None:
        raise RuntimeError(
            "Trying to backward through the graph a second time (or directly access saved tensors after they have "
            "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
            "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or "
            "if you need to access saved tensors after calling backward."
        )
    op, attrs, inputs = node.op, node.attrs, node.inputs
    vjp = op.vjp
    if vjp is None:
        return decomposed_gradients(node, g, create)
    out = None if node.out is None else saved_output(node)
    if callable(vjp):
        check_saved(node, range(len(inputs)))
        return vjp(F, g, out, *inputs, **attrs)
    grads: list[Any] = []
    for k, edge in enumerate(node.edges):
        rule = vjp[k] if edge is not None else None
        if rule is None:
            grads.append(None)
            continue
        check_saved(node, reads_of(op).positions(k, len(inputs)))
        grads.append(rule(F, g, out, *inputs, **attrs))
    return grads


def saved_output(node: Node) -> Tensor:
    """The output as the rules see it: its saved value, at the node's place on the tape."""
    if node.storage is not None and node.storage.written > node.seq:
        raise stale(node, node.storage, "output", node.out)
    out = Tensor(node.out)
    out.node = node
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
        f"{expected} instead. It was last written at {later[-1]}. Write out of place there, or clone the tensor before."
    )


def decomposed_gradients(node: Node, g: Any, create: bool) -> Sequence[Any]:
    """The gradient of a composite without a rule of its own: compute it again from its parts and differentiate."""
    assert node.inputs is not None
    check_saved(node, range(len(node.inputs)))
    with enable_grad():
        inner = [fresh_copy(t, edge is not None) for t, edge in zip(node.inputs, node.edges, strict=True)]
        out = node.op.decompose(F, *inner, **node.attrs)
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

    def add(self, node: Any, g: Tensor) -> None:
        """A gradient arrives at a node: summed with those already there."""
        there = self.waiting.get(node)
        if there is None:
            self.waiting[node] = g
            heapq.heappush(self.heap, (-node.seq, node))
        else:
            self.waiting[node] = there + g

    def run(self) -> None:
        anomaly = mode.get().anomaly
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
        grads = node.gradients(tuple(g) if type(g) is list else g, self.create)
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
                gk = F.sum_to(gk, shape)
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


def check_finite(node: Any, g: Tensor) -> None:
    if np.isnan(g._read_cpu("detect_anomaly")).any():
        where = node.line or "a line outside detect_anomaly()"
        raise RuntimeError(
            f"Function '{node.name}' returned nan values in its backward; its forward is at {where}"
        )


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
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of `outputs` (weighted by `grad_outputs`) with respect to `inputs`, as a tuple."""
    outputs, inputs = as_list(outputs), as_list(inputs)
    roots = seeds(outputs, None if grad_outputs is None else as_list(grad_outputs))
    keep = create_graph if retain_graph is None else retain_graph
    nodes = [place(t) for t in inputs]
    found = walk_from(roots, keep, create_graph, nodes).found
    grads = [found[node] for node in nodes]
    if materialize_grads:
        return tuple(F.zeros_like(t) if g is None else g for t, g in zip(inputs, grads, strict=True))
    if not allow_unused and any(g is None for g in grads):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True "
            "if this is the desired behavior."
        )
    return tuple(grads)


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
        return F.ones_like(t)
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
        walk.run()
    return walk


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
        tensor.grad = F.clone(g) if create else F.clone(g).detach_()
    elif create:
        tensor.grad = tensor.grad + g
    else:
        tensor.grad.add_(g)
    leaf = tensor.node
    if type(leaf) is Leaf and leaf.post_hooks:
        for hook in list(leaf.post_hooks.values()):
            hook(tensor)


# ---- writing in place --------------------------------------------------------------------------------------


def is_traced(value: Any) -> bool:
    """A value of the recorder, which is replaced where an array would be written to."""
    return hasattr(value, "concrete")


def write(target: Tensor, value: Tensor) -> Tensor:
    """Give `target` the contents and the history of `value` (same shape and dtype). Returns target.

    Memory is written once. Where history matters, the base's becomes `put(base, value)` through the chain of
    views, and the other views of the base follow from the base's new history. While recording nothing is written:
    the values of the target, of its base and of the base's other views are replaced.
    """
    taping = mode.get().taping
    if taping:
        check_writable(target)
    traced = is_traced(target.array) or is_traced(value.array)
    storage = target.shared_storage()
    base = target._base
    history = taping and (
        value.node is not None or target.node is not None or (base is not None and base.node is not None)
    )
    root = target
    new = value
    if base is not None and (history or traced):
        root, new = base, put_through(base, target.link.path, value)  # type: ignore[union-attr]
    if history:
        keep_original(target, value.node, traced)
    if not traced:
        write_memory(target.array, value.array)
    if target.link is None or not target.link.silent:
        storage.bump(user_line())
    if history:
        root.node = new.node
    if traced:
        replace_value(root, new.array)
    if history or traced:
        follow(root, history, traced)
        if traced:
            climb(root)
    return target


def check_writable(target: Tensor) -> None:
    if type(target.node) is Leaf:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    base = target._base
    if base is not None and type(base.node) is Leaf:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        )


def keep_original(target: Tensor, node: Any, traced: bool) -> None:
    """An op about to be written over its own operand keeps a copy of it, if its gradient rules read it.

    A traced value is replaced, not written, so that the old one itself can be kept.
    """
    if type(node) is not Node or node.inputs is None:
        return
    reads = reads_of(node.op)
    rules = [k for k, edge in enumerate(node.edges) if edge is not None]
    read = {k for rule in rules for k in reads.positions(rule, len(node.inputs))}
    saved = list(node.inputs)
    for k in read:
        if isinstance(saved[k], Tensor) and saved[k].array is target.array:
            copy = Tensor(target.array if traced else target.array.copy())
            copy.node = saved[k].node
            saved[k] = copy
    node.inputs = tuple(saved)


def write_memory(to: Any, value: Any) -> None:
    if not getattr(getattr(to, "flags", None), "writeable", True):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location, or the memory is read-only. Please clone() the tensor before performing the operation."
        )
    to[...] = value


def put_through(base: Tensor, path: tuple[Any, ...], value: Tensor) -> Tensor:
    """The base after writing `value` through the views of `path`."""
    stages = [base._alias()]
    for op, attrs in path[:-1]:
        stages.append(apply(op, stages[-1], **attrs))
    for (op, attrs), stage in zip(reversed(path), reversed(stages), strict=True):
        if op.put is None:
            raise RuntimeError(
                f"unsupported operation: more than one element of a tensor made by {op.name} refers to a single "
                "memory location. Please clone() the tensor before performing the operation."
            )
        value = op.put(F, stage, value, **attrs)
    return value


def replace_value(tensor: Tensor, array: Any) -> None:
    """Rebind the value, and tell an executor that keeps account of such changes."""
    before, tensor.array = tensor.array, array
    told = getattr(current.get(), "wrote", None)
    if told is not None:
        told(tensor, before)


def follow(base: Tensor, history: bool, traced: bool) -> None:
    """Bring the views of a base that was given a new history or value up to date."""
    for view in list(base.shared_storage().live_aliases()):
        link = view.link
        if link is None or link.base is not base:
            continue
        if link.detached:
            if traced:
                replace_value(view, base.array)
                follow(view, False, traced)
            continue
        again = base._alias()
        for op, attrs in link.path:
            again = apply(op, again, **attrs)
        if history:
            view.node = again.node
        if traced:
            replace_value(view, again.array)
            follow(view, False, True)


def climb(root: Tensor) -> None:
    """While recording: a tensor got a new value, so does the one it is an alias or a view of, and so on."""
    link = root.link
    if link is None:
        return
    with ModeContext(taping=False):
        new = root if link.detached else put_through(link.base, link.path, root)
        replace_value(link.base, new.array)
        follow(link.base, False, True)
    climb(link.base)


# ---- hooks -------------------------------------------------------------------------------------------------


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


# ---- between devices ---------------------------------------------------------------------------------------

MOVE = Op(
    "to_copy",
    infer=lambda x, **attrs: x,
    run=lambda xp, x, **attrs: x,
    vjp=(lambda F, g, out, x, *, device: F.moved(g, device),),
)


def moved_to(x: Tensor, array: Any) -> Tensor:
    """A tensor of x's contents on another device; its gradient is moved back."""
    out = Tensor(array)
    if mode.get().taping and x.node is not None:
        out.node = Node(MOVE, {"device": x.device}, (x.array.shape,), (x.node,), None)
    return out
