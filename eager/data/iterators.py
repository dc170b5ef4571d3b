"""The iterators of a loader: what all have in common, and the one that works in the calling process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from .. import functional as F
from ..random import default_generator
from .progress import at_state
from .worker import END, StreamReader, fetch

if TYPE_CHECKING:
    from .dataloader import DataLoader


class LoaderIterator:
    """One pass over a loader. Every batch counts in the loader's `progress`, from which `state_dict` is made."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self.begin()

    def begin(self) -> None:
        """Begin an epoch, in its middle when the loader's state was loaded."""
        loader = self.loader
        self.progress = loader._next_progress()
        with at_state(self.progress, loader):
            # Drawn with and without workers, so that the order of samples does not depend on their number.
            draw = F.randint(2**63 - 1, (), generator=loader.generator or default_generator)
            self.base_seed = int(draw.item())
            self.indices = self.order()
        self.exhausted = False

    def order(self) -> Iterator[Any]:
        """The indices of each batch that is still to come; for a stream how many samples there are in one."""
        loader = self.loader
        if loader.is_iterable:
            return iter(lambda: loader.batch_size, END)
        every = iter(loader.batch_sampler if loader.batch_sampler is not None else loader.sampler)  # type: ignore[arg-type]
        rest = islice(every, self.progress.batches, None)
        if not self.progress.resumed:
            return rest
        first = list(islice(rest, 1))  # now, for samplers that draw their order with the first index
        return chain(first, rest)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __next__(self) -> Any:
        if self.exhausted:
            raise StopIteration
        batch = self.next_batch()
        if batch is END:
            self.exhausted = self.progress.finished = True
            self.finish()
            raise StopIteration
        self.progress.batches += 1
        self.check_length()
        return batch

    def check_length(self) -> None:
        reported, fetched = self.loader._reported_length, self.progress.batches
        if self.loader.is_iterable and reported is not None and fetched == reported + 1:
            hint = (
                "; with workers, let each read its own part (get_worker_info)"
                if self.loader.num_workers
                else ""
            )
            warnings.warn(
                f"Length of IterableDataset {self.loader.dataset} was reported to be {reported} batches (when "
                f"accessing len(dataloader)), but {fetched} have been fetched{hint}.",
                stacklevel=3,
            )

    def next_batch(self) -> Any:
        raise NotImplementedError

    def finish(self) -> None:
        """The last batch has been handed out."""


class SingleProcessIterator(LoaderIterator):
    """Fetches each batch when it is asked for."""

    def begin(self) -> None:
        super().begin()
        loader = self.loader
        self.reader: StreamReader | None = None
        if loader.is_iterable:
            self.reader = StreamReader(loader.dataset, loader.collate_fn, loader.drop_last)
            self.reader.skip(self.progress.batches, loader.batch_size)

    def next_batch(self) -> Any:
        loader = self.loader
        if self.reader is not None:
            return self.reader.next_batch(loader.batch_size)
        indices = next(self.indices, END)
        if indices is END:
            return END
        return fetch(loader.dataset, loader.collate_fn, loader.batch_sampler is not None, indices)
