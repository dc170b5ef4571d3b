"""Questions about tensors that need no computation."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..tensor import Tensor
from .base import number


def is_tensor(obj: Any) -> bool:
    """Whether it is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a real floating-point one."""
    return input.dtype.is_floating_point


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex."""
    return input.dtype.is_complex


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero; reads it."""
    return bool(input)


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return input.array.dtype.kind not in "bu"


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode, which leaves no mark here: False."""
    return False


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether the shapes are the same."""
    return input.shape == other.shape


def is_distributed(input: Tensor) -> bool:
    """Whether the tensor lies on several machines: never."""
    return False


def get_device(input: Tensor) -> int:
    """The number of the GPU that holds the tensor; -1 in main memory."""
    return -1 if input.device.type == "cpu" else input.device.index or 0


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """The dtype an operation on two tensors or numbers has."""
    tensors = [t for t in (tensor1, tensor2) if isinstance(t, Tensor)]
    numbers = [number(v) for v in (tensor1, tensor2) if not isinstance(v, Tensor)]
    return dtypes.dtype_of(
        dtypes.result_dtype(
            [t.array.dtype for t in tensors if t.array.shape],
            [t.array.dtype for t in tensors if not t.array.shape],
            [dtypes.scalar_dtype(n) for n in numbers],
        )
    )


def can_cast(from_: Any, to: Any) -> bool:
    """Whether promotion may turn one dtype into the other without leaving its category."""
    return dtypes.dtype_of(from_).category <= dtypes.dtype_of(to).category
