"""L-BFGS: quasi-Newton steps from the last differences of gradients (Nocedal and Wright 2006, chapter 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import functional as F
from ..modes import enable_grad, no_grad
from ..tensor import Tensor
from .line_search import strong_wolfe
from .optimizer import Optimizer, check_common


class LBFGS(Optimizer):
    """Minimises over one group of parameters; `step(closure)` evaluates the closure several times.

    A step makes at most `max_iter` iterations and `max_eval` evaluations (default: 5/4 of them), and ends when the
    largest gradient is below `tolerance_grad` or the change below `tolerance_change`. The last `history_size`
    differences are kept. `line_search_fn`: None for steps of length `lr`, or "strong_wolfe".
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_common(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Iterate from the parameters as they are; returns what the first evaluation of the closure gave."""
        if closure is None:
            raise TypeError(
                "LBFGS.step() needs a closure that clears the gradients, computes the loss, calls backward() and "
                "returns the loss"
            )
        with no_grad():
            return self._iterate(enable_grad()(closure))

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        loss, gradient = float(first), self._gradient()
        state["func_evals"] += 1
        evaluations = 1
        if largest(gradient) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            slope = self._prepare(state, gradient, loss)
            if slope > -group["tolerance_change"]:
                break
            last = iteration == group["max_iter"]
            budget = group["max_eval"] - evaluations
            loss, gradient, count = self._move(closure, state, loss, gradient, slope, budget, last)
            evaluations += count
            state["func_evals"] += count
            if last or evaluations >= group["max_eval"] or self._settled(state, loss, gradient):
                break
        return first

    def _prepare(self, state: dict[str, Any], gradient: Tensor, loss: float) -> float:
        """Set direction and length of the next step; returns the slope along it."""
        lr = float(self.param_groups[0]["lr"])
        if state["n_iter"] == 1:
            state.update(d=-gradient, old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            state["t"] = min(1.0, 1.0 / float(gradient.abs().sum())) * lr
        else:
            self._remember(state, gradient)
            state["d"], state["t"] = direction(state, gradient), lr
        state["prev_flat_grad"], state["prev_loss"] = gradient.clone(), loss
        return float(gradient.dot(state["d"]))

    def _remember(self, state: dict[str, Any], gradient: Tensor) -> None:
        """Enter the last step and its change of gradient, where the curvature along it is positive."""
        change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = change.dot(step)
        if float(curvature) <= 1e-10:
            return
        history = (state["old_dirs"], state["old_stps"], state["ro"])
        if len(history[0]) == self.param_groups[0]["history_size"]:
            for values in history:
                values.pop(0)
        for values, new in zip(history, (change, step, 1.0 / curvature), strict=True):
            values.append(new)
        state["H_diag"] = curvature / change.dot(change)

    def _move(
        self,
        closure: Callable[[], Any],
        state: dict[str, Any],
        loss: float,
        gradient: Tensor,
        slope: float,
        budget: int,
        last: bool,
    ) -> tuple[float, Tensor, int]:
        """Go along the direction; returns loss and gradient there, and the number of evaluations that took."""
        search, d = self.param_groups[0]["line_search_fn"], state["d"]
        if search is None:
            self._add(state["t"], d)
            if last:  # in a stochastic setting there is no use for the value at the end
                return loss, gradient, 0
            return float(closure()), self._gradient(), 1
        if search != "strong_wolfe":
            raise RuntimeError(f"only 'strong_wolfe' is supported as line_search_fn, got {search!r}")
        start = [p.clone() for p in self._params]

        def evaluate(t: float) -> tuple[float, Tensor]:
            self._add(t, d)
            found = float(closure()), self._gradient()
            for p, before in zip(self._params, start, strict=True):
                p.copy_(before)
            return found

        loss, gradient, state["t"], count = strong_wolfe(
            evaluate, state["t"], d, loss, gradient, slope, budget
        )
        self._add(state["t"], d)
        return loss, gradient, count

    def _settled(self, state: dict[str, Any], loss: float, gradient: Tensor) -> bool:
        group = self.param_groups[0]
        return (
            largest(gradient) <= group["tolerance_grad"]
            or largest(state["d"]) * state["t"] <= group["tolerance_change"]
            or abs(loss - state["prev_loss"]) < group["tolerance_change"]
        )

    def _gradient(self) -> Tensor:
        """All gradients in one vector; zeros where there is none."""
        grads = [F.zeros_like(p) if p.grad is None else p.grad for p in self._params]
        return F.cat([g.detach().reshape(-1) for g in grads])

    def _add(self, t: float, d: Tensor) -> None:
        """Move the parameters by t times the vector d."""
        start = 0
        for p in self._params:
            part = d[start : start + p.numel()]
            p.add_(part.reshape(p.shape), alpha=t)
            start += p.numel()


def largest(vector: Tensor) -> float:
    return float(vector.abs().max())


def direction(state: dict[str, Any], gradient: Tensor) -> Tensor:
    """Minus the approximate inverse Hessian times the gradient, by the two-loop recursion (algorithm 7.4)."""
    changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
    q = -gradient
    weights = []
    for change, step, r in zip(reversed(changes), reversed(steps), reversed(ro), strict=True):
        weights.append(step.dot(q) * r)
        q = q - change * weights[-1]
    q = q * state["H_diag"]
    for change, step, r, weight in zip(changes, steps, ro, reversed(weights), strict=True):
        q = q + step * (weight - change.dot(q) * r)
    return q
