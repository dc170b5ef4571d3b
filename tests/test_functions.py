"""Public functions against the oracle: values, and gradients where there are any."""

from __future__ import annotations

import numpy as np
import pytest

from tapecast.eager import functional as F
from tapecast.eager.tensor import Tensor

torch = pytest.importorskip("torch")


class Mine:
    """Our functions under torch's two roofs."""

    nn = type("nn", (), {"functional": F})

    def __getattr__(self, name: str):
        return getattr(F, name)


def a(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def p(*shape: int) -> np.ndarray:
    return np.abs(a(*shape)) + 0.3


def unit(*shape: int) -> np.ndarray:
    return 1 / (1 + np.exp(-a(*shape)))


def k(*shape: int, high: int = 3) -> np.ndarray:
    return np.random.default_rng(shape[0]).integers(0, high, shape)


def signs(*shape: int) -> np.ndarray:
    return np.where(a(*shape) > 0, 1.0, -1.0)


def shuffled_and_back(nn, x):
    wide = nn.pixel_shuffle(x, 2)
    return nn.pixel_unshuffle(wide, 2) * wide.sum()


FUNCTIONS = {
    # pointwise
    "add alpha": (lambda t, x, y: t.add(x, y, alpha=2), a(2, 3), a(3)),
    "sub alpha": (lambda t, x, y: t.sub(x, y, alpha=2), a(2, 3), a(3)),
    "rsub": (lambda t, x: 2 - x, a(3)),
    "rdiv": (lambda t, x: 2 / x, p(3)),
    "div trunc": (lambda t, x, y: t.div(x, y, rounding_mode="trunc"), a(9) * 5, p(9)),
    "fmod": (lambda t, x, y: t.fmod(x, y), a(9) * 5, p(9)),
    **{f"power {n}": (lambda t, x, n=n: x**n, p(4)) for n in (0, 1, 2, 3, 0.5, -1, 2.5, -2)},
    "rpow": (lambda t, x: 2**x, a(3)),
    "pow of zero": (lambda t, x, y: x**y, np.array([0.0, 0.0, 2.0]), np.array([2.0, 1.0, 0.0])),
    "fmax": (lambda t, x, y: t.fmax(x, y), np.array([1.0, np.nan, 2.0]), np.array([np.nan, 3.0, 1.0])),
    "fmin": (lambda t, x, y: t.fmin(x, y), np.array([1.0, np.nan, 2.0]), np.array([np.nan, 3.0, 1.0])),
    "hypot": (lambda t, x, y: t.hypot(x, y), a(4), a(4, seed=1)),
    "lerp": (lambda t, x, y, w: t.lerp(x, y, w), a(4), a(4, seed=1), a(4, seed=2)),
    "addcmul": (lambda t, x, y, z: t.addcmul(x, y, z, value=0.5), a(4), a(4, seed=1), a(4, seed=2)),
    "addcdiv": (lambda t, x, y, z: t.addcdiv(x, y, z, value=0.5), a(4), a(4, seed=1), p(4)),
    "round decimals": (lambda t, x: t.round(x, decimals=2), a(5)),
    **{
        name: (lambda t, x, f=name: getattr(t, f)(x), a(5))
        for name in """
            frac square exp2 tan sinh cosh atan asinh erfc sinc deg2rad rad2deg isfinite signbit positive
        """.split()
    },
    **{name: (lambda t, x, f=name: getattr(t, f)(x), p(5)) for name in ("log2", "log10")},
    **{name: (lambda t, x, f=name: getattr(t, f)(x), unit(5)) for name in ("asin", "acos", "atanh", "logit")},
    "acosh": (lambda t, x: t.acosh(x), p(5) + 1),
    "logit eps": (lambda t, x: t.logit(x, 0.2), unit(7)),
    "logaddexp": (lambda t, x, y: t.logaddexp(x, y), a(4), a(4, seed=1) * 100),
    "logaddexp of infinities": (
        lambda t, x: t.logaddexp(x.detach(), x.detach()),
        np.array([np.inf, -np.inf]),
    ),
    "xlogy": (lambda t, x, y: t.xlogy(x, y), np.array([0.0, 1.0, 2.0]), np.array([4.0, 2.0, 3.0])),
    "clamp": (lambda t, x: t.clamp(x, -0.5, 0.5), a(9)),
    "clamp with tensors": (lambda t, x, y: t.clamp(x, min=y), a(2, 4), a(4)),
    "nan_to_num": (lambda t, x: t.nan_to_num(x, 1.0), np.array([np.nan, np.inf, -np.inf, 2.0])),
    "isclose": (lambda t, x: t.isclose(x, x + 1e-9), a(3)),
    "where with a number": (lambda t, x: t.where(x > 0, x, 0.5), a(5)),
    "masked_fill": (lambda t, x: x.masked_fill(x > 0, 2.0), a(5)),
    # shape
    "flatten": (lambda t, x: x.flatten(1, 2), a(2, 3, 2)),
    "unflatten": (lambda t, x: x.unflatten(1, (2, -1)), a(2, 6)),
    "movedim": (lambda t, x: x.movedim((0, 1), (2, 0)), a(2, 3, 4)),
    "narrow": (lambda t, x: x.narrow(1, -2, 2), a(2, 4)),
    "split": (lambda t, x: x.split(2, 1)[1] * x.split([1, 4], 1)[1][:, :2], a(2, 5)),
    "chunk": (lambda t, x: x.chunk(3, 1)[1], a(2, 7)),
    "tensor_split": (lambda t, x: x.tensor_split(3)[0] + x.tensor_split((1, 4))[1], a(7)),
    "unbind": (lambda t, x: x.unbind(1)[1], a(2, 3)),
    "diag": (lambda t, x: t.diag(x, 1) @ t.diag(t.diag(x, 1)), a(3)),
    "diag_embed": (lambda t, x: t.diag_embed(x, 1, 0, 2), a(2, 3)),
    "stack": (lambda t, x, y: t.stack([x, y], -1), a(2, 3), a(2, 3, seed=1)),
    "hstack and vstack": (lambda t, x: t.vstack([t.hstack([x, x]), t.hstack([x, x * 2])]), a(3)),
    "repeat": (lambda t, x: x.repeat(2, 1, 3), a(2, 2)),
    "tile": (lambda t, x: t.tile(x, (2,)), a(2, 2)),
    "repeat_interleave": (lambda t, x: x.repeat_interleave(2, 1), a(2, 3)),
    "repeat_interleave by counts": (lambda t, x, n: x.repeat_interleave(n, 0), a(3, 2), k(3)),
    "rot90": (lambda t, x: t.rot90(x, 1) @ t.rot90(x, -1) + t.rot90(x, 2), a(3, 3)),
    "roll flat": (lambda t, x: x.roll(2), a(2, 3)),
    "meshgrid": (lambda t, x, y: t.meshgrid(x, y, indexing="xy")[0], a(2), a(3)),
    "sum_to_size": (lambda t, x: x.sum_to_size(2, 1), a(2, 3)),
    "squeeze dims": (lambda t, x: x.squeeze((0, 2)), a(1, 2, 1)),
    # reductions
    "sum keepdim": (lambda t, x: x.sum((0, 2), keepdim=True), a(2, 3, 2)),
    "std": (lambda t, x: x.std(1) + x.std() + t.std(x, dim=0, correction=0).sum(), a(3, 4)),
    "var_mean": (lambda t, x: t.var_mean(x, 1)[0] + t.var_mean(x, 1)[1], a(3, 4)),
    "prod with zeros": (
        lambda t, x: x.prod(1),
        np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 2.0], [1.0, 2.0, 3.0]]),
    ),
    "norms": (lambda t, x: x.norm() + x.norm(1) + x.norm(3, dim=0).sum() + x.norm(float("inf")), a(3, 4)),
    "max dim": (lambda t, x: x.max(1).values + x.min(1, keepdim=True)[0], a(3, 4)),
    "max of two": (lambda t, x, y: t.max(x, y) + t.min(x, y), a(4), a(4, seed=1)),
    "argmax flat": (lambda t, x: x.argmax() + x.argmin(1, keepdim=True), a(3, 4)),
    "nansum": (lambda t, x: t.nansum(x), np.array([1.0, np.nan])),
    "nanmean": (lambda t, x: t.nanmean(x), np.array([1.0, np.nan, 3.0])),
    "count_nonzero": (lambda t, x: t.count_nonzero(x > 0, 1), a(3, 4)),
    "sort": (lambda t, x: x.sort(0, descending=True).values, a(4, 3)),
    "sort indices": (lambda t, x: x.sort(1).indices, a(4, 3)),
    "topk": (lambda t, x: x.topk(2).values, a(3, 5)),
    "topk smallest": (lambda t, x: x.topk(2, 0, largest=False).indices, a(3, 5)),
    "kthvalue": (lambda t, x: x.kthvalue(2).values, a(3, 5)),
    "median": (lambda t, x: x.median() + x.median(1).values, a(3, 4)),
    "quantile": (lambda t, x: t.quantile(x, 0.3, 1), a(3, 5)),
    "diff": (lambda t, x: t.diff(x, 2), a(3, 5)),
    "logsumexp": (lambda t, x: x.logsumexp((0, 1)), a(3, 4)),
    "trace": (lambda t, x: x.trace(), a(3, 3)),
    "renorm": (lambda t, x: t.renorm(x, 2, 0, 1.0), a(3, 4)),
    "dist": (lambda t, x, y: t.dist(x, y, 3), a(4), a(4, seed=1)),
    # products
    "matmul": (lambda t, x, y: x @ y, a(2, 1, 3, 4), a(5, 4, 2)),
    "matmul of rows": (lambda t, x, y: x @ y, a(2, 3, 4), a(4, 2)),
    "matmul vectors": (lambda t, x, y: (x @ y) * (y[0] @ y) @ (y.t() @ x), a(3), a(3, 3)),
    "dot": (lambda t, x, y: x.dot(y) * x @ y, a(3), a(3, seed=1)),
    "mv": (lambda t, x, y: x.mv(y), a(2, 3), a(3)),
    "bmm": (lambda t, x, y: x.bmm(y), a(2, 3, 4), a(2, 4, 2)),
    "outer": (lambda t, x, y: t.outer(x, y), a(2), a(3)),
    "inner": (lambda t, x, y: t.inner(x, y), a(2, 3), a(4, 3)),
    "addmm": (lambda t, x, y, z: t.addmm(x, y, z, beta=2, alpha=3), a(4), a(2, 3), a(3, 4)),
    "baddbmm": (lambda t, x, y, z: t.baddbmm(x, y, z), a(2, 2, 4), a(2, 2, 3), a(2, 3, 4)),
    "tensordot": (lambda t, x, y: t.tensordot(x, y, ([1, 2], [2, 0])), a(2, 3, 4), a(4, 2, 3)),
    **{
        f"einsum {e}": (lambda t, *xs, e=e: t.einsum(e, *xs), *operands)
        for e, operands in {
            "ij,jk->ik": (a(2, 3), a(3, 4)),
            "bij,bjk": (a(2, 3, 4), a(2, 4, 2)),
            "ii->i": (a(3, 3),),
            "ii": (a(3, 3),),
            "i,j->ij": (a(2), a(3)),
            "ij->": (a(2, 3),),
            "...i,...i->...": (a(2, 3, 4), a(3, 4)),
            "bhqd,bhkd->bhqk": (a(2, 2, 3, 4), a(2, 2, 5, 4)),
            "ij,jk,kl->il": (a(2, 3), a(3, 2), a(2, 4)),
            "ijk,j->ki": (a(2, 3, 4), a(3)),
            "ij,ij->j": (a(2, 3), a(2, 3, seed=1)),
        }.items()
    },
    "kron": (lambda t, x, y: t.kron(x, y), a(2, 3), a(2, 2)),
    "cross": (
        lambda t, x, y: t.linalg.cross(x, y) if t is torch else t.cross(x, y),
        a(2, 3),
        a(2, 3, seed=1),
    ),
    "matrix_power": (lambda t, x: t.matrix_power(x, 5), a(3, 3)),
    "cdist": (lambda t, x, y: t.cdist(x, y), a(2, 3), a(4, 3)),
    # positions
    "gather": (lambda t, x, i: x.gather(1, i), a(3, 4), k(3, 2)),
    "take_along_dim": (lambda t, x, i: t.take_along_dim(x, i, 1), a(3, 4), k(3, 2)),
    "scatter": (lambda t, x, i: x.scatter(1, i, 2.0), a(3, 4), np.array([[0, 1], [2, 3], [1, 0]])),
    "scatter_add": (lambda t, x, i, s: x.scatter_add(1, i, s), a(3, 4), k(3, 2), a(3, 2)),
    "index_select": (lambda t, x, i: x.index_select(1, i), a(3, 4), k(5)),
    "index_add": (lambda t, x, i, s: x.index_add(0, i, s, alpha=2), a(3, 4), k(5), a(5, 4)),
    "index_copy": (lambda t, x, i, s: x.index_copy(0, i, s), a(3, 4), np.array([2, 0]), a(2, 4)),
    "index_fill": (lambda t, x, i: x.index_fill(1, i, 3.0), a(3, 4), np.array([2, 0])),
    "index_put": (lambda t, x, i, s: x.index_put((i, i), s, accumulate=True), a(3, 4), k(5), a(5)),
    "take": (lambda t, x, i: x.take(i), a(3, 4), k(2, 3, high=12)),
    "masked_select": (lambda t, x: x.masked_select(x > 0), a(3, 4)),
    "masked_scatter": (lambda t, x, s: x.masked_scatter(x > 0, s), a(3, 4), a(12)),
    "select_scatter": (lambda t, x, s: t.select_scatter(x, s, 1, -1), a(3, 4), a(3)),
    "slice_scatter": (lambda t, x, s: t.slice_scatter(x, s, 1, 1, 4, 2), a(3, 4), a(3, 2)),
    "nonzero": (lambda t, x: t.nonzero(x > 0), a(3, 4)),
    "one_hot": (lambda t, i: t.nn.functional.one_hot(i, 5), k(4)),
    "cumsum": (lambda t, x: x.cumsum(-1), a(3, 4)),
}

LAYERS = {
    **{
        name: (lambda t, x, f=name: getattr(t.nn.functional, f)(x), a(3, 4))
        for name in """
            relu relu6 hardtanh gelu silu mish leaky_relu elu celu selu softplus logsigmoid softsign tanhshrink
            hardshrink softshrink hardsigmoid hardswish glu
        """.split()
    },
    "gelu tanh": (lambda t, x: t.nn.functional.gelu(x, approximate="tanh"), a(5)),
    "threshold": (lambda t, x: t.nn.functional.threshold(x, 0.1, 20.0), a(5)),
    "prelu": (lambda t, x, w: t.nn.functional.prelu(x, w), a(2, 3, 2), p(3)),
    "softmin": (lambda t, x: t.nn.functional.softmin(x, 1), a(2, 3)),
    "normalize": (lambda t, x: t.nn.functional.normalize(x, dim=0), a(2, 3)),
    "linear": (lambda t, x, w, b: t.nn.functional.linear(x, w, b), a(2, 3, 4), a(5, 4), a(5)),
    "bilinear": (lambda t, x, y, w, b: t.nn.functional.bilinear(x, y, w, b), a(3, 2), a(3, 4), a(5, 2, 4), a(5)),
    "conv2d": (lambda t, x, w, b: t.nn.functional.conv2d(x, w, b, (2, 1), 1, (1, 2)),
        a(2, 3, 5, 6), a(4, 3, 3, 2), a(4)),
    "conv2d same": (lambda t, x, w: t.nn.functional.conv2d(x, w, padding="same", dilation=(1, 2)),
        a(1, 2, 5, 6), a(3, 2, 3, 2)),
    "conv2d unbatched": (lambda t, x, w: t.nn.functional.conv2d(x, w, padding="valid"), a(2, 5, 6), a(3, 2, 3, 2)),
    "depthwise": (lambda t, x, w: t.nn.functional.conv2d(x, w, groups=3, padding=1), a(2, 3, 4, 4), a(6, 1, 3, 3)),
    "conv1d": (lambda t, x, w, b: t.nn.functional.conv1d(x, w, b, 2, 1), a(2, 3, 7), a(4, 3, 3), a(4)),
    "conv_transpose2d": (
        lambda t, x, w, b: t.nn.functional.conv_transpose2d(x, w, b, 2, 1, 1, 2), a(2, 4, 3, 3), a(4, 3, 3, 3), a(6)),
    "conv_transpose1d": (lambda t, x, w: t.nn.functional.conv_transpose1d(x, w, None, 2, 1), a(2, 4, 5), a(4, 3, 3)),
    "max_pool2d": (lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1), a(2, 2, 6, 7)),
    "max_pool2d ceil": (lambda t, x: t.nn.functional.max_pool2d(x, 2, 2, ceil_mode=True), a(2, 2, 5, 7)),
    "max_pool2d indices": (lambda t, x: t.nn.functional.max_pool2d(x, 2, 2, ceil_mode=True, return_indices=True)[1],
        a(1, 2, 5, 7)),
    "max_pool1d": (lambda t, x: t.nn.functional.max_pool1d(x, 3, 2, 1), a(2, 2, 7)),
    "avg_pool2d": (lambda t, x: t.nn.functional.avg_pool2d(x, 3, 2, 1), a(2, 2, 6, 7)),
    "avg_pool2d inner": (lambda t, x: t.nn.functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False), a(2, 2, 6, 7)),
    "avg_pool2d ceil": (lambda t, x: t.nn.functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True), a(2, 2, 6, 8)),
    "avg_pool2d ceil inner": (
        lambda t, x: t.nn.functional.avg_pool2d(x, 3, 2, 1, True, False), a(2, 2, 6, 8)),
    "avg_pool2d divisor": (lambda t, x: t.nn.functional.avg_pool2d(x, 2, divisor_override=3), a(1, 2, 4, 4)),
    "avg_pool1d": (lambda t, x: t.nn.functional.avg_pool1d(x, 2), a(2, 2, 7)),
    "adaptive_avg_pool2d": (lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, (2, 3)), a(2, 2, 5, 7)),
    "adaptive_avg_pool2d one": (lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1), a(2, 2, 5, 7)),
    "adaptive_max_pool2d": (lambda t, x: t.nn.functional.adaptive_max_pool2d(x, (2, None)), a(2, 2, 6, 3)),
    "adaptive_avg_pool1d": (lambda t, x: t.nn.functional.adaptive_avg_pool1d(x, 3), a(2, 2, 7)),
    **{
        f"pad {m}": (lambda t, x, m=m: t.nn.functional.pad(x, (1, 2, 2, 1), m), a(1, 2, 4, 5))
        for m in ("constant", "reflect", "replicate", "circular")
    },
    "pad value": (lambda t, x: t.nn.functional.pad(x, (1, -1, 0, 2), value=3.0), a(2, 3)),
    **{f"interpolate {m}": (lambda t, x, m=m: t.nn.functional.interpolate(x, scale_factor=1.7, mode=m),
        a(1, 2, 4, 5)) for m in ("nearest", "nearest-exact", "bilinear")},
    "interpolate size": (lambda t, x: t.nn.functional.interpolate(x, (3, 7), mode="bilinear", align_corners=True),
        a(1, 2, 4, 5)),
    "interpolate linear": (lambda t, x: t.nn.functional.interpolate(x, 7, mode="linear"), a(1, 2, 4)),
    "interpolate area": (lambda t, x: t.nn.functional.interpolate(x, (2, 3), mode="area"), a(1, 2, 4, 5)),
    "pixel_shuffle": (lambda t, x: shuffled_and_back(t.nn.functional, x),
        a(1, 8, 2, 3)),
    "unfold": (lambda t, x: t.nn.functional.unfold(x, (2, 3), 1, 1, 2), a(2, 2, 4, 5)),
    "embedding": (lambda t, w, i: t.nn.functional.embedding(i, w, padding_idx=1), a(4, 3), k(2, 5)),
    "layer_norm": (lambda t, x, w, b: t.nn.functional.layer_norm(x, (3, 4), w, b),
        a(2, 3, 4), a(3, 4), a(3, 4, seed=1)),
    "rms_norm": (lambda t, x, w: t.nn.functional.rms_norm(x, (4,), w), a(2, 3, 4), a(4)),
    "batch_norm": (lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, training=True),
        a(4, 3, 2), a(3), a(3, seed=1)),
    "group_norm": (lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b), a(2, 4, 3), a(4), a(4, seed=1)),
    "instance_norm": (lambda t, x: t.nn.functional.instance_norm(x), a(2, 3, 5)),
    "local_response_norm": (lambda t, x: t.nn.functional.local_response_norm(x, 3), a(2, 5, 3, 2)),
    "attention": (lambda t, q, k_, v: t.nn.functional.scaled_dot_product_attention(q, k_, v, is_causal=True),
        a(2, 2, 4, 3), a(2, 2, 4, 3, seed=1), a(2, 2, 4, 5)),
    "attention mask": (lambda t, q, m: t.nn.functional.scaled_dot_product_attention(q, q, q, m > -1),
        a(2, 4, 3), a(4, 4)),
    "attention bias": (lambda t, q, m: t.nn.functional.scaled_dot_product_attention(q, q, q, m, scale=0.3),
        a(2, 4, 3), a(4, 4)),
    "attention groups": (lambda t, q, k_: t.nn.functional.scaled_dot_product_attention(q, k_, k_, enable_gqa=True),
        a(1, 4, 3, 2), a(1, 2, 3, 2)),
    "cosine_similarity": (lambda t, x, y: t.nn.functional.cosine_similarity(x, y), a(3, 4), a(3, 4, seed=1)),
    "pairwise_distance": (lambda t, x, y: t.nn.functional.pairwise_distance(x, y), a(3, 4), a(3, 4, seed=1)),
    # losses
    **{
        f"{name} {r}": (lambda t, x, y, f=name, r=r: getattr(t.nn.functional, f)(x, y, reduction=r),
        a(3, 4), a(3, 4, seed=1))
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
        for r in ("mean", "sum", "none")
    },
    "cross_entropy": (lambda t, x, y: t.nn.functional.cross_entropy(x, y), a(4, 3), k(4)),
    "cross_entropy of images": (lambda t, x, y: t.nn.functional.cross_entropy(x, y, reduction="none"),
        a(2, 3, 2, 2), k(2, 2, 2)),
    "cross_entropy weights": (lambda t, x, y, w: t.nn.functional.cross_entropy(x, y, w.detach(), ignore_index=1),
        a(4, 3), k(4), p(3)),
    "cross_entropy smoothed": (
        lambda t, x, y, w: t.nn.functional.cross_entropy(x, y, w.detach(), None, 1, label_smoothing=0.1),
        a(4, 3), k(4), p(3)),
    "cross_entropy soft": (lambda t, x, y: t.nn.functional.cross_entropy(x, y.softmax(1), label_smoothing=0.2),
        a(4, 3), a(4, 3, seed=1)),
    "cross_entropy of one": (lambda t, x, y: t.nn.functional.cross_entropy(x, y[0]), a(3), k(1)),
    "nll_loss": (lambda t, x, y: t.nn.functional.nll_loss(x, y, reduction="sum"), a(4, 3), k(4)),
    "binary_cross_entropy": (lambda t, x, y: t.nn.functional.binary_cross_entropy(x, y), unit(4), unit(4)),
    "bce with logits": (
        lambda t, x, y, w: t.nn.functional.binary_cross_entropy_with_logits(x, y, pos_weight=w.detach()),
        a(2, 3), unit(2, 3), p(3)),
    "kl_div": (lambda t, x, y: t.nn.functional.kl_div(x, y, reduction="batchmean"), a(2, 3), unit(2, 3)),
    "kl_div log": (lambda t, x, y: t.nn.functional.kl_div(x, y, log_target=True, reduction="sum"),
        a(2, 3), a(2, 3, seed=1)),
    "poisson_nll_loss": (lambda t, x, y: t.nn.functional.poisson_nll_loss(x, y, full=True), a(5), p(5) * 2),
    "gaussian_nll_loss": (lambda t, x, y, v: t.nn.functional.gaussian_nll_loss(x, y, v, full=True),
        a(5), a(5, seed=1), p(5)),
    "margin_ranking_loss": (lambda t, x, y, s: t.nn.functional.margin_ranking_loss(x, y, s, 0.1),
        a(5), a(5, seed=1), signs(5)),
    "hinge_embedding_loss": (lambda t, x, s: t.nn.functional.hinge_embedding_loss(x, s), a(5), signs(5)),
    "soft_margin_loss": (lambda t, x, s: t.nn.functional.soft_margin_loss(x, s.detach()), a(5), signs(5)),
    "cosine_embedding_loss": (lambda t, x, y, s: t.nn.functional.cosine_embedding_loss(x, y, s, 0.1),
        a(5, 3), a(5, 3, seed=1), signs(5)),
    "triplet_margin_loss": (lambda t, x, y, z: t.nn.functional.triplet_margin_loss(x, y, z, swap=True),
        a(5, 3), a(5, 3, seed=1), a(5, 3, seed=2)),
}  # fmt: skip
ALL = FUNCTIONS | LAYERS


@pytest.mark.parametrize("name", ALL)
def test_function(name: str) -> None:
    call, *arrays = ALL[name]
    floats = [x.dtype == "float64" for x in arrays]
    mine = [Tensor(x.copy(), requires_grad=f) for x, f in zip(arrays, floats, strict=True)]
    theirs = [torch.tensor(x, requires_grad=f) for x, f in zip(arrays, floats, strict=True)]
    out, wanted = call(Mine(), *mine), call(torch, *theirs)
    assert out.dtype.name == str(wanted.dtype).removeprefix("torch.")
    np.testing.assert_allclose(out.detach().numpy(), wanted.detach().numpy(), 1e-7, 1e-10)
    assert out.requires_grad == wanted.requires_grad or not wanted.dtype.is_floating_point
    if not wanted.requires_grad:
        return
    weights = np.random.default_rng(5).normal(size=tuple(wanted.shape))
    out.backward(Tensor(weights))
    wanted.backward(torch.tensor(weights))
    for x, y in zip(mine, theirs, strict=True):
        found = np.zeros(y.shape) if x.grad is None else x.grad.numpy()
        want = np.zeros(y.shape) if y.grad is None else y.grad.numpy()
        np.testing.assert_allclose(found, want, 1e-6, 1e-9)


def whole(*values: int) -> Tensor:
    return Tensor(np.array(values, np.int64))


LOGITS = Tensor(np.zeros((2, 3), np.float32))
WIDE, NARROW = Tensor(np.ones((1, 2))), Tensor(np.ones((2, 2), np.float32))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: F.one_hot(whole(5), 3), RuntimeError, "Class values must be smaller than num_classes."),
        (lambda: F.one_hot(whole(-1), 3), RuntimeError, "Class values must be non-negative."),
        (
            lambda: F.one_hot(whole()),
            RuntimeError,
            "Can not infer total number of classes from empty tensor.",
        ),
        (lambda: whole(1, 2) // whole(1, 0), RuntimeError, "ZeroDivisionError"),
        (lambda: whole(1, 2) % whole(1, 0), RuntimeError, "ZeroDivisionError"),
        (lambda: whole(1).floor_divide_(whole(0)), RuntimeError, "ZeroDivisionError"),
        (lambda: F.div(whole(1), whole(0), rounding_mode="trunc"), RuntimeError, "ZeroDivisionError"),
        (lambda: F.fmod(whole(1), whole(0)), RuntimeError, "ZeroDivisionError"),
        (lambda: F.cross_entropy(LOGITS, whole(0, 9)), IndexError, "Target 9 is out of bounds."),
        (lambda: F.cross_entropy(LOGITS, whole(0, -1)), IndexError, "Target -1 is out of bounds."),
        (
            lambda: F.cross_entropy(LOGITS, whole(0, 9), label_smoothing=0.1),
            IndexError,
            "Target 9 is out of bounds.",
        ),
        (lambda: F.nll_loss(LOGITS, whole(3, 0)), IndexError, "Target 3 is out of bounds."),
        (
            lambda: F.linear(WIDE, NARROW),
            RuntimeError,
            "mat1 and mat2 must have the same dtype, but got Double and Float",
        ),
    ],
)
def test_values_that_make_no_sense_are_errors(call, kind, message):
    with pytest.raises(kind) as error:
        call()
    assert str(error.value).startswith(message)


def test_targets_that_are_ignored_may_be_anything():
    assert F.cross_entropy(LOGITS, whole(0, -100)).item() == pytest.approx(np.log(3))
    assert F.cross_entropy(LOGITS, whole(0, 77), ignore_index=77).item() == pytest.approx(np.log(3))
