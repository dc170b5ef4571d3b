"""The GPU schedule: sums of products in tiles of shared memory, long reductions a block a result, everything else
one thread an element.

Neighbouring threads read and write neighbouring elements of the axis stored last.
"""

from __future__ import annotations

from ..loops import For, If, Index, Kernel, add, ceildiv, const, less, mul
from .contract import match
from .gpu_reduce import match_reduction, schedule_reduction, threads_for
from .gpu_tile import TILE, Tile, schedule_tile, worth_tiling
from .steps import flatten, let, unwrap
from .stream import collapse

#: Threads of a block: eight warps, enough to hide latency, few enough for any register count.
BLOCK = 256


def schedule_gpu(kernel: Kernel, tile: Tile = TILE, threads: int = BLOCK) -> Kernel:
    """The canonical kernel mapped to grid and block. `threads` is the block of element-wise kernels."""
    contraction = match(kernel, any_layout=True)
    if contraction is not None and worth_tiling(kernel, contraction, tile):
        return schedule_tile(kernel, contraction, tile)
    reduction = match_reduction(kernel)
    if reduction is not None and (sharing := threads_for(reduction)) > 1:
        return schedule_reduction(kernel, reduction, sharing)
    return schedule_elements(kernel, threads)


def schedule_elements(kernel: Kernel, threads: int = BLOCK) -> Kernel:
    """`grid block < n / threads: block thread < threads: if element < n: …`: one element of the output a thread."""
    kernel = collapse(kernel)
    nest, body = unwrap(kernel.body)
    extent, change = flatten(nest, "element")
    inside = If(less(Index("element"), extent), change(body))
    element = add(mul(Index("block"), const(threads)), Index("thread"))
    block = For("thread", const(threads), "block", let("element", element, (inside,)))
    return kernel.replace(body=(For("block", ceildiv(extent, threads), "grid", (block,)),))
