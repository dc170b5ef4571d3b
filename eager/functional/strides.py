"""Tensors by their strides: views of any geometry, sliding windows, memory laid out as asked, and resized."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..ops.strides import address, last_place, strides_of
from ..ops.table import TABLE
from ..tape import apply_view
from ..tensor import Tensor, View
from .base import axis, spelled

AS_STRIDED, UNFOLD = TABLE["as_strided"], TABLE["unfold"]

Ints = tuple[int, ...]

# ---- memory ------------------------------------------------------------------------------------------------


def concrete(x: Tensor) -> Any:
    """The array, or the one that a traced value was recorded with."""
    return getattr(x.array, "array", x.array)


def storage_root(x: Tensor) -> Tensor:
    """The tensor whose memory x looks at; itself if it is no view."""
    while x.link is not None:
        x = x.link.base
    return x


def start_of(x: Tensor) -> int:
    """The position of x's first element in the memory of the tensor it is a view of, in elements."""
    array, root = concrete(x), concrete(storage_root(x))
    return (address(array) - address(root)) // array.dtype.itemsize if array.size else 0


def row_major(shape: Sequence[int]) -> Ints:
    """The strides of dense row-major memory."""
    return tuple(prod(max(n, 1) for n in shape[d + 1 :]) for d in range(len(shape)))


def memory_places(like: Tensor, size: Sequence[int], stride: Ints, offset: int) -> Tensor:
    """int64: where in memory the elements of a geometry lie, in row-major order; on the device of `like`."""
    total: Any = np.asarray(offset)
    for d, (n, k) in enumerate(zip(size, stride, strict=True)):
        total = total + (np.arange(n) * k).reshape(-1, *(1,) * (len(size) - d - 1))
    return on_device_of(like, np.broadcast_to(total, tuple(size)).reshape(-1))


def window_places(like: Tensor, count: int, size: int, step: int) -> Tensor:
    """int64[count, size]: the elements of windows `step` apart; on the device of `like`."""
    return on_device_of(like, (np.arange(count) * step)[:, None] + np.arange(size))


def on_device_of(like: Tensor, array: Any) -> Tensor:
    from ..device import move

    return Tensor(move(array.astype("int64"), like.device))


# ---- views -------------------------------------------------------------------------------------------------


def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A view of any geometry over the memory of the tensor: sizes, strides and the first position, in elements.

    The position counts from the start of the memory of the tensor that `input` is a view of; None: where `input`
    starts. RuntimeError for what would lie outside.
    """
    shape, steps = spelled((), tuple(size)), spelled((), tuple(stride))
    here = start_of(input)
    offset = 0 if storage_offset is None else int(storage_offset) - here
    check_geometry(input, shape, steps, here + offset)
    out = apply_view(AS_STRIDED, input, geometry(input, shape, steps, offset))
    base = input._base
    if base is not None and out.link is not None and base.array.dtype == input.array.dtype:
        # As a view of the base itself: the memory may reach beyond what `input` shows of it.
        whole = geometry(base, shape, steps, here + offset - start_of(base))
        out.link = View(base, ((AS_STRIDED, whole),))
    return out


def geometry(x: Tensor, size: Ints, stride: Ints, offset: int) -> dict[str, Any]:
    return {"size": size, "stride": stride, "offset": offset, "own": strides_of(concrete(x))}


def check_geometry(x: Tensor, size: Ints, stride: Ints, start: int) -> None:
    if len(size) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape, got size {list(size)} and stride {list(stride)}"
        )
    if len(size) > 64:
        raise RuntimeError(f"as_strided: a tensor has 64 axes at most, got {len(size)}")
    if any(k < 0 for k in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}"
        )
    if any(n < 0 for n in size) or start < 0:
        raise RuntimeError(f"as_strided: sizes and storage_offset must be >= 0, got {list(size)} and {start}")
    root = concrete(storage_root(x))
    item = x.array.dtype.itemsize
    have = (last_place(root.shape, strides_of(root)) + 1) * root.dtype.itemsize
    need = (start + last_place(size, stride) + 1) * item if 0 not in size else 0
    if need > have:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start}, and itemsize {item} "
            f"requiring a storage size of {need} are out of bounds for storage of size {have}"
        )


def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A copy of the tensor with `src` where the view of that geometry lies."""
    shape, steps = tuple(size), tuple(stride)
    here = start_of(input)
    offset = 0 if storage_offset is None else int(storage_offset) - here
    check_geometry(input, shape, steps, offset + here)
    if tuple(src.array.shape) != shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(map(int, src.array.shape))}, "
            f"slice size = {list(shape)}"
        )
    from .. import functional as F
    from .base import cast_to

    put: Any = AS_STRIDED.put
    value = cast_to(src, input.array.dtype)
    return put(F, input, value, **geometry(input, shape, steps, offset))


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """A view of all windows of `size` elements of an axis, `step` apart; the window is a new last axis."""
    d = axis("unfold", dimension, input.ndim)
    have = input.array.shape[d] if input.ndim else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > have:
        raise RuntimeError(f"maximum size for tensor at dimension {d} is {int(have)} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not input.ndim:
        from .shaping import reshape

        return reshape(input, (1,)) if size else as_strided(input, (0,), (1,))
    return apply_view(UNFOLD, input, {"dim": d, "size": size, "step": step})


# ---- memory laid out as asked ------------------------------------------------------------------------------


def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Zeros of a shape whose memory has the strides asked for, in elements."""
    from ..device import move
    from ..dtypes import dtype_of, get_default_dtype

    shape, steps = spelled((), tuple(size)), spelled((), tuple(stride))
    if len(shape) != len(steps):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(steps)})"
        )
    if any(n < 0 for n in shape) or any(k < 0 for k in steps):
        raise RuntimeError(f"empty_strided: sizes and strides must be >= 0, got {list(shape)}, {list(steps)}")
    kind = (get_default_dtype() if dtype is None else dtype_of(dtype)).numpy
    memory = np.zeros(max(last_place(shape, steps) + 1, 0), kind)
    array = np.lib.stride_tricks.as_strided(memory, shape, tuple(k * kind.itemsize for k in steps))
    if device is not None:
        from ..device import device as device_type

        array = move(array, device_type(device))
    return Tensor(array, requires_grad)


def empty_permuted(
    size: Any,
    physical_layout: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Zeros of a shape, dense in memory; `physical_layout` lists the axes from the outermost in memory."""
    shape, order = spelled((), tuple(size)), list(physical_layout)
    if len(order) != len(shape):
        raise RuntimeError(
            "Number of dimensions in the tensor input does not match the length of the physical layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    for k, d in enumerate(order):
        if not 0 <= d < len(shape):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {d} at index {k})."
            )
        if d in order[:k]:
            raise RuntimeError(f"Duplicate dim not allowed: dim {d} is listed twice in {order}")
    inner = row_major([shape[d] for d in order])
    steps = [inner[order.index(d)] for d in range(len(shape))]
    return empty_strided(shape, steps, dtype=dtype, device=device, requires_grad=requires_grad)


def new_empty_strided(
    input: Tensor,
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """As empty_strided, in this tensor's dtype and device."""
    kind = input.dtype if dtype is None else dtype
    where = input.device if device is None else device
    return empty_strided(size, stride, dtype=kind, device=where, requires_grad=requires_grad)


def resize_(input: Tensor, *size: Any, memory_format: Any = None) -> Tensor:
    """In place: another shape over the same memory, row by row, which grows (zeros at the end) where it is too small.

    RuntimeError for a tensor that requires grad.
    """
    if input.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    shape = spelled(size, None)
    if any(n < 0 for n in shape):
        raise RuntimeError(f"resize_: sizes must be >= 0, got {list(shape)}")
    if tuple(input.array.shape) == shape:
        return input
    root, start = concrete(storage_root(input)), start_of(input)
    have = last_place(root.shape, strides_of(root)) + 1 if root.dtype == input.array.dtype else 0
    if start + prod(shape) <= have:
        attrs = geometry(input, shape, row_major(shape), 0)
        input.array = AS_STRIDED.run(np, input._read("resize_()"), **attrs)
        return input
    old = input._read("resize_()")
    new = np.zeros(shape, old.dtype)
    left = max(have - start, old.size) if old.size else 0
    kept = (
        old.reshape(-1)
        if left == old.size
        else np.lib.stride_tricks.as_strided(old, (left,), (old.dtype.itemsize,))
    )
    new.reshape(-1)[: kept.size] = kept
    input.array, input.link, input.storage = new, None, None
    return input


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """In place: the shape of another tensor, as resize_."""
    return resize_(input, tuple(the_template.array.shape))
