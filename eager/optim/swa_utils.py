"""Averages of weights: stochastic weight averaging (Izmailov et al. 2018) and exponential moving averages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from .. import functional as F
from ..modes import no_grad
from ..nn.module import Module
from ..nn.norm import BatchNorm
from ..tensor import Tensor
from .lr_scheduler.base import LRScheduler, as_number, each
from .optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

AverageOne = Callable[[Tensor, Tensor, Any], Tensor]
AverageMany = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def checked_decay(decay: float) -> float:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")
    return decay


def get_ema_avg_fn(decay: float = 0.999) -> AverageOne:
    """decay · average + (1 - decay) · current, for one parameter."""
    checked_decay(decay)
    return lambda average, current, count: decay * average + (1 - decay) * current


def get_swa_avg_fn() -> AverageOne:
    """The plain average over all updates, for one parameter."""
    return lambda average, current, count: average + (current - average) / (count + 1)


def in_place(one: AverageOne) -> AverageMany:
    def many(averages: Sequence[Tensor], currents: Sequence[Tensor], count: Any) -> None:
        with no_grad():
            for average, current in zip(averages, currents, strict=True):
                average.copy_(one(average, current, count) if average.is_floating_point() else current)

    return many


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageMany:
    """decay · average + (1 - decay) · current, in place for all parameters."""
    return in_place(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> AverageMany:
    """The plain average over all updates, in place for all parameters."""
    return in_place(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of `model` whose parameters are averages of those it is shown: `update_parameters(model)`.

    The plain average by default; `avg_fn(average, current, count)` gives another for one parameter,
    `multi_avg_fn(averages, currents, count)` writes another to all. `use_buffers` averages buffers as well, which
    are else copied from the model.
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: AverageOne | None = None,
        multi_avg_fn: AverageMany | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", F.tensor(0, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of `model` into the averages; the first ones are copied."""
        averages, currents = self._averaged(self.module), self._averaged(model)
        if self.n_averaged.item() == 0:
            for average, current in zip(averages, currents, strict=True):
                average.copy_(current)
        elif self.multi_avg_fn is not None or self.avg_fn is None:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, currents, self.n_averaged)
        else:
            for average, current in zip(averages, currents, strict=True):
                average.copy_(self.avg_fn(average, current, self.n_averaged))
        if not self.use_buffers:
            for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(theirs.detach())
        self.n_averaged += 1

    def _averaged(self, model: Module) -> list[Tensor]:
        """What is averaged of a model, detached and where the averages are."""
        tensors = chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()
        return [t.detach().to(self.n_averaged.device) for t in tensors]


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of all batch norms of `model` by one pass over `loader`.

    A batch is a tensor, or a tuple or list that begins with one.
    """
    norms = [m for m in model.modules() if isinstance(m, BatchNorm)]
    if not norms:
        return
    momenta, training = [m.momentum for m in norms], model.training
    model.train()
    for m in norms:
        m.reset_running_stats()
        m.momentum = None
    with no_grad():
        for batch in loader:
            x = batch[0] if isinstance(batch, list | tuple) else batch
            model(x if device is None else x.to(device))
    for m, momentum in zip(norms, momenta, strict=True):
        m.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From the current rate to `swa_lr` in `anneal_epochs` epochs, along half a cosine or a line, then constant."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for lr, group in zip(each("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def done(self, step: int) -> float:
        """The fraction of the way that lies behind at a step."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[float]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self.done(step - 1), self.done(step)
        rates = []
        for group in self.optimizer.param_groups:
            lr, target = as_number(group["lr"]), group["swa_lr"]
            start = target if before == 1 else (lr - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
