"""What a module owns, parameters, buffers and child modules: registering, attribute access, iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from ..tensor import Tensor
from ..typenames import typename
from .parameter import Buffer, Parameter
from .scope import Structure

STORES = ("_parameters", "_buffers", "_modules")

REGISTRATION_HOOKS: dict[int, tuple[str, Callable[..., Any]]] = {}
"""Functions of (module, name, value) that see what any module registers, by kind: parameter, buffer, module."""


class Registry:
    """The attributes of `Module` that hold tensors and modules, by PyTorch's names and rules."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    def __init__(self) -> None:
        # Past __setattr__, which needs these stores to look into.
        self.__dict__.update(_parameters={}, _buffers={}, _modules={}, _non_persistent_buffers_set=set())

    # ---- registering --------------------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; None keeps the name for one that is absent.

        Errors: TypeError for what is no parameter, KeyError for a name that is taken, empty or dotted,
        ValueError for a tensor that has a history.
        """
        self._check_store("_parameters", "parameter")
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' "
                "(nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                f"explicitly. To express '{name}' as a function of another Tensor, compute the value in the "
                "forward() method."
            )
        self._parameters[name] = self._registered("parameter", name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a buffer: state that is not trained. A persistent one is part of the state dict."""
        self._check_store("_buffers", "buffer")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (Tensor or None required)"
            )
        self._buffers[name] = self._registered("buffer", name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(
            name
        )

    def register_module(self, name: str, module: Any) -> None:
        """Add a child module; None keeps the name for one that is absent."""
        self._check_store("_modules", "module")
        if module is not None and not isinstance(module, Registry):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = self._registered("module", name, module)
        Structure.version += 1

    add_module = register_module

    def _registered(self, kind: str, name: str, value: Any) -> Any:
        """The value to register, which the hooks of all registrations may replace."""
        for wanted, hook in list(REGISTRATION_HOOKS.values()):
            if wanted == kind and (changed := hook(self, name, value)) is not None:
                value = changed
        return value

    def _check_store(self, store: str, kind: str) -> None:
        if store not in self.__dict__:
            raise AttributeError(
                f"cannot assign {kind} before Module.__init__() call: write super().__init__() first in "
                f"{type(self).__name__}.__init__"
            )

    def _check_name(self, kind: str, name: str, store: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in store:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    # ---- attributes ---------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        # Runs only after the ordinary look-up failed.
        attributes = self.__dict__
        for store in STORES:
            if store in attributes and name in attributes[store]:
                return attributes[store][name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._check_store("_parameters", "parameters")
            self._forget(name, but="_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Registry):
            self._check_store("_modules", "module")
            self._forget(name, but="_modules")
            self.register_module(name, value)
        elif isinstance(value, Buffer):
            self._check_store("_buffers", "buffer")
            self._forget(name, but="_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in self.__dict__.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    self._wrong_kind(value, f"parameter '{name}' (nn.Parameter or None expected)")
                )
            self._parameters[name] = None
        elif name in self.__dict__.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    self._wrong_kind(value, f"child module '{name}' (nn.Module or None expected)")
                )
            self.register_module(name, None)
        elif name in self.__dict__.get("_buffers", ()):
            if not (value is None or isinstance(value, Tensor)):
                raise TypeError(
                    self._wrong_kind(value, f"buffer '{name}' (nn.Buffer, Tensor or None expected)")
                )
            self._buffers[name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if any(name in getattr(self, store) for store in STORES):
            self._forget(name)
        else:
            object.__delattr__(self, name)

    def _forget(self, name: str, but: str = "") -> None:
        """Drop `name` from wherever it is stored, except from the store `but` (where it keeps its place)."""
        self.__dict__.pop(name, None)
        for store in STORES:
            if store != but and name in self.__dict__.get(store, ()):
                del self.__dict__[store][name]
                Structure.version += 1
                self._non_persistent_buffers_set.discard(name)

    def _wrong_kind(self, value: Any, place: str) -> str:
        return f"cannot assign '{typename(value)}' as {place}"

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[:1].isdigit())

    # ---- iteration ----------------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """Direct children by name; one that is registered twice comes once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Any]:
        """Direct children, each once."""
        return (module for _, module in self.named_children())

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module (under the name `prefix`) and all below it, by dotted name, parents first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    def modules(self) -> Iterator[Any]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters by dotted name; a shared one comes once, under its first name."""
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters of this module and, with `recurse`, of all below it; each once."""
        return (param for _, param in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers by dotted name; a shared one comes once, under its first name."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers of this module and, with `recurse`, of all below it; each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named_members(
        self, members: Callable[[Any], Any], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        owners = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        seen: set[int] = set()
        for path, module in owners:
            for name, value in members(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    # ---- by path ------------------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Any:
        """The module at a dotted path; "" is this one. AttributeError names the part that is missing."""
        module: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Registry):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put a module at a dotted path; `strict`: where there is one already.

        Errors: ValueError for an empty path and for what is no module, AttributeError for a path that leads nowhere.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Registry):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict and not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        if hasattr(owner, name) and not isinstance(getattr(owner, name), Registry):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path, such as "layer1.0.weight"."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        if not isinstance(found := getattr(owner, name), Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path, such as "bn.running_mean"."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return owner._buffers[name]

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of every parameter; False freezes the module."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or with `set_to_none=False` fill them with zeros."""
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                param.grad.detach_().zero_()
