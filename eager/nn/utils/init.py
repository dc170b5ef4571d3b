"""Modules without initial values."""

from __future__ import annotations

import inspect
from typing import Any

from ..module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters have no values to rely on, for state that is loaded next.

    RuntimeError for a class that is no Module or takes no `device`.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    return module_cls(*args, **kwargs).to_empty(device=kwargs.get("device") or "cpu")
