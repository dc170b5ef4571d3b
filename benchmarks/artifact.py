"""Compile time, load time and size of the digits network: what a build and a deployment pay.

python benchmarks/artifact.py
"""

from __future__ import annotations

import statistics
import time

import numpy as np
from harness import machine
from models import digits, folder, inputs

import tapecast as tc


def main() -> None:
    print(machine())
    tc.manual_seed(0)
    model = digits()
    (x,) = inputs([(3, 1, 8, 8)])
    traced = tc.jit.trace(model, (tc.from_numpy(x),), dynamic={0: {0: tc.Dim("batch", min=1, max=1024)}})
    weights = sum(p.numel() * 4 for p in model.state_dict().values())
    for target in ("native", "portable"):
        path = folder() / f"digits_{target}.so"
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            report = traced.compile(path, target=target, verify=False)
            seconds.append(time.perf_counter() - start)
        size = path.stat().st_size
        print(f"{target}: compile {statistics.median(seconds):.2f} s (without verification)")
        print(f"  {report.details()}" if target == "portable" else f"  {report}")
        extra = (size - weights) / len(report.levels)
        print(f"  {size / 1e3:.0f} kB: {weights / 1e3:.0f} kB of weights + {extra / 1e3:.0f} kB a CPU level")
    print(
        f"load: {1e3 * loading(path):.2f} ms (median; first call after it: {1e6 * first_call(path):.0f} µs)"
    )


def loading(path: object, rounds: int = 15) -> float:
    """Median seconds of `runtime.load`, checks included."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        tc.runtime.load(path)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def first_call(path: object) -> float:
    model = tc.runtime.load(path)
    x = np.zeros((1, 1, 8, 8), np.float32)
    start = time.perf_counter()
    model(x)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
