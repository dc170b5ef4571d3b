"""Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .. import functional as F
from ..tensor import Tensor
from .optimizer import Group, Optimizer, check_setting
from .updates import full_gradient, increment, largest, number, run, sqrt


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

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        # The count is a tensor so that a recorded step carries it on.
        means = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]
        return {"step": F.tensor(0.0), **{name: F.zeros_like(param) for name in means}}

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        run(increment, [state["step"]], [])
        step, lr = number(state["step"]), number(group["lr"])
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        beta1, beta2 = group["betas"]
        settings = Settings(
            rate=lr / (1 - beta1**step),
            beta1=beta1,
            beta2=beta2,
            correction=(1 - beta2**step) ** 0.5,
            eps=group["eps"],
            decay=None if decoupled else decay,
            shrink=1 - lr * decay if decoupled and decay else None,
            climb=group["maximize"],
        )
        means = [state["exp_avg"], state["exp_avg_sq"]]
        largest_square = [state["max_exp_avg_sq"]] if group["amsgrad"] else []
        run(move, [param, *means, *largest_square], [grad], settings)


class Settings(NamedTuple):
    """The numbers of one step; in a recorded one some are tensors."""

    rate: Any  # of learning, corrected for the mean's start at zero
    beta1: float
    beta2: float
    correction: Any  # of the root of the mean square, for the same reason
    eps: float
    decay: float | None  # of the parameter, added to the gradient
    shrink: Any  # factor of the parameter, or None
    climb: bool


def move(written: Sequence[Any], read: Sequence[Any], s: Settings) -> None:
    """One step of parameter p, with means m of the gradient and v of its square, and perhaps the largest v."""
    p, m, v, *top = written
    g = full_gradient(p, read[0], s.decay, s.climb)
    if s.shrink is not None:
        p *= s.shrink
    m += (g - m) * (1 - s.beta1)
    v *= s.beta2
    v += g * g * (1 - s.beta2)
    if top:
        top[0][...] = v = largest(top[0], v)
    p -= m / (sqrt(v) / s.correction + s.eps) * s.rate


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
