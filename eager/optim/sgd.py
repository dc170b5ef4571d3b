"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..tensor import Tensor
from .optimizer import Group, Optimizer, check_setting, refuse
from .updates import subtract_scaled


class SGD(Optimizer):
    """p -= lr * g, or with momentum p -= lr * b where b = momentum * b + (1 - dampening) * g.

    `weight_decay` adds that multiple of p to g; `nesterov` takes g + momentum * b; `maximize` climbs.
    `foreach` and `fused` are accepted and make no difference.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_setting("learning rate", lr, isinstance(lr, Tensor) or lr >= 0)
        check_setting("momentum value", momentum, momentum >= 0)
        check_setting(
            "weight_decay value", weight_decay, isinstance(weight_decay, Tensor) or weight_decay >= 0
        )
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        refuse(differentiable=differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        if group["maximize"]:
            grad = -grad
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        if group["momentum"] != 0:
            grad = self.with_momentum(grad, state, group)
        subtract_scaled(param, grad, group["lr"])

    def with_momentum(self, grad: Tensor, state: dict[str, Any], group: Group) -> Tensor:
        momentum, buffer = group["momentum"], state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = grad.detach().clone()
        else:
            buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
        return grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
