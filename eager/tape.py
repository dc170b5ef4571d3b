"""The tape: every differentiable op leaves a node, and `backward` walks the nodes in reverse order of making.

A node is (op, attributes, saved inputs, edges to the nodes of its inputs, sequence number). Nothing owns nodes but
the tensors and nodes after them, so a tape that is no longer needed is freed by reference counting. What a
gradient rule does not read is not kept: of such an input only its shape and dtype stay.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .caller import user_line
from .modes import ModeContext, mode
from .ops.executor import current
from .ops.reads import READ, UNUSED, Reads, reads_of
from .ops.table import Op
from .ops.types import is_differentiable
from .tensor import Storage, Tensor, View, next_sequence

#: The module of public functions, in which gradient rules are written; `functional` enters itself here.
F: Any = None

# ---- nodes -------------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """What is kept of an input whose contents no rule reads."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)


class Packed:
    """A saved tensor, as hooks of saved tensors have packed it, with its place on the tape."""

    __slots__ = ("dtype", "node", "shape", "unpack", "value")

    def __init__(self, tensor: Tensor, saving: Any) -> None:
        pack, self.unpack = saving
        self.shape, self.dtype, self.node = tensor.array.shape, tensor.array.dtype, tensor.node
        with ModeContext(saving=None, taping=False):
            self.value = pack(tensor)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def unpacked(self) -> Tensor:
        """The tensor again, with its history."""
        with ModeContext(saving=None):
            found = self.unpack(self.value)
        if not isinstance(found, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got {type(found).__name__}"
            )
        out = Tensor(found.array)
        out.node = self.node
        return out


class Name(str):
    """A name that may be called, as `grad_fn.name()` is in PyTorch."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


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
        "node_hooks",
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
    node_hooks: dict[int, Any] | None
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
        self.storage = self.hooks = self.retained = self.node_hooks = None
        self.line = self.label = ""

    @property
    def name(self) -> Name:
        """PyTorch's kind of name: MulBackward0."""
        label = self.label or NAMES.get(self.op.name) or "".join(map(str.capitalize, self.op.name.split("_")))
        return Name(label if "Backward" in label else f"{label}Backward0")

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes of the inputs (None for one without gradient), and which of their outputs the input is."""
        return tuple((edge.edges[0], edge.index) if type(edge) is Item else (edge, 0) for edge in self.edges)

    @property
    def metadata(self) -> dict[str, Any]:
        """What is known of the forward: its line, under `detect_anomaly`."""
        return {"line": self.line} if self.line else {}

    def register_hook(self, hook: Any) -> Any:
        """Call `hook(grad_inputs, grad_outputs)` after this node's gradients; it may return other grad_inputs."""
        return self._register(("after", hook))

    def register_prehook(self, hook: Any) -> Any:
        """Call `hook(grad_outputs)` before this node's gradients; it may return other grad_outputs."""
        return self._register(("before", hook))

    def _register(self, hook: tuple[str, Any]) -> Any:
        from .hooks import RemovableHandle

        if self.node_hooks is None:
            self.node_hooks = {}
        handle = RemovableHandle(self.node_hooks)
        self.node_hooks[handle.id] = hook
        return handle

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def free(self) -> None:
        """Let go of saved values; nodes that read none stay usable."""
        reads = reads_of(self.op)
        if reads.any:
            self.inputs = self.out = None


class PackedNode(Node):
    """A node whose saved tensors were handed to hooks of saved tensors."""

    __slots__ = ()

    def __init__(self, op: Any, attrs: Any, inputs: Any, edges: Any, out: Any, saving: Any) -> None:
        packed = tuple(Packed(t, saving) if isinstance(t, Tensor) else t for t in inputs)
        values = out if type(out) is tuple else () if out is None else (out,)
        outs = tuple(Packed(Tensor(value), saving) for value in values)
        super().__init__(op, attrs, packed, edges, outs or None)

    def unpacked(self) -> Node:
        """An ordinary node of the same operation, with the tensors again."""
        inputs = tuple(t.unpacked() if type(t) is Packed else t for t in self.inputs or ())
        outs = tuple(packed.unpacked().array for packed in self.out or ())
        out = outs if len(outs) > 1 else outs[0] if outs else None
        return Node(self.op, self.attrs, inputs, self.edges, out)


class Item:
    """The place on the tape of one output of an op that has several."""

    __slots__ = ("__weakref__", "count", "edges", "hooks", "index", "retained", "seq", "storage")
    line = label = ""

    def __init__(self, parent: Node, index: int, count: int) -> None:
        self.edges, self.index, self.count = (parent,), index, count
        self.seq = next_sequence()
        self.hooks = self.retained = self.storage = None

    @property
    def name(self) -> Name:
        return self.edges[0].name

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return self.edges[0].next_functions

    @property
    def metadata(self) -> dict[str, Any]:
        return self.edges[0].metadata

    def register_hook(self, hook: Any) -> Any:
        """As the node's."""
        return self.edges[0].register_hook(hook)

    def register_prehook(self, hook: Any) -> Any:
        """As the node's."""
        return self.edges[0].register_prehook(hook)

    def __repr__(self) -> str:
        return f"<{self.name}>"


# ---- doing an op -------------------------------------------------------------------------------------------

_new = Tensor.__new__

NO_ATTRS: dict[str, Any] = {}
"""The attributes of an op that has none; never written to."""


def apply(op: Op, *inputs: Tensor, **attrs: Any) -> Any:
    """Run a table op on tensors and tape it. A tuple for several outputs."""
    return execute(op, inputs, attrs)


def execute(op: Op, inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> Any:
    """As `apply`, with the arguments packed: the one way anything is computed."""
    value = current.get()(op, [t.array for t in inputs], attrs)
    node = None
    for t in inputs:
        if t.node is not None:
            if mode.get().taping:
                node = record(op, inputs, attrs, value, tuple([t.node for t in inputs]))
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


def apply_unary(op: Op, x: Tensor, attrs: dict[str, Any] = NO_ATTRS) -> Tensor:
    """`execute` for an op of one operand: small tensors spend their time here."""
    out = _new(Tensor)
    out.array = value = current.get()(op, (x.array,), attrs)
    edge = x.node
    taped = edge is not None and mode.get().taping
    out.node = record(op, (x,), attrs, value, (edge,)) if taped else None
    out.grad = out.storage = out.link = None
    return out


def apply_binary(op: Op, x: Tensor, y: Tensor) -> Tensor:
    """`execute` for an op of two operands and no attributes."""
    out = _new(Tensor)
    out.array = value = current.get()(op, (x.array, y.array), NO_ATTRS)
    edges = (x.node, y.node)
    taped = edges != _NOWHERE and mode.get().taping
    out.node = record(op, (x, y), NO_ATTRS, value, edges) if taped else None
    out.grad = out.storage = out.link = None
    return out


_NOWHERE = (None, None)


def wrap(value: Any, node: Any) -> Tensor:
    """A tensor of a value at a place on the tape; a value without gradients is at none."""
    out = Tensor(value)
    out.node = node if is_differentiable(value.dtype) else None
    return out


def record(
    op: Op, inputs: tuple[Tensor, ...], attrs: dict[str, Any], value: Any, edges: tuple[Any, ...]
) -> Node | None:
    """The node of an op just done, or None where no gradient passes."""
    reads = reads_of(op)
    if not reads.differentiable or (value[0] if type(value) is tuple else value).dtype.kind in "biu":
        return None
    if reads.all_inputs:
        saved: tuple[Any, ...] = inputs
    elif reads.no_inputs:
        saved = tuple([t.array.shape for t in inputs])
    else:
        saved = kept(reads, inputs)
    now = mode.get()
    if now.saving is None:
        node = Node(op, attrs, saved, edges, value if reads.out else None)
    else:
        node = PackedNode(op, attrs, saved, edges, value if reads.out else None, now.saving)
    if now.anomaly:
        node.line = user_line()
    return node


def kept(reads: Reads, inputs: tuple[Tensor, ...]) -> tuple[Any, ...]:
    """Of each input what the gradient rules need: the tensor, its shape and dtype, or its shape."""
    out: list[Any] = []
    for k, t in enumerate(inputs):
        use = reads.of(k)
        if use == READ:
            out.append(t)
        elif use == UNUSED:
            out.append(t.array.shape)
        else:
            out.append(Shape(t.array.shape, t.array.dtype))
    return tuple(out)


def apply_view(op: Op, x: Tensor, attrs: dict[str, Any]) -> Tensor:
    """As `execute`, for an op whose result shares the operand's memory: the result remembers its base."""
    out = apply_unary(op, x, attrs)
    if shares_memory(out.array, x.array):
        of = x.link
        out.storage = storage = x.storage or x.shared_storage()
        if of is None or of.detached:
            out.link = View(x, ((op, attrs),))
        else:
            out.link = View(of.base, (*of.path, (op, attrs)))
        storage.add_alias(out)
    return out


def shares_memory(a: Any, b: Any) -> bool:
    """Whether a view op's result shares its operand's memory: a reshape may have had to copy."""
    if type(a) is not np.ndarray:
        a, b = getattr(a, "array", a), getattr(b, "array", b)
    try:
        owner_a, owner_b = a.base, b.base
    except AttributeError:  # a value without memory, as while a graph is built from shapes alone
        return True
    # A base that is no array owns memory that others made: all views have the array over it for their base.
    kind = np.ndarray if isinstance(a, np.ndarray) else type(a)
    return (owner_a if isinstance(owner_a, kind) else a) is (owner_b if isinstance(owner_b, kind) else b)


def labelled(out: Tensor, label: str) -> Tensor:
    """Name the node after the public function, where that is built from ops of other names."""
    node = out.node
    if type(node) is Node:
        node.label = label
    return out


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
