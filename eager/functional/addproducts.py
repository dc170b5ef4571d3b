"""Products added to a tensor: beta * input + alpha * product, as one function each."""

from __future__ import annotations

from typing import Any

from ..tape import labelled
from ..tensor import Tensor
from .base import constant, cpp_name
from .pointwise import add, cast, logical_and, logical_or, mul
from .product import bmm, check_batches, mm, mv, outer
from .shaping import reshape, transpose


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
    return labelled(combined("addmm", input, mm(mat1, mat2), beta, alpha), "Addmm")


def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (the sum of the products of batch1 and batch2, matrix by matrix)."""
    check_batches(batch1, batch2)
    count, rows, inner = batch1.array.shape
    # One product over all terms, which is rounded once, of [rows, count * inner] and [count * inner, columns].
    left = reshape(transpose(batch1, 0, 1), (rows, count * inner))
    right = reshape(batch2, (count * inner, batch2.array.shape[2]))
    return combined("addbmm", input, mm(left, right), beta, alpha)


def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), matrix by matrix."""
    return combined("baddbmm", input, bmm(batch1, batch2), beta, alpha)


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    return combined("addmv", input, mv(mat, vec), beta, alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2); of bools the logical or of the two, where their factors are not 0."""
    if vec1.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(
            f"addr: Expected 1-D argument vec1 and vec2, but got {vec1.ndim}-D and {vec2.ndim}-D"
        )
    product = outer(vec1, vec2)
    if product.array.dtype.kind == "b" and input.array.dtype.kind == "b":
        check_shape("addr", input, product)
        return logical_or(
            logical_and(input, bool(beta) and input), logical_and(product, bool(alpha) and product)
        )
    return combined("addr", input, product, beta, alpha)


def combined(name: str, x: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta * x + alpha * product in the operands' dtype. With beta 0, x is not read, as in BLAS."""
    if x.array.dtype != product.array.dtype:
        raise RuntimeError(
            f"{name}: expected all operands to have the same dtype, but got {cpp_name(x.array.dtype)} and "
            f"{cpp_name(product.array.dtype)}; convert one of them"
        )
    check_shape(name, x, product)
    scaled_product = scaled(product, alpha)
    if is_zero(beta):
        return scaled_product
    return add(scaled(x, beta), scaled_product)


def is_zero(factor: Any) -> bool:
    return not isinstance(factor, Tensor) and factor == 0


def scaled(x: Tensor, factor: Any) -> Tensor:
    """x times a number, which takes on x's dtype: 0.6 is 0 for integers."""
    if isinstance(factor, Tensor):
        return mul(x, cast(factor, x.dtype))
    if factor == 1:
        return x
    kind = x.array.dtype.kind
    return mul(x, constant(int(factor) if kind in "iu" else factor, x.array.dtype, x))


def check_shape(name: str, x: Tensor, product: Tensor) -> None:
    """RuntimeError unless x broadcasts to the product."""
    mine, wanted = tuple(x.array.shape), tuple(product.array.shape)
    tail = wanted[len(wanted) - len(mine) :]
    if len(mine) > len(wanted) or any(m not in (1, w) for m, w in zip(mine, tail, strict=True)):
        raise RuntimeError(
            f"{name}: The expanded size of the tensor must match the existing size: input of shape "
            f"{list(map(int, mine))} does not broadcast to the product's {list(map(int, wanted))}"
        )
