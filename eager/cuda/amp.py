"""`tapecast.cuda.amp`: the older names, for GPUs alone."""

from __future__ import annotations

from typing import Any

from ..amp import context, grad_scaler

__all__ = ["GradScaler", "autocast"]


class autocast(context.autocast):
    """`tapecast.amp.autocast` of "cuda"."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`tapecast.amp.GradScaler` of "cuda"."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
