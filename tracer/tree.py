"""Nested containers: from arguments and results to flat lists of tensors, and back.

A *structure* says how the tensors were nested. It is plain JSON, since it is stored with a program:
`{"tensor": k}` stands for the k-th tensor, `{"value": v}` for a plain value, which is part of the program,
and `{"tuple": [...]}`, `{"list": [...]}`, `{"dict": [[key, ...], ...]}` hold others. `{"record": {"type": name,
"fields": [[name, ...], ...]}}` is a namedtuple or a dataclass; in a process that has not seen its class it comes out
as a namedtuple with the same fields, since a file of data imports no code.
"""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from ..eager.tensor import Tensor

Structure = dict[str, Any]
PLAIN = (bool, int, float, str, type(None))

#: The classes of records seen in this process, by name and fields: the module may be another where a program is used.
_records: dict[tuple[str, ...], Callable[..., Any]] = {}


def flatten(value: Any, name: str, leaves: list[tuple[str, Any]], leaf: Callable[[Any], bool]) -> Structure:
    """The structure of `value`; what `leaf` recognises is appended to `leaves` as ("name.0.key", it).

    TypeError for a value that is neither a leaf, nor plain, nor a tuple, list or dict of such.
    """
    if leaf(value):
        leaves.append((name, value))
        return {"tensor": len(leaves) - 1}
    if (fields := _fields(value)) is not None:
        return _record(value, [(f, flatten(getattr(value, f), f"{name}.{f}", leaves, leaf)) for f in fields])
    match value:
        case tuple() | list():
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [flatten(v, f"{name}.{k}", leaves, leaf) for k, v in enumerate(value)]}
        case dict():
            return {
                "dict": [[_key(k, name), flatten(v, f"{name}.{k}", leaves, leaf)] for k, v in value.items()]
            }
    if not isinstance(value, PLAIN):
        raise TypeError(
            f"{name} is a {type(value).__name__}; a traced program takes and returns tensors, plain "
            "values, and tuples, lists, dicts, namedtuples and dataclasses of them"
        )
    return {"value": value}


def _fields(value: Any) -> list[str] | None:
    """The fields of a namedtuple or a dataclass that its constructor takes; None for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(value._fields)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [f.name for f in dataclasses.fields(value) if f.init]
    return None


def _record(value: Any, fields: Sequence[tuple[str, Structure]]) -> Structure:
    kind = type(value)
    _records[kind.__name__, *(name for name, _ in fields)] = kind
    return {"record": {"type": kind.__name__, "fields": [list(field) for field in fields]}}


def _key(key: Any, name: str) -> Any:
    if not isinstance(key, PLAIN):
        raise TypeError(
            f"{name} is a dict with the key {key!r}; a traced program wants strings or numbers as keys"
        )
    return key


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The nested value that has these leaves."""
    match structure:
        case {"tensor": k}:
            return leaves[k]
        case {"tuple": items}:
            return tuple(unflatten(item, leaves) for item in items)
        case {"list": items}:
            return [unflatten(item, leaves) for item in items]
        case {"dict": items}:
            return {key: unflatten(item, leaves) for key, item in items}
        case {"record": {"type": name, "fields": fields}}:
            plain = {field: unflatten(item, leaves) for field, item in fields}
            kind = _records.get((name, *plain)) or namedtuple(name, plain)
            return kind(**plain)
        case {"value": value}:
            return value
    raise ValueError(f"{structure!r} is no structure of values")


def difference(wanted: Structure, found: Structure, name: str) -> str:
    """How a call's argument differs from what was traced, as a sentence; "" when it does not."""
    (kind, inner), (other, found_inner) = *wanted.items(), *found.items()
    if kind != other:
        return f"{name} must be a {kind}, it is a {other}"
    if kind == "value":
        same = inner == found_inner or inner is found_inner
        return (
            "" if same else f"{name} was {inner!r} in the trace, which is fixed, and is {found_inner!r} now"
        )
    if kind == "tensor":
        return ""
    if kind == "record":
        if inner["type"] != found_inner["type"]:
            return f"{name} must be a {inner['type']}, it is a {found_inner['type']}"
        return difference({"dict": inner["fields"]}, {"dict": found_inner["fields"]}, name)
    if len(inner) != len(found_inner):
        return f"{name} must have {len(inner)} items, it has {len(found_inner)}"
    pairs = zip(inner, found_inner, strict=True)
    if kind == "dict":
        if (keys := [k for k, _ in inner]) != (found_keys := [k for k, _ in found_inner]):
            return f"{name} must have the keys {keys}, it has {found_keys}"
        return next(filter(None, (difference(a, b, f"{name}.{k}") for (k, a), (_, b) in pairs)), "")
    return next(filter(None, (difference(a, b, f"{name}.{k}") for k, (a, b) in enumerate(pairs))), "")


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)
