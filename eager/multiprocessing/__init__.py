"""`tapecast.multiprocessing`: the standard library's `multiprocessing`, whose queues and pipes share tensors.

A tensor that is put on a queue or sent through a pipe is moved to shared memory, and who gets it sees the same
memory: only a descriptor travels. All names of the standard module are here.
"""

import multiprocessing
from multiprocessing import *  # noqa: F403

from .sharing import (
    get_all_sharing_strategies,
    get_sharing_strategy,
    register,
    set_sharing_strategy,
    shared_array,
)
from .spawning import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "shared_array",
    "spawn",
    "start_processes",
    *multiprocessing.__all__,
]

register()
