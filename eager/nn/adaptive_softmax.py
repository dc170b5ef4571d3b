"""Softmax over very many classes, the rare ones in clusters with smaller projections."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from .. import functional as F
from ..tensor import Tensor
from .containers import ModuleList, Sequential
from .linear import Linear
from .module import Module


class AdaptiveOutput(NamedTuple):
    """The log-probability of each target, and minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Efficient softmax approximation (Grave et al., ICML 2017) and its negative log-likelihood.

    Classes are ordered by frequency: those below `cutoffs[0]` are the head's, those between two cutoffs a cluster's.
    The projection of cluster i has in_features / div_value^(i + 1) features. input (N, in_features) or (in_features),
    target (N) or (): a named tuple output, loss.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_cutoffs(list(cutoffs), n_classes)
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        like = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **like)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            hidden = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **like),
                    Linear(hidden, high - low, bias=False, **like),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights again."""
        self.head.reset_parameters()
        for projection in self.tail:
            for layer in projection:
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> AdaptiveOutput:
        check_sizes(input_, target_)
        single = target_.ndim == 0
        x, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        check_range(target, self.n_classes)
        head = F.log_softmax(self.head(x), 1)
        place = F.where(target < self.shortlist_size, target, 0)
        inside = F.zeros_like(head[:, 0])
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            rows = ((target >= low) & (target < high)).nonzero().reshape(-1)
            if not rows.numel():
                continue
            logp = F.log_softmax(self.tail[i](x.index_select(0, rows)), 1)
            chosen = logp.gather(1, (target.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
            inside = inside.index_add(0, rows, chosen)
            place = place.index_fill(0, rows, self.shortlist_size + i)
        output = head.gather(1, place.unsqueeze(1)).squeeze(1) + inside
        return AdaptiveOutput(output.squeeze(0) if single else output, (-output).mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities (N, n_classes) of all classes."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, projection in enumerate(self.tail):
            cluster = head[:, self.shortlist_size + i].unsqueeze(1)
            parts.append(F.log_softmax(projection(input), 1) + cluster)
        return F.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class (N) of each row; clusters are looked into only where the head points at one."""
        found = self.head(input).argmax(1)
        rows = (found >= self.shortlist_size).nonzero().reshape(-1)
        if not rows.numel():
            return found
        return found.index_copy(0, rows, self.log_prob(input.index_select(0, rows)).argmax(1))


def check_cutoffs(cutoffs: list[int], classes: int) -> None:
    if not cutoffs:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    whole = all(int(c) == c for c in cutoffs)
    if not whole or cutoffs != sorted(set(cutoffs)) or cutoffs[0] <= 0 or cutoffs[-1] > classes - 1:
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value "
            f"is between 1 and n_classes-1; got {cutoffs} for {classes} classes"
        )


def check_sizes(x: Tensor, target: Tensor) -> None:
    if target.ndim > 1:
        raise RuntimeError(f"0D or 1D target tensor expected, multi-target not supported, got {target.shape}")
    if x.ndim != target.ndim + 1:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with size "
            f"{x.shape}"
        )
    if target.ndim and x.shape[0] != target.shape[0]:
        raise RuntimeError(
            "Input and target should have the same size in the batch dimension, got "
            f"{x.shape[0]} and {target.shape[0]}."
        )


def check_range(target: Tensor, classes: int) -> None:
    low, high = target.min().item(), target.max().item()
    if low < 0 or high >= classes:
        raise RuntimeError(
            f"Target values should be in [0, {classes - 1}], but values in range [{low}, {high}] were found. "
        )
