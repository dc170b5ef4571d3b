"""How an update rule is run: on arrays, or on tensors while a step is being recorded.

A rule is a function written in arithmetic operators alone, `a += b * 0.1`, which arrays and tensors share; `sqrt`
and `largest` below cover the rest. On arrays it costs a few calls of the array library and no tape; on tensors each
operator becomes a node of the recorded graph. Both are the same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import functional as F
from ..caller import user_place
from ..modes import is_grad_enabled
from ..ops.executor import current, namespace_of, run_eagerly
from ..tensor import Tensor

# Elements. Adam works on some eight arrays at once, 1 MB in float32: within the second-level cache of today's servers,
# where steps of large parameters take 2/3 of the time that whole arrays take.
PIECE = 32768


def recording() -> bool:
    """Whether ops are noted down, in a graph or on the tape, so that a step must be made of them."""
    return current.get() is not run_eagerly or is_grad_enabled()


def number(value: Any) -> Any:
    """A setting or count that may be a tensor: its number, or in a recorded step the (float64) tensor."""
    if not isinstance(value, Tensor):
        return value
    return value.double() if recording() else value.item()


def run(rule: Callable[..., None], written: Sequence[Tensor], read: Sequence[Tensor], *numbers: Any) -> None:
    """Call `rule(written, read, *numbers)`, which changes what is in `written` and leaves `read` alone.

    The rule must work element by element: large arrays are given to it piece by piece.
    """
    if recording():
        rule(written, read, *numbers)
        return
    for new, old in pieces([t.array for t in written], [t.array for t in read]):
        rule(new, old, *numbers)
    place = user_place()
    for tensor in written:
        tensor.shared_storage().bump(place)


def pieces(written: list[Any], read: list[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """The arrays in pieces of a size that stays in cache, temporaries included; whole if small or not dense."""
    arrays = [*written, *read]
    size = arrays[0].size
    if size <= PIECE or not all(
        type(a) is np.ndarray and a.size == size and a.flags.c_contiguous for a in arrays
    ):
        yield written, read
        return
    flat = [a.reshape(-1) for a in arrays]
    for start in range(0, size, PIECE):
        cut = [a[start : start + PIECE] for a in flat]
        yield cut[: len(written)], cut[len(written) :]


def increment(written: Sequence[Any], read: Sequence[Any]) -> None:
    """The rule that counts a step."""
    count = written[0]
    count += 1


def full_gradient(p: Any, g: Any, decay: Any, maximize: bool) -> Any:
    """The gradient to go against: turned round to climb, plus `decay` (None or 0: nothing) times the parameter."""
    if maximize:
        g = -g
    # A decay that is a tensor must not be asked for its value in a recorded step.
    absent = decay is None or (isinstance(decay, int | float) and decay == 0)
    return g if absent else g + p * decay


def sqrt(x: Any) -> Any:
    """The square root of a tensor or an array."""
    return x.sqrt() if isinstance(x, Tensor) else namespace_of((x,)).sqrt(x)


def largest(x: Any, y: Any) -> Any:
    """The larger of two tensors or arrays, by element."""
    return F.maximum(x, y) if isinstance(x, Tensor) else namespace_of((x,)).maximum(x, y)


def multiply(written: Sequence[Any], read: Sequence[Any], factor: Any) -> None:
    """The rule that scales."""
    value = written[0]
    value *= factor.to(value.dtype) if isinstance(factor, Tensor) else factor


def absolute(x: Any) -> Any:
    """|x| of a tensor or an array."""
    return x.abs() if isinstance(x, Tensor) else abs(x)


def sign(x: Any) -> Any:
    """-1, 0 or 1, of a tensor or an array."""
    return x.sign() if isinstance(x, Tensor) else namespace_of((x,)).sign(x)


def bounded(x: Any, low: float, high: float) -> Any:
    """A tensor or an array, kept within bounds."""
    if isinstance(x, Tensor):
        return x.clamp(low, high)
    xp = namespace_of((x,))
    return xp.minimum(xp.maximum(x, x.dtype.type(low)), x.dtype.type(high))


def at_least(value: Any, bound: float) -> Any:
    """The larger one of a number, or a tensor of one, and a bound."""
    return value.clamp(min=bound) if isinstance(value, Tensor) else max(value, bound)


def choose(condition: Any, x: Any, y: Any, like: Any) -> Any:
    """x where the condition (a tensor, an array or a bool) holds, else y; numbers in the dtype of `like`."""
    if isinstance(condition, Tensor):
        x, y = (v if isinstance(v, Tensor) else F.tensor(v, dtype=like.dtype) for v in (x, y))
        return F.where(condition, x, y)
    if isinstance(condition, bool):
        return x if condition else y
    xp = namespace_of((condition,))
    return xp.where(condition, xp.asarray(x, like.dtype), xp.asarray(y, like.dtype))
