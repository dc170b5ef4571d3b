"""`LRScheduler`, what the schedules share."""

from __future__ import annotations

import warnings
from typing import Any

from ...tensor import Tensor
from ..optimizer import Group, Optimizer


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
        self._initial_step()

    def _initial_step(self) -> None:
        """The step that the constructor takes, to the first rates."""
        self._step_count = 0
        self.step()

    def get_lr(self) -> list[float]:
        """The rate of each group at `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr")

    def get_last_lr(self) -> list[float]:
        """The rate that each group got at the last step."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Count one more epoch, or step, and set the rates.

        `epoch` is deprecated, as in PyTorch: go to that epoch, by the formula from the initial rates.
        """
        if self._step_count == 1 and not stepped(self.optimizer):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first value of the "
                "schedule is skipped. Call `optimizer.step()` first.",
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(
                "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
                "Please use `scheduler.step()` to step the scheduler.",
                stacklevel=2,
            )
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        """Go one epoch on, or to the given one, and set the rates."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = getattr(self, "_get_closed_form_lr", None)
        rates = self.get_lr() if epoch is None or closed is None else closed()
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
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
    """Whether the optimizer has taken a step."""
    return optimizer._stepped


def as_number(value: float | Tensor) -> float:
    return value.item() if isinstance(value, Tensor) else value


def set_lr(group: Group, lr: float) -> None:
    """A rate that is a tensor keeps its identity: a compiled step reads it."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(lr)
    else:
        group["lr"] = lr


def each(name: str, optimizer: Optimizer, value: Any) -> list[float]:
    """One value for every parameter group."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(f"expected {groups} values for {name}, got {len(value)}")
    return list(value)


def set_momentum(group: Group, momentum: float) -> None:
    """Set the momentum of SGD and its like, or the first beta of Adam and its like."""
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum
