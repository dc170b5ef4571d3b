"""What a call costs where the arithmetic is next to nothing: eager ops on 4 x 4 floats, ours and PyTorch's in turns.

python benchmarks/eager_overhead.py [name ...] [--smoke]

Each case runs untaped and, where a gradient passes, with operands that require one; the last rows are the forward
and backward of a tanh MLP of width 64 at batch 1. Names, if given, pick the cases that contain one of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from harness import calls, in_turns, machine, micro

import tapecast as tc

SMOKE = "--smoke" in sys.argv
WANTED = [word for word in sys.argv[1:] if not word.startswith("-")]

Call = Callable[[], object]


def ops(lib: Any, taped: bool) -> dict[str, Call]:
    """The calls of single ops, on operands that require a gradient or do not."""
    x, y = (lib.arange(16.0).reshape(4, 4).detach().requires_grad_(taped) for _ in range(2))
    relu = lib.nn.functional.relu
    found: dict[str, Call] = {
        "x + y": lambda: x + y,
        "x + 1.0": lambda: x + 1.0,
        "x * y": lambda: x * y,
        "x @ y": lambda: x @ y,
        "relu(x)": lambda: relu(x),
        "tanh(x)": lambda: x.tanh(),
        "x.sum()": lambda: x.sum(),
        "x.sum(1)": lambda: x.sum(1),
        "x[1]": lambda: x[1],
        "x[1:3]": lambda: x[1:3],
        "x.reshape(2, 8)": lambda: x.reshape(2, 8),
        "x.t()": lambda: x.t(),
    }
    if not taped:
        z = lib.zeros(4, 4)
        found |= {"x > y": lambda: x > y, "z.add_(y)": lambda: z.add_(y), "z.mul_(0.5)": lambda: z.mul_(0.5)}
    return {f"{name}, taped" if taped else name: call for name, call in found.items()}


def steps(lib: Any) -> dict[str, Call]:
    """The forward and backward of a small MLP, whole and in parts."""
    lib.manual_seed(0)
    nn = lib.nn
    model = nn.Sequential(
        nn.Linear(8, 64),
        nn.Tanh(),
        nn.Linear(64, 64),
        nn.Tanh(),
        nn.Linear(64, 64),
        nn.Tanh(),
        nn.Linear(64, 1),
    )
    x = lib.ones(1, 8)

    def forward_only() -> Any:
        with lib.no_grad():
            return model(x)

    def step() -> None:
        for p in model.parameters():
            p.grad = None
        model(x).sum().backward()

    w = lib.ones(4, 4).requires_grad_()

    def chain() -> None:
        w.grad = None
        (w * w).sum().backward()

    return {
        "MLP forward, no_grad": forward_only,
        "MLP forward": lambda: model(x),
        "MLP forward and backward": step,
        "(w * w).sum().backward()": chain,
    }


def cases(lib: Any) -> dict[str, Call]:
    return {**ops(lib, False), **ops(lib, True), **steps(lib)}


def main() -> None:
    torch.set_num_threads(1)
    print(machine())
    theirs = cases(torch)
    for name, ours in cases(tc).items():
        if WANTED and not any(word in name for word in WANTED):
            continue
        contenders = {"tapecast": calls(ours), "torch": calls(theirs[name])}
        timing = in_turns(contenders, target=0.002 if SMOKE else 0.01, rounds=3 if SMOKE else 25, warm=0.05)
        a, b = timing["tapecast"], timing["torch"]
        print(
            f"{name:28} tapecast {micro(a.median):>9}, torch {micro(b.median):>9}: {a.median / b.median:.2f} times "
            f"(best {a.best / b.best:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
