"""Compiled models against every peer a user would pick, on one and two threads: float32, same weights, same results.

    python benchmarks/peers.py                                    all cases, all peers, both thread counts
    python benchmarks/peers.py --cases lenet_b1 gpt_b1_t1 --threads 1 --peers onnxruntime torch
    python benchmarks/peers.py --json results.json                for report.py

Every contender lives in a process of its own, and the processes run in turns: nobody's idle threads spin in another's
turn. A contender that is not installed, or cannot run a case, is left out by name. What is shown is the best time of
each over the rounds, the ratio to the best peer, and their geometric mean; the ratio of medians stands beside it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from harness import machine, micro
from zoo import CASES

PEERS = ("onnxruntime", "openvino", "torch", "torchscript", "inductor")
OURS = "tapecast"

Run = Callable[[], Any]


# ---- contenders, each in its process ---------------------------------------------------------------------------


def twin(case: str, weights: Path | None = None) -> Any:
    """The case's model in torch, its weights the same in every process."""
    import torch

    torch.manual_seed(0)
    model = CASES[case].model(torch).eval()
    for name, buffer in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            torch.nn.init.uniform_(buffer, 0.5, 1.5)
    return model


def run_torch(case: str, threads: int, room: Path) -> tuple[Run, int]:
    import torch

    torch.set_num_threads(threads)
    return under_no_grad(twin(case), case), 0


def under_no_grad(model: Any, case: str) -> Run:
    import torch

    xs = [torch.from_numpy(x) for x in CASES[case].inputs()]

    def run() -> Any:
        with torch.inference_mode():
            return model(*xs)

    return run


def run_torchscript(case: str, threads: int, room: Path) -> tuple[Run, int]:
    import torch

    torch.set_num_threads(threads)
    xs = tuple(torch.from_numpy(x) for x in CASES[case].inputs())
    traced = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(twin(case), xs)))
    return under_no_grad(traced, case), 0


def run_inductor(case: str, threads: int, room: Path) -> tuple[Run, int]:
    import torch

    torch.set_num_threads(threads)
    return under_no_grad(torch.compile(twin(case), dynamic=False), case), 0


def onnx_file(case: str, room: Path) -> Path:
    import torch

    path = room / f"{case}.onnx"
    xs = tuple(torch.from_numpy(x) for x in CASES[case].inputs())
    torch.onnx.export(twin(case), xs, str(path), dynamo=False, opset_version=17)
    return path


def run_onnxruntime(case: str, threads: int, room: Path) -> tuple[Run, int]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    path = onnx_file(case, room)
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = dict(zip((i.name for i in session.get_inputs()), CASES[case].inputs(), strict=True))
    return lambda: session.run(None, feeds)[0], path.stat().st_size


def run_openvino(case: str, threads: int, room: Path) -> tuple[Run, int]:
    import openvino as ov

    path = onnx_file(case, room)
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = ov.Core().compile_model(str(path), "CPU", settings).create_infer_request()
    xs = CASES[case].inputs()
    return lambda: request.infer(xs, share_inputs=True, share_outputs=True)[0], path.stat().st_size


def run_tapecast(case: str, threads: int, room: Path) -> tuple[Run, int]:
    import tapecast as tc

    model = CASES[case].model(tc).eval()
    model.load_state_dict({k: tc.from_numpy(v.numpy()) for k, v in twin(case).state_dict().items()})
    xs = CASES[case].inputs()
    path = room / f"{case}.so"
    tc.jit.trace(model, tuple(map(tc.from_numpy, xs)), check=False).compile(
        path, target="native", verify=False
    )
    loaded = tc.runtime.load(path, threads=threads)
    return lambda: loaded(*xs), path.stat().st_size


def worker(name: str, case: str, threads: int) -> None:
    """Make the contender, say what that took, then run as often as each line asks for."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    with tempfile.TemporaryDirectory() as folder:
        for module in ("torch", {OURS: OURS, "onnxruntime": "onnxruntime", "openvino": "openvino"}.get(name)):
            if module:
                importlib.import_module(module)  # not a part of what building takes
        start = time.perf_counter()
        run, size = globals()[f"run_{name}"](case, threads, Path(folder))
        made = time.perf_counter()
        out = np.asarray(run())
        first = time.perf_counter()
        np.save(sys.argv[4], out)
        print(json.dumps({"build": made - start, "first": first - made, "bytes": size}), flush=True)
        for line in sys.stdin:
            n = int(line)
            start = time.perf_counter()
            for _ in range(n):
                run()
            print((time.perf_counter() - start) / n, flush=True)


# ---- the parent ------------------------------------------------------------------------------------------------


class Contender:
    """A worker process and the times it has reported."""

    def __init__(self, name: str, case: str, threads: int, room: Path) -> None:
        self.name, self.times, self.result = name, list[float](), room / f"{name}.npy"
        command = [sys.executable, "-W", "ignore", __file__, name, case, str(threads), str(self.result)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait(self) -> dict[str, float] | None:
        """What building took, once the worker is ready; None, with its last words, when it died."""
        assert self.process.stdout and self.process.stderr
        while line := self.process.stdout.readline():
            if line.startswith("{"):
                return dict(json.loads(line))
        words = self.process.stderr.read().strip().splitlines() or ["no reason given"]
        print(f"    {self.name} is left out: {words[-1][:150]}", flush=True)
        return None

    def turn(self, n: int) -> float:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def measure(case: str, threads: int, names: Sequence[str], rounds: int, target: float) -> dict[str, Any]:
    """Best and median seconds a call, and the cost of building, by contender."""
    with tempfile.TemporaryDirectory() as folder:
        ready: list[Contender] = []
        built: dict[str, dict[str, float]] = {}
        for name in names:  # one after another: building must not disturb building
            c = Contender(name, case, threads, Path(folder))
            info = c.wait()
            if info:
                built[name] = info
                ready.append(c)
        try:
            agree([c.result for c in ready])
            counts = {c.name: max(1, int(target / max(c.turn(3), 1e-7))) for c in ready}
            for _ in range(rounds):
                for c in ready:
                    c.turn(max(1, counts[c.name] // 10))
                    c.times.append(c.turn(counts[c.name]))
        finally:
            for c in ready:
                c.close()
    return {c.name: {"best": min(c.times), "median": median(c.times), **built[c.name]} for c in ready}


def agree(results: Sequence[Path]) -> None:
    """AssertionError unless all contenders computed the same."""
    first, *rest = map(np.load, results)
    for other, path in zip(rest, results[1:], strict=True):
        np.testing.assert_allclose(other, first, rtol=2e-3, atol=2e-4, err_msg=path.stem)


def show(case: str, found: dict[str, Any]) -> float | None:
    """A line for the case; the ratio to the best peer, which is returned, or None without one."""
    peers = {n: t for n, t in found.items() if n != OURS}
    times = "  ".join(f"{n} {micro(t['best'])}" for n, t in found.items())
    if OURS not in found or not peers:
        print(f"  {case}: {times}", flush=True)
        return None
    best = min(peers, key=lambda n: peers[n]["best"])
    ratio = found[OURS]["best"] / peers[best]["best"]
    medians = found[OURS]["median"] / min(t["median"] for t in peers.values())
    print(f"  {case}: {ratio:.2f} of {best} ({medians:.2f})   {times}", flush=True)
    return float(ratio)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--target", type=float, default=0.1, help="seconds a turn")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(machine())
    results: dict[str, Any] = {}
    for threads in args.threads:
        print(
            f"\n{threads} thread(s): time over that of the best peer, best of {args.rounds} turns (medians)"
        )
        ratios = []
        for case in args.cases:
            found = measure(case, threads, [OURS, *args.peers], args.rounds, args.target)
            results[f"{case}/{threads}"] = found
            ratios.append(show(case, found))
        known = [r for r in ratios if r]
        if known:
            mean = math.exp(sum(map(math.log, known)) / len(known))
            print(f"  geometric mean {mean:.2f}, worst {max(known):.2f}, over {len(known)} cases")
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), "results": results}, indent=1))


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[2] in CASES:
        worker(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        main()
