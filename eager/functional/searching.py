"""Finding values in sorted sequences and in sets."""

from __future__ import annotations

from typing import Any

from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor
from .base import cast_to, cpp_name, number
from .output import takes_out
from .pointwise import cast, logical_not
from .scattering import gather
from .shaping import reshape

SEARCHSORTED, ISIN = TABLE["searchsorted"], TABLE["isin"]


@takes_out
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where in the last axis of a sorted sequence the values would be inserted to keep the order.

    Before equal elements, or after them with `right` (`side="right"`). A sequence of several axes has one for each row
    of `input`. `sorter`: the positions that sort a sequence that is not sorted. int64, or int32 with `out_int32`.
    """
    value = as_value_of(sorted_sequence, input)
    after = chosen_side(right, side)
    check_sequence(sorted_sequence, value, isinstance(input, Tensor))
    if sorter is not None:
        check_sorter(sorted_sequence, sorter)
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    if sorted_sequence.ndim > 1 and sorted_sequence.array.shape[:-1] != value.array.shape[:-1]:
        raise RuntimeError(
            "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value "
            f"tensor must match, but we got boundaries tensor {list(map(int, sorted_sequence.array.shape))} and input "
            f"value tensor {list(map(int, value.array.shape))}"
        )
    out = apply(SEARCHSORTED, sorted_sequence.detach(), value.detach(), right=after)
    return cast(out, "int32") if out_int32 else out


def as_value_of(sequence: Tensor, value: Any) -> Tensor:
    """The values as a tensor; a number in the sequence's dtype."""
    plain = number(value)
    if plain is None:
        return value
    from .creation import scalar_tensor

    return scalar_tensor(plain, dtype=sequence.dtype)


def chosen_side(right: bool, side: str | None) -> bool:
    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}".removeprefix("torch.")
        )
    if side == "left" and right:
        raise RuntimeError(
            "searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    return right or side == "right"


def check_sequence(sequence: Tensor, value: Tensor, is_tensor: bool) -> None:
    if sequence.ndim == 0:
        raise RuntimeError("boundaries tensor should have positive dimension, but got 0 dimension")
    if sequence.device != value.device:
        raise RuntimeError(
            "searchsorted(): boundaries and input value tensors should have same device type, but got boundaries "
            f"tensor device type {sequence.device} and input value tensor device type {value.device}"
        )
    if is_tensor and sequence.array.dtype != value.array.dtype:
        raise RuntimeError(
            "searchsorted(): boundary tensor and input value tensor should have same dtype, but got boundary tensor "
            f"dtype {cpp_name(sequence.array.dtype)} and input value tensor dtype {cpp_name(value.array.dtype)}"
        )
    if not is_tensor and sequence.ndim != 1:
        raise RuntimeError(
            "searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
            f"boundaries tensor dim({sequence.ndim})"
        )


def check_sorter(sequence: Tensor, sorter: Tensor) -> None:
    if tuple(sorter.array.shape) != tuple(sequence.array.shape):
        raise RuntimeError(
            "searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
            f"{list(map(int, sequence.array.shape))} and got sorter tensor {list(map(int, sorter.array.shape))}"
        )
    if sorter.array.dtype.name != "int64":
        raise RuntimeError(
            f"searchsorted(): sorter must be a tensor of long dtype but got dtype {cpp_name(sorter.array.dtype)}"
        )


@takes_out
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The index of the bucket between sorted boundaries that each value falls in.

    Bucket i ends at boundaries[i], which belongs to it, or to the next one with `right`.
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates, a tensor for each axis, of positions in a flattened tensor of a shape."""
    from .arithmetic import floor_divide, remainder

    if not isinstance(indices, Tensor) or indices.array.dtype.kind not in "iu":
        raise ValueError("unravel_index(): 'indices' must be a tensor of whole numbers")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index(): 'shape' cannot have negative values, but got {sizes}")
    out = []
    for n in reversed(sizes):
        out.append(remainder(indices, n))
        indices = floor_divide(indices, n)
    return tuple(reversed(out))


@takes_out
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each of `elements` is among `test_elements`; one of the two may be a number. `invert`: is not."""
    from ..dtypes import result_dtype, scalar_dtype

    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin(): at least one of elements and test_elements must be a Tensor")
    tensors = [v.array.dtype for v in (elements, test_elements) if isinstance(v, Tensor)]
    numbers = [scalar_dtype(v) for v in (elements, test_elements) if not isinstance(v, Tensor)]
    kind = result_dtype(tensors, [], numbers)
    if kind.kind in "bc":
        raise RuntimeError(f"Unsupported input type encountered for isin(): {cpp_name(kind)}")
    x, test = (tensor_of(v, kind) for v in (elements, test_elements))
    found = apply(ISIN, x, reshape(test, (test.numel(),)))
    return logical_not(found) if invert else found


def tensor_of(value: Any, kind: Any) -> Tensor:
    from .creation import scalar_tensor

    x = value if isinstance(value, Tensor) else scalar_tensor(value, dtype=kind)
    return cast_to(x, kind).detach()
