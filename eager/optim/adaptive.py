"""Rates of their own for every element, from the squares of its gradients: Adagrad, Adadelta and RMSprop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .optimizer import Group, Optimizer, check_common, check_setting
from .updates import full_gradient, increment, number, run, sqrt


class Adagrad(Optimizer):
    """Divides by the root of the sum of all squared gradients (Duchi, Hazan and Singer 2011).

    The rate falls as lr / (1 + steps * lr_decay). `foreach` and `fused` are accepted and make no difference.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_common(
            lr, eps, weight_decay=weight_decay, lr_decay=lr_decay,
            initial_accumulator_value=initial_accumulator_value,
        )  # fmt: skip
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        self.prepare()  # as in PyTorch, whose state dict of a new Adagrad has the sums already

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {
            "step": F.tensor(0.0),
            "sum": F.full_like(param.detach(), group["initial_accumulator_value"]),
        }

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        run(increment, [state["step"]], [])
        rate = number(group["lr"]) / (1 + (number(state["step"]) - 1) * group["lr_decay"])
        settings = (rate, group["eps"], group["weight_decay"], group["maximize"])
        run(adagrad, [param, state["sum"]], [grad], *settings)


def adagrad(
    written: Sequence[Any], read: Sequence[Any], rate: Any, eps: float, decay: float, climb: bool
) -> None:
    p, total = written
    g = full_gradient(p, read[0], decay, climb)
    total += g * g
    p -= g / (sqrt(total) + eps) * rate


class Adadelta(Optimizer):
    """Scales the gradient by the ratio of the running sizes of past steps and gradients (Zeiler 2012).

    `foreach` and `capturable` are accepted and make no difference.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common(lr, eps, weight_decay=weight_decay)
        check_setting("rho value", rho, 0 <= rho <= 1)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {
            "step": F.tensor(0.0),
            "square_avg": F.zeros_like(param),
            "acc_delta": F.zeros_like(param),
        }

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        run(increment, [state["step"]], [])
        settings = (number(group["lr"]), group["rho"], group["eps"], group["weight_decay"], group["maximize"])
        run(adadelta, [param, state["square_avg"], state["acc_delta"]], [grad], *settings)


def adadelta(
    written: Sequence[Any],
    read: Sequence[Any],
    lr: Any,
    rho: float,
    eps: float,
    decay: float,
    climb: bool,
) -> None:
    p, squares, deltas = written
    g = full_gradient(p, read[0], decay, climb)
    squares *= rho
    squares += g * g * (1 - rho)
    delta = sqrt(deltas + eps) / sqrt(squares + eps) * g
    deltas *= rho
    deltas += delta * delta * (1 - rho)
    p -= delta * lr


class RMSprop(Optimizer):
    """Divides by the root of the running mean of squared gradients (Tieleman and Hinton 2012).

    `centered` takes the variance in place of the mean square. `foreach` and `capturable` are accepted and make no
    difference.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common(lr, eps, weight_decay=weight_decay, momentum=momentum, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        names = ["square_avg"]
        names += ["momentum_buffer"] if group["momentum"] > 0 else []
        names += ["grad_avg"] if group["centered"] else []
        return {"step": F.tensor(0.0), **{name: F.zeros_like(param) for name in names}}

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        run(increment, [state["step"]], [])
        written = [
            param,
            *(state[name] for name in ("square_avg", "momentum_buffer", "grad_avg") if name in state),
        ]
        settings = (number(group["lr"]), group["alpha"], group["eps"], group["weight_decay"])
        run(rmsprop, written, [grad], *settings, group["maximize"], group["momentum"], group["centered"])


def rmsprop(
    written: Sequence[Any],
    read: Sequence[Any],
    lr: Any,
    alpha: float,
    eps: float,
    decay: float,
    climb: bool,
    momentum: float,
    centered: bool,
) -> None:
    p, squares, *more = written
    g = full_gradient(p, read[0], decay, climb)
    squares *= alpha
    squares += g * g * (1 - alpha)
    spread = squares
    if centered:
        mean = more[-1]
        mean += (g - mean) * (1 - alpha)
        spread = squares - mean * mean
    step = g / (sqrt(spread) + eps)
    if momentum > 0:
        buffer = more[0]
        buffer *= momentum
        buffer += step
        step = buffer
    p -= step * lr
