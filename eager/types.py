"""Names for the types of arguments."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import Any

from .device import device
from .dtypes import dtype
from .memory_format import layout
from .storage import UntypedStorage
from .tensor import Size, Tensor

__all__ = ["Device", "FileLike", "IntLikeType", "Number", "Storage"]

_TensorOrTensors = Tensor | Sequence[Tensor]
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_dtype, _device, _layout = dtype, device, layout
_size = Size | list[int] | tuple[int, ...]
_dispkey: Any = str

Number = int | float | bool
Device: Any = device | str | int | None
FileLike = str | os.PathLike[str] | Any
IntLikeType = int
Storage = UntypedStorage
