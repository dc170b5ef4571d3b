"""What is known of the elements of a constant."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..eager.ops.types import is_floating
from ..tracer.dims import Dim
from ..tracer.graph import Node


def is_uniform(n: Node, value: float) -> bool:
    """Is every element of `n` a constant equal to `value`, the sign of zero included?"""
    found = uniform_value(n)
    return found is not None and found == value and bool(np.signbit(found) == np.signbit(value))


def uniform_value(n: Node) -> Any:
    """The real number that every element of a constant, or of a view of one, is; None if they differ or are
    not known.
    """
    while n.op is not None and n.op.kind == "view":
        n = n.inputs[0]
    if n.is_const and n.value.size:
        array = np.asarray(n.value)
        first = array.reshape(-1)[0]
        if array.dtype.kind != "c" and array.tobytes() == np.full_like(array, first).tobytes():
            return float(first) if is_floating(array.dtype) else int(first)
    if n.op is not None and n.op.name == "full":
        value = n.attrs["value"]
        return value if isinstance(value, (int, float)) and not isinstance(value, Dim) else None
    return None


def has_exact_reciprocal(n: Node) -> bool:
    """Is `n` a constant of powers of two, so that dividing by it is multiplying by its reciprocal, bit for
    bit?

    Both the elements and their reciprocals must be normal numbers of the dtype.
    """
    if not n.is_const or not is_floating(n.dtype) or not n.value.size:
        return False
    values = np.abs(np.asarray(n.value, "float64"))
    if not (np.isfinite(values).all() and (values > 0).all()):
        return False
    mantissa, exponent = np.frexp(values)
    low, high = normal_exponents(n.dtype)
    return bool((mantissa == 0.5).all() and (np.abs(exponent - 1) <= min(-low, high)).all())


def normal_exponents(dtype: Any) -> tuple[int, int]:
    """The smallest and largest e for which 2^e is a normal number."""
    finfo: Any = ml_dtypes.finfo  # numpy's does not know bfloat16
    info = finfo(dtype)
    return int(info.minexp), int(info.maxexp) - 1
