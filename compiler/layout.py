"""In which order a stored value's axes lie in memory.

Inputs, outputs and constants are row-major as declared, and so is what is read as other bytes; results of convolutions
get there by way of a stage.
"""

from __future__ import annotations

from collections.abc import Collection

from ..tracer.graph import Graph, Node
from .memory import Value
from .passes.fuse import Fusion
from .sizes import byte_size

#: Channels last, for batch × channels × height × width: neighbouring channels are one vector.
CHANNELS_LAST = (0, 2, 3, 1)


def storage_orders(graph: Graph, fusion: Fusion, fixed: Collection[Node]) -> dict[Node, tuple[int, ...]]:
    """The order of each group's root: channels last for images between convolutions, row-major otherwise.

    A value whose bytes are shared under another shape (an alias) and those in `fixed` stay row-major.
    """
    images = any(n.op is not None and n.op.name.startswith("conv2d") for n in graph.nodes)
    shared = {fusion.stored(n) for n in fusion.aliases}
    orders = {}
    for group in fusion.groups:
        rank = len(group.root.shape)
        free = images and rank == 4 and group.root not in shared and group.root not in fixed
        orders[group.root] = CHANNELS_LAST if free else tuple(range(rank))
    return orders


#: What the workspace plan calls the memory of a staged value: (STAGE, value).
STAGE = "stage"


def staged(fusion: Fusion, fixed: Collection[Node]) -> set[Node]:
    """Results of convolutions that must be row-major: computed channels last all the same, then put in order.

    The register tile has channels in its lanes; along a row of an image a convolution has no tile at all.
    """
    bound = {*fixed, *(fusion.stored(n) for n in fusion.aliases)}
    return {
        g.root
        for g in fusion.groups
        if g.root in bound
        and len(g.root.shape) == 4
        and g.anchor
        and g.anchor.op
        and g.anchor.op.name == "conv2d"
    }


def stages(fusion: Fusion, values: Collection[Node]) -> list[Value]:
    """The workspace of staged values: each at its own step alone."""
    return [
        Value((STAGE, g.root), byte_size(g.root.single), step, step)
        for step, g in enumerate(fusion.groups)
        if g.root in values
    ]
