"""Products, powers and functions of matrices, determinants, and products of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .. import functional as F
from ..functional.base import axis, cast_to, pair
from ..tensor import Tensor
from .checks import check_square, computed
from .conjugate import conj
from .results import SignLogabsdet
from .solvers import inv

# ---- determinants ------------------------------------------------------------------------------------------


def det(A: Tensor) -> Tensor:
    """The determinant of square matrices."""
    check_square("linalg.det", A)
    return computed("linalg.det", "linalg_det", A)


def slogdet(A: Tensor) -> SignLogabsdet:
    """The sign (of modulus 1 for complex A) and the logarithm of the modulus of the determinant."""
    check_square("linalg.slogdet", A)
    return SignLogabsdet(*computed("linalg.slogdet", "linalg_slogdet", A))


# ---- powers, exponential, chains ---------------------------------------------------------------------------


def matrix_power(A: Tensor, n: int) -> Tensor:
    """A square matrix multiplied with itself n times, by squaring; a power of the inverse for n < 0."""
    name = "linalg.matrix_power"
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    rows, columns = A.array.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {int(rows)} by {int(columns)} matrices"
        )
    if n < 0:
        A, n = inv(A), -n
    if n == 0:
        # Constant, yet an output of A: with a gradient, which is zero.
        everywhere = F.full((), True, dtype="bool", device=A.device)
        return F.where(everywhere, F.eye(rows, dtype=A.dtype, device=A.device), A)
    out: Tensor | None = None
    while n:
        if n & 1:
            out = A if out is None else F.matmul(out, A)
        n >>= 1
        A = F.matmul(A, A) if n else A
    assert out is not None
    return out


def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices, by scaling, squaring and a Padé approximation."""
    name = "linalg.matrix_exp"
    if A.array.dtype.itemsize == 2 and A.dtype.is_floating_point:
        return cast_to(matrix_exp(cast_to(A, np.dtype("float32"))), A.array.dtype)
    check_square(name, A)
    return computed(name, "linalg_matrix_exp", A)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices in the order that takes the fewest multiplications.

    The first may be a row vector and the last a column vector, given with one axis.
    """
    name, given = "multi_dot", list(tensors)
    if len(given) < 2:
        raise RuntimeError(f"{name}(): expected at least 2 tensors but got {len(given)}")
    check_chain(name, given)
    first, last = given[0].ndim == 1, given[-1].ndim == 1
    chain = [F.unsqueeze(given[0], 0) if first else given[0], *given[1:]]
    chain[-1] = F.unsqueeze(chain[-1], -1) if last else chain[-1]
    out = _multiplied(chain)
    out = F.squeeze(out, 0) if first else out
    return F.squeeze(out, -1) if last else out


def check_chain(name: str, given: list[Tensor]) -> None:
    """RuntimeError unless the tensors can be multiplied in this order."""
    for k, x in enumerate(given):
        ends = k in (0, len(given) - 1)
        if x.ndim != 2 and not (ends and x.ndim == 1):
            wanted = "1D or 2D" if ends else "2D"
            raise RuntimeError(f"{name}(): tensor {k} must be {wanted} but got {x.ndim}D")
        if x.array.dtype != given[0].array.dtype:
            raise RuntimeError(
                f"{name}(): all tensors must have be the same dtype but tensor 0 is {given[0].dtype} and tensor {k} "
                f"{x.dtype}"
            )
    for k, (x, y) in enumerate(pairwise(given)):
        if x.array.shape[-1] != y.array.shape[0]:
            raise RuntimeError(
                f"{name}(): tensors {k} and {k + 1} with shapes {list(x.shape)} and {list(y.shape)} cannot be "
                "multiplied"
            )


def _multiplied(chain: list[Tensor]) -> Tensor:
    """The cheapest order, by dynamic programming over spans of the chain (Cormen et al., section 15.2)."""
    sizes = [int(x.array.shape[0]) for x in chain] + [int(chain[-1].array.shape[1])]
    count = len(chain)
    cost: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(count)}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j] = min(
                (cost[i, k][0] + cost[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return chain[i]
        k = cost[i, j][1]
        return F.matmul(product(i, k), product(k + 1, j))

    return product(0, count - 1)


# ---- vectors -----------------------------------------------------------------------------------------------


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sum of conj(x) * y along an axis, with broadcasting."""
    if x.array.dtype != y.array.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type {x.dtype} and y of "
            f"type {y.dtype} instead"
        )
    return F.sum(conj(x) * y, axis("linalg.vecdot", dim, max(x.ndim, y.ndim)), dtype=x.dtype)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of three elements along an axis, with broadcasting of the others."""
    name = "linalg.cross"
    if input.ndim != other.ndim:
        raise RuntimeError(
            f"{name}: inputs must have the same number of dimensions. Got {input.ndim} and {other.ndim}"
        )
    a, b = F.broadcast_tensors(*pair(name, input, other)) if input.ndim else (input, other)
    d = axis(name, dim, input.ndim)
    sizes = [int(x.array.shape[d]) if x.ndim else 1 for x in (input, other)]
    if sizes != [3, 3]:
        raise RuntimeError(
            f"{name}: inputs dimension {dim} must have length 3. Got {sizes[0]} and {sizes[1]}"
        )
    turn = F.roll
    return turn(a, -1, d) * turn(b, -2, d) - turn(a, -2, d) * turn(b, -1, d)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of the matrices along two axes, as the last axis."""
    return F.diagonal(A, offset, dim1, dim2)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0, 1, … N - 1 of each element along a new last axis; N is the number of elements if not given."""
    x = F.reshape(x, (1,)) if x.ndim == 0 else x
    count: Any = x.array.shape[-1] if N is None else N
    if N is not None and N <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, got {N}")
    base = x if x.array.dtype.kind != "b" else F.cast(x, "int64")
    ones = F.unsqueeze(F.ones_like(base), -1)
    repeated = F.unsqueeze(base, -1).expand((*base.array.shape, count - 1))
    return F.cat([ones, F.cumprod(repeated, -1)], -1)


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product, as `tapecast.matmul`."""
    return F.matmul(input, other)
