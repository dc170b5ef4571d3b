"""Composites over axes: mean, variance, log-sum-exp, the softmax family and the normalisations.

Each has its meaning in `decompose`, a faster `run` on arrays, and a gradient in closed form.
"""

from __future__ import annotations

from math import prod
from typing import Any

from .arrays import sum_over, wide
from .random import uniform_run
from .reduce import keep, without
from .table import composite
from .types import Aval, Shape, broadcast_shapes, same_dtype, size_max

Axes = tuple[int, ...]


def _reduced(x: Aval, *, axes: Axes, **attrs: Any) -> Aval:
    return Aval(without(x.shape, axes), x.dtype)


def _count(shape: Shape, axes: Axes) -> int:
    return prod(shape[a] for a in axes)


# ---- mean and variance -------------------------------------------------------------------------------------


def _mean_run(xp: Any, x: Any, *, axes: Axes) -> Any:
    total = sum_over(xp, wide(x), axes)
    return (total / total.dtype.type(_count(x.shape, axes))).astype(x.dtype, copy=False)


composite(
    "mean",
    _reduced,
    _mean_run,
    lambda F, x, *, axes: F.sum(x, axes) / _count(x.shape, axes),
    vjp=(lambda F, g, out, x, *, axes: F.expand(keep(F, g / _count(x.shape, axes), x.shape, axes), x.shape),),
)


def _var_run(xp: Any, x: Any, *, axes: Axes, correction: float) -> Any:
    w = wide(x)
    kept = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    centred = w - _mean_run(xp, w, axes=axes).reshape(kept)
    divisor = centred.dtype.type(max(0, _count(x.shape, axes) - correction))
    return (sum_over(xp, centred * centred, axes) / divisor).astype(x.dtype, copy=False)


def _var(F: Any, x: Any, *, axes: Axes, correction: float) -> Any:
    centred = x - F.mean(x, axes, keepdim=True)
    return F.sum(centred * centred, axes) / _divisor(x.shape, axes, correction)


def _divisor(shape: Shape, axes: Axes, correction: float) -> float:
    """n - correction, never below zero: a variance of too few elements is nan or inf, not negative."""
    count = _count(shape, axes) - correction
    return size_max(count, 0) if isinstance(count, int) else max(count, 0.0)


def _var_vjp(F: Any, g: Any, out: Any, x: Any, *, axes: Axes, correction: float) -> Any:
    centred = x - F.mean(x, axes, keepdim=True)
    return centred * keep(F, g * 2 / _divisor(x.shape, axes, correction), x.shape, axes)


composite("var", _reduced, _var_run, _var, vjp=(_var_vjp,))

# ---- softmax -----------------------------------------------------------------------------------------------


def _same(x: Aval, **attrs: Any) -> Aval:
    return x


def _logsumexp_run(xp: Any, x: Any, *, axes: Axes) -> Any:
    w = wide(x)
    top = w.max(axis=axes, keepdims=True, initial=-xp.inf)
    top = xp.where(xp.isinf(top), w.dtype.type(0), top)
    total = xp.log(xp.exp(w - top).sum(axis=axes, keepdims=True)) + top
    return total.reshape(without(x.shape, axes)).astype(x.dtype, copy=False)


def _logsumexp(F: Any, x: Any, *, axes: Axes) -> Any:
    """Shifted by the maximum, so that nothing overflows; an infinite maximum is not shifted by."""
    top = F.amax(x, axes, keepdim=True)
    top = F.where(F.isinf(top), 0.0, top)
    return F.log(F.sum(F.exp(x - top), axes)) + F.reshape(top, without(x.shape, axes))


composite(
    "logsumexp",
    _reduced,
    _logsumexp_run,
    _logsumexp,
    vjp=(lambda F, g, out, x, *, axes: keep(F, g, x.shape, axes) * F.exp(x - keep(F, out, x.shape, axes)),),
)


def _softmax_run(xp: Any, x: Any, *, dim: int) -> Any:
    w = wide(x)
    if not w.shape[dim]:
        return x
    e = xp.exp(w - w.max(axis=dim, keepdims=True))
    e /= e.sum(axis=dim, keepdims=True)
    return e.astype(x.dtype, copy=False)


def _softmax(F: Any, x: Any, *, dim: int) -> Any:
    e = F.exp(x - F.amax(x, (dim,), keepdim=True))
    return e / F.sum(e, (dim,), keepdim=True)


composite(
    "softmax",
    _same,
    _softmax_run,
    _softmax,
    vjp=(lambda F, g, out, x, *, dim: out * (g - F.sum(g * out, (dim,), keepdim=True)),),
)


def _log_softmax_run(xp: Any, x: Any, *, dim: int) -> Any:
    w = wide(x)
    if not w.shape[dim]:
        return x
    shifted = w - w.max(axis=dim, keepdims=True)
    shifted -= xp.log(xp.exp(shifted).sum(axis=dim, keepdims=True))
    return shifted.astype(x.dtype, copy=False)


def _log_softmax(F: Any, x: Any, *, dim: int) -> Any:
    shifted = x - F.amax(x, (dim,), keepdim=True)
    return shifted - F.log(F.sum(F.exp(shifted), (dim,), keepdim=True))


composite(
    "log_softmax",
    _same,
    _log_softmax_run,
    _log_softmax,
    vjp=(lambda F, g, out, x, *, dim: g - F.exp(out) * F.sum(g, (dim,), keepdim=True),),
)

# ---- normalisation -----------------------------------------------------------------------------------------


def _layer_norm_infer(x: Aval, *affine: Aval, ndim: int, eps: float) -> Aval:
    """x normalised over its last `ndim` axes; weight and bias, if given, have those axes' shape."""
    shape = x.shape[x.ndim - ndim :]
    same_dtype("layer_norm", x, *affine)
    if ndim > x.ndim or any(a.shape != shape for a in affine):
        given = " and ".join(map(str, affine))
        raise RuntimeError(
            f"layer_norm: expected weight and bias of shape {list(map(int, shape))} for {x}, got {given}"
        )
    return x


def _last(x: Any, ndim: int) -> Axes:
    return tuple(range(len(x.shape) - ndim, len(x.shape)))


def _layer_norm_run(xp: Any, x: Any, *affine: Any, ndim: int, eps: float) -> Any:
    w, axes = wide(x), _last(x, ndim)
    centred = w - w.mean(axis=axes, keepdims=True)
    scale = xp.sqrt((centred * centred).mean(axis=axes, keepdims=True) + w.dtype.type(eps))
    centred /= scale
    if affine:
        centred *= affine[0]
    if len(affine) == 2:
        centred += affine[1]
    return centred.astype(x.dtype, copy=False)


def _normalized(F: Any, x: Any, ndim: int, eps: float) -> tuple[Any, Any]:
    """(x - mean) / √(var + eps) and 1 / √(var + eps)."""
    axes = _last(x, ndim)
    centred = x - F.mean(x, axes, keepdim=True)
    scale = F.rsqrt(F.mean(centred * centred, axes, keepdim=True) + eps)
    return centred * scale, scale


def _layer_norm(F: Any, x: Any, *affine: Any, ndim: int, eps: float) -> Any:
    out, _ = _normalized(F, x, ndim, eps)
    if affine:
        out = out * affine[0]
    return out + affine[1] if len(affine) == 2 else out


def _layer_norm_vjp(F: Any, g: Any, out: Any, x: Any, *affine: Any, ndim: int, eps: float) -> tuple[Any, ...]:
    axes = _last(x, ndim)
    hat, scale = _normalized(F, x, ndim, eps)
    gh = g * affine[0] if affine else g
    gx = scale * (gh - F.mean(gh, axes, keepdim=True) - hat * F.mean(gh * hat, axes, keepdim=True))
    return (gx, g * hat, g)[: 1 + len(affine)]


composite("layer_norm", _layer_norm_infer, _layer_norm_run, _layer_norm, vjp=_layer_norm_vjp, arity=(1, 3))


def _batch_norm_infer(x: Aval, mean: Aval, var: Aval, *affine: Aval, eps: float) -> Aval:
    """x [N, C, …] normalised with the given mean and variance [C], then scaled and shifted."""
    same_dtype("batch_norm", x, mean, var, *affine)
    if x.ndim < 2 or any(a.shape != (x.shape[1],) for a in (mean, var, *affine)):
        given = " and ".join(map(str, (mean, var, *affine)))
        raise RuntimeError(
            f"batch_norm: running statistics, weight and bias have one element per channel of {x}, got {given}"
        )
    return x


def _channels(x: Any) -> Shape:
    return (x.shape[1], *(1,) * (len(x.shape) - 2))


def _batch_norm_run(xp: Any, x: Any, mean: Any, var: Any, *affine: Any, eps: float) -> Any:
    shape = _channels(x)
    scale = 1 / xp.sqrt(wide(var) + wide(var).dtype.type(eps))
    if affine:
        scale = scale * affine[0]
    shift = -wide(mean) * scale
    if len(affine) == 2:
        shift = shift + affine[1]
    return (wide(x) * scale.reshape(shape) + shift.reshape(shape)).astype(x.dtype, copy=False)


def _batch_norm(F: Any, x: Any, mean: Any, var: Any, *affine: Any, eps: float) -> Any:
    shape = _channels(x)
    scale = F.rsqrt(var + eps)
    if affine:
        scale = scale * affine[0]
    out = (x - F.reshape(mean, shape)) * F.reshape(scale, shape)
    return out + F.reshape(affine[1], shape) if len(affine) == 2 else out


def _batch_norm_vjp(
    F: Any, g: Any, out: Any, x: Any, mean: Any, var: Any, *affine: Any, eps: float
) -> tuple[Any, ...]:
    shape, axes = _channels(x), (0, *range(2, len(x.shape)))
    inverse = F.rsqrt(var + eps)
    hat = (x - F.reshape(mean, shape)) * F.reshape(inverse, shape)
    gamma = affine[0] if affine else 1.0
    sum_g, sum_gh = F.sum(g, axes), F.sum(g * hat, axes)
    gx = g * F.reshape(inverse * gamma, shape)
    gmean, gvar = -sum_g * (inverse * gamma), sum_gh * (inverse * inverse * gamma) * -0.5
    return (gx, gmean, gvar, sum_gh, sum_g)[: 3 + len(affine)]


composite("batch_norm", _batch_norm_infer, _batch_norm_run, _batch_norm, vjp=_batch_norm_vjp, arity=(3, 5))

# ---- attention ---------------------------------------------------------------------------------------------


def _attention_infer(q: Aval, k: Aval, v: Aval, *mask: Aval, scale: float, causal: bool) -> Aval:
    """q [*, L, E], k [*, S, E], v [*, S, V], mask [*, L, S] added to the scores -> [*, L, V]."""
    name = "scaled_dot_product_attention"
    dtype = same_dtype(name, q, k, v, *mask)
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise RuntimeError(f"{name}: wants q [*, L, E], k [*, S, E] and v [*, S, V], got {q}, {k} and {v}")
    batch = broadcast_shapes(name, *(Aval(a.shape[:-2], dtype) for a in (q, k, v)))
    scores = Aval((*batch, q.shape[-2], k.shape[-2]), dtype)
    if mask and broadcast_shapes(name, scores, mask[0]) != scores.shape:
        raise RuntimeError(f"{name}: the mask {mask[0]} does not broadcast to the scores {scores}")
    return Aval((*batch, q.shape[-2], v.shape[-1]), dtype)


def _attention_run(xp: Any, q: Any, k: Any, v: Any, *mask: Any, scale: float, causal: bool) -> Any:
    scores = (wide(q) * wide(q).dtype.type(scale)) @ wide(k).swapaxes(-1, -2)
    if causal:
        scores = xp.where(xp.tri(*scores.shape[-2:], dtype=bool), scores, scores.dtype.type(-xp.inf))
    if mask:
        scores = scores + wide(mask[0])
    return (_softmax_run(xp, scores, dim=scores.ndim - 1) @ wide(v)).astype(q.dtype, copy=False)


def attention_weights(F: Any, q: Any, k: Any, *mask: Any, scale: float, causal: bool) -> Any:
    scores = F.matmul(q * scale, F.transpose(k, -1, -2))
    if causal:
        rows, cols = scores.shape[-2:]
        seen = F.unsqueeze(F.arange(rows), 1) >= F.arange(cols)
        scores = F.where(seen, scores, float("-inf"))
    return F.softmax(scores + mask[0] if mask else scores, -1)


def _attention(F: Any, q: Any, k: Any, v: Any, *mask: Any, scale: float, causal: bool) -> Any:
    return F.matmul(attention_weights(F, q, k, *mask, scale=scale, causal=causal), v)


def _attention_vjp(
    F: Any, g: Any, out: Any, q: Any, k: Any, v: Any, *mask: Any, scale: float, causal: bool
) -> tuple[Any, ...]:
    """The weights are computed again rather than kept: they are the largest value of the operation."""
    p = attention_weights(F, q, k, *mask, scale=scale, causal=causal)
    gp = F.matmul(g, F.transpose(v, -1, -2))
    gs = p * (gp - F.sum(gp * p, (-1,), keepdim=True))
    gq, gk = F.matmul(gs, k) * scale, F.matmul(F.transpose(gs, -1, -2), q) * scale
    return (gq, gk, F.matmul(F.transpose(p, -1, -2), g), gs)[: 3 + len(mask)]


composite(
    "scaled_dot_product_attention",
    _attention_infer,
    _attention_run,
    _attention,
    vjp=_attention_vjp,
    arity=(3, 4),
)

# ---- dropout -----------------------------------------------------------------------------------------------


def _dropout_infer(x: Aval, key: Aval, *, p: float) -> Aval:
    return x


def _dropout_mask(F: Any, x: Any, key: Any, p: float) -> Any:
    return F.uniform_from(key, x.shape, "float32") >= p


def _dropout(F: Any, x: Any, key: Any, *, p: float) -> Any:
    """Each element survives with probability 1 - p and is scaled by 1 / (1 - p)."""
    return F.where(_dropout_mask(F, x, key, p), x * (1 / (1 - p)), 0.0)


def _dropout_run(xp: Any, x: Any, key: Any, *, p: float) -> Any:
    kept = uniform_run(xp, key, shape=x.shape, dtype="float32") >= xp.float32(p)
    return xp.where(kept, x * x.dtype.type(1 / (1 - p)), x.dtype.type(0))


composite(
    "dropout",
    _dropout_infer,
    _dropout_run,
    _dropout,
    vjp=(
        lambda F, g, out, x, key, *, p: F.where(_dropout_mask(F, x, key, p), g * (1 / (1 - p)), 0.0),
        None,
    ),
    random=True,
    arity=(2, 2),
)
