"""Parameters that are functions of other parameters: `layer.weight` computed from `layer.parametrizations.weight`.

    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

    parametrize.register_parametrization(layer, "weight", Symmetric())

Reading the attribute runs the parametrizations; what is trained are their inputs, `original`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...modes import no_grad
from ...tensor import Tensor
from ..containers import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache: ContextVar[dict[tuple[int, str], Tensor] | None] = ContextVar("parametrized tensors", default=None)


@contextmanager
def cached() -> Iterator[None]:
    """Within it, each parametrized tensor is computed once, on its first use."""
    if _cache.get() is not None:
        yield  # the outermost one keeps and forgets
        return
    token = _cache.set({})
    try:
        yield
    finally:
        _cache.reset(token)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, called one after the other, and the tensors that the first one takes.

    Of one tensor it is `original`, of several, as the first one's `right_inverse` gives them, `original0`, ....
    Errors: ValueError where the outcome has another shape or dtype than the tensor, unless `unsafe`.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new = inverted(modules, original)
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            if original.dtype != new.dtype and not unsafe:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            # The same object goes on: an optimiser that holds it trains the parametrization.
            replace(original, new)
            register(self, "original", original)
        else:
            for i, tensor in enumerate(new):
                trained = isinstance(original, Parameter)
                register(
                    self, f"original{i}", Parameter(tensor, original.requires_grad) if trained else tensor
                )
        if not unsafe:
            self._check(original)

    def _check(self, original: Tensor) -> None:
        out = self()
        if not isinstance(out, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(out).__name__}.")
        if out.dtype != original.dtype:
            raise ValueError(
                "Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is "
                f"enabled.\nunparametrized dtype: {original.dtype}\nparametrized dtype: {out.dtype}"
            )
        if out.shape != original.shape:
            raise ValueError(
                "Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is "
                f"enabled.\nunparametrized shape: {original.shape}\nparametrized shape: {out.shape}"
            )

    def originals(self) -> list[Tensor]:
        """The tensors that the first parametrization takes."""
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor becomes `value`."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            values = [value] if isinstance(value, Tensor) else list(value)
            if len(values) != self.ntensors or isinstance(value, Tensor) != self.is_tensor:
                raise ValueError(
                    "right_inverse must return as many tensors as when the parametrization was registered: "
                    f"{self.ntensors}, got {len(values)}"
                )
            for original, new in zip(self.originals(), values, strict=True):
                if new.dtype != original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {new.dtype} while `original` has dtype "
                        f"{original.dtype}"
                    )
                replace(original, new)

    def forward(self) -> Tensor:
        first, *others = self
        out: Tensor = first(*self.originals())
        for module in others:
            out = module(out)
        return out


def inverted(modules: Sequence[Module], value: Tensor) -> Any:
    """What the first module must be given for the last to return `value`; without right inverses, `value`."""
    with no_grad():
        for module in reversed(modules):
            if not hasattr(module, "right_inverse"):
                continue
            try:
                value = module.right_inverse(value)
            except NotImplementedError:  # it has one, but not with these settings
                continue
            if not isinstance(value, Tensor | Sequence):
                raise ValueError(
                    "`right_inverse` must return a Tensor or a Sequence of tensors (list, tuple...). "
                    f"Got {type(value).__name__}"
                )
    return value


def replace(tensor: Tensor, value: Tensor) -> None:
    """Give the tensor another value, possibly of another shape."""
    if tensor is not value:
        tensor.data = value.detach()


def register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


# ---- the class of a parametrized module -------------------------------------------------------------------------


def inject_class(module: Module, base: type, properties: Sequence[str] = ()) -> None:
    """Give the module a class of its own, below `base`, that can hold properties."""

    def deep_copy(self: Module, memo: dict[int, Any]) -> Module:
        out = memo[id(self)] = self.__new__(type(self))
        state = {key: value for key, value in self.__dict__.items() if key != "_names_below"}
        out.__dict__.update(copy.deepcopy(state, memo))
        inject_class(out, base, list(self.parametrizations))
        return out

    def no_pickle(self: Module) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    methods = {"__getstate__": no_pickle, "__deepcopy__": deep_copy}
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), methods)
    for name in properties:
        inject_property(module, name)


def inject_property(module: Module, name: str) -> None:
    """Make reading the attribute `name` run its parametrizations, and assigning invert them."""

    def get(self: Any) -> Tensor:
        cache, key = _cache.get(), (id(self), name)
        if cache is None:
            return self.parametrizations[name]()
        if key not in cache:
            cache[key] = self.parametrizations[name]()
        return cache[key]

    def set(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, set))


# ---- registering and removing -----------------------------------------------------------------------------------


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute `module.<tensor_name>` by `parametrization`, after the parametrizations it already has.

    `unsafe` leaves out the check that neither shape nor dtype changes. Errors: ValueError for that check and for a
    name that is no parameter, buffer or parametrized tensor.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        entry: Any = module.parametrizations[tensor_name]
        if not unsafe:
            check_added(entry, parametrization, getattr(module, tensor_name))
        elif hasattr(parametrization, "right_inverse"):
            entry.unsafe = True
        entry.append(parametrization)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        entry = ParametrizationList([parametrization], original, unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            inject_class(module, type(module))
            module.parametrizations = ModuleDict()
        inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = entry
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def check_added(entry: ParametrizationList, parametrization: Module, before: Tensor) -> None:
    """ValueError for one more parametrization that changes shape or dtype."""
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for what in ("dtype", "shape"):
        if getattr(after, what) != getattr(before, what):
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is "
                f"enabled.\nmodule.{what}: {getattr(before, what)}\nparametrized {what}: {getattr(after, what)}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module, or the tensor of that name in it, has a parametrization."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make `module.<tensor_name>` a plain tensor again, of the value it has or, otherwise, of its original's.

    Errors: ValueError for a tensor without parametrization, and for one of several originals that cannot be left.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    entry: Any = module.parametrizations[tensor_name]
    original = entry.originals()[0]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach().clone()
        if entry.is_tensor:
            replace(original, value)
        else:
            original = Parameter(value, original.requires_grad) if isinstance(original, Parameter) else value
    elif not entry.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized "
            "in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of the module without the one that its parametrizations have given it."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give `to_module` copies of the parametrizations, and of the values, that `from_module` has; returns it."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        source: Any = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            with no_grad():
                register(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for parametrization in source:
            register_parametrization(to_module, name, copy.deepcopy(parametrization), unsafe=True)
        target: Any = to_module.parametrizations[name]
        for mine, theirs in zip(target.originals(), source.originals(), strict=True):
            replace(mine, theirs.detach().clone())
    return to_module
