"""Schedules: how a canonical kernel is run. A schedule is a function Kernel -> Kernel of the same meaning.

`contract.py` tiles sums of products for registers, `winograd.py` 3 × 3 convolutions in another basis, `attention.py`
attention, `depthwise.py` the sums that every channel has for itself; `stream.py` does everything else on the CPU.
`gpu.py` maps kernels to grid and block. `steps.py` has the steps they are made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..loops import Kernel, const
from .attention import match_attention, schedule_attention
from .contract import Pack, match, schedule_contraction
from .depthwise import match_depthwise, schedule_depthwise
from .machine import MACHINES, PANEL, Machine
from .steps import unwrap
from .stream import collapse, schedule_stream
from .winograd import match_winograd, schedule_winograd

__all__ = ["MACHINES", "PANEL", "Machine", "Pack", "schedule_all", "schedule_cpu"]


def schedule_cpu(kernel: Kernel, machine: Machine) -> tuple[Kernel, tuple[Pack, ...]]:
    """The CPU schedule of a canonical kernel, and the weights it wants packed at build time."""
    nest, _ = unwrap(kernel.body)
    if any(
        loop.extent == const(0) for loop in nest
    ):  # an output without elements: tiles of it have no height
        return kernel.replace(body=()), ()
    attention = match_attention(kernel)
    if attention is not None:
        return schedule_attention(kernel, attention, machine), ()
    blocks = match_winograd(kernel)
    if blocks is not None:
        return schedule_winograd(kernel, blocks, machine)
    kernel = collapse(kernel)
    contraction = match(kernel)
    if contraction is not None:
        return schedule_contraction(kernel, contraction, machine)
    depthwise = match_depthwise(kernel)
    if depthwise is not None:
        return schedule_depthwise(kernel, depthwise, machine)
    return schedule_stream(kernel, machine), ()


Scheduled = dict[str, dict[str, Kernel]]
Packs = dict[str, tuple[Pack, ...]]


def schedule_all(kernels: Mapping[str, Kernel], levels: Sequence[str]) -> tuple[Scheduled, Packs]:
    """`[level][kernel]`: every kernel as each level runs it; and by kernel the weights to pack, the same for all."""
    scheduled: Scheduled = {}
    packs: Packs = {}
    for level in levels:
        scheduled[level] = {}
        for name, kernel in kernels.items():
            scheduled[level][name], packs[name] = schedule_cpu(kernel, MACHINES[level])
    return scheduled, packs
