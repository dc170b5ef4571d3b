"""Attention, and distances between vectors."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ..ops.table import TABLE
from ..tape import apply, labelled
from ..tensor import Tensor
from .base import cast_to
from .dropouts import dropout
from .pointwise import masked_fill

ATTENTION = TABLE["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value; query [*, L, E], key [*, S, E], value [*, S, V].

    attn_mask: bool (True takes part) or a float added to the scores. is_causal: no row sees later columns.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    if enable_gqa and query.ndim > 2:
        from .arranging import repeat_interleave

        times = query.array.shape[-3] // key.array.shape[-3]
        key, value = repeat_interleave(key, times, -3), repeat_interleave(value, times, -3)
    factor = 1 / sqrt(query.array.shape[-1]) if scale is None else float(scale)
    mask = [] if attn_mask is None else [additive(attn_mask, query)]
    if dropout_p > 0.0:
        return attention_with_dropout(query, key, value, mask, dropout_p, is_causal, factor)
    out = apply(ATTENTION, query, key, value, *mask, scale=factor, causal=bool(is_causal))
    return labelled(out, "ScaledDotProductAttention")


def additive(mask: Tensor, like: Tensor) -> Tensor:
    """A bool mask as 0 and -inf; a float one in the operands' dtype."""
    if mask.array.dtype.kind == "b":
        return masked_fill(like.new_zeros(mask.array.shape), mask.logical_not(), float("-inf"))
    return cast_to(mask, like.array.dtype)


def attention_with_dropout(
    query: Tensor, key: Tensor, value: Tensor, mask: list[Tensor], p: float, causal: bool, scale: float
) -> Tensor:
    from ..ops.statistics import attention_weights
    from . import product

    weights = attention_weights(functions(), query, key, *mask, scale=scale, causal=causal)
    return product.matmul(dropout(weights, p), value)


def functions() -> Any:
    from .. import functional

    return functional
