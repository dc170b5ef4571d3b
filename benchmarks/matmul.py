"""float32 matrix products through the loop grammar against the multiply-add peak of this machine.

python benchmarks/matmul.py [--sizes 256 512 1024]
"""

from __future__ import annotations

import argparse

import numpy as np
from harness import calls, in_turns, machine, micro
from models import Product, compiled, inputs
from peak import peak_contender

import tapecast as tc


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 256, 512, 1024])
    sizes = parser.parse_args().sizes
    print(machine())
    models = {n: compiled(Product(n, n), inputs([(n, n)])[0], f"product{n}", dynamic=False)[1] for n in sizes}
    for threads in (1, 2):
        print(f"\n{threads} thread(s): best rate over that of the chains, from one alternating run (medians)")
        for n, path in models.items():
            show(n, path, threads)


def show(n: int, path: object, threads: int) -> None:
    """The product and the peak in turns: a machine that slows down slows both.

    On one thread the chains run in short turns right behind long ones of the product. Left alone for some milliseconds
    the chains, which touch no memory, may be given a higher clock than any code that loads vectors (see `peak.py`).
    Two threads take longer turns: starting the second one costs as much as a short turn.
    """
    (x,) = inputs([(n, n)])
    model = tc.runtime.load(path, threads=threads)
    out = np.empty((n, n), np.float32)
    chains, operations = peak_contender(threads)
    contenders = {"product": calls(lambda: model(x, out=out)), "peak": chains}
    short = {"target": {"product": 0.01, "peak": 0.0005}, "gap": 0.0} if threads == 1 else {"target": 0.005}
    times = in_turns(contenders, rounds=250, **short)
    product, peak = times["product"], times["peak"]
    best, median = (2 * n**3 / t / (operations / p) for t, p in zip(product, peak, strict=True))
    rate, limit = 2 * n**3 / product.best / 1e9, operations / peak.best / 1e9
    print(f"  {n}³: {micro(product.best)}, {rate:.0f} of {limit:.0f} GFLOP/s, {best:.1%} ({median:.1%})")


if __name__ == "__main__":
    main()
