"""Multi-head attention (Vaswani et al. 2017)."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from ..dtypes import bool_
from ..tensor import Tensor
from . import init
from .linear import Linear
from .module import Module
from .parameter import Parameter


class MultiheadAttention(Module):
    """`num_heads` attentions side by side, each over embed_dim / num_heads features of projected inputs.

    Inputs are (L, N, embed_dim), or with `batch_first` (N, L, embed_dim), or without a batch (L, embed_dim).
    Keys and values have the same number of features as queries.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.dropout, self.batch_first = dropout, batch_first
        self.in_proj_weight = Parameter(F.empty(3 * embed_dim, embed_dim, device=device, dtype=dtype))
        if bias:
            self.in_proj_bias = Parameter(F.empty(3 * embed_dim, device=device, dtype=dtype))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values; biases are zero."""
        init.xavier_uniform_(self.in_proj_weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The attended values, in the form of `query`, and with `need_weights` the weights (N, L, S).

        Masks: `attn_mask` (L, S) or (N * num_heads, L, S), `key_padding_mask` (N, S); True keeps a key out, a
        number is added to the score. The weights are the mean over the heads, or with
        `average_attn_weights=False` those of each, (N, num_heads, L, S). `is_causal` tells that `attn_mask`,
        which must be given, is causal.
        """
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        batched = query.ndim == 3
        q, k, v = (self.batch_first_of(x, batched) for x in (query, key, value))
        mask = self.mask(attn_mask, key_padding_mask, q, batched)
        out, weights = self.attend(*map(self.split_heads, self.project(q, k, v)), mask=mask)
        out = self.out_proj(out.transpose(1, 2).reshape(q.shape))
        if batched and not self.batch_first:
            out = out.transpose(0, 1)
        if need_weights and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            out, weights = out.squeeze(0), weights.squeeze(0)
        return out, weights if need_weights else None

    def batch_first_of(self, x: Tensor, batched: bool) -> Tensor:
        if not batched:
            return x.unsqueeze(0)
        return x if self.batch_first else x.transpose(0, 1)

    def project(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        weights = self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return tuple(F.linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True))

    def split_heads(self, x: Tensor) -> Tensor:
        """(N, L, embed_dim) to (N, num_heads, L, head_dim)."""
        return x.reshape(x.shape[0], x.shape[1], self.num_heads, self.head_dim).transpose(1, 2)

    def mask(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, q: Tensor, batched: bool
    ) -> Tensor | None:
        """Both masks as what to add to the scores (N, num_heads, L, S); None without masks."""
        total = None
        if attn_mask is not None:
            total = additive(attn_mask, q)
            if total.ndim == 3:
                total = total.reshape(-1, self.num_heads, *total.shape[1:])
        if key_padding_mask is not None:
            padding = additive(key_padding_mask if batched else key_padding_mask.unsqueeze(0), q)
            padding = padding.unsqueeze(1).unsqueeze(1)
            total = padding if total is None else total + padding
        return total

    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = q * self.head_dim**-0.5 @ k.transpose(-2, -1)
        weights = F.softmax(scores if mask is None else scores + mask, -1)
        weights = F.dropout(weights, self.dropout, self.training)
        return weights @ v, weights


def additive(mask: Tensor, like: Tensor) -> Tensor:
    """A boolean mask as numbers: -inf where True, so that softmax gives 0 there."""
    if mask.dtype != bool_:
        return mask
    return F.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(mask, float("-inf"))
