"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .optimizer import Group, Optimizer, check_setting
from .updates import full_gradient, number, run


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

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        # With dampening the first gradient counts in full, so that the buffer can only be made from it.
        if group["momentum"] == 0 or group["dampening"] != 0:
            return {}
        return {"momentum_buffer": F.zeros_like(param)}

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        lr, decay, climb = number(group["lr"]), number(group["weight_decay"]), group["maximize"]
        if group["momentum"] == 0:
            run(descend, [param], [grad], lr, decay, climb)
            return
        weight = 1 - group["dampening"]
        if state.get("momentum_buffer") is None:
            state["momentum_buffer"], weight = F.zeros_like(param), 1
        settings = (lr, decay, climb, group["momentum"], weight, group["nesterov"])
        run(descend_with_momentum, [param, state["momentum_buffer"]], [grad], *settings)


def descend(written: Sequence[Any], read: Sequence[Any], lr: Any, decay: Any, climb: bool) -> None:
    p = written[0]
    p -= full_gradient(p, read[0], decay, climb) * lr


def descend_with_momentum(
    written: Sequence[Any],
    read: Sequence[Any],
    lr: Any,
    decay: Any,
    climb: bool,
    momentum: float,
    weight: float,
    nesterov: bool,
) -> None:
    p, buffer = written
    g = full_gradient(p, read[0], decay, climb)
    buffer *= momentum
    buffer += g if weight == 1 else g * weight
    p -= (g + buffer * momentum if nesterov else buffer) * lr
