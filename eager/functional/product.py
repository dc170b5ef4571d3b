"""Matrix products and what is built on them."""

from __future__ import annotations

from math import prod
from string import ascii_letters
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
    check_batches(input, mat2)
    return labelled(matmul(input, mat2), "Bmm")


def check_batches(input: Tensor, mat2: Tensor) -> None:
    """RuntimeError unless these are as many matrices as those, with rows for their columns."""
    if input.ndim != 3 or mat2.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor, got " + f"{input.ndim}-D and {mat2.ndim}-D tensors")
    if input.array.shape[0] != mat2.array.shape[0] or input.array.shape[2] != mat2.array.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{int(input.array.shape[0])}, "
            f"{int(input.array.shape[2])}] but got: [{int(mat2.array.shape[0])}, {int(mat2.array.shape[1])}]."
        )


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


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The sum of the products of two vectors, the first conjugated."""
    from .complexes import conj

    return dot(conj(input), other)


def inner(input: Tensor, other: Tensor) -> Tensor:
    """The sum of products over the last axes."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    return tensordot(input, other, ([-1], [-1]))


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of the elements of two vectors."""
    return unsqueeze(input, 1) * vec2


ger = outer


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sums of products over pairs of axes: the last n of a with the first n of b, or the lists given.

    Of a pair of which one has size 1 the other is summed over.
    """
    over_a, over_b = contracted(a, b, dims)
    for i, j in zip(over_a, over_b, strict=True):
        m, n = a.array.shape[i], b.array.shape[j]
        if m == n:
            continue
        if m == 1:
            b = sum(b, j, keepdim=True, dtype=b.dtype)
        elif n == 1:
            a = sum(a, i, keepdim=True, dtype=a.dtype)
        else:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {int(m)} in dim {i} and second has size "
                f"{int(n)} in dim {j}"
            )
    free_a = [d for d in range(a.ndim) if d not in over_a]
    free_b = [d for d in range(b.ndim) if d not in over_b]
    size_a, size_b = [a.array.shape[d] for d in free_a], [b.array.shape[d] for d in free_b]
    common = prod(a.array.shape[d] for d in over_a)
    left = reshape(permute(a, free_a + over_a), (prod(size_a), common))
    right = reshape(permute(b, over_b + free_b), (common, prod(size_b)))
    return reshape(matmul(left, right), (*size_a, *size_b))


def contracted(a: Tensor, b: Tensor, dims: Any) -> tuple[list[int], list[int]]:
    """The axes of a and of b that `tensordot` sums over, pair by pair."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return list(range(a.ndim - dims, a.ndim)), list(range(dims))
    first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(first) != len(second):
        raise RuntimeError(
            f"both dimension lists should have same length, got {len(first)} and {len(second)} axes"
        )
    return [axis("tensordot", d, a.ndim) for d in first], [axis("tensordot", d, b.ndim) for d in second]


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Einstein's summation: "bij,bjk->bik". Two operands at a time, each pair as one matrix product.

    The subscripts may also be lists of numbers: einsum(x, [0, 1], y, [1, 2], [0, 2]), with `...` among them.
    """
    if isinstance(equation, Tensor):
        equation, *tensors = from_lists(equation, *operands)
        operands = tuple(tensors)
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


def from_lists(*arguments: Any) -> list[Any]:
    """The equation and the operands of tensors and lists of numbers, one after another."""
    operands, lists = list(arguments[::2]), list(arguments[1::2])
    out = operands.pop() if len(operands) > len(lists) else None
    texts = ["".join("..." if n is ... else ascii_letters[n] for n in numbers) for numbers in lists]
    result = "" if out is None else "->" + "".join("..." if n is ... else ascii_letters[n] for n in out)
    return [",".join(texts) + result, *operands]


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
    from .diagonals import diagonal

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
    """The product of several matrices, in the order that takes the fewest multiplications."""
    from .. import linalg

    if len(matrices) == 1:
        return matrices[0].clone()
    for m in matrices:
        if m.ndim != 2:
            raise RuntimeError(f"chain_matmul: Tensor dimension is {m.ndim}, expected 2 instead.")
    return linalg.multi_dot(matrices)


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product."""
    n = max(input.ndim, other.ndim)
    a = (1,) * (n - input.ndim) + tuple(input.array.shape)
    b = (1,) * (n - other.ndim) + tuple(other.array.shape)
    left = reshape(input, tuple(m for k in a for m in (k, 1)))
    right = reshape(other, tuple(m for k in b for m in (1, k)))
    return reshape(left * right, tuple(p * q for p, q in zip(a, b, strict=True)))


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors of three elements along an axis, the first of size 3 if none is given."""
    from .. import linalg

    if dim is None:
        dim = next((d for d, n in enumerate(input.array.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError(
                f"no dimension of size 3 in input, of shape {list(map(int, input.array.shape))}"
            )
    return linalg.cross(input, other, dim=dim)
