"""The public face of the tape: backward and grad, the modes, custom functions, checks, leak finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import backward as engine
from ..backward import as_list, grad
from ..modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from ..tensor import Tensor
from . import function, functional, graph
from .check import GradcheckError, gradcheck, gradgradcheck
from .function import Function
from .leaks import live_graphs, set_live_graph_limit

Variable = Tensor
"""The old name."""

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "live_graphs",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_live_graph_limit",
]


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of the sum of `tensors`, weighted by `grad_tensors`, to the `.grad` of leaves (or `inputs`)."""
    gradients = None if grad_tensors is None else as_list(grad_tensors)
    wanted = None if inputs is None else as_list(inputs)
    engine.backward(as_list(tensors), gradients, retain_graph, create_graph, wanted)
