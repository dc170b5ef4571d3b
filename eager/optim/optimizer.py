"""`Optimizer`: parameter groups, state, and the loop of a step. Names, state dicts and messages are PyTorch's."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, cast

from ..hooks import RemovableHandle
from ..modes import enable_grad, set_grad_enabled
from ..tensor import Tensor

Group = dict[str, Any]

HOOKS = ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_pre", "load_post")
NUMBERS = ("step", "mu_product", "eta", "mu")
"""The names in a state of numbers that do not belong to one element of the parameter."""
_everywhere: dict[str, dict[int, Any]] = {"step_pre": {}, "step_post": {}}
"""Hooks on the steps of all optimizers."""


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of any optimizer."""
    handle = RemovableHandle(_everywhere["step_pre"])
    handle.hooks[handle.id] = hook
    return handle


def register_optimizer_step_post_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of any optimizer."""
    handle = RemovableHandle(_everywhere["step_post"])
    handle.hooks[handle.id] = hook
    return handle


def hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` with the hooks around it, and a note that a step was taken. A step that calls another counts once."""

    @wraps(step)
    def inner(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._stepping:
            return step(self, *args, **kwargs)
        self._stepping = True
        try:
            for hook in [*_everywhere["step_pre"].values(), *self._hooks["step_pre"].values()]:
                changed = hook(self, args, kwargs)
                args, kwargs = (args, kwargs) if changed is None else changed
            out = step(self, *args, **kwargs)
            for hook in [*self._hooks["step_post"].values(), *_everywhere["step_post"].values()]:
                hook(self, args, kwargs)
        finally:
            self._stepping = False
        self._stepped = True
        return out

    return inner


class Optimizer:
    """Changes parameters by their gradients. A subclass gives the defaults and `update`, or its own `step`.

    `params`: tensors, (name, tensor) pairs, or dicts with "params" and settings of their own. `state[param]` is
    the dict of what the optimizer remembers about a parameter. Errors: TypeError and ValueError as in PyTorch.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "step" in cls.__dict__:
            cls.step = hooked(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{type(params).__name__}"
            )
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._hooks: dict[str, dict[int, Any]] = {kind: {} for kind in HOOKS}
        self._stepped = self._stepping = False
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(dict(group) if isinstance(group, dict) else group)

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with settings of their own; settings that are not given are the optimizer's."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        param_group.update(named_parameters(param_group["params"]))
        for param in param_group["params"]:
            check_parameter(param, self.defaults.get("differentiable", False))
        for name, default in self.defaults.items():
            param_group.setdefault(name, default)
        self._check_overlap(param_group)
        self.param_groups.append(param_group)

    def _check_overlap(self, new: Group) -> None:
        mine = {id(param) for group in self.param_groups for param in group["params"]}
        ids = [id(param) for param in new["params"]]
        if len(set(ids)) != len(ids):
            raise ValueError(
                "optimizer got a parameter group that names a parameter twice; pass each parameter once"
            )
        if not mine.isdisjoint(ids):
            raise ValueError("some parameters appear in more than one parameter group")
        if any(("param_names" in group) != ("param_names" in new) for group in self.param_groups):
            raise ValueError("all optimizer param groups should be with/without names")

    # ---- stepping -----------------------------------------------------------------------------------------

    @hooked
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient. `closure` computes the loss, which is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with set_grad_enabled(self.defaults.get("differentiable", False)):
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self._update(param, group)
        return loss

    def _update(self, param: Tensor, group: Group) -> None:
        state = self.state.get(param)
        if state is None:
            state = self.initial_state(param, group)
        self.update(param, cast(Tensor, param.grad), state, group)
        if state:
            self.state[param] = state

    def prepare(self) -> None:
        """Make the state that first steps would make; a step that is to be recorded needs it beforehand."""
        for group in self.param_groups:
            for param in group["params"]:
                if param not in self.state and (state := self.initial_state(param, group)):
                    self.state[param] = state

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        """What is remembered of a parameter before its first step."""
        return {}

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        """Change `param`, and its `state`, in place by `grad`; runs without a tape."""
        raise NotImplementedError(f"{type(self).__name__} must define update, or a step of its own")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or with `set_to_none=False` fill them with zeros."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    param.grad.detach_().zero_()

    # ---- hooks --------------------------------------------------------------------------------------------

    def _register(self, kind: str, hook: Callable[..., Any], first: bool = False) -> RemovableHandle:
        handle = RemovableHandle(self._hooks[kind])
        hooks = self._hooks[kind]
        hooks[handle.id] = hook
        if first:
            for key in [key for key in hooks if key != handle.id]:
                hooks[key] = hooks.pop(key)
        return handle

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new (args, kwargs)."""
        return self._register("step_pre", hook)

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self._register("step_post", hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict()` makes its dict."""
        return self._register("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[[Optimizer, dict[str, Any]], dict[str, Any] | None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` on what `state_dict()` made; it may return another one."""
        return self._register("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[[Optimizer, dict[str, Any]], dict[str, Any] | None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before a state dict is loaded; it may return another one."""
        return self._register("load_pre", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after a state dict was loaded."""
        return self._register("load_post", hook, prepend)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._hooks = {kind: {} for kind in HOOKS}
        self._stepped = self._stepping = False

    # ---- state dicts --------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state and the groups' settings, with parameters numbered in order of their groups."""
        for hook in list(self._hooks["state_dict_pre"].values()):
            hook(self)
        numbers: dict[int, int] = {}
        for group in self.param_groups:
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
        groups = [
            {**group, "params": [numbers[id(param)] for param in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers.get(id(key), key): value for key, value in self.state.items()}
        return self._replaced("state_dict_post", {"state": state, "param_groups": groups})

    def _replaced(self, kind: str, state_dict: Any) -> Any:
        """A state dict after the hooks of a kind, each of which may return another one."""
        for hook in list(self._hooks[kind].values()):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        return state_dict

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over state and settings; parameters are matched by their order. The tensors are copied.

        Errors: ValueError when groups differ in number or size.
        """
        state_dict = self._replaced("load_pre", dict(state_dict))
        saved = copy.deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, self.param_groups, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        params = {
            number: param
            for theirs, mine in zip(saved, self.param_groups, strict=True)
            for number, param in zip(theirs["params"], mine["params"], strict=True)
        }
        self.state = defaultdict(dict)
        for number, value in state_dict["state"].items():
            param = params.get(number)
            self.state[number if param is None else param] = copied(value, param)
        kept = ("params", "param_names")
        self.param_groups = [
            {**theirs, **{key: mine[key] for key in kept if key in mine}}
            for theirs, mine in zip(saved, self.param_groups, strict=True)
        ]
        for hook in list(self._hooks["load_post"].values()):
            hook(self)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"


def named_parameters(params: Any) -> Group:
    """The "params" of a group as a list, and as "param_names" the names where pairs were given."""
    if isinstance(params, Tensor):
        return {"params": [params]}
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
            "sets will change between runs. Please use a list instead."
        )
    params = list(params)
    pairs = [pair for pair in params if isinstance(pair, tuple)]
    if not pairs:
        return {"params": params}
    if len(pairs) != len(params):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return {"params": [tensor for _, tensor in pairs], "param_names": [name for name, _ in pairs]}


def check_parameter(param: Any, differentiable: bool) -> None:
    """TypeError for what is no tensor, ValueError for a tensor that was computed from others.

    Steps that are themselves on the tape may change such tensors: meta-learning does.
    """
    if not isinstance(param, Tensor):
        raise TypeError(
            f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}"
        )
    if not param.is_leaf and not differentiable:
        raise ValueError("can't optimize a non-leaf Tensor")


def copied(value: Any, param: Tensor | None, key: str = "") -> Any:
    """A copy of loaded state, with floating-point tensors in the dtype and place of their parameter.

    Counts and other numbers of a schedule keep their dtype: float16 could not count beyond 2048.
    """
    if isinstance(value, Mapping):
        return {k: copied(v, param, k) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(copied(v, param, key) for v in value)
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    if param is None or key in NUMBERS or not param.is_floating_point():
        return value.detach().clone()
    return value.detach().clone().to(device=param.device, dtype=param.dtype)


def check_setting(name: str, value: Any, ok: bool) -> None:
    """ValueError unless `ok`, in PyTorch's words."""
    if not ok:
        raise ValueError(f"Invalid {name}: {value}")


def check_common(
    lr: float | Tensor,
    eps: float = 0,
    betas: tuple[float, float] | None = None,
    weight_decay: float | Tensor = 0,
    **positive: float,
) -> None:
    """The checks that optimizers share; `positive`: further settings that must not be negative."""
    check_setting("learning rate", lr, isinstance(lr, Tensor) or lr >= 0)
    check_setting("epsilon value", eps, eps >= 0)
    for i, beta in enumerate(betas or ()):
        check_setting(f"beta parameter at index {i}", beta, 0 <= beta < 1)
    check_setting("weight_decay value", weight_decay, isinstance(weight_decay, Tensor) or weight_decay >= 0)
    for name, value in positive.items():
        check_setting(f"{name} value", value, value >= 0)
