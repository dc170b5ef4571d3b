"""In which order a stored value's axes lie in memory. Inputs, outputs and constants are row-major as declared."""

from __future__ import annotations

from collections.abc import Collection

from ..tracer.graph import Graph, Node
from .passes.fuse import Fusion

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
