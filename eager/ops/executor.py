"""Who runs an op: a context variable, so recording is a matter of context and not of argument types.

The eager engine runs an op at once on arrays; the tracer's recorder also notes it as a graph node. Both are
an *executor*: a callable `(op, values, attrs) -> value` (a tuple for an op with several outputs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from .types import aval_of

if TYPE_CHECKING:
    from .table import Op

Executor = Callable[["Op", Sequence[Any], dict[str, Any]], Any]


def run_eagerly(op: Op, values: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """Run `op` on arrays. Only when that fails does the shape rule run, to say what is wrong in our words."""
    try:
        return op.run(namespace_of(values), *values, **attrs)
    except Exception:
        op.infer(*map(aval_of, values), **attrs)
        raise


def namespace_of(values: Sequence[Any]) -> Any:
    """The array module the values live in: numpy, or cupy as soon as one of them is on a GPU."""
    for value in values:
        if type(value).__module__ == "cupy":
            import cupy

            return cupy
    import numpy

    return numpy


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
