"""What runs now: tensors, the tape, modules, optimizers, data."""

from . import methods

__all__ = ["methods"]
