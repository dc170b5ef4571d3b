"""`DataParallel`, under which programs keep a model's parts."""

from __future__ import annotations

from typing import Any

from .module import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """A module on one device, under the name, and with the keys `module.…`, that programs for several expect.

    It does not divide the batch: the devices after the first of `device_ids` stay unused.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids = list(device_ids or [])[:1]
        self.output_device = output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
