"""The models of `peers.py`, written once for PyTorch's names: `t` is torch or tapecast, and nothing else differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


def sequential(t: Any, *layers: Any) -> Any:
    return t.nn.Sequential(*layers)


def policy(t: Any) -> Any:
    """4-64-64-2, tanh, softmax: the network of a small control task."""
    nn = t.nn
    return sequential(
        t, nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2), nn.Softmax(1)
    )


def mlp(t: Any) -> Any:
    """784-512-512-10, relu."""
    nn = t.nn
    return sequential(t, nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def lenet(t: Any) -> Any:
    """Convolutions 1-32-64 of 3×3, pooling, 9216-128-10, log-softmax, on 28×28."""
    nn = t.nn
    return sequential(
        t, nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10), nn.LogSoftmax(1),
    )  # fmt: skip


def lstm(t: Any) -> Any:
    """Embedding 65×128, LSTM 256, linear 65."""

    class Model(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = t.nn.Embedding(65, 128)
            self.lstm = t.nn.LSTM(128, 256, batch_first=True)
            self.out = t.nn.Linear(256, 65)

        def forward(self, tokens: Any) -> Any:
            return self.out(self.lstm(self.embed(tokens))[0])

    return Model()


def gpt(t: Any) -> Any:
    """6 blocks of width 384 with 6 heads, causal, gelu MLP ×4, vocabulary 65, at most 256 positions."""
    nn, f, width, heads = t.nn, t.nn.functional, 384, 6

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, n, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).split(width, dim=2)
            q, k, v = (z.reshape(b, n, heads, width // heads).transpose(1, 2) for z in (q, k, v))
            y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, n, width))
            return x + self.narrow(f.gelu(self.wide(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(65, width), nn.Embedding(256, width)
            self.blocks = nn.ModuleList([Block() for _ in range(6)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 65)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.places(t.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Model()


def resnet18(t: Any) -> Any:
    """He et al., Deep Residual Learning for Image Recognition, 2015: the 18-layer network on 224×224, 1000 classes."""
    nn, f = t.nn, t.nn.functional

    class Block(nn.Module):
        def __init__(self, narrow: int, wide: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(narrow, wide, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(wide)
            self.conv2 = nn.Conv2d(wide, wide, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(wide)
            self.down = None
            if stride > 1 or narrow != wide:
                self.down = sequential(
                    t, nn.Conv2d(narrow, wide, 1, stride, bias=False), nn.BatchNorm2d(wide)
                )

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(f.relu(self.bn1(self.conv1(x)))))
            return f.relu(y + (x if self.down is None else self.down(x)))

    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
              (256, 512, 2), (512, 512, 1)]  # fmt: skip
    return sequential(
        t, nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        *(Block(*w) for w in widths), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000),
    )  # fmt: skip


def mobilenetv2(t: Any) -> Any:
    """Sandler et al., MobileNetV2, 2018: width 1 on 224×224, 1000 classes."""
    nn = t.nn

    def unit(narrow: int, wide: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        conv = nn.Conv2d(narrow, wide, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(wide), nn.ReLU6()]

    class Block(nn.Module):
        def __init__(self, narrow: int, wide: int, stride: int, expand: int) -> None:
            super().__init__()
            hidden = narrow * expand
            layers = unit(narrow, hidden, 1) if expand > 1 else []
            layers += unit(hidden, hidden, 3, stride, hidden)
            self.body = sequential(t, *layers, nn.Conv2d(hidden, wide, 1, bias=False), nn.BatchNorm2d(wide))
            self.residual = stride == 1 and narrow == wide

        def forward(self, x: Any) -> Any:
            return x + self.body(x) if self.residual else self.body(x)

    plan = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
            (6, 320, 1, 1)]  # fmt: skip
    blocks, width = [], 32
    for expand, wide, count, stride in plan:
        for k in range(count):
            blocks.append(Block(width, wide, stride if k == 0 else 1, expand))
            width = wide
    return sequential(
        t, *unit(3, 32, 3, 2), *blocks, *unit(320, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(1280, 1000),
    )  # fmt: skip


def chain(t: Any) -> Any:
    """exp, tanh, sigmoid, sqrt, log1p over two inputs."""

    class Model(t.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return t.log1p(t.sqrt(t.sigmoid(t.tanh(x) * y) + t.exp(-x * x)))

    return Model()


@dataclass(frozen=True)
class Case:
    """A model with inputs of these shapes; integer inputs are tokens below `vocabulary`."""

    model: Callable[[Any], Any]
    shapes: tuple[tuple[int, ...], ...]
    vocabulary: int = 0

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        if self.vocabulary:
            return [rng.integers(0, self.vocabulary, s) for s in self.shapes]
        return [rng.standard_normal(s).astype(np.float32) for s in self.shapes]


CASES = {
    "policy_b1": Case(policy, ((1, 4),)),
    "mlp_b1": Case(mlp, ((1, 784),)),
    "mlp_b64": Case(mlp, ((64, 784),)),
    "lenet_b1": Case(lenet, ((1, 1, 28, 28),)),
    "lenet_b64": Case(lenet, ((64, 1, 28, 28),)),
    "lstm_b1_t64": Case(lstm, ((1, 64),), 65),
    "gpt_b1_t256": Case(gpt, ((1, 256),), 65),
    "gpt_b1_t1": Case(gpt, ((1, 1),), 65),
    "resnet18_b1": Case(resnet18, ((1, 3, 224, 224),)),
    "mobilenetv2_b1": Case(mobilenetv2, ((1, 3, 224, 224),)),
    "chain_4M": Case(chain, ((1 << 22,), (1 << 22,))),
}
