"""What each op should give: numpy's or torch's function of the same meaning, in float64.

Torch stands in for most; the tests that use this skip without it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn.functional


def of(f: Any) -> Any:
    """A function of torch tensors as one of arrays."""

    def oracle(*arrays: np.ndarray, **attrs: Any) -> np.ndarray:
        out = f(*(torch.from_numpy(np.ascontiguousarray(a).reshape(a.shape)) for a in arrays), **attrs)
        return out.double().numpy() if out.dtype in (torch.bfloat16, torch.float16) else out.numpy()

    return oracle


def dtype(name: str) -> Any:
    return getattr(torch, name)


def axes_all(name: str) -> Any:
    """torch's prod, any and all over several axes, one at a time; over none, x itself."""

    def reduce(x: Any, *, axes: tuple[int, ...]) -> Any:
        for a in reversed(axes):
            x = getattr(torch, name)(x, a)
        return x

    return reduce


def recurrence(a: np.ndarray, b: np.ndarray, *, dim: int) -> np.ndarray:
    """Step by step."""
    a, out = np.moveaxis(a, dim, 0), np.moveaxis(b.copy(), dim, 0)
    for k in range(1, len(out)):
        out[k] = a[k] * out[k - 1] + out[k]
    return np.moveaxis(out, 0, dim)


def put(x: Any, value: Any, index: Any) -> Any:
    out = x.clone()
    out[index] = value
    return out


def slices(starts: Any, stops: Any, steps: Any) -> Any:
    return tuple(slice(a, b, k) for a, b, k in zip(starts, stops, steps, strict=True))


def diagonal_put(x: Any, value: Any, *, offset: int, dim1: int, dim2: int) -> Any:
    return torch.diagonal_scatter(x, value, offset, dim1, dim2)


def index_put(x: Any, value: Any, *indices: Any, dim: int, accumulate: bool) -> Any:
    where = (torch.arange(x.shape[0])[(..., *(None,) * max(i.ndim for i in indices))],) if dim == 1 else ()
    return x.index_put((*where, *indices), value, accumulate)


def pad(x: Any, *, before: Any, after: Any, value: float) -> Any:
    flat = [n for a, b in zip(reversed(before), reversed(after), strict=True) for n in (a, b)]
    return nn.pad(x, flat, value=value) if flat else x


def pool(x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any, indices: bool = False) -> Any:
    return nn.max_pool2d(x, kernel, stride, padding, dilation, return_indices=indices)[
        1 if indices else slice(None)
    ]


def conv_weight(g: Any, x: Any, *, kernel: Any, groups: int, **attrs: Any) -> Any:
    return torch.nn.grad.conv2d_weight(
        x, (g.shape[1], x.shape[1] // groups, *kernel), g, groups=groups, **attrs
    )


def conv_input(g: Any, w: Any, *, size: Any, groups: int, **attrs: Any) -> Any:
    return torch.nn.grad.conv2d_input((g.shape[0], w.shape[1] * groups, *size), w, g, groups=groups, **attrs)


def attention(q: Any, k: Any, v: Any, *mask: Any, scale: float, causal: bool) -> Any:
    return nn.scaled_dot_product_attention(q, k, v, *mask, is_causal=causal, scale=scale)


def argsort(x: Any, *, dim: int, descending: bool) -> Any:
    return torch.argsort(x, dim=dim, descending=descending, stable=True)


def clamp(x: Any, *, min: Any, max: Any) -> Any:
    return torch.clamp(x, min, max)


SAME = """
    sub mul div floor_divide remainder pow atan2 maximum minimum neg abs sign exp expm1 log log1p sqrt rsqrt
    reciprocal sin cos tanh sigmoid erf floor ceil round trunc eq ne lt le gt ge isnan isinf logical_not logical_and
    logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not clone where matmul relu tril triu add fmod
    hypot log2 log10 exp2 tan asin acos atan sinh cosh asinh acosh atanh erfc bitwise_left_shift bitwise_right_shift
""".split()

ORACLES: dict[str, Any] = {name: of(getattr(torch, name)) for name in SAME}
ORACLES |= {
    "cast": of(lambda x, *, dtype: x.to(getattr(torch, dtype))),
    "gelu": of(nn.gelu),
    "silu": of(nn.silu),
    "leaky_relu": of(nn.leaky_relu),
    "elu": of(nn.elu),
    "softplus": of(nn.softplus),
    "clamp": of(clamp),
    "expand": of(lambda x, *, shape: x.expand(shape)),
    "permute": of(lambda x, *, dims: x.permute(dims)),
    "reshape": of(lambda x, *, shape: x.reshape(shape)),
    "slice": of(lambda x, **where: x[slices(**where)]),
    "select": of(torch.select),
    "slice_put": of(lambda x, value, **where: put(x, value, slices(**where))),
    "diagonal": of(lambda x, *, offset, dim1, dim2: torch.diagonal(x, offset, dim1, dim2)),
    "diagonal_put": of(diagonal_put),
    "cat": of(lambda *xs, dim: torch.cat(xs, dim)),
    "pad": of(pad),
    "flip": of(lambda x, *, axes: torch.flip(x, axes)),
    "roll": of(lambda x, *, shifts, axes: torch.roll(x, shifts, axes)),
    "tril": of(torch.tril),
    "triu": of(torch.triu),
    "sum": of(lambda x, *, axes: torch.sum(x, axes) if axes else x),
    "prod": of(axes_all("prod")),
    "amax": of(lambda x, *, axes: torch.amax(x, axes)),
    "amin": of(lambda x, *, axes: torch.amin(x, axes)),
    "any": of(axes_all("any")),
    "all": of(axes_all("all")),
    "argmax": lambda x, *, dim: np.argmax(x, dim),  # torch takes any of several extremes
    "argmin": lambda x, *, dim: np.argmin(x, dim),
    "cumsum": of(torch.cumsum),
    "linear_nll": of(
        lambda x, w, t, *bias, chunk: nn.cross_entropy(nn.linear(x, w, *bias), t, reduction="none")
    ),
    "cumprod": of(torch.cumprod),
    "recurrence": recurrence,
    "product_of_others": lambda x: np.stack(
        [np.delete(x, k, axis=-1).prod(axis=-1) for k in range(x.shape[-1])], axis=-1
    ),
    "logcumsumexp": of(torch.logcumsumexp),
    "cummax_indices": of(lambda x, *, dim: torch.cummax(x, dim).indices),
    "cummin_indices": of(lambda x, *, dim: torch.cummin(x, dim).indices),
    "vector_norm": of(lambda x, *, axes, p: torch.linalg.vector_norm(x, p, axes)),
    "median": of(lambda x, *, ignore_nan: (torch.nanmedian if ignore_nan else torch.median)(x)),
    "argsort": of(argsort),
    "linear": of(nn.linear),
    "conv2d": of(nn.conv2d),
    "conv2d_input": of(conv_input),
    "conv2d_weight": of(conv_weight),
    "max_pool2d": of(pool),
    "max_pool2d_indices": of(lambda x, **attrs: pool(x, **attrs, indices=True)),
    "avg_pool2d": of(
        lambda x, *, kernel, stride, padding, count_include_pad: nn.avg_pool2d(
            x, kernel, stride, padding, count_include_pad=count_include_pad
        )
    ),
    "index": of(lambda x, *indices, dim: x[(slice(None),) * dim + indices]),
    "index_put": of(index_put),
    "embedding": of(lambda w, i: nn.embedding(i, w)),
    "gather": of(lambda x, i, *, dim: torch.gather(x, dim, i)),
    "scatter": of(lambda x, i, src, *, dim: torch.scatter(x, dim, i, src)),
    "as_strided": of(lambda x, *, size, stride, offset, own: torch.as_strided(x, size, stride, offset)),
    "unfold": of(lambda x, *, dim, size, step: x.unfold(dim, size, step)),
    "scatter_reduce": of(lambda x, i, src, *, dim, reduce: torch.scatter_reduce(x, dim, i, src, reduce)),
    "searchsorted": of(torch.searchsorted),
    "isin": of(torch.isin),
    "scatter_add": of(lambda x, i, src, *, dim: torch.scatter_add(x, dim, i, src)),
    "full": of(lambda *, shape, value, dtype: torch.full(shape, value, dtype=getattr(torch, dtype))),
    "arange": of(
        lambda *, size, start, step, dtype: (torch.arange(size) * step + start).to(getattr(torch, dtype))
    ),
    "mean": of(lambda x, *, axes: torch.mean(x, axes) if axes else x),
    "var": of(lambda x, *, axes, correction: torch.var(x, axes, correction=correction)),
    "logsumexp": of(lambda x, *, axes: torch.logsumexp(x, axes)),
    "softmax": of(torch.softmax),
    "log_softmax": of(torch.log_softmax),
    "layer_norm": of(
        lambda x, *affine, ndim, eps: nn.layer_norm(x, x.shape[x.ndim - ndim :], *affine, eps=eps)
    ),
    "batch_norm": of(lambda x, mean, var, *affine, eps: nn.batch_norm(x, mean, var, *affine, eps=eps)),
    "scaled_dot_product_attention": of(attention),
}
