"""Matrix products and what is built on them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..ops.table import TABLE
from ..tape import apply, apply_binary, labelled
from ..tensor import Tensor
from .base import axis
from .reduction import sum
from .shaping import permute, reshape, squeeze, unsqueeze

MATMUL = TABLE["matmul"]


def same_dtypes(x: Tensor, y: Tensor) -> None:
    if x.array.dtype != y.array.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {x.dtype.name} != {y.dtype.name}; convert one of them"
        )


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product: of vectors a dot product, of stacks of matrices one product each, with broadcasting."""
    if not isinstance(other, Tensor) or not isinstance(input, Tensor):
        wrong = other if isinstance(input, Tensor) else input
        raise TypeError(f"matmul(): argument must be Tensor, not {type(wrong).__name__}")
    m, n = input.ndim, other.ndim
    if m == 2 and n == 2 and input.array.dtype == other.array.dtype:
        return apply_binary(MATMUL, input, other)
    same_dtypes(input, other)
    if m == 0 or n == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {m}D and {n}D")
    if m == 1 and n == 1:
        return dot(input, other)
    if m == 1:
        return squeeze(matmul(unsqueeze(input, 0), other), -2)
    if n == 1:
        return squeeze(matmul(input, unsqueeze(other, 1)), -1)
    if n == 2:  # one product with all rows: faster, and so is the gradient of `other`
        lead = input.array.shape[:-1]
        rows = apply(MATMUL, reshape(input, (prod(lead), input.array.shape[-1])), other)
        return labelled(reshape(rows, (*lead, other.array.shape[-1])), "UnsafeView")
    return labelled(apply(MATMUL, input, other), "UnsafeView")


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices."""
    if input.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(
            "mat1 and mat2 must be matrices, got " + f"{input.ndim}-D and {mat2.ndim}-D tensors"
        )
    return labelled(matmul(input, mat2), "Mm")


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of matrices, pair by pair along the first axis."""
    if input.ndim != 3 or mat2.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor, got " + f"{input.ndim}-D and {mat2.ndim}-D tensors")
    if input.array.shape[0] != mat2.array.shape[0]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{int(input.array.shape[0])}, "
            f"{int(input.array.shape[2])}] but got: [{int(mat2.array.shape[0])}, {int(mat2.array.shape[1])}]."
        )
    return labelled(matmul(input, mat2), "Bmm")


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """A matrix times a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError("vector + matrix @ vector expected, got " + f"{input.ndim}, {vec.ndim}")
    return labelled(matmul(input, vec), "Mv")


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The sum of the products of two vectors."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    if input.array.shape != tensor.array.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{int(input.array.shape[0])}] and src "
            f"[{int(tensor.array.shape[0])}] to have the same number of elements, but got "
            f"{int(input.array.shape[0])} and {int(tensor.array.shape[0])} elements respectively"
        )
    same_dtypes(input, tensor)
    product = apply(MATMUL, unsqueeze(input, 0), unsqueeze(tensor, 1))
    return labelled(reshape(product, ()), "Dot")


vdot = dot


def inner(input: Tensor, other: Tensor) -> Tensor:
    """The sum of products over the last axes."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    return tensordot(input, other, ([-1], [-1]))


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of the elements of two vectors."""
    return unsqueeze(input, 1) * vec2


ger = outer


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
    product = mm(mat1, mat2)
    return labelled(_scaled(input, beta) + _scaled(product, alpha), "Addmm")


def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), matrix by matrix."""
    return _scaled(input, beta) + _scaled(bmm(batch1, batch2), alpha)


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    return _scaled(input, beta) + _scaled(mv(mat, vec), alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2)."""
    return _scaled(input, beta) + _scaled(outer(vec1, vec2), alpha)


def _scaled(x: Tensor, factor: Any) -> Tensor:
    return x if factor == 1 else x * factor


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sums of products over pairs of axes: the last n of a with the first n of b, or the lists given."""
    if isinstance(dims, int):
        over_a, over_b = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        over_a = [axis("tensordot", d, a.ndim) for d in dims[0]]
        over_b = [axis("tensordot", d, b.ndim) for d in dims[1]]
    free_a = [d for d in range(a.ndim) if d not in over_a]
    free_b = [d for d in range(b.ndim) if d not in over_b]
    size_a, size_b = [a.array.shape[d] for d in free_a], [b.array.shape[d] for d in free_b]
    common = prod(a.array.shape[d] for d in over_a)
    left = reshape(permute(a, free_a + over_a), (prod(size_a), common))
    right = reshape(permute(b, over_b + free_b), (prod(b.array.shape[d] for d in over_b), prod(size_b)))
    return reshape(matmul(left, right), (*size_a, *size_b))


def einsum(equation: str, *operands: Any) -> Tensor:
    """Einstein's summation: "bij,bjk->bik". Two operands at a time, each pair as one matrix product."""
    tensors = list(operands[0] if len(operands) == 1 and not isinstance(operands[0], Tensor) else operands)
    left, arrow, out = equation.replace(" ", "").partition("->")
    terms = [_with_ellipsis(term, x) for term, x in zip(left.split(","), tensors, strict=True)]
    dots = max((term[1] for term in terms), key=len)
    names = [term[0] for term in terms]
    if not arrow:
        letters = "".join(names)
        out = "..." + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots))
    target = out.replace("...", dots)
    subscripts, result = names[0], tensors[0]
    subscripts, result = _merged(subscripts, result)
    for k in range(1, len(tensors)):
        later = set(target).union(*names[k + 1 :])
        other, tensor = _merged(names[k], tensors[k])
        subscripts, result = _contract(subscripts, result, other, tensor, later)
    gone = [d for d, c in enumerate(subscripts) if c not in target]
    if gone:
        result, subscripts = sum(result, gone), "".join(c for c in subscripts if c in target)
    return permute(result, [subscripts.index(c) for c in target]) if subscripts else result


def _with_ellipsis(term: str, x: Tensor) -> tuple[str, str]:
    """The subscripts with "..." as letters that no user writes, and those letters."""
    extra = x.ndim - len(term.replace("...", ""))
    dots = "".join(chr(0x370 + k) for k in range(extra))[::-1] if "..." in term else ""
    if "..." not in term and extra:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(term)}) does not match the number of "
            f"dimensions ({x.ndim}) for operand and no ellipsis was given"
        )
    return term.replace("...", dots), dots


def _merged(subscripts: str, x: Tensor) -> tuple[str, Tensor]:
    """A subscript that occurs twice means the diagonal."""
    from .shaping import diagonal

    for c in dict.fromkeys(subscripts):
        while subscripts.count(c) > 1:
            first = subscripts.index(c)
            second = subscripts.index(c, first + 1)
            x = diagonal(x, 0, first, second)
            subscripts = "".join(s for d, s in enumerate(subscripts) if d not in (first, second)) + c
    return subscripts, x


def _contract(a: str, x: Tensor, b: str, y: Tensor, later: set[str]) -> tuple[str, Tensor]:
    """One product: shared subscripts needed later are batch axes, the other shared ones are summed over."""
    lone_a = [d for d, c in enumerate(a) if c not in b and c not in later]
    x, a = (sum(x, lone_a), "".join(c for d, c in enumerate(a) if d not in lone_a)) if lone_a else (x, a)
    lone_b = [d for d, c in enumerate(b) if c not in a and c not in later]
    y, b = (sum(y, lone_b), "".join(c for d, c in enumerate(b) if d not in lone_b)) if lone_b else (y, b)
    batch = [c for c in a if c in b and c in later]
    inner_ = [c for c in a if c in b and c not in later]
    only_a, only_b = [c for c in a if c not in b], [c for c in b if c not in a]
    size = {c: n for c, n in (*zip(a, x.array.shape, strict=True),)}
    for c, n in zip(b, y.array.shape, strict=True):
        size[c] = n if size.get(c, 1) == 1 else size[c]
    x, y = _grown(x, a, size), _grown(y, b, size)
    count = lambda names: prod(size[c] for c in names)  # noqa: E731
    lead = [size[c] for c in batch]
    left = reshape(
        permute(x, [a.index(c) for c in batch + only_a + inner_]), (*lead, count(only_a), count(inner_))
    )
    right = reshape(
        permute(y, [b.index(c) for c in batch + inner_ + only_b]), (*lead, count(inner_), count(only_b))
    )
    out = reshape(matmul(left, right), (*lead, *(size[c] for c in only_a + only_b)))
    return "".join(batch + only_a + only_b), out


def _grown(x: Tensor, subscripts: str, size: dict[str, int]) -> Tensor:
    from .shaping import expand

    return expand(x, tuple(size[c] for c in subscripts))


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of several matrices, from the left."""
    out = matrices[0]
    for m in matrices[1:]:
        out = matmul(out, m)
    return out


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of several matrices."""
    return chain_matmul(*tensors)


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product."""
    n = max(input.ndim, other.ndim)
    a = (1,) * (n - input.ndim) + tuple(input.array.shape)
    b = (1,) * (n - other.ndim) + tuple(other.array.shape)
    left = reshape(input, tuple(m for k in a for m in (k, 1)))
    right = reshape(other, tuple(m for k in b for m in (1, k)))
    return reshape(left * right, tuple(p * q for p, q in zip(a, b, strict=True)))


def cross(input: Tensor, other: Tensor, dim: int = -1) -> Tensor:
    """The cross product of vectors of three elements along an axis."""
    from .shaping import roll

    return roll(input, -1, dim) * roll(other, -2, dim) - roll(input, -2, dim) * roll(other, -1, dim)


def matrix_power(input: Tensor, n: int) -> Tensor:
    """A matrix multiplied with itself n >= 0 times, by squaring."""
    from .creation import eye

    if n < 0:
        raise RuntimeError("matrix_power: wants n >= 0, got " + str(n))
    out = None
    while n:
        if n & 1:
            out = input if out is None else matmul(out, input)
        n >>= 1
        if n:
            input = matmul(input, input)
    return eye(input.array.shape[-1], dtype=input.dtype).expand(input.array.shape) if out is None else out
