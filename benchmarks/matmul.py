"""float32 matrix products through the loop grammar against the multiply-add peak of this machine.

    python benchmarks/matmul.py [--sizes 256 512 1024]
"""

from __future__ import annotations

import argparse

import numpy as np
from build import Product, compiled, inputs
from harness import calls, in_turns, machine, micro
from peak import measured_peak

import tapecast as tc


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 256, 512, 1024])
    sizes = parser.parse_args().sizes
    print(machine())
    models = {n: compiled(Product(n, n), inputs([(n, n)])[0], f"product{n}", dynamic=False)[1] for n in sizes}
    for threads in (1, 2):
        print(f"\n{threads} thread(s): peak {measured_peak(threads) / 1e9:.0f} GFLOP/s")
        for n, path in models.items():
            show(n, path, threads)


def show(n: int, path: object, threads: int) -> None:
    """The product's rate, the peak measured just before and after it, and the quotient."""
    (x,) = inputs([(n, n)])
    model = tc.runtime.load(path, threads=threads)
    out = np.empty((n, n), np.float32)
    before = measured_peak(threads, 0.2)
    timing = in_turns({"compiled": calls(lambda: model(x, out=out))}, rounds=15)["compiled"]
    peak = max(before, measured_peak(threads, 0.2))
    best, median = (2 * n**3 / t for t in timing)
    print(
        f"  {n}³: {micro(timing.median)}, {median / 1e9:.0f} GFLOP/s (best {best / 1e9:.0f}), "
        f"{median / peak:.1%} of peak (best {best / peak:.1%})"
    )


if __name__ == "__main__":
    main()
