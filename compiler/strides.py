"""Where the elements of a view lie in its buffer: one stride per axis, where there is one.

A stride is a size (int or Dim) in elements, 0 along a broadcast axis, None along an axis that no single
stride describes (merged from axes that do not follow each other in memory).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..tracer.dims import same_shape, same_size
from ..tracer.graph import Node

Strides = tuple[int | None, ...]
Shape = Sequence[int]


def dense(shape: Shape) -> Strides:
    """Row-major strides."""
    out: list[int | None] = []
    step = 1
    for n in reversed(shape):
        out.append(step)
        step = n * step
    return tuple(reversed(out))


def through_view(view: Node, strides: Strides) -> Strides | None:
    """The strides of a view of a value with these strides; None for an op that is not plain addressing."""
    shape = view.inputs[0].shape
    match view.op.name if view.op else "":
        case "permute":
            return tuple(strides[d] for d in view.attrs["dims"])
        case "reshape":
            return reshaped(shape, strides, view.shape)
        case "expand":
            return expanded(shape, strides, view.shape)
        case "select":
            return tuple(s for axis, s in enumerate(strides) if axis != view.attrs["dim"])
        case "slice":
            steps = view.attrs["steps"]
            return tuple(None if s is None else s * step for s, step in zip(strides, steps, strict=True))
    return None


def expanded(shape: Shape, strides: Strides, new: Shape) -> Strides:
    added = len(new) - len(shape)
    kept = zip(shape, strides, new[added:], strict=True)
    return (0,) * added + tuple(s if same_size(n, m) else 0 for n, s, m in kept)


def reshaped(shape: Shape, strides: Strides, new: Shape) -> Strides:
    """Axes that keep their size at either end keep their stride; a run in between that is dense is divided
    anew.
    """
    front = common_prefix(shape, new)
    back = common_prefix(shape[front:][::-1], new[front:][::-1])
    old_middle = slice(front, len(shape) - back)
    new_middle = new[front : len(new) - back]
    middle = run_strides(shape[old_middle], strides[old_middle], new_middle)
    return strides[:front] + middle + strides[len(shape) - back :]


def common_prefix(a: Shape, b: Shape) -> int:
    n = 0
    while n < min(len(a), len(b)) and same_size(a[n], b[n]):
        n += 1
    return n


def run_strides(shape: Shape, strides: Strides, new: Shape) -> Strides:
    """Strides of `new` over axes that lie in one dense run; None for each axis longer than 1 when they do
    not.
    """
    real = [(n, s) for n, s in zip(shape, strides, strict=True) if not same_size(n, 1)]
    if not real:
        return (0,) * len(new)
    steps = [s for _, s in real]
    follow = all(
        a is not None and b is not None and same_size(a, n * b)
        for a, (n, b) in zip(steps, real[1:], strict=False)
    )
    last = steps[-1]
    if last is None or not follow:
        return tuple(0 if same_size(n, 1) else None for n in new)
    return tuple(None if d is None else d * last for d in dense(new))


def splits_or_merges(view: Node) -> bool:
    """Does a reshape do more than add or remove axes of size 1? Then an index of it needs division."""
    old, new = ([n for n in x.shape if not same_size(n, 1)] for x in (view.inputs[0], view))
    return not same_shape(old, new)
