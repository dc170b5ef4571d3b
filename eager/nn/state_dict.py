"""State dicts: a module's parameters and persistent buffers by dotted name, taken out and put back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .. import functional as F
from ..hooks import RemovableHandle
from ..modes import no_grad
from ..tensor import Tensor
from .hooks import Hook, add_hook
from .parameter import Parameter
from .registry import Registry

EXTRA_STATE = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """The keys that a state dict lacked and those it had too many; both empty when it fitted."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


@dataclass
class Loading:
    """What goes on while a state dict is loaded: the findings so far, and how each module should load."""

    metadata: Mapping[str, dict[str, Any]]
    assign: bool
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def into(self, module: Any, state: dict[str, Any], prefix: str = "") -> None:
        """Load into `module` and all below it. `state` holds the entries whose keys start with `prefix`."""
        metadata = dict(self.metadata.get(prefix[:-1], {}))
        if self.assign:
            metadata["assign_to_params_buffers"] = True
        module._load_from_state_dict(
            state, prefix, metadata, True, self.missing, self.unexpected, self.errors
        )
        for name, child in module._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                self.into(child, {k: v for k, v in state.items() if k.startswith(below)}, below)
        for hook in module._hooks_of_state("after_load"):
            if hook(module, IncompatibleKeys(self.missing, self.unexpected)) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return "
                    "new values, if incompatible_keys need to be modified, it should be done inplace."
                )

    def raise_errors(self, module: Any, strict: bool) -> None:
        """RuntimeError with one line per finding; with `strict`, wrong keys are among them."""
        keys = [("Missing", self.missing), ("Unexpected", self.unexpected)] if strict else []
        lines = [
            f"{kind} key(s) in state_dict: {', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}. "
            for kind, names in keys
            if names
        ]
        if lines or self.errors:
            text = "\n\t".join([*lines, *self.errors])
            raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{text}")


class StateDict(Registry):
    """The state dict methods of `Module`."""

    _version: int = 1
    _state_hooks: dict[int, Hook]

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name, sharing memory with the module.

        The tensors are detached from the tape unless `keep_vars`. `destination`: a dict to add to.
        """
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._hooks_of_state("before_save"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._hooks_of_state("after_save"):
            changed = hook(self, destination, prefix, metadata)
            destination = destination if changed is None else changed
        return destination

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the values of `state_dict` into this module and all below it.

        Values are tensors, or anything numpy can read. With `strict` the keys must be exactly those of
        `state_dict()`; with `assign` the given tensors take the place of the module's own.
        Errors: RuntimeError listing every key that is missing, unexpected or of another shape.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        loading = Loading(getattr(state_dict, "_metadata", None) or {}, assign)
        loading.into(self, OrderedDict(state_dict))
        loading.raise_errors(self, strict)
        return IncompatibleKeys(loading.missing, loading.unexpected)

    # ---- one module, without those below it; layers override these ----------------------------------------

    def _own_state(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers of this module that are not None."""
        buffers = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        return {k: v for k, v in {**self._parameters, **buffers}.items() if v is not None}

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, value in self._own_state().items():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        arguments = (prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        for hook in [h for h in self._state_hooks.values() if h.place == "before_load"]:
            # The module is given here, not kept in the hook: a deep copy's hooks see the copy.
            hook.function(*([self] if hook.with_module else []), state_dict, *arguments)
        own = self._own_state()
        for name in own:
            key = prefix + name
            if key in state_dict:
                assign = local_metadata.get("assign_to_params_buffers", False)
                error_msgs.extend(self._load_value(name, key, state_dict[key], assign))
            elif strict:
                missing_keys.append(key)
        self._load_extra_state(state_dict, prefix, strict, missing_keys)
        if strict:
            unexpected_keys.extend(k for k in state_dict if not self._expects(k, prefix, own))

    def _load_value(self, name: str, key: str, value: Any, assign: bool) -> list[str]:
        """Load one entry; what is wrong with it, if anything."""
        mine = getattr(self, name)
        try:
            theirs = value if isinstance(value, Tensor) else tensor_like(value)
        except TypeError:
            return [
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(value)}"
            ]
        if mine.ndim == 0 and tuple(theirs.shape) == (1,):
            theirs = theirs[0]
        if tuple(theirs.shape) != tuple(mine.shape):
            return [
                f"size mismatch for {key}: copying a param with shape {theirs.shape} from checkpoint, the "
                f"shape in current model is {mine.shape}."
            ]
        try:
            with no_grad():
                self._assign(name, mine, theirs) if assign else mine.copy_(theirs)
        except Exception as error:
            return [
                f'While copying the parameter named "{key}", whose dimensions in the model are {mine.size()} and '
                f"whose dimensions in the checkpoint are {theirs.size()}, an exception occurred : {error.args}."
            ]
        return []

    def _assign(self, name: str, mine: Tensor, theirs: Tensor) -> None:
        if isinstance(mine, Parameter):
            theirs = theirs if isinstance(theirs, Parameter) else Parameter(theirs, mine.requires_grad)
            theirs.requires_grad_(mine.requires_grad)
        setattr(self, name, theirs)

    def _load_extra_state(
        self, state_dict: dict[str, Any], prefix: str, strict: bool, missing_keys: list[str]
    ) -> None:
        if type(self).set_extra_state is StateDict.set_extra_state:
            return
        if prefix + EXTRA_STATE in state_dict:
            self.set_extra_state(state_dict[prefix + EXTRA_STATE])
        elif strict:
            missing_keys.append(prefix + EXTRA_STATE)

    def _expects(self, key: str, prefix: str, own: Mapping[str, Any]) -> bool:
        """Whether `key` belongs to this module or to a child, which then looks at it more closely."""
        if not key.startswith(prefix):
            return True
        name, dot, _ = key[len(prefix) :].partition(".")
        if name == EXTRA_STATE and not dot:
            return type(self).set_extra_state is not StateDict.set_extra_state
        return name in (self._modules if dot else own)

    # ---- extension points ---------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """Override, with `set_extra_state`, to keep more than tensors in the state dict."""
        raise NotImplementedError("a module that overrides set_extra_state must override get_extra_state too")

    def set_extra_state(self, state: Any) -> None:
        """Override, with `get_extra_state`: gets back what that returned."""
        raise NotImplementedError("a module that overrides get_extra_state must override set_extra_state too")

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Run `hook(module, prefix, keep_vars)` before the module adds to a state dict."""
        return add_hook(self._state_hooks, Hook("before_save", hook))

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Run `hook(module, state_dict, prefix, local_metadata)` after it did; it may change the dict."""

        def unchanging(*arguments: Any) -> None:
            if hook(*arguments) is not None:
                raise RuntimeError("state_dict post-hook must return None")

        return add_hook(self._state_hooks, Hook("after_save", unchanging))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As `register_state_dict_post_hook`, but what the hook returns takes the place of the dict."""
        return add_hook(self._state_hooks, Hook("after_save", hook))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Run `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)` before the module loads; it may change the dict and the lists.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """As `register_load_state_dict_pre_hook`, for a function that need not take the module."""
        return add_hook(self._state_hooks, Hook("before_load", hook, with_module=with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Run `hook(module, incompatible_keys)` after the module loaded; it may change the lists."""
        return add_hook(self._state_hooks, Hook("after_load", hook))

    def _hooks_of_state(self, place: str) -> list[Callable[..., Any]]:
        return [hook.function for hook in self._state_hooks.values() if hook.place == place]


def tensor_like(value: Any) -> Tensor:
    """A tensor of an array, or of another library's tensor; TypeError for anything else."""
    if not hasattr(value, "__array__"):
        raise TypeError(f"no array can be made of {type(value).__name__}")
    return F.from_numpy(np.asarray(value))
