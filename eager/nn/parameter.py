"""Tensors that a module owns: parameters, which are trained, and buffers, which are state."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..dtypes import dtype_of, get_default_dtype
from ..modes import no_grad
from ..tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module lists among its parameters when it is assigned as an attribute.

    The values of `data`, by default none, are shared, not copied; its history is left behind.
    """

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        share_values(self, data, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        # The gradient stays behind, unlike that of a plain leaf.
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor that a module lists among its buffers, persistent or not, when it is assigned as an attribute."""

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        share_values(self, data, False)
        self.persistent = persistent


def share_values(tensor: Tensor, data: Tensor | None, requires_grad: bool) -> None:
    """Initialise `tensor` with the memory of `data`, so that a write to either counts for both."""
    if data is None:
        Tensor.__init__(tensor, np.empty(0, get_default_dtype().numpy), requires_grad)
        return
    if not isinstance(data, Tensor):
        raise TypeError(
            f"{type(tensor).__name__} wants a Tensor, got {type(data).__name__}; use tapecast.tensor(data)"
        )
    Tensor.__init__(tensor, data.array, requires_grad)
    tensor.storage = data.shared_storage()


# ---- without a shape yet -----------------------------------------------------------------------------------

#: Methods that need no shape: those by which modules convert their tensors and keep them.
SHAPELESS = frozenset(
    """
    detach requires_grad_ is_floating_point is_complex to cpu cuda float double half bfloat16 register_hook copy_
    shared_storage materialize share_memory_
    """.split()
)
OPERATORS = (
    "add radd sub rsub mul rmul truediv rtruediv matmul rmatmul pow rpow neg getitem setitem len".split()
)


class Uninitialized(Tensor):
    """A tensor that has a dtype and a device and gets its shape by `materialize`. ValueError for all other use."""

    cls_to_become: type[Tensor]

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Take a shape, with undefined values, and become an ordinary tensor. By default device and dtype stay."""
        made = self.data.new_empty(
            tuple(shape),
            dtype=self.dtype if dtype is None else dtype_of(dtype),
            device=self.device if device is None else device,
        )
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        with no_grad():
            self.data = made

    @property
    def shape(self) -> NoReturn:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def detach(self) -> Any:
        """The tensor itself: what a state dict keeps."""
        return self

    def share_memory_(self) -> NoReturn:
        """RuntimeError: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __getattribute__(self, name: str) -> Any:
        if name[0] != "_" and name not in SHAPELESS and callable(getattr(Tensor, name, None)):
            raise refusal(name)
        return super().__getattribute__(name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return rebuilt, (type(self), self.requires_grad, str(self.device), self.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = rebuilt(type(self), self.requires_grad, self.device, self.dtype)
        return memo[id(self)]


def refusal(name: str) -> ValueError:
    """The error of what needs a shape."""
    return ValueError(
        f"Attempted to use an uninitialized parameter in Tensor.{name}. This error happens when you are using a "
        "`LazyModule` or explicitly manipulating `nn.parameter.UninitializedParameter` objects. When using LazyModules "
        "Call `forward` with a dummy batch to initialize the parameters before calling functions of them"
    )


def refusing(name: str) -> Any:
    """An operator that needs a shape."""

    def refused(self: Any, *args: Any) -> NoReturn:
        raise refusal(name)

    return refused


for _name in OPERATORS:
    setattr(Uninitialized, f"__{_name}__", refusing(f"__{_name}__"))


class UninitializedParameter(Uninitialized, Parameter):
    """A parameter whose shape is not known yet."""

    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        Parameter.__init__(self, shapeless(device, dtype), requires_grad)


class UninitializedBuffer(Uninitialized):
    """A buffer whose shape is not known yet."""

    cls_to_become = Tensor

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None) -> None:
        share_values(self, shapeless(device, dtype), requires_grad)


def shapeless(device: Any, dtype: Any) -> Tensor:
    """A tensor of no elements on a device."""
    kind = get_default_dtype() if dtype is None else dtype_of(dtype)
    out = Tensor(np.empty(0, kind.numpy))
    return out if device is None else out.to(device)


def rebuilt(cls: Any, requires_grad: bool, device: Any, dtype: Any) -> Any:
    """A copy that has no shape either."""
    return cls(requires_grad, device, dtype)


def is_lazy(x: Any) -> bool:
    """Whether a tensor has no shape yet."""
    return isinstance(x, Uninitialized)
