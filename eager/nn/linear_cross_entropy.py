"""Cross-entropy of a linear layer as one module, and how its batch is done in pieces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .. import functional as F
from ..tensor import Tensor
from .linear import Linear
from .loss import WeightedLoss


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` does a batch in pieces, whose logits alone exist at a time.

    batch_chunk_size: rows a piece; by default chunking_method "aspect_ratio:N" chooses a size whose logits take
    1/N of the input's memory ("auto": N = 2). allow_retain_graph, acc_policy and acc_dtype are PyTorch's: here the
    gradient always computes the logits again, and half precision is accumulated in float32.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = self.chunking_method.partition(":")
            if name != "aspect_ratio" or (colon and not (factor.isdigit() and int(factor))):
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")

    def rows(self, batch: int, features: int, classes: int) -> int:
        """The rows of one piece of a batch."""
        method = self.chunking_method
        if method == "auto":
            method = None if self.batch_chunk_size is not None else "aspect_ratio:2"
        if method is None:
            return max(1, batch if self.batch_chunk_size is None else min(self.batch_chunk_size, batch))
        wanted = -(-batch // max(1, -(-classes // max(features, 1))))
        size = min((1 << max(wanted - 1, 0).bit_length()) // int(method.partition(":")[2] or 1), batch)
        if self.batch_chunk_size not in (None, size):
            raise ValueError(
                f"batch_chunk_size (={self.batch_chunk_size}) and chunking_method ('{method}') give different chunk "
                f"sizes ({self.batch_chunk_size} vs {size}); pass only one."
            )
        return max(1, size)


class LinearCrossEntropyLoss(WeightedLoss):
    """A linear layer from `in_features` to `num_classes` (times `out_features` places) and its cross-entropy.

    input (N, in_features) or (in_features); target as CrossEntropyLoss has it, (N, *out_features).
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        outputs = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, outputs, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        places = (self.num_classes, *self.out_features)
        weight, bias = self.linear.weight, self.linear.bias
        return F.linear_cross_entropy(
            input,
            weight.reshape(*places, weight.shape[-1]),
            target,
            linear_bias=None if bias is None else bias.reshape(places),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )
