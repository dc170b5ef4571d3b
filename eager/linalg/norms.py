"""Norms of vectors and matrices, condition numbers and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from .. import functional as F
from ..dtypes import COMPLEX, FLOATING, category, dtype_of
from ..functional.base import axes, axis, cast_to
from ..functional.norms import vector_norm as elements_norm
from ..tensor import Tensor
from .checks import check_floating, check_matrix, check_square, cpp_name
from .solvers import inv_ex, tolerances
from .spectra import eigvalsh, svdvals

Dims = int | Sequence[int] | None


def converted(name: str, x: Tensor, dtype: Any) -> Tensor:
    """x in the dtype that the norm is to be computed in, which must be of x's kind and not narrower."""
    kind = category(x.array.dtype)
    if kind not in (FLOATING, COMPLEX):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {cpp_name(x)}; convert it first"
        )
    if dtype is None:
        return x
    wanted = dtype_of(dtype)
    if wanted.category not in (FLOATING, COMPLEX):
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {wanted}")
    if wanted.category != kind:
        raise RuntimeError(
            f"{name}: dtype should be {'complex' if kind == COMPLEX else 'real'} for "
            f"{'complex' if kind == COMPLEX else 'real'} inputs, but got {wanted}"
        )
    if wanted.itemsize < x.array.dtype.itemsize:
        raise RuntimeError(
            f"{name}: the dtype of the input ({x.dtype}) should be convertible without narrowing to the specified "
            f"dtype ({wanted})"
        )
    return cast_to(x, wanted.numpy)


def vector_norm(
    x: Tensor, ord: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """(sum |x|^ord)^(1/ord) over axes; the extreme |x| for ord ±inf, the count of nonzero elements for ord 0."""
    name = "linalg.vector_norm"
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument must be Tensor, not {type(x).__name__}")
    if isinstance(ord, complex):
        raise RuntimeError(f"{name}: Expected a non-complex scalar as the order of norm.")
    x = converted(name, x, dtype)
    over = axes(name, dim, x.ndim)
    order = float(ord)
    if (order < 0 or order == inf) and any(x.array.shape[d] == 0 for d in over):
        raise RuntimeError(
            f"{name} cannot compute the {ord} norm on an empty tensor because the operation does not have an identity"
        )
    return elements_norm(x, order, over if x.ndim else None, keepdim)


def _with_ones(x: Tensor, over: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if d in over else n for d, n in enumerate(x.array.shape))


def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of matrices along two axes.

    ord: "fro" (root of the sum of squares), "nuc" (sum of the singular values), 2 and -2 (largest and smallest
    singular value), 1 and -1 (largest and smallest sum of |a| of a column), inf and -inf (of a row).
    """
    name = "linalg.matrix_norm"
    rows, columns = matrix_axes(name, A, dim)
    A = converted(name, A, dtype)
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim)
    if ord not in ("nuc", 1, -1, 2, -2, inf, -inf):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    if ord == "nuc" or abs(ord) == 2:
        out = _spectral(svdvals(F.movedim(A, (rows, columns), (-2, -1))), ord)
    else:
        sums = vector_norm(A, 1, rows if abs(ord) == 1 else columns, True)
        out = largest(sums, (rows, columns)) if ord > 0 else F.amin(sums, (rows, columns))
    return F.reshape(out, _with_ones(A, (rows, columns))) if keepdim else out


def _spectral(values: Tensor, ord: Any) -> Tensor:
    if ord == "nuc":
        return F.sum(values, -1)
    return largest(values, (-1,)) if ord > 0 else F.amin(values, -1)


def largest(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The maximum over axes of what is not negative: 0 of no elements."""
    return F.amax(x, dims) if all(x.array.shape[d] for d in dims) else F.sum(x, dims)


def matrix_axes(name: str, A: Tensor, dim: Any) -> tuple[int, int]:
    """The two axes that matrices lie along; RuntimeError unless they are two different ones."""
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if isinstance(dim, int) or len(tuple(dim)) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {dim}")
    rows, columns = (axis(name, d, A.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got {tuple(dim)}")
    return rows, columns


def norm(A: Tensor, ord: Any = None, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """`vector_norm` for one axis or none given, `matrix_norm` for two axes or a matrix and an order."""
    if dim is not None:
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        if ord is not None and len(dims) not in (1, 2):
            raise RuntimeError(
                f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}"
            )
    elif ord is not None:
        if A.ndim not in (1, 2):
            raise RuntimeError(
                f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
            )
        dims = tuple(range(A.ndim))
    else:
        dims = tuple(range(A.ndim))
    if ord is not None and len(dims) == 2:
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise RuntimeError(
            f"linalg.norm: Order '{ord}' is of matrices, got dim {list(dims)}; use linalg.matrix_norm"
        )
    return vector_norm(A, 2 if ord is None else ord, dims if A.ndim else None, keepdim, dtype=dtype)


def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number |A| |A⁻¹| in a matrix norm; by the singular values for p None, 2 and -2."""
    name = "linalg.cond"
    check_matrix(name, A)
    if p is None or p in (2, -2):
        values = svdvals(A)
        if values.array.shape[-1] == 0:
            return values.new_zeros(tuple(values.array.shape[:-1]))
        largest, smallest = values[..., 0], values[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    if p not in ("fro", "nuc", 1, -1, inf, -inf):
        raise RuntimeError(f"{name}: got an invalid norm type: {p}")
    check_square(name, A)
    if A.array.size == 0:
        return vector_norm(A, 2, (-2, -1)) * 0
    inverse, info = inv_ex(A)
    found = matrix_norm(A, p) * matrix_norm(inverse, p)
    return F.where(info != 0, inf, found)


def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """How many singular values are larger than max(atol, rtol * the largest), as int64 per matrix.

    hermitian: A is Hermitian, and they are the absolute eigenvalues. `tol` is an old name of atol.
    """
    name = "linalg.matrix_rank"
    (check_square if hermitian else check_matrix)(name, A)
    check_floating(name, A)
    if 0 in A.array.shape[-2:]:
        return F.zeros(tuple(A.array.shape[:-2]), dtype="int64", device=A.device)
    atol, rtol = (tol, 0.0) if tol is not None else (atol, rtol)
    absolute, relative = tolerances(name, A, atol, rtol)
    values = F.abs(eigvalsh(A)) if hermitian else svdvals(A)
    limit = F.maximum(absolute, relative * F.amax(values, -1))
    return F.sum(values > F.unsqueeze(limit, -1), -1)
