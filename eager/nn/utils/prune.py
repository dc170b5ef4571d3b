"""Pruning: masks that set some elements of a parameter to zero.

A pruned parameter `weight` is kept whole as `weight_orig`; the buffer `weight_mask` says what stays, and a hook
computes `weight`, their product, before each forward pass. `remove` makes the zeros permanent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ... import functional as F
from ...tensor import Tensor
from ..hooks import mark_computed
from ..module import Module


class BasePruningMethod:
    """A way to choose what to prune: `compute_mask(t, default_mask)` gives the mask, of `t`'s shape.

    `PRUNING_TYPE`, unstructured, structured or global, says what a second pruning of a parameter looks at: the
    elements, or the slices along `dim`, that are left.
    """

    PRUNING_TYPE: ClassVar[str] = "unstructured"
    _tensor_name: str
    dim: int

    @property
    def name(self) -> str:
        """The name of the pruned parameter."""
        return self._tensor_name

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """1 for what stays and 0 for what goes, given what had gone before."""
        raise NotImplementedError

    def apply_mask(self, module: Any) -> Tensor:
        """The parameter times its mask."""
        mask = getattr(module, f"{self._tensor_name}_mask")
        return mask.to(getattr(module, f"{self._tensor_name}_orig").dtype) * getattr(
            module, f"{self._tensor_name}_orig"
        )

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter of a module, after the prunings it already has; returns the method, a hook."""
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        before = [(k, h.function) for k, h in module._call_hooks.items() if is_method(h.function, name)]
        for key, previous in before:
            del module._call_hooks[key]
            container = previous if isinstance(previous, PruningContainer) else PruningContainer(previous)
            container.add_pruning_method(method)
            method = container
        whole = getattr(module, f"{name}_orig" if before else name)
        if importance_scores is not None and importance_scores.shape != whole.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter                     {name} of {module}"
            )
        scores = whole if importance_scores is None else importance_scores
        if not before:
            delattr(module, name)
            module.register_parameter(f"{name}_orig", whole)
        default = getattr(module, f"{name}_mask") if before else F.ones_like(whole.detach())
        module.register_buffer(f"{name}_mask", method.compute_mask(scores.detach(), default.clone()))
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        mark_computed(module, name)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """`t` with zeros where it is pruned."""
        scores = t if importance_scores is None else importance_scores
        mask = F.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, mask)

    def remove(self, module: Any) -> None:
        """Make the zeros permanent: the parameter is a plain one again. The hook is taken off by `prune.remove`."""
        whole = module._parameters[f"{self._tensor_name}_orig"]
        pruned = self.apply_mask(module).detach()
        for name in (self._tensor_name, f"{self._tensor_name}_orig", f"{self._tensor_name}_mask"):
            delattr(module, name)
        whole.data = pruned
        setattr(module, self._tensor_name, whole)


def is_method(hook: Any, name: str) -> bool:
    return isinstance(hook, BasePruningMethod) and hook._tensor_name == name


class PruningContainer(BasePruningMethod):
    """Several prunings of one parameter, one after the other; each looks at what the others left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add one more; ValueError for one of another parameter, TypeError for what is no pruning method."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and method._tensor_name != self._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        if method is not None:
            self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        method = self._pruning_methods[-1]
        left = default_mask != 0
        if method.PRUNING_TYPE == "structured":
            axis = method.dim % t.ndim
            kept = left.sum([a for a in range(t.ndim) if a != axis]) != 0
            places: Any = tuple(kept if a == axis else slice(None) for a in range(t.ndim))
        else:
            places = left if method.PRUNING_TYPE == "unstructured" else slice(None)
        mask = default_mask.clone()
        mask[places] = method.compute_mask(t[places], default_mask[places]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, but sets the mask up."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class CustomFromMask(BasePruningMethod):
    """By a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError("default_mask and self.mask must have the same shape")
        return default_mask * self.mask.to(default_mask.dtype)


class Amount(BasePruningMethod):
    """What the methods share that prune a number of elements or slices, or a fraction of them."""

    def __init__(self, amount: float) -> None:
        if not isinstance(amount, int | float):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or (isinstance(amount, float) and amount > 1):
            raise ValueError(
                f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
            )
        self.amount = amount

    def count(self, size: int) -> int:
        """How many of `size` to prune; ValueError for more than there are."""
        if isinstance(self.amount, float):
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(
                f"amount={self.amount} should be smaller than the number of parameters to prune={size}"
            )
        return self.amount

    def without_smallest(self, scores: Tensor, default_mask: Tensor) -> Tensor:
        """The mask, and in it zeros where the scores are smallest."""
        mask = default_mask.clone()
        if count := self.count(scores.numel()):
            mask.view(-1)[F.topk(scores.reshape(-1), count, largest=False).indices] = 0
        return mask


class RandomUnstructured(Amount):
    """Elements by chance."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self.without_smallest(F.rand_like(t), default_mask)


class L1Unstructured(Amount):
    """The elements of smallest absolute value."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self.without_smallest(t.abs(), default_mask)


class Slices(Amount):
    """What the methods share that prune slices along an axis."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def scores(self, t: Tensor) -> Tensor:
        """One for each slice; the smallest go."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        axis = self.dim % t.ndim
        scores = self.scores(t)
        count = self.count(scores.numel())
        keep = self.without_smallest(scores, F.ones_like(scores)) if count else F.ones_like(scores)
        return default_mask * keep.reshape([-1 if a == axis else 1 for a in range(t.ndim)])


class RandomStructured(Slices):
    """Slices by chance."""

    def scores(self, t: Tensor) -> Tensor:
        return F.rand(t.shape[self.dim])


class LnStructured(Slices):
    """The slices of smallest norm of order `n`."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Tensor) -> Tensor:
        axis = self.dim % t.ndim
        return F.norm(t, self.n, [a for a in range(t.ndim) if a != axis])


# ---- functions --------------------------------------------------------------------------------------------------


def identity(module: Any, name: str) -> Any:
    """Set up the mask of a parameter without pruning it; returns the module, as the others do."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune a number of elements, or a fraction, by chance."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Tensor | None = None) -> Any:
    """Prune a number of elements, or a fraction: the smallest in absolute value or by the scores."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune a number of slices along an axis, or a fraction, by chance."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Any:
    """Prune a number of slices along an axis, or a fraction: those of smallest norm of order `n`."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune by a mask."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Any, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune the parameters, as (module, name), together: the smallest of all of them go."""
    parameters = list(parameters)
    given = importance_scores or {}
    tensors = [getattr(module, name) for module, name in parameters]
    scores = [given.get(pair, tensor) for pair, tensor in zip(parameters, tensors, strict=True)]
    masks = [
        getattr(module, f"{name}_mask", F.ones_like(t))
        for (module, name), t in zip(parameters, tensors, strict=True)
    ]
    method = PruningContainer()
    method._tensor_name = "temp"
    chosen = pruning_method(**kwargs)
    chosen._tensor_name = "temp"
    if chosen.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {chosen.PRUNING_TYPE}"
        )
    method.add_pruning_method(chosen)
    mask = method.compute_mask(
        F.cat([s.detach().reshape(-1) for s in scores]), F.cat([m.detach().reshape(-1) for m in masks])
    )
    start = 0
    for (module, name), tensor in zip(parameters, tensors, strict=True):
        custom_from_mask(module, name, mask[start : start + tensor.numel()].reshape(tensor.shape))
        start += tensor.numel()


def remove(module: Any, name: str) -> Any:
    """Make the zeros of a pruned parameter permanent; ValueError for one that is not pruned."""
    for key, hook in list(module._call_hooks.items()):
        if is_method(hook.function, name):
            hook.function.remove(module)
            del module._call_hooks[key]
            mark_computed(module, name, computed=False)
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether any parameter of the module, or of one below it, is pruned."""
    return any(
        isinstance(hook.function, BasePruningMethod)
        for m in module.modules()
        for hook in m._call_hooks.values()
    )
