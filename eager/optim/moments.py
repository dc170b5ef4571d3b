"""Relatives of Adam: Adamax (Kingma and Ba 2015), NAdam (Dozat 2016) and RAdam (Liu et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .optimizer import Group, Optimizer, check_common
from .updates import absolute, choose, full_gradient, increment, largest, multiply, number, run, sqrt


class Adamax(Optimizer):
    """Adam with the largest decayed gradient so far in place of the root of the mean square.

    `foreach` and `capturable` are accepted and make no difference.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_common(lr, eps, betas, weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {
            "step": F.tensor(0.0),
            "exp_avg": F.zeros_like(param),
            "exp_inf": F.zeros_like(param),
        }

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        run(increment, [state["step"]], [])
        beta1, beta2 = group["betas"]
        rate = number(group["lr"]) / (1 - beta1 ** number(state["step"]))
        settings = (rate, beta1, beta2, group["eps"], group["weight_decay"], group["maximize"])
        run(adamax, [param, state["exp_avg"], state["exp_inf"]], [grad], *settings)


def adamax(
    written: Sequence[Any],
    read: Sequence[Any],
    rate: Any,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    climb: bool,
) -> None:
    p, m, top = written
    g = full_gradient(p, read[0], decay, climb)
    m += (g - m) * (1 - beta1)
    top[...] = largest(top * beta2, absolute(g) + eps)
    p -= m / top * rate


class NAdam(Optimizer):
    """Adam with Nesterov's momentum: the step looks ahead along the running mean.

    The momentum grows with the number of steps at the pace of `momentum_decay`. `weight_decay` is added to the
    gradient or, with `decoupled_weight_decay`, shrinks the parameter. `foreach` and `capturable` are accepted.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common(lr, eps, betas, weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {
            "step": F.tensor(0.0),
            "mu_product": F.tensor(1.0),
            "exp_avg": F.zeros_like(param),
            "exp_avg_sq": F.zeros_like(param),
        }

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        run(increment, [state["step"]], [])
        step, lr, pace = number(state["step"]), number(group["lr"]), group["momentum_decay"]
        beta1, beta2 = group["betas"]
        now = beta1 * (1 - 0.5 * 0.96 ** (step * pace))
        following = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * pace))
        run(multiply, [state["mu_product"]], [], now)
        product = number(state["mu_product"])
        rates = (lr * (1 - now) / (1 - product), lr * following / (1 - product * following))
        decay, shrink = decay_and_shrink(group, lr)
        settings = (*rates, beta1, beta2, 1 - beta2**step, group["eps"], decay, shrink, group["maximize"])
        run(nadam, [param, state["exp_avg"], state["exp_avg_sq"]], [grad], *settings)


def decay_and_shrink(group: Group, lr: Any) -> tuple[float, Any]:
    """Weight decay as what is added to the gradient, and as a factor of the parameter (None: no shrinking)."""
    decay = group["weight_decay"]
    if not decay or not group["decoupled_weight_decay"]:
        return decay, None
    return 0, 1 - lr * decay


def nadam(
    written: Sequence[Any],
    read: Sequence[Any],
    rate: Any,
    rate_ahead: Any,
    beta1: float,
    beta2: float,
    correction: Any,
    eps: float,
    decay: float,
    shrink: Any,
    climb: bool,
) -> None:
    p, m, v = written
    g = full_gradient(p, read[0], decay, climb)
    if shrink is not None:
        p *= shrink
    m += (g - m) * (1 - beta1)
    v *= beta2
    v += g * g * (1 - beta2)
    scale = sqrt(v / correction) + eps
    p -= g / scale * rate
    p -= m / scale * rate_ahead


class RAdam(Optimizer):
    """Adam that leaves out the division by the root of the mean square until enough steps have settled it.

    `weight_decay` as in NAdam; `foreach` and `capturable` are accepted and make no difference.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common(lr, eps, betas, weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {
            "step": F.tensor(0.0),
            "exp_avg": F.zeros_like(param),
            "exp_avg_sq": F.zeros_like(param),
        }

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        run(increment, [state["step"]], [])
        step, lr = number(state["step"]), number(group["lr"])
        beta1, beta2 = group["betas"]
        settled, factor = rectification(step, beta2)
        decay, shrink = decay_and_shrink(group, lr)
        settings = (lr / (1 - beta1**step), settled, factor, beta1, beta2)
        more = (group["eps"], decay, shrink, group["maximize"])
        run(radam, [param, state["exp_avg"], state["exp_avg_sq"]], [grad], *settings, *more)


def rectification(step: Any, beta2: float) -> tuple[Any, Any]:
    """Whether the mean square is settled after `step` steps, and the factor of the rate that makes up for its variance.

    The length of the running mean, as a simple average, must exceed 5.
    """
    correction = 1 - beta2**step
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2**step / correction
    settled = length > 5
    ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    if isinstance(step, Tensor):
        return settled, F.sqrt(F.clamp(ratio, min=0.0) * correction)
    return settled, (ratio * correction) ** 0.5 if settled else 1.0


def radam(
    written: Sequence[Any],
    read: Sequence[Any],
    rate: Any,
    settled: Any,
    factor: Any,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    shrink: Any,
    climb: bool,
) -> None:
    p, m, v = written
    g = full_gradient(p, read[0], decay, climb)
    if shrink is not None:
        p *= shrink
    m += (g - m) * (1 - beta1)
    v *= beta2
    v += g * g * (1 - beta2)
    p -= m * rate * choose(settled, factor / (sqrt(v) + eps), 1.0, v)
