"""Tensor: a value (an array, or a traced value while recording) with its place on the tape.

The methods named after functions are attached by `methods.py`; here is what belongs to the object itself:
construction, the autograd state, reading the contents, indexing, Python's protocols.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from .caller import Place
from .device import CPU, device, device_of, move
from .dtypes import dtype, dtype_of
from .memory_format import layout as Layout, strided
from .ops.types import DTYPES, is_differentiable

if TYPE_CHECKING:
    from .signatures import Methods
else:
    Methods = object  # methods.py attaches them

#: Numbers tape nodes and writes in one order: a write that is younger than a node made its saved value stale.
sequence = count(1)
next_sequence = sequence.__next__


class Size(tuple[int, ...]):
    """A tensor's shape."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"tapecast.Size({list(map(int, self))})"

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        total = 1
        for n in self:
            total = total * n
        return total


class Storage:
    """What the tensors that share memory share: the count of writes, when and where the last ones were, aliases."""

    __slots__ = ("aliases", "limit", "version", "writes", "written")

    writes: deque[tuple[int, Place]] | None  # sequence number and place of each of the last writes

    def __init__(self) -> None:
        self.version = 0
        self.written = 0  # the sequence number of the last write
        self.writes = None
        self.aliases: list[weakref.ref[Tensor]] = []
        self.limit = 64

    def bump(self, where: Place) -> None:
        """Count a write from the user's place `where`."""
        self.version += 1
        self.written = next_sequence()
        if self.writes is None:
            self.writes = deque(maxlen=16)
        self.writes.append((self.written, where))

    def add_alias(self, tensor: Tensor) -> None:
        aliases = self.aliases
        aliases.append(weakref.ref(tensor))
        if len(aliases) > self.limit:  # now and then, forget the dead
            self.aliases = [ref for ref in aliases if ref() is not None]
            self.limit = max(64, 2 * len(self.aliases))

    def live_aliases(self) -> Iterator[Tensor]:
        for ref in list(self.aliases):
            tensor = ref()
            if tensor is not None:
                yield tensor


class View:
    """How a tensor follows from its base: the view ops (op, attrs) to apply in turn."""

    __slots__ = ("base", "path")
    detached = silent = False

    def __init__(self, base: Tensor, path: tuple[Any, ...]) -> None:
        self.base, self.path = base, path


class Detached(View):
    """A tensor of the base's values without its history. `silent`: writes are not counted (`.data`)."""

    __slots__ = ("silent",)
    detached = True

    def __init__(self, base: Tensor, silent: bool) -> None:
        self.base, self.path, self.silent = base, (), silent


class Leaf:
    """The place on the tape of a tensor that gathers its own gradient."""

    __slots__ = ("__weakref__", "hooks", "post_hooks", "seq", "tensor")
    inputs = edges = ()

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        self.seq = next_sequence()
        self.hooks: dict[int, Any] | None = None
        self.post_hooks: dict[int, Any] | None = None

    #: As nodes have it.
    next_functions: tuple[Any, ...] = ()

    @property
    def variable(self) -> Tensor | None:
        """The tensor that gathers a gradient here."""
        return self.tensor()

    def name(self) -> str:
        """What PyTorch calls it."""
        return "AccumulateGrad"

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


class Tensor(Methods):
    """An n-dimensional array that remembers how it was computed.

    `Tensor(array)` wraps a numpy or cupy array (or a traced value) without a copy; `tapecast.tensor(data)` is
    the public constructor. `array` is the value. `node` is the place on the tape: None for a value no gradient
    flows to, a `Leaf`, or the operation that made it. `link` says which tensor a view is a view of.
    """

    __slots__ = ("__dict__", "__weakref__", "array", "grad", "link", "node", "storage")

    array: Any
    grad: Tensor | None
    node: Any
    storage: Storage | None
    link: View | None

    __array_priority__ = 1000  # numpy leaves `array + tensor` to us

    def __init__(self, array: Any, requires_grad: bool = False) -> None:
        if isinstance(array, Tensor):
            array = array.array
        elif not hasattr(array, "dtype"):
            array = np.asarray(array, dtype_of(float).numpy)  # PyTorch's legacy constructor: always floats
        self.array = array
        self.grad = self.node = self.storage = self.link = None
        if requires_grad:
            self.requires_grad_(True)

    # ---- what it is -------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return Size(self.array.shape)

    @property
    def dtype(self) -> dtype:
        return dtype_of(self.array.dtype)

    @property
    def ndim(self) -> int:
        return len(self.array.shape)

    @property
    def device(self) -> device:
        return device_of(self.array)

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def itemsize(self) -> int:
        return int(self.array.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        return self.numel() * self.itemsize

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one axis."""
        return self.shape if dim is None else self.array.shape[self._axis(dim)]

    def dim(self) -> int:
        return len(self.array.shape)

    def numel(self) -> int:
        """The number of elements."""
        return self.shape.numel()

    nelement = numel
    ndimension = dim

    def element_size(self) -> int:
        """Bytes per element."""
        return self.itemsize

    def stride(self, dim: int | None = None) -> Any:
        """Steps between neighbours along each axis, in elements."""
        concrete = getattr(self.array, "array", self.array)
        steps = tuple(n // concrete.itemsize for n in concrete.strides)
        return steps if dim is None else steps[self._axis(dim)]

    def is_contiguous(self, *, memory_format: Any = None) -> bool:
        """Whether memory holds the elements row by row, or in another format's order, without gaps."""
        array = getattr(self.array, "array", self.array)
        last = getattr(memory_format, "ndim", None)
        if last is not None:
            if array.ndim != last:
                return False
            array = array.transpose(0, *range(2, last), 1)
        return bool(array.flags.c_contiguous)

    def storage_offset(self) -> int:
        """The position of the first element in the memory of the tensor this one is a view of, in elements."""
        from .functional.strides import start_of

        return start_of(self)

    @property
    def layout(self) -> Layout:
        return strided

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    is_sparse = is_sparse_csr = is_quantized = is_nested = is_meta = is_mkldnn = False
    is_mps = is_xpu = is_xla = is_ipu = is_mtia = is_maia = is_vulkan = False
    name: str | None = None

    @property
    def is_cpu(self) -> bool:
        """Whether the elements are in main memory."""
        return self.device.type == "cpu"

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self._read("data_ptr()").__array_interface__["data"][0])

    def _axis(self, dim: int) -> int:
        ndim = max(len(self.array.shape), 1)
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})"
            )
        return dim % ndim

    # ---- autograd state ---------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make this leaf gather a gradient, or not; RuntimeError for a dtype without gradients or a non-leaf."""
        if requires_grad:
            if not is_differentiable(self.array.dtype):
                raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
            if self.node is None:
                self.node = Leaf(self)
        elif self.node is not None:
            if not self.is_leaf:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed "
                    "variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
                )
            self.node = None
        return self

    @property
    def is_leaf(self) -> bool:
        return self.node is None or type(self.node) is Leaf

    @property
    def grad_fn(self) -> Any:
        """The operation on the tape that made this tensor; None for a leaf."""
        return None if self.is_leaf else self.node

    @property
    def retains_grad(self) -> bool:
        """Whether a non-leaf was asked to keep its gradient."""
        return self.grad_fn is not None and self.node.retained is not None

    @property
    def _version(self) -> int:
        """How often this memory was written to."""
        return 0 if self.storage is None else self.storage.version

    def shared_storage(self) -> Storage:
        """The storage record, made on first need; the node that saved this output is told of it."""
        storage = self.storage
        if storage is None:
            storage = self.storage = Storage()
            if self.node is not None and type(self.node) is not Leaf:
                self.node.storage = storage
        return storage

    @property
    def _base(self) -> Tensor | None:
        return None if self.link is None or self.link.detached else self.link.base

    def _is_view(self) -> bool:
        return self._base is not None

    # ---- reading the contents: all of it goes through here --------------------------------------------------------

    def _read(self, reason: str) -> Any:
        """The array itself. A traced value answers through its `concrete(reason)`, which may refuse."""
        concrete = getattr(self.array, "concrete", None)
        return self.array if concrete is None else concrete(reason)

    def _read_cpu(self, reason: str) -> np.ndarray[Any, Any]:
        return move(self._read(reason), CPU)

    def item(self) -> Any:
        """The only element as a Python number; RuntimeError when there are more."""
        array = self._read("item()")
        if array.size != 1:
            raise RuntimeError(f"a Tensor with {int(array.size)} elements cannot be converted to Scalar")
        return array.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for a zero-dimensional tensor."""
        return self._read("tolist()").tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """The numpy array, sharing memory. RuntimeError on the tape or on a GPU, unless `force` detaches and copies."""
        if force:
            return self._read_cpu("numpy()")
        if self.requires_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if self.is_cuda:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
                "host memory first."
            )
        return self._read("numpy()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        # numpy's functions, called with a tensor, give one; what they give in dtypes of their own stays.
        value = np.asarray(array)
        return Tensor(value) if value.dtype in DTYPES.values() else array

    def __dlpack__(self, **options: Any) -> Any:
        """The memory itself, for another library; BufferError for a tensor on the tape."""
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return self._read("__dlpack__()").__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._read("__dlpack_device__()").__dlpack_device__()

    def _number(self, kind: type) -> Any:
        array = self._read(f"{kind.__name__}()")
        if array.size != 1:
            if kind is bool:
                what = "no values" if array.size == 0 else "more than one value"
                raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
            raise RuntimeError(f"a Tensor with {int(array.size)} elements cannot be converted to Scalar")
        return kind(array.item())

    def __bool__(self) -> bool:
        return bool(self._number(bool))

    def __int__(self) -> int:
        return int(self._number(int))

    def __float__(self) -> float:
        return float(self._number(float))

    def __complex__(self) -> complex:
        return complex(self._number(complex))

    def __index__(self) -> int:
        if not self.dtype.category == 1 and self.dtype.name != "bool":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._number(int))

    def __repr__(self) -> str:
        from .printing import tensor_text

        return tensor_text(self)

    def __format__(self, spec: str) -> str:
        number = not self.array.shape and (spec or not hasattr(self.array, "concrete"))
        return format(self.item(), spec) if number else object.__format__(self, spec)

    # ---- containers -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        if not self.array.shape:
            raise TypeError("len() of a 0-d tensor")
        return int(self.array.shape[0])  # len() takes the number from a size that is symbolic: that is noted

    def __iter__(self) -> Iterator[Tensor]:
        if not self.array.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter([self[i] for i in range(self.array.shape[0])])

    def __setitem__(self, index: Any, value: Any) -> None:
        from .functional import setitem

        setitem(self, index, value)

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __hash__(self) -> int:
        return id(self)

    # ---- copies -----------------------------------------------------------------------------------------------

    def _alias(self) -> Tensor:
        """Another object for the same value, history and memory: what an in-place op keeps of the tensor it changes."""
        out = Tensor.__new__(Tensor)
        out.array, out.node, out.storage = self.array, self.node, self.storage or self.shared_storage()
        out.grad = out.link = None
        return out

    def detach(self) -> Tensor:
        """The same memory without the history."""
        return self._detached(silent=False)

    def _detached(self, silent: bool) -> Tensor:
        out = Tensor(self.array)
        out.storage = self.shared_storage()
        out.link = Detached(self, silent)
        out.storage.add_alias(out)
        return out

    @property
    def data(self) -> Tensor:
        """The same memory without the history; writes through it escape the check of saved values."""
        return self._detached(silent=True)

    @data.setter
    def data(self, value: Tensor) -> None:
        if self.requires_grad and not (value.is_floating_point() or value.is_complex()):
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible "
                "tensor type."
            )
        from .writes import replace_value

        replace_value(self, value.array)

    def detach_(self) -> Tensor:
        """Cut this tensor off its history; RuntimeError for a view."""
        if self._is_view():
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        self.node = None
        return self

    def __copy__(self) -> Tensor:
        """Another tensor of the same memory."""
        out = type(self).__new__(type(self))
        Tensor.__init__(out, self.array)
        out.node = Leaf(out) if type(self.node) is Leaf else self.node
        out.storage = self.shared_storage()
        out.__dict__.update(self.__dict__)
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment."
            )
        if id(self) in memo:
            return memo[id(self)]
        from copy import deepcopy

        out = memo[id(self)] = type(self).__new__(type(self))
        Tensor.__init__(out, self._read("deepcopy()").copy(), self.requires_grad)
        out.grad = deepcopy(self.grad, memo)
        out.__dict__.update(deepcopy(self.__dict__, memo))
        return out

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        if not self.is_leaf:
            raise RuntimeError("a tensor on the tape cannot be pickled; pickle tensor.detach()")
        array = np.ascontiguousarray(self._read_cpu("pickle")).reshape(self.array.shape)
        state = (
            array.tobytes(),
            self.dtype.name,
            array.shape,
            str(self.device),
            self.requires_grad,
            self.__dict__,
        )
        return rebuild, (type(self), *state)


def rebuild(
    cls: type[Tensor],
    raw: bytes,
    name: str,
    shape: tuple[int, ...],
    where: str,
    requires_grad: bool,
    extra: dict[str, Any],
) -> Tensor:
    """The inverse of pickling."""
    out = cls.__new__(cls)
    array = np.frombuffer(bytearray(raw), dtype_of(name).numpy).reshape(shape)
    Tensor.__init__(out, move(array, device(where)), requires_grad)
    out.__dict__.update(extra)
    return out
