"""Loads a compiled model and runs it: `m = tapecast.runtime.load("model.so"); y = m(x)`.

Needs numpy and the standard library, and of this package `serialized_models` alone.
"""

from ..serialized_models.format import ArtifactError
from .inspecting import Info, inspect
from .load import load
from .model import Model

__all__ = ["ArtifactError", "Info", "Model", "inspect", "load"]
