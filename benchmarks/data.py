"""Throughput of loaders with workers, ours and PyTorch's in turns, and the memory that each worker takes.

python benchmarks/data.py [--smoke]

(a) 10,000 images of 3 x 64 x 64 with a transform in numpy, batches of 64; (b) 40,000 samples of 8 numbers and a
label, batches of 32. The same dataset of numpy arrays is given to both. An epoch includes the start of the workers.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import machine

import tapecast as tc

SMOKE = "--smoke" in sys.argv


class Images:
    """Images of bytes, which are flipped at random and normalised."""

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(0)
        self.images = rng.integers(0, 256, (n, 3, 64, 64), dtype=np.uint8)
        self.labels = rng.integers(0, 10, n)
        self.mean = np.array([0.48, 0.46, 0.41], np.float32).reshape(3, 1, 1)
        self.std = np.array([0.23, 0.22, 0.23], np.float32).reshape(3, 1, 1)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image = self.images[index].astype(np.float32)
        image /= 255
        image -= self.mean
        image /= self.std
        if np.random.random() < 0.5:
            image = np.ascontiguousarray(image[:, :, ::-1])
        return image, int(self.labels[index])


class Tiny:
    """Eight numbers and a label."""

    def __init__(self, n: int) -> None:
        self.rows = np.random.default_rng(0).normal(size=(n, 8)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.rows[index], index % 10


class Epoch:
    """Passes over a loader; `extra` is the most memory that a worker had taken for itself, in bytes."""

    def __init__(self, loader: Any) -> None:
        self.loader, self.extra = loader, 0

    def seconds(self) -> float:
        start = time.perf_counter()
        samples, checked = 0, 0
        for number, (x, _) in enumerate(self.loader):
            samples += x.shape[0]
            if number % 50 == 25:
                begin = time.perf_counter()
                self.extra = max(self.extra, private_memory())
                checked += time.perf_counter() - begin
        assert samples == len(self.loader.dataset)
        return time.perf_counter() - start - checked


def private_memory() -> int:
    """The most that a child of this process has for itself (Private of its smaps), in bytes."""
    import multiprocessing

    found = [0]
    for child in multiprocessing.active_children():
        try:
            with open(f"/proc/{child.pid}/smaps_rollup", encoding="ascii") as file:
                found.append(sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Private")))
        except OSError:
            continue
    return max(found)


def compare(name: str, dataset: Any, batch: int, rounds: int, persistent: bool) -> None:
    import torch

    makers: dict[str, Callable[..., Any]] = {
        "tapecast": tc.utils.data.DataLoader,
        "torch": torch.utils.data.DataLoader,
    }
    for workers in (2, 4):
        epochs = {
            lib: Epoch(make(dataset, batch, shuffle=True, num_workers=workers, persistent_workers=persistent))
            for lib, make in makers.items()
        }
        seconds: dict[str, list[float]] = {lib: [] for lib in epochs}
        for turn in range(rounds + 1):
            for lib, epoch in epochs.items():
                taken = epoch.seconds()
                if turn:
                    seconds[lib].append(taken)
        rates = {lib: len(dataset) / statistics.median(s) for lib, s in seconds.items()}
        memory = {lib: epoch.extra / 2**20 for lib, epoch in epochs.items()}
        best = {lib: len(dataset) / min(s) for lib, s in seconds.items()}
        kept = ", persistent" if persistent else ""
        print(
            f"{name}, {workers} workers{kept}: tapecast {rates['tapecast']:,.0f} samples/s (best "
            f"{best['tapecast']:,.0f}), torch {rates['torch']:,.0f} (best {best['torch']:,.0f}): "
            f"{rates['tapecast'] / rates['torch']:.2f} times; memory a worker has for itself: "
            f"{memory['tapecast']:.0f} MiB, torch {memory['torch']:.0f} MiB",
            flush=True,
        )
        del epochs


def main() -> None:
    print(machine())
    images, tiny = (200, 2000) if SMOKE else (10_000, 40_000)
    rounds = 1 if SMOKE else 5
    for persistent in (False, True):
        compare(f"{images:,} images of 3x64x64", Images(images), 64, rounds, persistent)
        compare(f"{tiny:,} tiny samples", Tiny(tiny), 32, rounds, persistent)


if __name__ == "__main__":
    main()
