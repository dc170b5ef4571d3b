"""Linear layers and embeddings as functions."""

from __future__ import annotations

from ..hooks import register_hook
from ..modes import is_grad_enabled, no_grad
from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor
from ..writes import write
from .base import cpp_name
from .histograms import bincount
from .norms import norm
from .pointwise import where
from .reduction import sum
from .scattering import index_select, int64_index
from .shaping import reshape, unsqueeze

LINEAR, EMBEDDING = TABLE["linear"], TABLE["embedding"]


# ---- linear -----


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias; x [*, in], weight [out, in], bias [out]."""
    if not isinstance(input, Tensor):
        raise TypeError(f"linear(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if weight.ndim == 1:
        out = sum(input * weight, -1)
        return out if bias is None else out + bias
    for other in (weight, bias):
        if other is not None and other.array.dtype != input.array.dtype:
            raise RuntimeError(
                f"mat1 and mat2 must have the same dtype, but got {cpp_name(input.array.dtype)} and "
                f"{cpp_name(other.array.dtype)}; convert the input with .to(), or the module"
            )
    if bias is None:
        return apply(LINEAR, input, weight)
    return apply(LINEAR, input, weight, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """out[k] = x1 @ weight[k] @ x2 + bias[k]; weight [out, in1, in2]."""
    from .product import einsum

    out = einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias


# ---- embedding -----


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight [rows, width] at the positions in input. The row padding_idx gets no gradient.

    scale_grad_by_freq: a row's gradient is divided by the number of its positions. sparse: accepted; the gradient is
    dense.
    """
    if weight.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D, got {weight.ndim}-D; rows are vectors, [rows, width]")
    at = int64_index("embedding", input)
    if max_norm is not None:
        with no_grad():
            used = index_select(weight, 0, reshape(at, (-1,)))
            scale = (max_norm / (norm(used, norm_type, -1, keepdim=True) + 1e-7)).clamp(max=1.0)
            from .scattering import index_copy

            write(weight, index_copy(weight._alias(), 0, reshape(at, (-1,)), used * scale))
    out = apply(EMBEDDING, weight, at)
    if scale_grad_by_freq and out.node is not None:
        flat = reshape(at, (-1,))
        counts = index_select(bincount(flat, minlength=weight.array.shape[0]), 0, flat)
        counts = unsqueeze(reshape(counts, at.array.shape), -1)
        register_hook(out, lambda g: g / counts)
    if padding_idx is None:
        return out
    row = padding_idx if padding_idx >= 0 else padding_idx + weight.array.shape[0]
    return (
        where(unsqueeze(at == row, -1), out.detach(), out)
        if is_grad_enabled() and out.node is not None
        else out
    )
