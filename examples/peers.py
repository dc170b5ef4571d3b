"""The demo's network in other libraries, where they are installed, with the same weights: what to compare with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

THREADS = len(os.sched_getaffinity(0))


def peers(weights: dict[str, np.ndarray], x: np.ndarray) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A name and a call on `x` for torch and onnxruntime, each on all cores, if they are there."""
    if find_spec("torch"):
        yield "torch", torch_call(weights, x)
    if find_spec("onnxruntime") and find_spec("onnx"):
        yield "onnxruntime", onnxruntime_call(weights, x)


def torch_call(weights: dict[str, np.ndarray], x: np.ndarray) -> Callable[[], Any]:
    import torch
    from torch import nn

    class Twin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
                nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
            )  # fmt: skip
            self.classifier = nn.Sequential(
                nn.Flatten(), nn.Dropout(0.25), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.classifier(self.features(x))

    torch.set_num_threads(THREADS)
    twin = Twin().eval()
    twin.load_state_dict({name: torch.from_numpy(np.array(w)) for name, w in weights.items()})
    xt = torch.from_numpy(x)

    def call() -> Any:
        with torch.no_grad():
            return twin(xt).numpy()

    return call


def onnxruntime_call(weights: dict[str, np.ndarray], x: np.ndarray) -> Callable[[], Any]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    session = ort.InferenceSession(onnx_model(weights), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})[0]


def onnx_model(weights: dict[str, np.ndarray]) -> bytes:
    """The network as an ONNX file, weights by their names in the state dict."""
    from onnx import TensorProto, helper, numpy_helper

    def node(op: str, x: str, y: str, layer: str = "", parts: str = "", **attrs: Any) -> Any:
        return helper.make_node(op, [x, *(f"{layer}.{p}" for p in parts.split())], [y], **attrs)

    norm = "weight bias running_mean running_var"
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", "x", "c0", "features.0", "weight bias", **same),
        node("BatchNormalization", "c0", "n0", "features.1", norm),
        node("Relu", "n0", "r0"),
        node("Conv", "r0", "c1", "features.3", "weight bias", **same),
        node("BatchNormalization", "c1", "n1", "features.4", norm),
        node("Relu", "n1", "r1"),
        node("MaxPool", "r1", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p", "f"),
        node("Gemm", "f", "h", "classifier.2", "weight bias", transB=1),
        node("Relu", "h", "a"),
        node("Gemm", "a", "y", "classifier.4", "weight bias", transB=1),
    ]
    floats = {name: w for name, w in weights.items() if w.dtype == np.float32}
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(w, name) for name, w in floats.items()],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
