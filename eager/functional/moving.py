"""Tensors in another dtype or on another device."""

from __future__ import annotations

from typing import Any

from ..device import CPU, device, move
from ..dtypes import dtype_of
from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor
from .base import cast_to
from .shaping import laid_out


def to(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """to(dtype), to(device), to(device, dtype), to(other): converted or moved; itself if it is already so."""
    where, wanted, copy = target(args, kwargs)
    out = input if wanted is None else cast_to(input, dtype_of(wanted).numpy)
    if where is not None:
        out = moved(out, device(where))
    if copy and out is input:
        out = apply(TABLE["clone"], out)
    return laid_out(out, kwargs.get("memory_format"))


def target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool]:
    """Device, dtype and copy from the many spellings of `to`."""
    where, wanted = kwargs.get("device"), kwargs.get("dtype")
    for arg in args:
        if isinstance(arg, Tensor):
            where, wanted = arg.device, arg.dtype
        elif isinstance(arg, (str, device)) and not _names_dtype(arg):
            where = arg
        elif arg is not None and not isinstance(arg, bool):
            wanted = arg
    return where, wanted, bool(kwargs.get("copy", False))


def _names_dtype(arg: Any) -> bool:
    return isinstance(arg, str) and arg.partition(":")[0] not in ("cpu", "cuda")


def moved(x: Tensor, where: device) -> Tensor:
    """The tensor on another device, its gradient coming back to this one."""
    array = move(x.array, where)
    if array is x.array:
        return x
    from ..tape import moved_to

    return moved_to(x, array)


def cpu(input: Tensor) -> Tensor:
    """The tensor in host memory."""
    return moved(input, CPU)


def cuda(input: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """The tensor on a GPU; RuntimeError without cupy or a GPU."""
    where = "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device
    return to(input, where)
