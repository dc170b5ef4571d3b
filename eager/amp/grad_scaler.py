"""`GradScaler`: losses scaled up so that gradients in float16 do not vanish, and the factor's search."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .. import cuda, functional as F
from ..modes import no_grad
from ..optim.optimizer import Optimizer
from ..tensor import Tensor

READY, UNSCALED, STEPPED = range(3)
HINT = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."


class Progress:
    """How far an optimizer is in its step: its stage, and whether its gradients had an inf or nan (None: not known)."""

    def __init__(self) -> None:
        self.stage, self.found_inf = READY, None


class GradScaler:
    """`scale(loss).backward()`, `step(optimizer)`, `update()`: steps whose gradients overflow are left out.

    The factor starts at `init_scale`; it is multiplied by `backoff_factor` after an overflow, and by `growth_factor`
    after `growth_interval` steps without one. `enabled=False`, or a `device` "cuda" without GPU: everything is passed
    through.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device, self._enabled = device, enabled
        if enabled and device == "cuda" and not cuda.is_available():
            warnings.warn("GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if self._enabled and growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if self._enabled and backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: Tensor | None = None
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._progress: defaultdict[int, Progress] = defaultdict(Progress)

    def scale(self, outputs: Any) -> Any:
        """A tensor, or tensors in lists and tuples, times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._scale = F.tensor(self._init_scale, dtype="float32", device=outputs.device)
            return outputs * self._scale.to(device=outputs.device)
        if not isinstance(outputs, Iterable):
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled

    def _check(self, name: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(f"Attempted {name} but _scale is None.  {HINT}")
        return self._scale

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the optimizer's gradients by the factor, once in a step: to clip them, say."""
        if not self._enabled:
            return
        scale, progress = self._check("unscale_"), self._progress[id(optimizer)]
        if progress.stage == UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if progress.stage == STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse, found = 1.0 / scale.item(), False
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        with no_grad():
            for g in grads:
                if g.dtype.name == "float16":
                    raise ValueError("Attempting to unscale FP16 gradients.")
                found = found or not bool(F.isfinite(g).all())
                g.mul_(inverse)
        progress.found_inf = found if grads else None  # type: ignore[assignment]
        progress.stage = UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step with unscaled gradients, left out if one is inf or nan. Returns what that returns."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check("step")
        progress = self._progress[id(optimizer)]
        if progress.stage == STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if progress.stage == READY:
            self.unscale_(optimizer)
        if progress.found_inf is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        out = None if progress.found_inf else optimizer.step(*args, **kwargs)
        progress.stage = STEPPED
        return out

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the factor for the next step: by what the last steps have met, or to `new_scale`."""
        if not self._enabled:
            return
        scale = self._check("update")
        if new_scale is not None:
            scale.fill_(new_scale)
        else:
            found = [p.found_inf for p in self._progress.values() if p.found_inf is not None]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(scale, any(found))
        self._progress.clear()

    def _adapt(self, scale: Tensor, overflow: bool) -> None:
        if overflow:
            scale.mul_(self._backoff_factor)
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = scale * self._growth_factor
            if bool(F.isfinite(grown)):
                scale.copy_(grown)
            self._growth_tracker = 0

    def get_scale(self) -> float:
        """The factor; 1.0 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the factor grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the factor grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the factor shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the factor shrinks by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many steps without overflow come before the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set how many steps without overflow come before the factor grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether anything is scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The factor, its settings and the count of steps without overflow; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` of another scaler returned."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = (
            state_dict["growth_interval"],
            state_dict["_growth_tracker"],
        )
