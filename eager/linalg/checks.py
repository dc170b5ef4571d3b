"""What the functions of linear algebra demand of their arguments, and how they say what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..functional.base import cast_to, known_now, name_of
from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor


class LinAlgError(RuntimeError):
    """A matrix for which the result does not exist: singular, not positive-definite, or without convergence."""


def cpp_name(x: Tensor) -> str:
    """The dtype as PyTorch's messages have it."""
    names = {
        "bool": "Bool",
        "uint8": "Byte",
        "int8": "Char",
        "int16": "Short",
        "int32": "Int",
        "int64": "Long",
        "float16": "Half",
        "bfloat16": "BFloat16",
        "float32": "Float",
        "float64": "Double",
        "complex64": "ComplexFloat",
        "complex128": "ComplexDouble",
    }
    return names[name_of(x.array.dtype)]


def computed(name: str, op: str, *operands: Tensor, **attrs: Any) -> Any:
    """Apply a table op; what LAPACK cannot finish becomes a LinAlgError that names the function."""
    try:
        return apply(TABLE[op], *operands, **attrs)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(
            f"{name}: The algorithm failed to converge ({error}): the input is ill-conditioned, has too many "
            "repeated values or contains values that are not finite"
        ) from None


def check_floating(name: str, x: Tensor) -> None:
    """RuntimeError for a dtype LAPACK has no routines for."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument must be Tensor, not {type(x).__name__}")
    kind, itemsize = x.array.dtype.kind, x.array.dtype.itemsize
    if kind in "biu":
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {cpp_name(x)}; convert it first"
        )
    if itemsize == 2:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {cpp_name(x)}; use .float()")


def check_matrix(name: str, x: Tensor, label: str = "A") -> None:
    """RuntimeError unless x is a matrix or a batch of them, of a floating dtype."""
    if isinstance(x, Tensor) and x.ndim < 2:
        raise RuntimeError(
            f"{name}: The input tensor {label} must have at least 2 dimensions, got shape {list(x.shape)}."
        )
    check_floating(name, x)


def check_square(name: str, x: Tensor, label: str = "A") -> None:
    """RuntimeError unless x is a square matrix or a batch of them, of a floating dtype."""
    check_matrix(name, x, label)
    m, n = x.array.shape[-2:]
    if m != n:
        raise RuntimeError(
            f"{name}: {label} must be batches of square matrices, but they are {int(m)} by {int(n)} matrices"
        )


def check_same_dtype(name: str, x: Tensor, y: Tensor) -> None:
    if x.array.dtype != y.array.dtype:
        raise RuntimeError(
            f"{name}: Expected both tensors to have the same dtype, got {cpp_name(x)} and {cpp_name(y)}; convert one"
        )


def check_info(name: str, info: Tensor, message: str) -> None:
    """LinAlgError for the first matrix whose info is not 0; `message` may have {info} in it.

    Not while a graph is recorded, where no contents are known.
    """
    found = known_now(info)
    if found is None or not found.any():
        return
    at = int(np.flatnonzero(found)[0])
    element = f"(Batch element {at}): " if found.ndim else ""
    raise LinAlgError(f"{name}: {element}{message.format(info=int(found.reshape(-1)[at]))}")


def as_dtype(x: Tensor, like: Tensor) -> Tensor:
    return cast_to(x, like.array.dtype)
