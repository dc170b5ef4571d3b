"""`mlp` (784-512-512-10, relu) and `policy` (4-64-64-2, tanh, softmax): compiled against eager, onnxruntime and torch.

On one thread all contenders run in turns in one process. On two threads each runs in a process of its own, in turns,
since idle workers of one library spin and would slow the next on a machine with two cores.

    python benchmarks/mlp.py
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import calls, in_turns, machine, micro
from models import compiled, inputs, mlp, onnx_mlp, onnx_session, policy

import tapecast as tc

CASES = {"mlp_b1": (mlp, 1, 784), "mlp_b64": (mlp, 64, 784), "policy_b1": (policy, 1, 4)}
CONTENDERS = ("compiled", "onnxruntime", "torch", "eager")


def contender(name: str, case: str, threads: int) -> Callable[[], Any]:
    """A call of one contender on its case's input; results agree or this raises."""
    make, batch, width = CASES[case]
    tc.manual_seed(0)
    model = make()
    (x,) = inputs([(batch, width)])
    with tc.no_grad():
        want = model(tc.from_numpy(x)).numpy()
    run = globals()[f"run_{name}"](model, x, case, threads)
    np.testing.assert_allclose(np.asarray(run()), want, rtol=1e-4, atol=1e-5)
    return run


def run_compiled(model: Any, x: np.ndarray, case: str, threads: int) -> Callable[[], Any]:
    _, path = compiled(model, x, case)
    loaded = tc.runtime.load(path, threads=threads)
    return lambda: loaded(x)


def run_onnxruntime(model: Any, x: np.ndarray, case: str, threads: int) -> Callable[[], Any]:
    tanh = case.startswith("policy")
    session = onnx_session(onnx_mlp(model, "Tanh" if tanh else "Relu", softmax=tanh), threads)
    return lambda: session(x)


def run_torch(model: Any, x: np.ndarray, case: str, threads: int) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(threads)
    t = torch.nn
    kinds = {"Linear": lambda m: t.Linear(m.in_features, m.out_features), "ReLU": lambda m: t.ReLU(),
             "Tanh": lambda m: t.Tanh(), "Softmax": lambda m: t.Softmax(1)}  # fmt: skip
    twin = t.Sequential(*(kinds[type(m).__name__](m) for m in model)).eval()
    twin.load_state_dict(
        {k: torch.from_numpy(np.array(v.detach().numpy())) for k, v in model.state_dict().items()}
    )
    xt = torch.from_numpy(x)

    def run() -> Any:
        with torch.no_grad():
            return twin(xt)

    return run


def run_eager(model: Any, x: np.ndarray, case: str, threads: int) -> Callable[[], Any]:
    xt = tc.from_numpy(x)

    def run() -> Any:
        with tc.no_grad():
            return model(xt).numpy()

    return run


def one_process(names: list[str], threads: int) -> dict[str, dict[str, float]]:
    """Median seconds a call, by case and contender."""
    return {
        case: {
            name: t.median
            for name, t in in_turns(
                {name: calls(contender(name, case, threads)) for name in names}, rounds=15
            ).items()
        }
        for case in CASES
    }


def apart(threads: int, rounds: int = 3) -> dict[str, dict[str, float]]:
    """The same, each contender in a process of its own, in turns; medians over the processes."""
    found: dict[str, dict[str, list[float]]] = {case: {name: [] for name in CONTENDERS} for case in CASES}
    for _ in range(rounds):
        for name in CONTENDERS:
            done = subprocess.run(
                [sys.executable, __file__, name, str(threads)], check=True, stdout=subprocess.PIPE, text=True
            )
            for case, times in json.loads(done.stdout.splitlines()[-1]).items():
                found[case][name].append(times[name])
    return {case: {n: statistics.median(t) for n, t in names.items()} for case, names in found.items()}


def show(title: str, times: dict[str, dict[str, float]]) -> None:
    print(f"\n{title}")
    for case, row in times.items():
        ours = row["compiled"]
        cells = "  ".join(f"{name} {micro(t)} ({ours / t:.2f})" for name, t in row.items())
        print(f"  {case:10} {cells}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(one_process([sys.argv[1]], int(sys.argv[2]))))
    else:
        print(machine())
        print("median time of a call from Python; in brackets: compiled over it, below 1 is faster")
        show("1 thread, one process", one_process(list(CONTENDERS), 1))
        show("2 threads, a process each", apart(2))
