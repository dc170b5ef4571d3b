"""Rprop, which looks at the signs of gradients alone, and ASGD, which averages the parameters on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .optimizer import Group, Optimizer, check_common, check_setting
from .updates import at_least, bounded, choose, full_gradient, increment, number, run, sign


class Rprop(Optimizer):
    """Steps of a size per element, which grows while the gradient keeps its sign and shrinks when it turns.

    `etas`: the factors of shrinking and growing. `step_sizes`: the smallest and the largest step. `foreach` and
    `capturable` are accepted and make no difference. Source: Riedmiller and Braun 1993.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common(lr)
        check_setting("eta values", f"{etas[0]}, {etas[1]}", 0 < etas[0] < 1 < etas[1])
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {
            "step": F.tensor(0.0),
            "prev": F.zeros_like(param),
            "step_size": F.full_like(param.detach(), number(group["lr"])),
        }

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        run(increment, [state["step"]], [])
        settings = (*group["etas"], *group["step_sizes"], group["maximize"])
        run(rprop, [param, state["prev"], state["step_size"]], [grad], *settings)


def rprop(
    written: Sequence[Any],
    read: Sequence[Any],
    shrink: float,
    grow: float,
    smallest: float,
    largest: float,
    climb: bool,
) -> None:
    p, before, size = written
    g = full_gradient(p, read[0], None, climb)
    agreement = g * before
    turned = agreement < 0
    size *= choose(turned, shrink, choose(agreement > 0, grow, 1.0, g), g)
    size[...] = bounded(size, smallest, largest)
    before[...] = choose(turned, 0.0, g, g)
    p -= sign(before) * size


class ASGD(Optimizer):
    """Gradient descent whose state["ax"] is the average of the parameters from step `t0` on.

    `lambd` shrinks the parameters each step; the rate falls as lr / (1 + lambd * lr * step) ** alpha. `foreach` and
    `capturable` are accepted and make no difference. Source: Polyak and Juditsky 1992.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_common(lr, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        lr = group["lr"]
        return {
            "step": F.tensor(0.0),
            "eta": F.tensor(float(lr)),
            "mu": F.tensor(1.0),
            "ax": F.zeros_like(param),
        }

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        run(increment, [state["step"]], [])
        eta, mu, lambd = number(state["eta"]), number(state["mu"]), group["lambd"]
        settings = (eta, 1 - lambd * eta, mu, group["weight_decay"], group["maximize"])
        run(asgd, [param, state["ax"]], [grad], *settings)
        lr, step = number(group["lr"]), number(state["step"])
        state["eta"].fill_(lr / (1 + lambd * lr * step) ** group["alpha"])
        state["mu"].fill_(1 / at_least(step - group["t0"], 1.0))


def asgd(
    written: Sequence[Any],
    read: Sequence[Any],
    rate: Any,
    shrink: Any,
    weight: Any,
    decay: float,
    climb: bool,
) -> None:
    p, average = written
    g = full_gradient(p, read[0], decay, climb)
    p *= shrink
    p -= g * rate
    if isinstance(weight, float) and weight == 1:
        average[...] = p
    else:
        average += (p - average) * weight
