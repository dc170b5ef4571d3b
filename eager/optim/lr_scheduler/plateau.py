"""The schedule that waits for a metric to stop getting better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, as_number, each, set_lr


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
