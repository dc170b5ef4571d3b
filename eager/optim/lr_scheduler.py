"""Learning rates that change with the number of epochs or steps. Call `step()` after the optimizer's.

As in PyTorch, most schedules multiply the current rate, so that several can work on one optimizer and changes
made by hand are kept.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..tensor import Tensor
from .optimizer import Group, Optimizer


class LRScheduler:
    """Sets the learning rate of each parameter group; a subclass gives `get_lr`.

    `last_epoch`: -1 for a new schedule, or the number of steps taken when training is resumed.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", as_number(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= 0; load the optimizer's state dict first"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self.step()

    def get_lr(self) -> list[float]:
        """The rate of each group at `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr")

    def get_last_lr(self) -> list[float]:
        """The rate that each group got at the last step."""
        return self._last_lr

    def step(self) -> None:
        """Count one more epoch, or step, and set the rates."""
        if self._step_count == 1 and not stepped(self.optimizer):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first value of the "
                "schedule is skipped. Call `optimizer.step()` first.",
                stacklevel=2,
            )
        self._step_count += 1
        self.last_epoch += 1
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            set_lr(group, lr)
        self._last_lr = [as_number(group["lr"]) for group in self.optimizer.param_groups]

    @property
    def _is_initial(self) -> bool:
        """Whether this is the step that the constructor takes."""
        return self._step_count == 1

    def _scaled(self, factor: float) -> list[float]:
        return [as_number(group["lr"]) * factor for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` of another scheduler returned."""
        self.__dict__.update(state_dict)


def stepped(optimizer: Optimizer) -> bool:
    """Whether the optimizer has taken a step; True when it has a step of its own, which cannot be told."""
    return type(optimizer).step is not Optimizer.step or getattr(optimizer, "_stepped", False)


def as_number(value: float | Tensor) -> float:
    return value.item() if isinstance(value, Tensor) else value


def set_lr(group: Group, lr: float) -> None:
    """A rate that is a tensor keeps its identity: a compiled step reads it."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(lr)
    else:
        group["lr"] = lr


class LambdaLR(LRScheduler):
    """The initial rate times `lr_lambda(epoch)`; one function, or one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [
            base * factor(self.last_epoch)
            for base, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the functions."""
        return {key: value for key, value in super().state_dict().items() if key != "lr_lambdas"}


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma if due else 1.0)


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the epochs `milestones`."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = dict(Counter(milestones)), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._scaled(self.gamma ** self.milestones.get(self.last_epoch, 0))


class ExponentialLR(LRScheduler):
    """Times `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._scaled(1.0 if self._is_initial else self.gamma)


class LinearLR(LRScheduler):
    """The initial rate times a factor that goes from `start_factor` to `end_factor` in `total_iters` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
            )
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        done = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._scaled(self.start_factor if self.last_epoch == 0 else 1.0)
        return self._scaled(self.factor(self.last_epoch) / self.factor(self.last_epoch - 1))


class CosineAnnealingLR(LRScheduler):
    """From the initial rate to `eta_min` in `T_max` steps along half a cosine, then back, and so on.

    Source: Loshchilov and Hutter 2017, without restarts.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def height(self, epoch: int) -> float:
        """1 at epoch 0, 0 at T_max."""
        return (1 + math.cos(math.pi * epoch / self.T_max)) / 2

    def get_lr(self) -> list[float]:
        lrs = self._scaled(1.0)
        if self._is_initial:
            return lrs
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # At the bottom, where the ratio below would divide by zero.
            rise = self.height(self.T_max - 1)
            return [lr + (base - self.eta_min) * rise for lr, base in zip(lrs, self.base_lrs, strict=True)]
        ratio = self.height(self.last_epoch) / self.height(self.last_epoch - 1)
        return [ratio * (lr - self.eta_min) + self.eta_min for lr in lrs]


class OneCycleLR(LRScheduler):
    """Up to `max_lr` and down again within `total_steps`; the momentum goes the other way.

    The rate rises from max_lr / div_factor for `pct_start` of the steps, then falls to that / final_div_factor;
    with `three_phase` it first falls back to the start. Source: Smith and Topin 2018.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.total_steps = total_of(total_steps, epochs, steps_per_epoch)
        if not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        self.phases = phases(self.total_steps, pct_start, three_phase)
        if cycle_momentum and not {"momentum", "betas"} & optimizer.defaults.keys():
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        if last_epoch == -1:
            for group, rate, base, top in zip(
                optimizer.param_groups,
                each("max_lr", optimizer, max_lr),
                each("base_momentum", optimizer, base_momentum),
                each("max_momentum", optimizer, max_momentum),
                strict=True,
            ):
                start = rate / div_factor
                group.update(initial_lr=start, max_lr=rate, min_lr=start / final_div_factor)
                if cycle_momentum:
                    group.update(base_momentum=base, max_momentum=top)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}"
            )
        # A phase includes its last step.
        i = min(bisect_left([end for end, *_ in self.phases], step), len(self.phases) - 1)
        start, (end, *names) = self.phases[i - 1][0] if i else 0.0, self.phases[i]
        done = (step - start) / (end - start)
        for group in self.optimizer.param_groups if self.cycle_momentum else ():
            set_momentum(group, self.between(group[names[2]], group[names[3]], done))
        return [self.between(group[names[0]], group[names[1]], done) for group in self.optimizer.param_groups]

    def between(self, start: float, end: float, done: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * done + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)


def total_of(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    """The number of steps of a cycle; ValueError when it does not follow from the arguments."""
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    given = {"total_steps": total_steps}
    if total_steps is None:
        given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    for name, value in given.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return math.prod(value for value in given.values() if value is not None)


def phases(total: int, pct_start: float, three_phase: bool) -> list[tuple[Any, ...]]:
    """Last step of each phase, and the settings that the rate and the momentum go from and to."""
    up = (pct_start * total - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if not three_phase:
        return [up, (total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
    down = (2 * pct_start * total - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum")
    return [up, down, (total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")]


def each(name: str, optimizer: Optimizer, value: Any) -> list[float]:
    """One value for every parameter group."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(f"expected {groups} values for {name}, got {len(value)}")
    return list(value)


def set_momentum(group: Group, momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class ReduceLROnPlateau(LRScheduler):
    """Times `factor` when a metric has not become better for more than `patience` epochs: `step(metric)`.

    Better: smaller with mode "min", larger with "max", by at least `threshold`, relative ("rel") or absolute
    ("abs"). After a reduction nothing is counted for `cooldown` epochs. No rate falls below `min_lr`, or changes
    by less than `eps`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = (
            threshold,
            threshold_mode,
            cooldown,
            eps,
        )
        self.min_lrs = each("min_lr", optimizer, min_lr)
        self.last_epoch = self.cooldown_counter = self.num_bad_epochs = 0
        self.best = math.inf if mode == "min" else -math.inf
        self._last_lr = [as_number(group["lr"]) for group in optimizer.param_groups]

    def is_better(self, metric: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        relative = self.threshold_mode == "rel"
        bound = self.best * (1 + sign * self.threshold) if relative else self.best + sign * self.threshold
        return sign * metric > sign * bound

    def step(self, metrics: Any) -> None:  # type: ignore[override]  # as in PyTorch, the one that takes a metric
        """Look at the metric of one more epoch."""
        metric = float(metrics)
        self.last_epoch += 1
        better = self.is_better(metric)
        self.best = metric if better else self.best
        self.num_bad_epochs = 0 if better else self.num_bad_epochs + 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self.reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [as_number(group["lr"]) for group in self.optimizer.param_groups]

    def reduce(self) -> None:
        for group, lowest in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            lr = as_number(group["lr"])
            reduced = max(lr * self.factor, lowest)
            if lr - reduced > self.eps:
                set_lr(group, reduced)
