"""Multi-head attention as a function (Vaswani et al. 2017)."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ..tensor import Tensor
from .attention import scaled_dot_product_attention
from .base import cast_to
from .creation import zeros
from .dropouts import dropout
from .joining import cat
from .network import linear
from .padding import pad
from .pointwise import masked_fill
from .product import matmul
from .reduction import mean, softmax
from .shaping import reshape, squeeze, transpose, unsqueeze


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The attended values (L, N, E), and with `need_weights` the weights (N, L, S), or of each head.

    query (L, N, E), key and value (S, N, *), all without N for one sample. Masks: `attn_mask` (L, S) or
    (N * num_heads, L, S), `key_padding_mask` (N, S); True keeps a key out, a number is added to the score.
    """
    batched = check_operands(query, key, embed_dim_to_check, num_heads, attn_mask, is_causal)
    if not batched:
        query, key, value = (unsqueeze(x, 1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else unsqueeze(key_padding_mask, 0)
    length, batch, width = query.shape
    weights: Any = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight:
        if in_proj_weight is None:
            raise ValueError(
                "multi_head_attention_forward: in_proj_weight is None, and so are weights of its parts"
            )
        weights = in_proj_weight.chunk(3)
    biases: Any = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    extra = 0
    if bias_k is not None and bias_v is not None:
        k = cat([k, bias_k.expand(1, batch, width)])
        v = cat([v, bias_v.expand(1, batch, width)])
        extra += 1
    q = heads(q, num_heads)
    k = (
        heads(k, num_heads)
        if static_k is None
        else reshape(static_k, (batch, num_heads, -1, width // num_heads))
    )
    v = (
        heads(v, num_heads)
        if static_v is None
        else reshape(static_v, (batch, num_heads, -1, width // num_heads))
    )
    if add_zero_attn:
        k, v = (pad(x, (0, 0, 0, 1)) for x in (k, v))
        extra += 1
    mask = merged_mask(attn_mask, key_padding_mask, q, extra)
    p = dropout_p if training else 0.0
    scores = None
    if need_weights:
        scores = matmul(q * (1 / sqrt(width // num_heads)), transpose(k, -2, -1))
        scores = dropout(softmax(scores if mask is None else scores + mask, -1), p)
        out = matmul(scores, v)
    else:
        out = scaled_dot_product_attention(q, k, v, mask, p)
    out = reshape(out.permute(2, 0, 1, 3), (length, batch, width))
    out = linear(out, out_proj_weight, out_proj_bias)
    if scores is not None and average_attn_weights:
        scores = mean(scores, 1)
    if not batched:
        out, scores = squeeze(out, 1), None if scores is None else squeeze(scores, 0)
    return out, scores


def check_operands(
    query: Tensor, key: Tensor, embed_dim: int, num_heads: int, attn_mask: Tensor | None, is_causal: bool
) -> bool:
    """Whether the operands have a batch axis; the errors of wrong ones."""
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    if key.ndim != query.ndim:
        kind = "batched (3-D)" if query.ndim == 3 else "unbatched (2-D)"
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {query.ndim}-D but found {key.ndim}-D tensor"
        )
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if query.shape[-1] != embed_dim:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim}, but got {int(query.shape[-1])}"
        )
    if embed_dim % num_heads:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    return query.ndim == 3


def heads(x: Tensor, num_heads: int) -> Tensor:
    """(L, N, E) to (N, num_heads, L, E / num_heads)."""
    length, batch, width = x.shape
    return reshape(x, (length, batch, num_heads, width // num_heads)).permute(1, 2, 0, 3)


def merged_mask(
    attn_mask: Tensor | None, key_padding_mask: Tensor | None, q: Tensor, extra: int
) -> Tensor | None:
    """Both masks as what to add to the scores (N, num_heads, L, S); `extra` keys at the end stay visible."""
    total = None
    if attn_mask is not None:
        total = pad(numbers(attn_mask, q), (0, extra)) if extra else numbers(attn_mask, q)
        if total.ndim == 3:
            total = reshape(total, (q.shape[0], -1, *total.shape[1:]))
    if key_padding_mask is not None:
        padding = numbers(key_padding_mask, q)
        padding = unsqueeze(unsqueeze(pad(padding, (0, extra)) if extra else padding, 1), 1)
        total = padding if total is None else total + padding
    return total


def numbers(mask: Tensor, like: Tensor) -> Tensor:
    """A boolean mask as -inf where True, so that softmax gives 0 there; numbers in the dtype of `like`."""
    if mask.array.dtype.kind != "b":
        return cast_to(mask, like.array.dtype)
    return masked_fill(zeros(mask.shape, dtype=like.dtype, device=like.device), mask, float("-inf"))
