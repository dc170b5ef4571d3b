"""Schedules that multiply the rate by a factor as epochs go by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, as_number


def functions_of(optimizer: Optimizer, given: Any) -> list[Callable[[int], float]]:
    """One function for every parameter group."""
    groups = len(optimizer.param_groups)
    functions = [given] * groups if callable(given) else list(given)
    if len(functions) != groups:
        raise ValueError(f"Expected {groups} lr_lambdas, but got {len(functions)}")
    return functions


def states_of(functions: Sequence[Any]) -> list[dict[str, Any] | None]:
    """The attributes of callable objects; None for plain functions, which a file of values cannot hold."""
    return [None if isinstance(f, FunctionType) else dict(f.__dict__) for f in functions]


def load_with_functions(scheduler: Any, state_dict: dict[str, Any]) -> None:
    """Load a state whose functions are as `states_of` gives them, into the functions there are."""
    functions = scheduler.lr_lambdas
    scheduler.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
    for function, state in zip(functions, state_dict.get("lr_lambdas", [None] * len(functions)), strict=True):
        if state is not None:
            function.__dict__.update(state)


class LambdaLR(LRScheduler):
    """The initial rate times `lr_lambda(epoch)`; one function, or one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = functions_of(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [
            base * factor(self.last_epoch)
            for base, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; functions only where they are objects with a state of their own."""
        return {**super().state_dict(), "lr_lambdas": states_of(self.lr_lambdas)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` of another scheduler returned."""
        load_with_functions(self, state_dict)


class MultiplicativeLR(LRScheduler):
    """Times `lr_lambda(epoch)` every epoch; one function, or one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = functions_of(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._scaled(1.0)
        groups = self.optimizer.param_groups
        return [
            as_number(group["lr"]) * factor(self.last_epoch)
            for group, factor in zip(groups, self.lr_lambdas, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; functions only where they are objects with a state of their own."""
        return {**super().state_dict(), "lr_lambdas": states_of(self.lr_lambdas)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` of another scheduler returned."""
        load_with_functions(self, state_dict)


class ConstantLR(LRScheduler):
    """The initial rate times `factor` for the first `total_iters` epochs."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1.0 / self.factor if self.last_epoch == self.total_iters else 1.0)

    def _get_closed_form_lr(self) -> list[float]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The initial rate times (1 - epoch / total_iters) ** power, until `total_iters`."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._scaled(1.0)
        now, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return self._scaled((now / before) ** self.power)

    def _get_closed_form_lr(self) -> list[float]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (1.0 - done) ** self.power for base in self.base_lrs]


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

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the epochs `milestones`."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = dict(Counter(milestones)), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._scaled(self.gamma ** self.milestones.get(self.last_epoch, 0))

    def _get_closed_form_lr(self) -> list[float]:
        past = sum(count for epoch, count in self.milestones.items() if epoch <= self.last_epoch)
        return [base * self.gamma**past for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._scaled(1.0 if self._is_initial else self.gamma)

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


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
        if self.last_epoch > self.total_iters:
            return self._scaled(1.0)
        return self._scaled(self.factor(self.last_epoch) / self.factor(self.last_epoch - 1))

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.factor(self.last_epoch) for base in self.base_lrs]
