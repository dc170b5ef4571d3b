"""Models that benchmarks share, built in tapecast, compiled, and as ONNX for the peers that read it."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tapecast as tc
from tapecast import nn


@functools.cache
def folder() -> Path:
    """Where compiled models go: made by the first call, removed when the process ends."""
    made = tempfile.mkdtemp(prefix="tapecast-bench-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def mlp() -> nn.Module:
    """784-512-512-10, relu."""
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    ).eval()


def policy() -> nn.Module:
    """4-64-64-2, tanh, softmax: the network of a small control task."""
    return nn.Sequential(
        nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2), nn.Softmax(1)
    ).eval()


def digits() -> nn.Module:
    """The demo's convolutional network, [batch, 1, 8, 8] to 10 logits."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10),
    ).eval()  # fmt: skip


class Product(nn.Module):
    """x @ w with a constant w."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.w = nn.Parameter(tc.randn(rows, columns))

    def forward(self, x: tc.Tensor) -> tc.Tensor:
        return x @ self.w


def compiled(model: nn.Module, example: np.ndarray, name: str, dynamic: bool = True, **options: Any) -> Any:
    """(report, path) of the model compiled for this machine; its first axis is dynamic unless told otherwise."""
    axes = {0: {0: tc.Dim("batch", min=1, max=4096)}} if dynamic else None
    traced = tc.jit.trace(model.eval(), (tc.from_numpy(example),), dynamic=axes)
    path = folder() / f"{name}.so"
    return traced.compile(path, **{"target": "native", **options}), path


def onnx_mlp(model: nn.Module, activation: str, softmax: bool = False) -> bytes:
    """A stack of Linear layers as an ONNX model with a free batch axis."""
    from onnx import TensorProto, helper, numpy_helper

    layers = [m for m in model.modules() if isinstance(m, nn.Linear)]
    nodes, weights, x = [], [], "x"
    for k, layer in enumerate(layers):
        weights += [
            numpy_helper.from_array(layer.weight.detach().numpy(), f"w{k}"),
            numpy_helper.from_array(layer.bias.detach().numpy(), f"b{k}"),
        ]
        nodes.append(helper.make_node("Gemm", [x, f"w{k}", f"b{k}"], [f"h{k}"], transB=1))
        x = f"h{k}"
        if k < len(layers) - 1:
            nodes.append(helper.make_node(activation, [x], [f"a{k}"]))
            x = f"a{k}"
    if softmax:
        nodes.append(helper.make_node("Softmax", [x], ["p"], axis=1))
        x = "p"
    wide, narrow = layers[0].in_features, layers[-1].out_features
    graph = helper.make_graph(
        nodes, "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", wide])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", narrow])], weights,
    )  # fmt: skip
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    ).SerializeToString()


def onnx_session(model: bytes, threads: int) -> Callable[[np.ndarray], Any]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def inputs(shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]
