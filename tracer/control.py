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


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`f(x, *args)` of every slice x of `xs` along its first axis, the results stacked.

    `xs` and the results may be nested containers of tensors. In a recording the steps are written out one by one, as
    those of `scan`, whose errors these are.
    """
    return scan(lambda carry, x: (carry, f(x, *args)), None, xs)[1]


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: Sequence[Any],
    *,
    max_steps: int | None = None,
) -> tuple[Any, ...]:
    """`values = body_fn(*values)` as long as `cond_fn(*values)`, a bool or a tensor of one element; the last values.

    body_fn returns as many values as it takes, alike in structure, shape and dtype. `max_steps`: RuntimeError, in eager
    mode, for a loop that goes on after so many. In a recording, whose length is fixed, it must be given: so many steps
    are written out, and each takes effect where the condition held before it and every earlier one; a loop that would
    go on is cut off there. Without it a condition on recorded tensors is a TracerError.
    """
    values = tuple(carried_inputs)
    steps = 0
    going: Tensor | None = None
    while True:
        goes_on = cond_fn(*values)
        recorded = isinstance(goes_on, Tensor) and isinstance(goes_on.array, Symbol)
        if not recorded and going is None and not bool(goes_on):
            return values
        if max_steps is None and recorded:
            raise TracerError(
                "while_loop: the condition depends on recorded tensors, so the number of steps is not known; give "
                "max_steps, the most there can be, or compute a fixed number of steps with scan"
            )
        if steps == max_steps:
            if going is None and not recorded:
                raise RuntimeError(f"while_loop: the condition still holds after max_steps={max_steps} steps")
            return values
        steps += 1
        made = body_fn(*values)
        made = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if not recorded and going is None:
            _alike(values, made)
            values = made
            continue
        here = goes_on.reshape(()) if isinstance(goes_on, Tensor) else functional.tensor(bool(goes_on))
        going = here if going is None else going & here
        values = _kept(going, made, values)


def _alike(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Structure, list[Tensor], list[Tensor]]:
    """The leaves of what a step takes and of what it returns. TracerError where they are not of the same kinds."""
    (structure, old), (other, new) = _leaves(before), _leaves(after)
    if problem := difference(structure, other, "the result of body_fn"):
        raise TracerError(f"while_loop: body_fn must return the same kinds of values as it takes; {problem}")
    for a, b in zip(old, new, strict=True):
        if tuple(a.shape) != tuple(b.shape) or a.dtype is not b.dtype:
            raise TracerError(
                f"while_loop: body_fn must keep shapes and dtypes, it was given {a.dtype} {tuple(a.shape)} and "
                f"returned {b.dtype} {tuple(b.shape)}"
            )
    return structure, old, new


def _kept(going: Tensor, made: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a step made where the loop still goes on, what there was elsewhere."""
    structure, old, new = _alike(values, made)
    chosen = [functional.where(going, b, a) for a, b in zip(old, new, strict=True)]
    return tuple(unflatten(structure, chosen))
