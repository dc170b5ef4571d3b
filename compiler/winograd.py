"""Which 3 × 3 convolutions are computed by Winograd's F(2×2, 3×3), and their weights for it.

A tile of 2 × 2 outputs takes 36 multiplications a channel directly. In another basis it takes 16: with d the 4 × 4
inputs of the tile and g the kernel, the outputs are Aᵀ((G g Gᵀ) ∘ (Bᵀ d B))A (Lavin and Gray, Fast Algorithms for
Convolutional Neural Networks, 2016). Summed over channels each of the 16 positions is a matrix product, of all tiles
with all output channels. `lower/winograd.py` has the loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..tracer.dims import expr_of
from ..tracer.graph import Node
from .layout import CHANNELS_LAST
from .passes.fuse import Group

#: Blocks of tiles that are computed at the same time at most: each has room for its tiles in the workspace.
PARTS = 16

#: Bytes of the transformed tiles of a block, inputs and outputs: together they stay in the second-level cache.
ROOM = 384 << 10

#: Channels of a vector in the widest registers: counts of channels must be multiples, so that no lane is empty.
LANES = 16

#: What a value costs to bring into the other basis (an input) and back (an output), in multiply-adds.
INTO, BACK = 50, 40

#: What a weight costs to bring from memory, and again for each further block from a cache, in multiply-adds.
FETCH, AGAIN = 10, 4

#: The share of the direct convolution's multiply-adds below which it pays.
WORTH = 0.8


class Winograd(NamedTuple):
    """`rows` × `columns` tiles an image; `block` tiles at a time; `parts` blocks at the same time at most."""

    conv: Node
    rows: int
    columns: int
    block: int
    parts: int

    @property
    def room(self) -> tuple[int, int]:
        """Bytes for the transformed inputs and for the sums of all blocks that are computed at the same time."""
        out, channels = self.conv.inputs[1].shape[:2]
        return tuple(4 * 16 * self.parts * self.block * int(c) for c in (channels, out))  # type: ignore[return-value]


def winograd_of(group: Group, orders: Mapping[Node, tuple[int, ...]], last: bool) -> Winograd | None:
    """How the group's convolution is computed so, or None. `last`: whether the result is stored channels last."""
    conv = group.anchor
    if conv is None or conv.op is None or conv.op.name != "conv2d" or not last or not fits(conv):
        return None
    x, weight = conv.inputs
    if orders.get(x) != CHANNELS_LAST or tuple(group.root.shape) != tuple(conv.shape):
        return None
    out, channels = map(int, weight.shape[:2])
    height, width = map(int, conv.shape[2:])
    rows, columns = -(-height // 2), -(-width // 2)
    batch = expr_of(conv.shape[0])
    images = batch if isinstance(batch, int) else 1
    most = max(ROOM // (4 * 16 * (channels + out)), 6)
    tiles = rows * columns * images
    blocks = max(-(-tiles // most), min(2, tiles // 12), 1)
    pairs = channels * out
    cost = images * rows * columns * (16 * pairs + INTO * channels + BACK * out)
    cost += 16 * pairs * (FETCH + AGAIN * (blocks - 1))
    if cost > WORTH * 9 * pairs * (images * height * width + FETCH):
        return None
    parts = min(blocks, PARTS) if isinstance(batch, int) else PARTS
    return Winograd(conv, rows, columns, -(-tiles // blocks), parts)


def fits(conv: Node) -> bool:
    """A 3 × 3 kernel in steps of one with known weights, images of known size, and channels that fill vectors."""
    attrs, (x, weight) = conv.attrs, conv.inputs
    plain = (
        attrs["stride"] == attrs["dilation"] == (1, 1) and attrs["padding"] == (0, 0) and attrs["groups"] == 1
    )
    sizes = [expr_of(n) for n in (*x.shape[1:], *conv.shape[1:])]
    return (
        plain
        and weight.is_const
        and tuple(weight.shape[2:]) == (3, 3)
        and str(conv.dtype) == "float32"
        and all(isinstance(n, int) and n > 0 for n in sizes)
        and all(int(c) % LANES == 0 for c in weight.shape[:2])
    )


def transformed(weight: Any) -> np.ndarray[Any, Any]:
    """G g Gᵀ of each kernel of [K, C, 3, 3]: [16, C, K], rounded once."""
    g = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    u = np.einsum("ia,kcab,jb->ijck", g, np.asarray(weight, np.float64), g, optimize=True)
    return np.ascontiguousarray(u.reshape(16, *u.shape[2:]), np.float32)
