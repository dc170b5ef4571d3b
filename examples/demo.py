"""From training to a file that needs nothing: `make demo`.

Trains a small convolutional network on real handwritten digits, eagerly; traces it, compiles it to `digits.so`;
loads that file in a process that has only the runtime, and from C; compares results and speed; draws `demo.png`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from peers import peers
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import tapecast as tc
from tapecast import nn, optim
from tapecast.nn import functional as F
from tapecast.utils.data import DataLoader, TensorDataset

console = Console()


def minimal_loop() -> None:
    """Two tensors, a product, its gradient."""
    x = tc.rand(3, 3, requires_grad=True)
    w = tc.rand(3, 3, requires_grad=True)
    loss = tc.matmul(x, w).sum()
    loss.backward()
    print(f"Execution Device: {w.device}")
    print(f"Calculated Gradient w: {w.grad}")
    # d/dw of sum(x @ w) is the column sums of x, one for each row of w.
    expected = np.repeat(x.detach().numpy().sum(0)[:, None], 3, axis=1)
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-6)


class DigitsNet(nn.Module):
    """Two convolutions with batch norm, pooling, dropout, two linear layers; [batch, 1, 8, 8] to 10 logits."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Dropout(0.25), nn.Linear(64 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10)
        )

    def forward(self, x: tc.Tensor) -> tc.Tensor:
        return self.classifier(self.features(x))


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """scikit-learn's 1,797 images of 8 × 8, pixels in 0..1; every fourth one, shuffled once, is held out."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = (data.images[order] / 16).astype(np.float32)[:, None]
    labels = data.target[order].astype(np.int64)
    held = len(labels) // 4 + 1
    return images[held:], labels[held:], images[:held], labels[:held]


def train(
    model: nn.Module, loader: DataLoader, test: tuple[tc.Tensor, tc.Tensor], epochs: int
) -> dict[str, list]:
    """Eager training with a progress bar; the loss of every step and the test accuracy after every epoch."""
    optimizer = optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    history: dict[str, list] = {"loss": [], "accuracy": []}
    with Progress(console=console) as progress:
        task = progress.add_task("training", total=epochs * len(loader))
        for epoch in range(epochs):
            model.train()
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                history["loss"].append(loss.item())
                progress.advance(task)
            schedule.step()
            history["accuracy"].append(accuracy(model, *test))
            note = f"epoch {epoch + 1}/{epochs}  loss {loss.item():.3f}  test {history['accuracy'][-1]:.2%}"
            progress.update(task, description=note)
    return history


def accuracy(model: nn.Module, x: tc.Tensor, y: tc.Tensor) -> float:
    model.eval()
    with tc.no_grad():
        return float((model(x).argmax(1) == y).float().mean().item())


DEPLOY = """
import json, sys
import numpy as np
import tapecast.runtime as runtime
model = runtime.load(sys.argv[1])
images = np.load(sys.argv[2])
logits = {}
for size in (1, 7, 450):
    parts = [model(images[i:i + size]) for i in range(0, len(images), size)]
    logits[size] = np.concatenate(parts)
np.savez(sys.argv[3], **{str(k): v for k, v in logits.items()})
allowed = ("tapecast", "tapecast._aliases", "tapecast.runtime", "tapecast.serialized_models")
extra = [m for m in sys.modules if m.startswith("tapecast") and not m.startswith(allowed[1:]) and m != allowed[0]]
heavy = [m for m in ("llvmlite", "networkx", "scipy") if m in sys.modules]
print(json.dumps({"extra": extra, "heavy": heavy}))
"""


def deploy_python(artifact: Path, images: Path, eager: np.ndarray) -> None:
    """A fresh process with numpy and the runtime alone classifies the test set in batches of 1, 7 and 450."""
    out = artifact.with_name("logits.npz")
    command = [sys.executable, "-c", DEPLOY, str(artifact), str(images), str(out)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded = json.loads(done.stdout)
    if loaded["extra"] or loaded["heavy"]:
        raise SystemExit(f"the runtime pulled in {loaded}")
    for size, logits in np.load(out).items():
        worst = float(np.abs(logits - eager).max())
        agree = bool((logits.argmax(1) == eager.argmax(1)).all())
        console.print(
            f"  batches of {size:>3}: logits within {worst:.1e} of eager, labels {'equal' if agree else 'DIFFER'}"
        )
        if worst > 1e-5 or not agree:
            raise SystemExit("the compiled model does not agree with eager")


C_PROGRAM = """\
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "digits.h"

int main(int argc, char **argv) {
  if (argc != 3) return 1;
  int64_t batch = atoll(argv[2]);
  float *x = malloc(batch * 64 * sizeof(float)), *y = malloc(batch * 10 * sizeof(float));
  void *workspace = aligned_alloc(64, (size_t)(digits_forward_workspace_bytes(batch) + 127) / 64 * 64);
  FILE *f = fopen(argv[1], "rb");
  if (!f || fread(x, 256, batch, f) != (size_t)batch) return 2;
  int code = digits_forward_call(x, y, batch, workspace, 1);
  if (code) {
    fprintf(stderr, "%s\\n", tapecast_message(code));
    return 3;
  }
  fwrite(y, 40, batch, stdout);
  return 0;
}
"""


def deploy_c(artifact: Path, images: np.ndarray, eager: np.ndarray) -> None:
    """The same file called from C: `digits.h`, the shared library, libc."""
    if shutil.which("cc") is None:
        console.print("  no C compiler here: skipped")
        return
    folder = artifact.parent
    (folder / "classify.c").write_text(C_PROGRAM)
    images.tofile(folder / "images.bin")
    build = [
        "cc",
        "-std=c11",
        "-O2",
        "-Wall",
        "-Werror",
        "classify.c",
        artifact.name,
        "-Wl,-rpath,$ORIGIN",
        "-o",
        "classify",
    ]
    subprocess.run(build, check=True, cwd=folder)
    done = subprocess.run(
        ["./classify", "images.bin", str(len(images))], check=True, cwd=folder, capture_output=True
    )
    logits = np.frombuffer(done.stdout, np.float32).reshape(len(images), 10)
    worst = float(np.abs(logits - eager).max())
    console.print(f"  {len(images)} images from C: logits within {worst:.1e} of eager")
    if worst > 1e-5 or (logits.argmax(1) != eager.argmax(1)).any():
        raise SystemExit("the C program does not agree with eager")


# ---- speed --------------------------------------------------------------------------------------------------------


def contenders(model: nn.Module, artifact: Path, x: np.ndarray) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every way there is here to run the model on `x`, with as many threads each."""
    xt = tc.from_numpy(x)

    def eager() -> Any:
        with tc.no_grad():
            return model(xt)

    compiled = tc.runtime.load(artifact)
    yield "eager", eager
    yield "compiled", lambda: compiled(x)
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    yield from peers(weights, x)


def latencies(model: nn.Module, artifact: Path, images: np.ndarray) -> dict[int, dict[str, float]]:
    """Median seconds a call at batch 1 and 64, all contenders in turns."""
    model.eval()
    return {batch: in_turns(dict(contenders(model, artifact, images[:batch].copy()))) for batch in (1, 64)}


def in_turns(
    runs: dict[str, Callable[[], Any]], rounds: int = 9, target: float = 0.01, pause: float = 0.05
) -> dict[str, float]:
    """Median seconds a call. The pause lets the idle threads of the one before stop spinning on the cores."""
    turns = {}
    for name, run in runs.items():
        time.sleep(pause)
        run()
        start = time.perf_counter()
        run()
        turns[name] = max(1, int(target / (time.perf_counter() - start)))
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(pause)
            run()
            start = time.perf_counter()
            for _ in range(turns[name]):
                run()
            seconds[name].append((time.perf_counter() - start) / turns[name])
    return {name: float(np.median(s)) for name, s in seconds.items()}


def show_latencies(times: dict[int, dict[str, float]]) -> None:
    table = Table(title="Latency, median (µs)")
    names = list(next(iter(times.values())))
    for column in ("batch", *names):
        table.add_column(column, justify="right")
    for batch, row in times.items():
        table.add_row(str(batch), *(f"{row[name] * 1e6:.1f}" for name in names))
    console.print(table)


def draw(
    path: Path,
    history: dict[str, list],
    images: np.ndarray,
    predicted: np.ndarray,
    labels: np.ndarray,
    times: dict[int, dict[str, float]],
) -> None:
    """Loss and accuracy, twelve test images with the compiled model's predictions, latencies."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(12, 8), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.1, 1))
    loss_axis, bars_axis = top.subplots(1, 2, gridspec_kw={"wspace": 0.12})
    draw_training(loss_axis, history)
    draw_latencies(bars_axis, times)
    for k, axis in zip(samples(predicted, labels), bottom.subplots(2, 6).flat, strict=True):
        right = predicted[k] == labels[k]
        axis.imshow(images[k, 0], cmap="gray_r")
        axis.set_title(
            f"{predicted[k]}" if right else f"{predicted[k]}, but it is {labels[k]}",
            color="tab:green" if right else "tab:red",
            fontsize=11,
        )
        axis.set_axis_off()
    bottom.suptitle("Test images, classified by the compiled model (green: right, red: wrong)")
    figure.savefig(path, dpi=110)


def samples(predicted: np.ndarray, labels: np.ndarray, count: int = 12) -> np.ndarray:
    """Positions of images to show: two that are classified wrongly, if there are, then the digits in turn."""
    wrong = np.flatnonzero(predicted != labels)[:2]
    right = [np.flatnonzero((labels == digit) & (predicted == digit)) for digit in range(10)]
    in_turn = [places[k] for k in range(count) for places in right if k < len(places)]
    return np.array([*in_turn[: count - len(wrong)], *wrong])


def draw_training(axis: Any, history: dict[str, list]) -> None:
    steps = np.arange(len(history["loss"])) / len(history["loss"]) * len(history["accuracy"])
    axis.plot(steps, history["loss"], color="tab:blue", alpha=0.35, linewidth=0.8)
    smooth = np.convolve(history["loss"], np.ones(15) / 15, mode="valid")
    axis.plot(steps[7 : 7 + len(smooth)], smooth, color="tab:blue", label="training loss")
    axis.set(xlabel="epoch", ylabel="loss (cross entropy)", yscale="log", title="Eager training")
    other = axis.twinx()
    epochs = np.arange(1, len(history["accuracy"]) + 1)
    other.plot(
        epochs, np.array(history["accuracy"]) * 100, color="tab:green", marker=".", label="test accuracy"
    )
    other.set(ylabel="test accuracy (%)", ylim=(80, 100.5))
    lines = [*axis.get_lines()[1:], *other.get_lines()]
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15), "ncols": 2, "frameon": False}
    axis.legend(lines, [str(line.get_label()) for line in lines], **below)


def draw_latencies(axis: Any, times: dict[int, dict[str, float]]) -> None:
    names = list(next(iter(times.values())))
    width = 0.8 / len(names)
    for k, name in enumerate(names):
        values = [times[batch][name] * 1e6 for batch in times]
        bars = axis.bar(np.arange(len(times)) + (k - (len(names) - 1) / 2) * width, values, width, label=name)
        factors = [times[batch]["eager"] / times[batch][name] for batch in times]
        notes = [f"{f:.1f}×\n" if name == "compiled" else "" for f in factors]
        shown = [f"{note}{v:.0f}" for v, note in zip(values, notes, strict=True)]
        axis.bar_label(bars, shown, fontsize=8)
    axis.set_xticks(range(len(times)), [f"batch {batch}" for batch in times])
    axis.set(
        ylabel="µs per call (log)", yscale="log", title="Latency, shorter is better (×: as fast as eager)"
    )
    axis.margins(y=0.25)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=len(names), frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument(
        "--out", type=Path, default=Path("build/demo"), help="folder for everything that is made"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    console.rule("two tensors and a gradient")
    minimal_loop()

    console.rule("train, eagerly")
    tc.manual_seed(0)
    train_x, train_y, test_x, test_y = digits()
    model = DigitsNet()
    loader = DataLoader(
        TensorDataset(tc.from_numpy(train_x), tc.from_numpy(train_y)), batch_size=64, shuffle=True
    )
    start = time.perf_counter()
    history = train(model, loader, (tc.from_numpy(test_x), tc.from_numpy(test_y)), args.epochs)
    reached = history["accuracy"][-1]
    console.print(
        f"test accuracy {reached:.2%} after {args.epochs} epochs, {time.perf_counter() - start:.1f} s"
    )
    if reached < 0.97:
        raise SystemExit(f"the demo wants 97 % test accuracy, got {reached:.2%}")

    console.rule("trace and compile")
    model.eval()
    example = tc.from_numpy(test_x[:3])
    traced = tc.jit.trace(model, (example,), dynamic={"x": {0: tc.Dim("batch", min=1, max=1024)}})
    traced.save(args.out / "digits.tape")
    artifact = args.out / "digits.so"
    report = traced.compile(artifact)
    print(report.details())

    console.rule("deploy: a process with numpy and the runtime")
    with tc.no_grad():
        eager = model(tc.from_numpy(test_x)).numpy()
    np.save(args.out / "images.npy", test_x)
    deploy_python(artifact, args.out / "images.npy", eager)
    console.rule("deploy: a C program")
    deploy_c(artifact, test_x, eager)

    console.rule("compare")
    times = latencies(model, artifact, test_x)
    show_latencies(times)
    picture = Path("demo.png")
    draw(picture, history, test_x, eager.argmax(1), test_y, times)
    console.print(
        f"wrote {picture}, {artifact} ({artifact.stat().st_size / 1e3:.0f} kB) and {artifact.with_suffix('.h')}"
    )


if __name__ == "__main__":
    main()
