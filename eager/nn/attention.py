"""Multi-head attention (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from .. import functional as F
from ..functional.multihead import multi_head_attention_forward
from ..tensor import Tensor
from . import init
from .linear import Linear
from .module import Module
from .parameter import Parameter


class SDPBackend(Enum):
    """Ways to compute attention that programs choose from; there is one here, whichever they choose."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[None]:
    """Within it, attention may use the given ways alone: accepted, and without effect."""
    given = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(given, list) or not all(isinstance(b, SDPBackend) for b in given):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    yield


class NonDynamicallyQuantizableLinear(Linear):
    """Linear, under the name that PyTorch prints for the output projection of attention."""


class MultiheadAttention(Module):
    """`num_heads` attentions side by side, each over embed_dim / num_heads features of projected inputs.

    Inputs are (L, N, embed_dim), or with `batch_first` (N, L, embed_dim), or without a batch (L, embed_dim);
    keys have `kdim` features and values `vdim`, embed_dim where they are None.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
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
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        like = {"device": device, "dtype": dtype}
        self.add_projections(bias, like)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **like)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(
                name, Parameter(F.empty((1, 1, embed_dim), **like)) if add_bias_kv else None
            )
        self.reset_parameters()

    def add_projections(self, bias: bool, like: dict[str, Any]) -> None:
        width = self.embed_dim
        shapes: dict[str, tuple[int, int] | None] = {
            "q_proj_weight": (width, width),
            "k_proj_weight": (width, self.kdim),
            "v_proj_weight": (width, self.vdim),
            "in_proj_weight": None,
        }
        if self._qkv_same_embed_dim:
            shapes = dict.fromkeys(shapes) | {"in_proj_weight": (3 * width, width)}
        for name, shape in shapes.items():
            self.register_parameter(name, Parameter(F.empty(shape, **like)) if shape else None)
        self.register_parameter("in_proj_bias", Parameter(F.empty(3 * width, **like)) if bias else None)

    def reset_parameters(self) -> None:
        """Draw new initial values; biases of the projections are zero."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if (weight := getattr(self, name)) is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

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
        turn = self.batch_first and query.ndim == 3
        q, k, v = (x.transpose(0, 1) if turn else x for x in (query, key, value))
        out, weights = multi_head_attention_forward(
            q,
            k,
            v,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return out.transpose(0, 1) if turn else out, weights
