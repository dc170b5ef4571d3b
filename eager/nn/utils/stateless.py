"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...tensor import Tensor
from ..module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """The older place of `func.functional_call`."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call the module with other tensors, by dotted name, in place of its own.

    A tensor that the module has under several names is replaced under all (`tie_weights`). With `strict` there must
    be one for each of its parameters and buffers. Errors: RuntimeError for that and, with it, for unknown names.
    """
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with replaced(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))


@contextmanager
def replaced(
    module: Module, tensors: Mapping[str, Tensor], tie_weights: bool, strict: bool
) -> Iterator[None]:
    """Within it, the module has other tensors."""
    own = dict(named_tensors(module))
    if strict:
        check_names(module, own, tensors)
    tensors = tied(own, tensors) if tie_weights else dict(tensors)
    swapped: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for path, tensor in tensors.items():
            store, name = place(module, path)
            swapped.append((store, name, store.get(name, ABSENT)))
            store[name] = tensor
        yield
    finally:
        for store, name, value in reversed(swapped):
            if value is ABSENT:
                del store[name]
            else:
                store[name] = value


ABSENT = object()


def named_tensors(module: Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def check_names(module: Module, own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """RuntimeError for names that are missing, apart from other names of a tensor that is there, or too many."""
    given = {id(own[name]) for name in tensors if name in own}
    missing = [name for name, tensor in own.items() if id(tensor) not in given]
    unexpected = [name for name in tensors if name not in own]
    found = [("Unexpected", unexpected), ("Missing", missing)]
    if lines := [f"{kind} key(s): {', '.join(map(repr, sorted(names)))}." for kind, names in found if names]:
        raise RuntimeError("\n\t".join([f"Error(s) in reparametrizing for {type(module).__name__}:", *lines]))


def tied(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under all names that the replaced ones have; ValueError for two in place of one."""
    by_id = {id(own[name]): (name, tensor) for name, tensor in tensors.items() if name in own}
    out = dict(tensors)
    for name, tensor in own.items():
        if id(tensor) not in by_id:
            continue
        first, new = by_id[id(tensor)]
        if out.setdefault(name, new) is not new:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted([first, name])}, which are tied. Consider using "
                "tie_weights=False"
            )
    return out


def place(module: Module, path: str) -> tuple[dict[str, Any], str]:
    """The store that holds the tensor of a dotted name, or its module's attributes; AttributeError for no module."""
    owner_path, _, name = path.rpartition(".")
    owner = module.get_submodule(owner_path)
    for store in (owner._parameters, owner._buffers):
        if name in store:
            return store, name
    return owner.__dict__, name
