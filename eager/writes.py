"""Writing in place, through views too: the history of the base is made anew, and its views follow.

While a program is recorded nothing is written: the value of the tensor, of its base and of the base's other views
is replaced, so that the record is free of effects.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import tape
from .caller import user_place
from .modes import ModeContext, mode
from .ops.executor import current
from .ops.reads import reads_of
from .tape import Node, apply
from .tensor import Leaf, Tensor


def is_traced(value: Any) -> bool:
    """A value of the recorder, which is replaced where an array would be written to."""
    return type(value) is not np.ndarray and hasattr(value, "concrete")


def write(target: Tensor, value: Tensor) -> Tensor:
    """Give `target` the contents and the history of `value` (same shape and dtype). Returns target.

    Memory is written once. Where history matters, the base's becomes `put(base, value)` through the chain of
    views, and the other views of the base follow from the base's new history. While recording nothing is written:
    the values of the target, of its base and of the base's other views are replaced.
    """
    taping = mode.get().taping
    if taping:
        check_writable(target)
    traced = is_traced(target.array) or is_traced(value.array)
    storage = target.shared_storage()
    base = target._base
    history = taping and (
        value.node is not None or target.node is not None or (base is not None and base.node is not None)
    )
    root = target
    new = value
    if base is not None and (history or traced):
        root, new = base, put_through(base, target.link.path, value)  # type: ignore[union-attr]
    if history:
        keep_original(target, value.node, traced)
    if not traced:
        write_memory(target.array, value.array)
    if target.link is None or not target.link.silent:
        storage.bump(user_place())
    if history:
        root.node = new.node
    if traced:
        replace_value(root, new.array)
    if history or traced:
        follow(root, history, traced)
        if traced:
            climb(root)
    return target


def check_writable(target: Tensor) -> None:
    if type(target.node) is Leaf:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    base = target._base
    if base is not None and type(base.node) is Leaf:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        )


def keep_original(target: Tensor, node: Any, traced: bool) -> None:
    """An op about to be written over its own operand keeps a copy of it, if its gradient rules read it.

    A traced value is replaced, not written, so that the old one itself can be kept.
    """
    if type(node) is not Node or node.inputs is None:
        return
    reads = reads_of(node.op)
    rules = [k for k, edge in enumerate(node.edges) if edge is not None]
    read = {k for rule in rules for k in reads.positions(rule, len(node.inputs))}
    saved = list(node.inputs)
    for k in read:
        if isinstance(saved[k], Tensor) and saved[k].array is target.array:
            copy = Tensor(target.array if traced else target.array.copy())
            copy.node = saved[k].node
            saved[k] = copy
    node.inputs = tuple(saved)


def write_memory(to: Any, value: Any) -> None:
    try:
        to[...] = value
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location, or the memory is read-only. Please clone() the tensor before performing the operation."
        ) from None


def put_through(base: Tensor, path: tuple[Any, ...], value: Tensor) -> Tensor:
    """The base after writing `value` through the views of `path`."""
    stages = [base._alias()]
    for op, attrs in path[:-1]:
        stages.append(apply(op, stages[-1], **attrs))
    for (op, attrs), stage in zip(reversed(path), reversed(stages), strict=True):
        if op.put is None:
            raise RuntimeError(
                f"unsupported operation: more than one element of a tensor made by {op.name} refers to a single "
                "memory location. Please clone() the tensor before performing the operation."
            )
        value = op.put(tape.F, stage, value, **attrs)
    return value


def replace_value(tensor: Tensor, array: Any) -> None:
    """Rebind the value, and tell an executor that keeps account of such changes."""
    before, tensor.array = tensor.array, array
    told = getattr(current.get(), "wrote", None)
    if told is not None:
        told(tensor, before)


def follow(base: Tensor, history: bool, traced: bool) -> None:
    """Bring the views of a base that was given a new history or value up to date."""
    for view in list(base.shared_storage().live_aliases()):
        link = view.link
        if link is None or link.base is not base:
            continue
        if link.detached:
            if traced:
                replace_value(view, base.array)
                follow(view, False, traced)
            continue
        again = base._alias()
        for op, attrs in link.path:
            again = apply(op, again, **attrs)
        if history:
            view.node = again.node
        if traced:
            replace_value(view, again.array)
            follow(view, False, True)


def climb(root: Tensor) -> None:
    """While recording: a tensor got a new value, so does the one it is an alias or a view of, and so on."""
    link = root.link
    if link is None:
        return
    with ModeContext(taping=False):
        new = root if link.detached else put_through(link.base, link.path, root)
        replace_value(link.base, new.array)
        follow(link.base, False, True)
    climb(link.base)
