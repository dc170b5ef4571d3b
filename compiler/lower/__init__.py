"""Lowering: a group of graph nodes becomes one kernel in canonical form, ready to be scheduled.

Canonical form: serial loops over the root's axes in storage order around one store,

    serial i0 < n0: serial i1 < n1: … register acc: … serial k < K: acc[] += term …  out[i0, i1] = value

with every other value of the group folded into expressions. `scalars.py` is the namespace the table's rules are
written against, `group.py` the walk from root to buffers.
"""

from .group import Place, copy_kernel, lower_group
from .scalars import STATUS
from .winograd import KERNELS, SUMS, TILES

__all__ = ["KERNELS", "STATUS", "SUMS", "TILES", "Place", "copy_kernel", "lower_group"]
