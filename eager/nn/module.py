"""`Module`, the base class of all models and layers. Names, behaviour and messages are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent
from typing import Any, Self

from .. import functional as F
from ..dtypes import dtype as DType
from ..modes import no_grad
from ..tensor import Tensor
from . import scope
from .global_hooks import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from .hooks import GLOBAL, HookedCall, Hooks
from .scope import current_scope
from .state_dict import StateDict

__all__ = [
    "Module",
    "current_scope",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


class Module(StateDict, Hooks):
    """A model or a part of one: parameters, buffers and child modules, and `forward`, which uses them.

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 2)

            def forward(self, x):
                return self.fc(x).relu()

    Assigning a `Parameter` or a module as an attribute registers it. Call the module, not its `forward`: the
    call runs hooks and keeps `current_scope`, the path by which messages and graphs name the layers.
    """

    training: bool
    call_super_init = False

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(training=True, _call_hooks={}, _state_hooks={})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What a call computes; every subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tokens = scope.enter(self)
        try:
            if self._call_hooks or GLOBAL:
                return HookedCall(self, args, kwargs).run()
            return self.forward(*args, **kwargs)
        finally:
            scope.leave(tokens)

    # ---- modes --------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set `training` here and in all modules below: dropout and batch norm behave differently by it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The mode for inference: `train(False)`."""
        return self.train(False)

    # ---- all tensors at once ------------------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every module below, children first, and on this one; typically to initialise."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the value of every parameter, gradient and buffer by `fn` of it. Parameters keep identity."""
        for module in self.children() if recurse else ():
            module._apply(fn)
        with no_grad():
            for param in self._parameters.values():
                if param is not None:
                    param.data = fn(param.data)
                    if param.grad is not None:
                        param.grad = fn(param.grad)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move or convert parameters and buffers: `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`.

        Only floating-point tensors take the dtype, and only those of 4 and 5 axes `memory_format`. TypeError for any
        other dtype.
        """
        device, dtype = target_of(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(t: Tensor) -> Tensor:
            wanted = dtype if t.is_floating_point() or t.is_complex() else None
            layout = kwargs.get("memory_format") if t.ndim in (4, 5) else None
            return t.to(device=device or t.device, dtype=wanted or t.dtype, memory_format=layout)

        return self._apply(convert)

    def float(self) -> Self:
        """All floating-point parameters and buffers as float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """All floating-point parameters and buffers as float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """All floating-point parameters and buffers as float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """All floating-point parameters and buffers as bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def type(self, dst_type: Any) -> Self:
        """All parameters and buffers as `dst_type`."""
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self) -> Self:
        """All parameters and buffers in main memory."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        """All parameters and buffers on a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move parameters and buffers to a device without their values."""
        return self._apply(lambda t: F.empty_like(t, device=device), recurse)

    def share_memory(self) -> Self:
        """Move all parameters and buffers to shared memory, where forked and spawned processes train them together."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    # ---- text ---------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What the repr shows between the parentheses; layers give their settings."""
        return ""

    def _get_name(self) -> str:
        return self.__class__.__name__

    def _child_lines(self) -> list[str]:
        return [f"({name}): {module!r}" for name, module in self._modules.items()]

    def __repr__(self) -> str:
        extra, children = self.extra_repr(), self._child_lines()
        if not children and "\n" not in extra:
            return f"{self._get_name()}({extra})"
        lines = "\n".join([*([extra] if extra else []), *children])
        return f"{self._get_name()}(\n{indent(lines, '  ')}\n)"

    def __getstate__(self) -> dict[str, Any]:
        # The names below are looked up anew in the copy: they count registrations of this process.
        return {key: value for key, value in self.__dict__.items() if key != "_names_below"}


def target_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, DType | None]:
    """The device and dtype, None where not given, that the arguments of `to` ask for."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    known = {"device", "dtype", "tensor", "non_blocking", "copy", "memory_format"}
    if unknown := kwargs.keys() - known:
        raise TypeError(f"to() got unexpected keyword arguments {sorted(unknown)}; it takes {sorted(known)}")
    for value in (*args, kwargs.get("tensor")):
        match value:
            case Tensor():
                device, dtype = value.device, value.dtype
            case DType():
                dtype = value
            case None | bool():
                pass
            case _:
                device = value
    return device, dtype
