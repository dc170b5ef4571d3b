"""The GPU schedule: every element of the output is one thread, in blocks along the axis stored last.

Neighbouring threads so read and write neighbouring elements. Reductions run inside a thread. Tiles in shared memory
and tensor cores are further schedules of the same loops.
"""

from __future__ import annotations

from ..loops import For, If, Index, Kernel, add, ceildiv, const, less, mul, substitute
from .steps import flatten, unwrap
from .stream import collapse

#: Threads of a block: eight warps, enough to hide latency, few enough for any register count.
BLOCK = 256


def schedule_gpu(kernel: Kernel) -> Kernel:
    """The canonical kernel as `grid block < n / BLOCK: block thread < BLOCK: if inside: …`."""
    kernel = collapse(kernel)
    nest, body = unwrap(kernel.body)
    extent, change = flatten(nest, "element")
    place = add(mul(Index("block"), const(BLOCK)), Index("thread"))
    inside = If(less(place, extent), substitute(change(body), "element", place))
    threads = For("thread", const(BLOCK), "block", (inside,))
    return kernel.replace(body=(For("block", ceildiv(extent, BLOCK), "grid", (threads,)),))
