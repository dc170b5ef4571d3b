"""Who runs an op: a context variable, so recording is a matter of context and not of argument types.

The eager engine runs an op at once on arrays; the tracer's recorder also notes it as a graph node. Both are
an *executor*: a callable `(op, values, attrs) -> value` (a tuple for an op with several outputs). An executor
may have a method `wrote(tensor, before)`: it is told of a tensor whose value was replaced, and the old value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import generic, ndarray

from .types import aval_of

if TYPE_CHECKING:
    from .table import Op

Executor = Callable[["Op", Sequence[Any], dict[str, Any]], Any]


class _ErrorState:
    """`np.errstate` in the shape of a context variable, for a numpy that keeps its error state elsewhere."""

    def set(self, quiet: Any) -> Any:
        return np.seterr(all="ignore")

    def reset(self, before: Any) -> None:
        np.seterr(**before)


_FLAGS: Any = _ErrorState()
_QUIET: Any = None
try:
    # Floating-point flags (1/0, inf - inf) are values here, not warnings. `np.errstate` costs more than a small
    # op; the context variable behind it costs a tenth.
    from numpy._core import umath

    _FLAGS, _QUIET = umath._extobj_contextvar, umath._make_extobj(all="ignore")
except (ImportError, AttributeError):
    pass


def run_eagerly(op: Op, values: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """Run `op` on arrays. Only when that fails does the shape rule run, to say what is wrong in our words."""
    xp = np
    for value in values:
        if type(value) is not ndarray:
            xp = namespace_of(values)
            break
    token = _FLAGS.set(_QUIET)
    try:
        out = op.run(xp, *values, **attrs)
    except Exception:
        op.infer(*map(aval_of, values), **attrs)
        raise
    finally:
        _FLAGS.reset(token)
    # numpy gives a scalar where an array would be zero-dimensional.
    return out if type(out) is ndarray or not isinstance(out, generic) else np.asarray(out)


def namespace_of(values: Sequence[Any]) -> Any:
    """The array module the values live in: numpy, or cupy as soon as one of them is on a GPU."""
    for value in values:
        if type(value).__module__.startswith("cupy"):
            import cupy

            return cupy
    return np


current: ContextVar[Executor] = ContextVar("executor", default=run_eagerly)


def run(op: Op, values: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """Hand the op to whoever executes in this context."""
    return current.get()(op, values, attrs)


@contextmanager
def use(executor: Executor) -> Iterator[None]:
    """Within the block, `executor` runs every op of this thread (or task)."""
    token = current.set(executor)
    try:
        yield
    finally:
        current.reset(token)
