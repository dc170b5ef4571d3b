"""Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import functional as F
from ..tape import is_traced
from ..tensor import Tensor
from .optimizer import Group, Optimizer, check_setting, refuse
from .updates import subtract_scaled


class Adam(Optimizer):
    """Steps of size about lr, along the mean of the gradient over the root of its mean square.

    Both are running means, of `betas`, corrected for their start at zero. `weight_decay` adds that multiple of
    the parameter to the gradient or, with `decoupled_weight_decay`, shrinks the parameter by lr * weight_decay.
    `amsgrad` uses the largest mean square so far. `foreach`, `fused` and `capturable` are accepted and make no
    difference.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_setting("learning rate", lr, isinstance(lr, Tensor) or lr >= 0)
        check_setting("epsilon value", eps, eps >= 0)
        check_setting("beta parameter at index 0", betas[0], 0 <= betas[0] < 1)
        check_setting("beta parameter at index 1", betas[1], 0 <= betas[1] < 1)
        check_setting("weight_decay value", weight_decay, weight_decay >= 0)
        refuse(differentiable=differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        if not state:
            state.update(initial_state(param, group["amsgrad"]))
        beta1, beta2 = group["betas"]
        lr, decay = group["lr"], group["weight_decay"]
        if group["maximize"]:
            grad = -grad
        if decay != 0 and group["decoupled_weight_decay"]:
            param.mul_(1 - lr * decay)
        elif decay != 0:
            grad = grad.add(param, alpha=decay)
        step = count(state["step"])
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"].copy_(F.maximum(state["max_exp_avg_sq"], square))
        root = (square.sqrt() / (1 - beta2**step) ** 0.5).add_(group["eps"])
        subtract_scaled(param, mean / root, lr / (1 - beta1**step))


class AdamW(Adam):
    """Adam with decoupled weight decay: each step shrinks the parameter by lr * weight_decay."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


def initial_state(param: Tensor, amsgrad: bool) -> dict[str, Tensor]:
    """No steps and zero means; the count is a tensor so that a recorded step carries it on."""
    names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if amsgrad else [])]
    return {"step": F.tensor(0.0), **{name: F.zeros_like(param).detach() for name in names}}


def count(step: Tensor) -> Any:
    """The number of this step: a float, or a float64 tensor where the step is being recorded."""
    step.add_(1)
    return step.double() if is_traced(step.array) else step.item()
