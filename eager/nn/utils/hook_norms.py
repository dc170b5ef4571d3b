"""`weight_norm` and `spectral_norm` in their older form: a hook computes the weight before each forward pass.

State dicts keep the keys of that form. New programs take those of `nn.utils.parametrizations`.
"""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from ... import functional as F
from ...modes import no_grad
from ...tensor import Tensor
from ..hooks import mark_computed
from ..module import Module
from ..parameter import Parameter

M = TypeVar("M", bound=Module)


class WeightNorm:
    """The hook: weight = g · v / |v|, of the parameters <name>_g and <name>_v."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Tensor:
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / F.norm_except_dim(v, 2, self.dim))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def hook_of(module: Module, kind: type, name: str) -> Any:
    """The id and hook of a kind that a module has for the tensor of that name; None without."""
    for key, hook in module._call_hooks.items():
        if isinstance(hook.function, kind) and hook.function.name == name:  # type: ignore[attr-defined]
            return key, hook.function
    return None


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Train a weight's magnitude <name>_g, one for each index of `dim`, and its direction <name>_v."""
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    if hook_of(module, WeightNorm, name):
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(F.norm_except_dim(weight, 2, hook.dim).detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    mark_computed(module, name)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Make the weight a plain parameter again; ValueError for one without weight norm."""
    if not (found := hook_of(module, WeightNorm, name)):
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    key, hook = found
    weight = hook.compute_weight(module).detach()
    for attribute in (name, f"{name}_g", f"{name}_v"):
        delattr(module, attribute)
    setattr(module, name, Parameter(weight))
    del module._call_hooks[key]
    mark_computed(module, name, computed=False)
    return module


class SpectralNorm:
    """The hook: weight = <name>_orig divided by its largest singular value, of the vectors <name>_u and <name>_v."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def matrix(self, weight: Tensor) -> Tensor:
        """The weight [rows, columns], with `dim` for rows."""
        return weight.movedim(self.dim, 0).reshape(weight.shape[self.dim], -1)

    def compute_weight(self, module: Any, improve: bool) -> Tensor:
        """The weight; `improve`: with power iterations before."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.matrix(weight)
        if improve:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(F.mv(matrix.mT, u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(F.mv(matrix, v), dim=0, eps=self.eps))
                # Copies, because a second call changes the vectors before the first one's backward pass.
                u, v = u.clone(), v.clone()
        return weight / F.dot(u, F.mv(matrix, v))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, improve=module.training))


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide a weight by its largest singular value, which each call in training mode estimates better."""
    if hook_of(module, SpectralNorm, name):
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    rows, columns = hook.matrix(weight).shape
    u = F.normalize(weight.detach().new_empty(rows).normal_(0, 1), dim=0, eps=eps)
    v = F.normalize(weight.detach().new_empty(columns).normal_(0, 1), dim=0, eps=eps)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.data)
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    mark_computed(module, name)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Make the weight a plain parameter again; ValueError for one without spectral norm."""
    if not (found := hook_of(module, SpectralNorm, name)):
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    key, hook = found
    with no_grad():
        weight = hook.compute_weight(module, improve=False)
    for attribute in (name, f"{name}_u", f"{name}_v", f"{name}_orig"):
        delattr(module, attribute)
    module.register_parameter(name, Parameter(weight.detach()))
    del module._call_hooks[key]
    mark_computed(module, name, computed=False)
    return module
