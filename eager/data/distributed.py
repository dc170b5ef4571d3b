"""The sampler of processes that train together, each on its part of the samples."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from importlib import import_module

from .. import functional as F
from ..random import Generator
from .sampler import Sampler


class DistributedSampler(Sampler[int]):
    """The part of a dataset's indices that the process `rank` of `num_replicas` reads, all parts of one length.

    By default both are those of the process group. The order is a random one of `seed` and the epoch, the same in
    all processes: call `set_epoch` before each epoch. Indices are repeated until the parts are of one length, or
    with `drop_last` left out.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            size, own = process_group()
            num_replicas = size if num_replicas is None else num_replicas
            rank = own if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.shuffle, self.seed, self.drop_last = 0, shuffle, seed, drop_last
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last and n % num_replicas else -(-n // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        generator = Generator().manual_seed(self.seed + self.epoch)
        order = F.randperm(n, generator=generator).tolist() if self.shuffle else list(range(n))
        repeated = order * -(-self.total_size // max(n, 1))
        return iter(repeated[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Make the order that of another epoch."""
        self.epoch = epoch


def process_group() -> tuple[int, int]:
    """The size of the process group and the rank in it; RuntimeError where there is none."""
    try:
        distributed = import_module(f"{__package__.split('.')[0]}.distributed")
    except ImportError:
        raise RuntimeError(
            "Requires distributed package to be available; pass num_replicas and rank, as in "
            "DistributedSampler(dataset, num_replicas=1, rank=0)"
        ) from None
    return distributed.get_world_size(), distributed.get_rank()
