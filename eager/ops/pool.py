"""Two-dimensional pooling of x [N, C, H, W] over windows, and the gradients."""

from __future__ import annotations

from typing import Any

from .arrays import padded, wide, windows
from .conv import _reverse, _source, guarded, out_size
from .table import define
from .types import DTYPES, Aval, Shape

Pair = tuple[int, int]
INT64 = DTYPES["int64"]
LOWEST = float("-inf")


def _sizes(name: str, x: Aval, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair = (1, 1)) -> Pair:
    if x.ndim != 4:
        raise RuntimeError(f"{name}: wants an input [N, C, H, W], got {x}")
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        raise RuntimeError(
            f"{name}: pad should be at most half of effective kernel size, got {padding} for {kernel}"
        )
    h, w = map(out_size, x.shape[2:], kernel, stride, padding, dilation)
    if h < 1 or w < 1:
        raise RuntimeError(
            f"{name}: the output size of {x} with kernel {kernel} is too small ({int(h)}x{int(w)})"
        )
    return h, w


def _view(
    xp: Any, x: Any, fill: float, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair = (1, 1)
) -> Any:
    h, w = map(out_size, x.shape[2:], kernel, stride, padding, dilation)
    if h < 1 or w < 1:
        raise RuntimeError("pooling: no window fits")  # the shape rule says which
    return windows(xp, padded(xp, x, padding, fill), (h, w), kernel, stride, dilation)


# ---- maximum -----------------------------------------------------------------------------------------------


def _max_infer(x: Aval, *, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Aval:
    return Aval((*x.shape[:2], *_sizes("max_pool2d", x, kernel, stride, padding, dilation)), x.dtype)


def _max_run(xp: Any, x: Any, *, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Any:
    """One maximum of whole planes per place in the kernel: fewer, longer steps than one reduction per window."""
    view = _view(xp, x, LOWEST, kernel, stride, padding, dilation)
    out = view[..., 0, 0].copy()
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            xp.maximum(out, view[..., i, j], out=out)
    return out


def _max_element(
    s: Any, index: tuple[Any, ...], x: Any, *, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Any:
    n, c, y, z = index

    def term(i: Any, j: Any) -> Any:
        row = _source(s, y, i, stride[0], padding[0], dilation[0])
        col = _source(s, z, j, stride[1], padding[1], dilation[1])
        return guarded(s, x, n, c, row, col, padding, LOWEST)

    return s.reduce("maximum", kernel, term)


define(
    "max_pool2d",
    _max_infer,
    _max_run,
    vjp=(lambda F, g, out, x, **attrs: F.max_pool2d_backward(g, x, **attrs),),
    element=_max_element,
    kind="reduce",
)


def _indices_run(xp: Any, x: Any, *, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Any:
    view = _view(xp, x, LOWEST, kernel, stride, padding, dilation)
    oh, ow = view.shape[2:4]
    place = view.reshape(*view.shape[:4], -1).argmax(-1)
    row = xp.arange(oh)[:, None] * stride[0] - padding[0] + place // kernel[1] * dilation[0]
    col = xp.arange(ow) * stride[1] - padding[1] + place % kernel[1] * dilation[1]
    return (row * x.shape[3] + col).astype(INT64, copy=False)


def _first_hit(
    s: Any, x: Any, n: Any, c: Any, y: Any, z: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Any:
    """The flat position in the plane of the first maximum (or nan) of window (y, z)."""

    def place(i: Any, j: Any) -> tuple[Any, Any]:
        row = _source(s, y, i, stride[0], padding[0], dilation[0])
        return row, _source(s, z, j, stride[1], padding[1], dilation[1])

    best = s.reduce("maximum", kernel, lambda i, j: guarded(s, x, n, c, *place(i, j), padding, LOWEST))

    def hit(i: Any, j: Any) -> Any:
        row, col = place(i, j)
        value = guarded(s, x, n, c, row, col, padding, LOWEST)
        found = s.logical_or(s.eq(value, best), s.isnan(value))
        inside = s.logical_and(s.ge(row, s.index(0)), s.ge(col, s.index(0)))
        inside = s.logical_and(
            inside, s.logical_and(s.lt(row, s.index(x.shape[2])), s.lt(col, s.index(x.shape[3])))
        )
        at = s.add(s.mul(row, s.index(x.shape[3])), col)
        return s.select(s.logical_and(found, inside), at, s.index(x.shape[2] * x.shape[3]))

    return s.reduce("minimum", kernel, hit)


define(
    "max_pool2d_indices",
    lambda x, **attrs: Aval(_max_infer(x, **attrs).shape, INT64),
    _indices_run,
    element=lambda s, index, x, **attrs: _first_hit(s, x, *index, **attrs),
    kind="reduce",
)


def _max_backward_infer(g: Aval, x: Aval, **attrs: Any) -> Aval:
    if g != _max_infer(x, **attrs):
        raise RuntimeError(
            f"max_pool2d_backward: the output of {x} is {_max_infer(x, **attrs)}, got a gradient {g}"
        )
    return x


def _max_backward_run(
    xp: Any, g: Any, x: Any, *, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Any:
    """Each window hands its gradient to its first maximum (or nan), one place of the kernel after the other."""
    view = _view(xp, x, LOWEST, kernel, stride, padding, dilation)
    best = _max_run(xp, x, kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    n, c, h, w = x.shape
    oh, ow = best.shape[2:]
    out = xp.zeros((n, c, h + 2 * padding[0], w + 2 * padding[1]), wide(g).dtype)
    waiting = xp.ones(best.shape, bool)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            value = view[..., i, j]
            hit = waiting & ((value == best) | (value != value))
            waiting &= ~hit
            top, left = i * dilation[0], j * dilation[1]
            rows = slice(top, top + stride[0] * (oh - 1) + 1, stride[0])
            cols = slice(left, left + stride[1] * (ow - 1) + 1, stride[1])
            out[:, :, rows, cols] += xp.where(hit, g, g.dtype.type(0))
    inner = out[:, :, padding[0] : padding[0] + h, padding[1] : padding[1] + w]
    return inner.astype(x.dtype, copy=False) if padding == (0, 0) else inner.astype(x.dtype)


def _max_backward_element(
    s: Any,
    index: tuple[Any, ...],
    g: Any,
    x: Any,
    *,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
) -> Any:
    n, c, row, col = index
    here = s.add(s.mul(row, s.index(x.shape[3])), col)

    def term(i: Any, j: Any) -> Any:
        y, in_rows = _reverse(s, row, i, stride[0], padding[0], dilation[0], g.shape[2])
        z, in_cols = _reverse(s, col, j, stride[1], padding[1], dilation[1], g.shape[3])
        zero = s.const(0, g.dtype)
        inside = s.logical_and(in_rows, in_cols)
        # The window is read only where there is one: outside, its position stands still at 0.
        y, z = s.select(inside, y, s.index(0)), s.select(inside, z, s.index(0))
        first = _first_hit(s, x, n, c, y, z, kernel, stride, padding, dilation)
        return s.select(s.logical_and(inside, s.eq(first, here)), g(n, c, y, z), zero)

    return s.reduce("add", kernel, term)


def _max_backward_vjp(F: Any, gg: Any, out: Any, g: Any, x: Any, **attrs: Any) -> Any:
    """Linear in g: the second-order gradient is read where the maxima are."""
    at = F.max_pool2d_indices(x, **attrs)
    return F.reshape(F.gather(F.flatten(gg, 2), 2, F.flatten(at, 2)), g.shape)


define(
    "max_pool2d_backward",
    _max_backward_infer,
    _max_backward_run,
    vjp=(_max_backward_vjp, None),
    element=_max_backward_element,
    kind="reduce",
    arity=(2, 2),
)

# ---- mean --------------------------------------------------------------------------------------------------


def _counts(xp: Any, size: int, count: int, kernel: int, stride: int, padding: int) -> Any:
    """How many elements of an axis, padding aside, each of its windows covers."""
    start = xp.arange(count) * stride - padding
    return xp.minimum(start + kernel, size) - xp.maximum(start, 0)


def _divisors(
    xp: Any, size: Shape, out: Shape, kernel: Pair, stride: Pair, padding: Pair, count_pad: bool
) -> Any:
    if count_pad or padding == (0, 0):
        return kernel[0] * kernel[1]
    rows = _counts(xp, size[0], out[0], kernel[0], stride[0], padding[0])
    return rows[:, None] * _counts(xp, size[1], out[1], kernel[1], stride[1], padding[1])


def _avg_infer(x: Aval, *, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> Aval:
    return Aval((*x.shape[:2], *_sizes("avg_pool2d", x, kernel, stride, padding)), x.dtype)


def _avg_run(xp: Any, x: Any, *, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> Any:
    view = _view(xp, x, 0, kernel, stride, padding)
    total = xp.zeros(view.shape[:4], x.dtype if x.dtype.itemsize > 2 else "float32")
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            total += view[..., i, j]
    count = _divisors(xp, x.shape[2:], total.shape[2:], kernel, stride, padding, count_include_pad)
    return (total / count).astype(x.dtype, copy=False)


def _window_count(s: Any, at: Any, size: int, kernel: int, stride: int, padding: int) -> Any:
    start = s.sub(s.mul(at, s.index(stride)), s.index(padding))
    stop = s.minimum(s.add(start, s.index(kernel)), s.index(size))
    return s.sub(stop, s.maximum(start, s.index(0)))


def _divisor(
    s: Any,
    y: Any,
    z: Any,
    size: Shape,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    count_pad: bool,
    dtype: str,
) -> Any:
    if count_pad or padding == (0, 0):
        return s.const(kernel[0] * kernel[1], dtype)
    rows = _window_count(s, y, size[0], kernel[0], stride[0], padding[0])
    return s.cast(s.mul(rows, _window_count(s, z, size[1], kernel[1], stride[1], padding[1])), dtype)


def _avg_element(
    s: Any,
    index: tuple[Any, ...],
    x: Any,
    *,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    count_include_pad: bool,
) -> Any:
    n, c, y, z = index
    dtype = "float32" if x.dtype in ("float16", "bfloat16") else x.dtype

    def term(i: Any, j: Any) -> Any:
        row, col = _source(s, y, i, stride[0], padding[0], 1), _source(s, z, j, stride[1], padding[1], 1)
        value = guarded(s, x, n, c, row, col, padding)
        return value if dtype == x.dtype else s.cast(value, dtype)

    count = _divisor(s, y, z, x.shape[2:], kernel, stride, padding, count_include_pad, dtype)
    mean = s.div(s.reduce("add", kernel, term), count)
    return mean if dtype == x.dtype else s.cast(mean, x.dtype)


define(
    "avg_pool2d",
    _avg_infer,
    _avg_run,
    vjp=(lambda F, g, out, x, **attrs: F.avg_pool2d_backward(g, size=x.shape[2:], **attrs),),
    element=_avg_element,
    kind="reduce",
)


def _avg_backward_infer(g: Aval, *, size: Pair, **attrs: Any) -> Aval:
    x = Aval((*g.shape[:2], *size), g.dtype)
    if g != _avg_infer(x, **attrs):
        raise RuntimeError(
            f"avg_pool2d_backward: the output of {x} is {_avg_infer(x, **attrs)}, got a gradient {g}"
        )
    return x


def _avg_backward_run(
    xp: Any, g: Any, *, size: Pair, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool
) -> Any:
    n, c, oh, ow = g.shape
    (sh, sw), (top, left) = stride, padding
    share = g / _divisors(xp, size, (oh, ow), kernel, stride, padding, count_include_pad)
    out = xp.zeros((n, c, size[0] + 2 * top, size[1] + 2 * left), share.dtype)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            out[:, :, i : i + sh * (oh - 1) + 1 : sh, j : j + sw * (ow - 1) + 1 : sw] += share
    return out[:, :, top : top + size[0], left : left + size[1]].astype(g.dtype)


def _avg_backward_element(
    s: Any,
    index: tuple[Any, ...],
    g: Any,
    *,
    size: Pair,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    count_include_pad: bool,
) -> Any:
    n, c, row, col = index
    dtype = "float32" if g.dtype in ("float16", "bfloat16") else g.dtype

    def term(i: Any, j: Any) -> Any:
        y, in_rows = _reverse(s, row, i, stride[0], padding[0], 1, g.shape[2])
        z, in_cols = _reverse(s, col, j, stride[1], padding[1], 1, g.shape[3])
        value = s.select(s.logical_and(in_rows, in_cols), g(n, c, y, z), s.const(0, g.dtype))
        count = _divisor(s, y, z, size, kernel, stride, padding, count_include_pad, dtype)
        hit = s.logical_and(in_rows, in_cols)
        return s.select(hit, s.div(s.cast(value, dtype), count), s.const(0, dtype))

    total = s.reduce("add", kernel, term)
    return total if dtype == g.dtype else s.cast(total, g.dtype)


define(
    "avg_pool2d_backward",
    _avg_backward_infer,
    _avg_backward_run,
    vjp=(lambda F, gg, out, g, *, size, **attrs: F.avg_pool2d_plain(gg, **attrs),),
    element=_avg_backward_element,
    kind="reduce",
)
