"""Values that are written straight into the middle of their padded copy, so that padding writes the border alone."""

from __future__ import annotations

from collections.abc import Collection

from ..tracer.graph import Node
from .passes.fuse import Fusion

Hosts = dict[Node, Node]


def hosts_of(fusion: Fusion, fixed: Collection[Node]) -> Hosts:
    """Value -> the pad in whose buffer it lives: for pads of a kernel's own result that nothing reads as other bytes.

    Whoever reads the value reads it there. Not for values in `fixed` (inputs and outputs of the program have memory of
    their own), nor for those with an alias (a reshape wants dense bytes); the first pad of a value gets it.
    """
    roots = {g.root for g in fusion.groups}
    aliased = {fusion.stored(n) for n in fusion.aliases}
    bound = {*fixed, *aliased}
    out: Hosts = {}
    for g in fusion.groups:
        pad = g.root
        if pad.op is None or pad.op.name != "pad" or g.nodes != (pad,) or pad in bound:
            continue
        (value,) = pad.inputs
        movable = value in roots and value not in bound and value not in out and value not in out.values()
        if movable and all(
            isinstance(n, int) and n >= 0 for n in (*pad.attrs["before"], *pad.attrs["after"])
        ):
            out[value] = pad
    return out
