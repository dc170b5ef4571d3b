"""How far a loader has come: what it takes to go on in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..random import Generator, default_generator
from ..tensor import Tensor

if TYPE_CHECKING:
    from .dataloader import DataLoader


@dataclass
class Progress:
    """`batches` have been handed out since the beginning of the epoch, when the random streams were at `streams`.

    For an iterable dataset: `workers` counts the batches by worker, `ended` lists those without any more, `turn` is
    the worker whose batch comes next. `resumed`: the streams are to be set back before the order is drawn.
    """

    batches: int = 0
    streams: dict[str, list[int]] = field(default_factory=dict)
    workers: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    turn: int = 0
    finished: bool = False
    resumed: bool = False

    def state(self) -> dict[str, Any]:
        return {
            "batches": self.batches,
            "streams": {name: list(words) for name, words in self.streams.items()},
            "workers": list(self.workers),
            "ended": list(self.ended),
            "turn": self.turn,
        }


def generators(loader: DataLoader[Any]) -> dict[str, Generator]:
    """The random streams that the order of an epoch comes from, by the name they have in a state."""
    inner = getattr(loader.batch_sampler, "sampler", None)
    found = {
        "default": default_generator,
        "loader": loader.generator,
        "sampler": getattr(loader.sampler, "generator", None),
        "batch_sampler": getattr(loader.batch_sampler, "generator", None)
        or getattr(inner, "generator", None),
    }
    return {name: generator for name, generator in found.items() if isinstance(generator, Generator)}


def streams_of(loader: DataLoader[Any]) -> dict[str, list[int]]:
    return {name: g.get_state().tolist() for name, g in generators(loader).items()}


@contextmanager
def at_state(progress: Progress, loader: DataLoader[Any]) -> Iterator[None]:
    """Within the block the streams are where they were at the beginning of the epoch that is resumed.

    The default stream, which the program draws from as well, goes back afterwards to where it is.
    """
    if not progress.resumed:
        progress.streams = streams_of(loader)
        yield
        return
    before = default_generator.get_state()
    for name, generator in generators(loader).items():
        if name in progress.streams:
            generator.set_state(Tensor(np.array(progress.streams[name], np.int64)))
    try:
        yield
    finally:
        if all(g is not default_generator for name, g in generators(loader).items() if name != "default"):
            default_generator.set_state(before)
