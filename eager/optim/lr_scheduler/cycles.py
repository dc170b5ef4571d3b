"""Schedules that go up and down: along cosines, and in cycles."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, as_number, each, set_lr, set_momentum


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

    def _get_closed_form_lr(self) -> list[float]:
        height = self.height(self.last_epoch)
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial rate to `eta_min` in `T_0` epochs, then again, `T_mult` times as long each time.

    `step(epoch)` takes fractions of an epoch. Source: Loshchilov and Hutter 2017.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min, self.T_cur = T_mult, eta_min, float(last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to `epoch`, by default the next whole one."""
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = self._restart(0 if epoch is None else epoch)
        self._step_count += 1
        self.last_epoch = math.floor(epoch)
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            set_lr(group, lr)
        self._last_lr = [as_number(group["lr"]) for group in self.optimizer.param_groups]

    def _restart(self, epoch: float) -> float:
        """Find the period that an epoch is in, and how far."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        self.T_cur, self.T_i = float(epoch), self.T_0
        if epoch < self.T_0:
            return epoch
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return epoch
        n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
        self.T_i = self.T_0 * self.T_mult**n
        return epoch


class CyclicLR(LRScheduler):
    """Up from `base_lr` to `max_lr` in `step_size_up` steps and down again, over and over; the momentum the other way.

    `mode`: "triangular", "triangular2" (half as high each cycle), "exp_range" (times gamma ** step), or `scale_fn` of
    the number of the cycle, or of the step with scale_mode="iterations". Source: Smith 2017.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        base_lrs = each("base_lr", optimizer, base_lr)
        self.max_lrs = each("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_lr(group, lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        by_cycle = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = scale_mode if scale_fn is not None else by_cycle
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._set_momentums(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _set_momentums(self, optimizer: Optimizer, base: Any, top: Any, last_epoch: int) -> None:
        if not {"momentum", "betas"} & optimizer.defaults.keys():
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.base_momentums = each("base_momentum", optimizer, base)
        self.max_momentums = each("max_momentum", optimizer, top)
        groups = optimizer.param_groups if last_epoch == -1 else []
        for group, low, high in zip(groups, self.base_momentums, self.max_momentums, strict=False):
            set_momentum(group, high)
            group.update(base_momentum=low, max_momentum=high)

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, or at a step, as a fraction of the first one's."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            pairs = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, pairs, strict=True):
                set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; a scale function only where it is an object with a state of its own."""
        fn = self._scale_fn_custom
        state = None if fn is None or isinstance(fn, FunctionType) else dict(fn.__dict__)
        return {**super().state_dict(), "_scale_fn_custom": state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` of another scheduler returned."""
        fn = self._scale_fn_custom
        super().load_state_dict(state_dict)
        if fn is not None and self._scale_fn_custom is not None:
            fn.__dict__.update(self._scale_fn_custom)  # type: ignore[call-overload]
        self._scale_fn_custom = fn


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
