"""Control flow for programs that are recorded: a choice and a loop that are ops on tensors, not Python's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..eager import functional
from ..eager.tensor import Tensor
from .build import Symbol
from .dims import Dim
from .record import TracerError
from .tree import Structure, difference, flatten, is_tensor, unflatten


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()
) -> Any:
    """`true_fn(*operands)` if `pred`, a bool or a tensor of one element, else `false_fn(*operands)`.

    In a recording both functions run and `where` chooses between their results, which must be alike in
    structure, shape and dtype; neither may write to anything. A gradient flows through the chosen one, times
    zero through the other, so an infinite slope there gives nan. In eager mode only the chosen function runs.
    """
    if not (isinstance(pred, Tensor) and isinstance(pred.array, Symbol)):
        return (true_fn if bool(pred) else false_fn)(*operands)
    (structure, yes), (other, no) = (_leaves(f(*operands)) for f in (true_fn, false_fn))
    if problem := difference(structure, other, "the result of false_fn"):
        raise TracerError(f"cond: both functions must return the same kinds of values; {problem}")
    chosen = pred.reshape(())
    return unflatten(structure, [_chosen(chosen, a, b) for a, b in zip(yes, no, strict=True)])


def _leaves(value: Any) -> tuple[Structure, list[Tensor]]:
    leaves: list[tuple[str, Any]] = []
    structure = flatten(value, "result", leaves, is_tensor)
    return structure, [leaf for _, leaf in leaves]


def _chosen(pred: Tensor, a: Tensor, b: Tensor) -> Tensor:
    if tuple(a.shape) != tuple(b.shape) or a.dtype is not b.dtype:
        raise TracerError(
            f"cond: both functions must return the same shapes and dtypes, got {a.dtype} {a.shape} and "
            f"{b.dtype} {b.shape}"
        )
    out: Tensor = functional.where(pred, a, b)
    return out


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Carry a value along an axis: `carry, y = combine_fn(carry, x)` for every slice x of `xs` along `dim`.

    Returns the last carry and the y's stacked along `dim`. `xs` and the y's may be nested containers of
    tensors; `reverse` starts at the end. In a recording the steps are written out one by one, so the axis
    must not be dynamic: TracerError otherwise. ValueError for an axis without elements.
    """
    structure, tensors = _leaves(xs)
    length = tensors[0].shape[dim]
    if isinstance(length, Dim):
        raise TracerError(
            f"scan: axis {dim} has the dynamic size {length}, and a program has as many steps as were "
            "recorded; leave that axis out of `dynamic`"
        )
    if not length:
        raise ValueError(f"scan: axis {dim} has no elements, so there is nothing to stack")
    carry, steps = init, []
    for k in reversed(range(length)) if reverse else range(length):
        carry, y = combine_fn(carry, unflatten(structure, [functional.select(t, dim, k) for t in tensors]))
        steps.append(_leaves(y))
    if reverse:
        steps.reverse()
    columns = zip(*(leaves for _, leaves in steps), strict=True)
    return carry, unflatten(steps[0][0], [functional.stack(list(column), dim) for column in columns])
