"""Two-dimensional convolution (cross-correlation) and its two adjoints.

x [N, C, H, W], weight [O, C/groups, KH, KW], out [N, O, OH, OW] with
OH = (H + 2·padding - dilation·(KH - 1) - 1) // stride + 1. The three ops are linear in each operand and each
other's gradients, so second order needs no rule of its own. On arrays a convolution is a matrix product of the
weight with the unfolded windows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .arrays import padded, wide, windows
from .table import define
from .types import Aval, Shape, same_dtype

Pair = tuple[int, int]


class Geometry(NamedTuple):
    """The attributes the three ops share."""

    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int


def out_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """The number of windows along one axis."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def out_sizes(size: Shape, kernel: Shape, geometry: Geometry) -> Pair:
    h, w = (
        out_size(n, k, s, p, d)
        for n, k, s, p, d in zip(
            size, kernel, geometry.stride, geometry.padding, geometry.dilation, strict=True
        )
    )
    return h, w


def _check(name: str, x: Aval, weight: Aval, groups: int) -> None:
    same_dtype(name, x, weight)
    if x.ndim != 4 or weight.ndim != 4:
        raise RuntimeError(
            f"{name}: Expected 4D (batched) input [N, C, H, W] and a 4D weight [O, C/groups, KH, KW], "
            f"got {x} and {weight}"
        )
    if x.shape[1] != weight.shape[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(map(int, weight.shape))}, expected input"
            f"{list(map(int, x.shape))} to have {int(weight.shape[1] * groups)} channels, but got "
            f"{int(x.shape[1])} channels instead"
        )
    if weight.shape[0] % groups:
        raise RuntimeError(
            f"{name}: {int(weight.shape[0])} output channels do not divide into {groups} groups"
        )


def _conv2d_infer(x: Aval, weight: Aval, **attrs: Any) -> Aval:
    geometry = Geometry(**attrs)
    _check("conv2d", x, weight, geometry.groups)
    size = out_sizes(x.shape[2:], weight.shape[2:], geometry)
    if min(size) < 1:
        raise RuntimeError(
            f"conv2d: Kernel size can't be greater than actual input size; the padded input {x} has no window "
            f"of the kernel {weight}"
        )
    return Aval((x.shape[0], weight.shape[0], *size), x.dtype)


def _columns(xp: Any, x: Any, size: Pair, kernel: Pair, geometry: Geometry) -> Any:
    """The unfolded windows [N, G, C/G·KH·KW, OH·OW]: copied, except for 1×1 kernels of stride 1."""
    view = windows(xp, padded(xp, x, geometry.padding), size, kernel, geometry.stride, geometry.dilation)
    rows = x.shape[1] // geometry.groups * kernel[0] * kernel[1]
    return view.transpose(0, 1, 4, 5, 2, 3).reshape(x.shape[0], geometry.groups, rows, size[0] * size[1])


def _by_group(x: Any, groups: int) -> Any:
    """[N, C, H, W] as [N, G, C/G, H·W]."""
    n, c, h, w = x.shape
    return x.reshape(n, groups, c // groups, h * w)


def _conv2d_run(xp: Any, x: Any, weight: Any, **attrs: Any) -> Any:
    geometry = Geometry(**attrs)
    size = out_sizes(x.shape[2:], weight.shape[2:], geometry)
    if min(size) < 1 or x.shape[1] != weight.shape[1] * geometry.groups:
        raise RuntimeError("conv2d: operands do not fit")  # the shape rule says how
    columns = _columns(xp, wide(x), size, weight.shape[2:], geometry)
    flat = wide(weight).reshape(geometry.groups, weight.shape[0] // geometry.groups, columns.shape[2])
    out = xp.matmul(flat, columns)
    return out.reshape(x.shape[0], weight.shape[0], *size).astype(x.dtype, copy=False)


def _source(s: Any, y: Any, i: Any, stride: int, padding: int, dilation: int) -> Any:
    """The input row that output row y meets with kernel row i: y·stride + i·dilation - padding."""
    return s.sub(s.add(s.mul(y, s.index(stride)), s.mul(i, s.index(dilation))), s.index(padding))


def _inside(s: Any, at: Any, size: int, padding: int) -> Any:
    return (
        s.const(True, "bool")
        if padding == 0
        else s.logical_and(s.ge(at, s.index(0)), s.lt(at, s.index(size)))
    )


def guarded(s: Any, x: Any, n: Any, c: Any, row: Any, col: Any, padding: Pair, value: float = 0) -> Any:
    """x[n, c, row, col], or `value` outside."""
    if padding == (0, 0):
        return x(n, c, row, col)
    inside = s.logical_and(_inside(s, row, x.shape[2], padding[0]), _inside(s, col, x.shape[3], padding[1]))
    return s.select(inside, x(n, c, row, col), s.const(value, x.dtype))


def _product(s: Any, a: Any, b: Any, dtype: str) -> Any:
    half = dtype in ("float16", "bfloat16")
    return s.mul(s.cast(a, "float32"), s.cast(b, "float32")) if half else s.mul(a, b)


def _total(s: Any, sizes: Shape, term: Any, dtype: str) -> Any:
    total = s.reduce("add", sizes, term)
    return s.cast(total, dtype) if dtype in ("float16", "bfloat16") else total


def _conv2d_element(s: Any, index: tuple[Any, ...], x: Any, weight: Any, **attrs: Any) -> Any:
    g = Geometry(**attrs)
    n, o, y, z = index
    per_group = weight.shape[0] // g.groups
    first = s.mul(s.floordiv(o, s.index(per_group)), s.index(weight.shape[1]))

    def term(c: Any, i: Any, j: Any) -> Any:
        row = _source(s, y, i, g.stride[0], g.padding[0], g.dilation[0])
        col = _source(s, z, j, g.stride[1], g.padding[1], g.dilation[1])
        channel = c if g.groups == 1 else s.add(first, c)
        return _product(s, guarded(s, x, n, channel, row, col, g.padding), weight(o, c, i, j), x.dtype)

    return _total(s, weight.shape[1:], term, x.dtype)


define(
    "conv2d",
    _conv2d_infer,
    _conv2d_run,
    vjp=(
        lambda F, g, out, x, weight, **attrs: F.conv2d_input(g, weight, size=x.shape[2:], **attrs),
        lambda F, g, out, x, weight, **attrs: F.conv2d_weight(g, x, kernel=weight.shape[2:], **attrs),
    ),
    element=_conv2d_element,
    kind="contract",
    arity=(2, 2),
)

# ---- adjoint in the input: also the transposed convolution -------------------------------------------------


def _conv2d_input_infer(g: Aval, weight: Aval, *, size: Pair, **attrs: Any) -> Aval:
    """size: (H, W) of the result."""
    geometry = Geometry(**attrs)
    x = Aval((g.shape[0], weight.shape[1] * geometry.groups, *size), same_dtype("conv2d_input", g, weight))
    if _conv2d_infer(x, weight, **attrs) != g:
        raise RuntimeError(
            f"conv2d_input: a convolution of {x} with {weight} gives {_conv2d_infer(x, weight, **attrs)}, got {g}"
        )
    return x


def _conv2d_input_run(xp: Any, g: Any, weight: Any, *, size: Pair, **attrs: Any) -> Any:
    geometry = Geometry(**attrs)
    (n, o, oh, ow), (kh, kw), groups = g.shape, weight.shape[2:], geometry.groups
    flat = wide(weight).reshape(groups, o // groups, -1)
    columns = xp.matmul(flat.transpose(0, 2, 1), _by_group(wide(g), groups))
    channels = weight.shape[1] * groups
    return _fold(xp, columns.reshape(n, channels, kh, kw, oh, ow), size, geometry).astype(g.dtype, copy=False)


def _fold(xp: Any, columns: Any, size: Pair, geometry: Geometry) -> Any:
    """Add windows [N, C, KH, KW, OH, OW] up where they overlap: the adjoint of unfolding."""
    n, c, kh, kw, oh, ow = columns.shape
    (sh, sw), (top, left), (dh, dw) = geometry[:3]
    out = xp.zeros((n, c, size[0] + 2 * top, size[1] + 2 * left), columns.dtype)
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dh, i * dh + sh * (oh - 1) + 1, sh)
            cols = slice(j * dw, j * dw + sw * (ow - 1) + 1, sw)
            out[:, :, rows, cols] += columns[:, :, i, j]
    return xp.ascontiguousarray(out[:, :, top : top + size[0], left : left + size[1]])


def _reverse(
    s: Any, at: Any, i: Any, stride: int, padding: int, dilation: int, count: int
) -> tuple[Any, Any]:
    """The window that input row `at` meets with kernel row i, and whether there is one."""
    offset = s.sub(s.add(at, s.index(padding)), s.mul(i, s.index(dilation)))
    y = offset if stride == 1 else s.floordiv(offset, s.index(stride))
    hit = s.logical_and(s.ge(offset, s.index(0)), s.lt(y, s.index(count)))
    if stride != 1:
        hit = s.logical_and(hit, s.eq(s.mod(offset, s.index(stride)), s.index(0)))
    return y, hit


def _conv2d_input_element(
    s: Any, index: tuple[Any, ...], g: Any, weight: Any, *, size: Pair, **attrs: Any
) -> Any:
    geometry = Geometry(**attrs)
    n, c, row, col = index
    per_group = weight.shape[0] // geometry.groups
    width = s.index(weight.shape[1])
    first = s.mul(s.floordiv(c, width), s.index(per_group))
    channel = c if geometry.groups == 1 else s.mod(c, width)

    def term(k: Any, i: Any, j: Any) -> Any:
        (sh, sw), (ph, pw), (dh, dw) = geometry[:3]
        y, in_rows = _reverse(s, row, i, sh, ph, dh, g.shape[2])
        z, in_cols = _reverse(s, col, j, sw, pw, dw, g.shape[3])
        o = k if geometry.groups == 1 else s.add(first, k)
        value = s.select(s.logical_and(in_rows, in_cols), g(n, o, y, z), s.const(0, g.dtype))
        return _product(s, value, weight(o, channel, i, j), g.dtype)

    return _total(s, (per_group, *weight.shape[2:]), term, g.dtype)


define(
    "conv2d_input",
    _conv2d_input_infer,
    _conv2d_input_run,
    vjp=(
        lambda F, gg, out, g, weight, *, size, **attrs: F.conv2d_plain(gg, weight, **attrs),
        lambda F, gg, out, g, weight, *, size, **attrs: F.conv2d_weight(
            g, gg, kernel=weight.shape[2:], **attrs
        ),
    ),
    element=_conv2d_input_element,
    kind="contract",
    arity=(2, 2),
)

# ---- adjoint in the weight ---------------------------------------------------------------------------------


def _conv2d_weight_infer(g: Aval, x: Aval, *, kernel: Pair, **attrs: Any) -> Aval:
    """kernel: (KH, KW) of the result."""
    geometry = Geometry(**attrs)
    weight = Aval((g.shape[1], x.shape[1] // geometry.groups, *kernel), same_dtype("conv2d_weight", g, x))
    if _conv2d_infer(x, weight, **attrs) != g:
        raise RuntimeError(
            f"conv2d_weight: a convolution of {x} with {weight} gives {_conv2d_infer(x, weight, **attrs)}, got {g}"
        )
    return weight


def _conv2d_weight_run(xp: Any, g: Any, x: Any, *, kernel: Pair, **attrs: Any) -> Any:
    """One product over batch and places together, [O/G, N·P] times [N·P, C/G·KH·KW], per group."""
    geometry = Geometry(**attrs)
    x, size = wide(x), g.shape[2:]
    view = windows(xp, padded(xp, x, geometry.padding), size, kernel, geometry.stride, geometry.dilation)
    places = x.shape[0] * size[0] * size[1]
    columns = view.transpose(1, 4, 5, 0, 2, 3).reshape(
        geometry.groups, x.shape[1] // geometry.groups * kernel[0] * kernel[1], places
    )
    rows = wide(g).transpose(1, 0, 2, 3).reshape(geometry.groups, g.shape[1] // geometry.groups, places)
    flat = rows @ columns.transpose(0, 2, 1)
    return flat.reshape(g.shape[1], x.shape[1] // geometry.groups, *kernel).astype(g.dtype, copy=False)


def _conv2d_weight_element(
    s: Any, index: tuple[Any, ...], g: Any, x: Any, *, kernel: Pair, **attrs: Any
) -> Any:
    geometry = Geometry(**attrs)
    o, c, i, j = index
    group = s.floordiv(o, s.index(g.shape[1] // geometry.groups))
    channel = c if geometry.groups == 1 else s.add(s.mul(group, s.index(x.shape[1] // geometry.groups)), c)

    def term(n: Any, y: Any, z: Any) -> Any:
        row = _source(s, y, i, geometry.stride[0], geometry.padding[0], geometry.dilation[0])
        col = _source(s, z, j, geometry.stride[1], geometry.padding[1], geometry.dilation[1])
        return _product(s, g(n, o, y, z), guarded(s, x, n, channel, row, col, geometry.padding), g.dtype)

    return _total(s, (g.shape[0], *g.shape[2:]), term, g.dtype)


define(
    "conv2d_weight",
    _conv2d_weight_infer,
    _conv2d_weight_run,
    vjp=(
        lambda F, gg, out, g, x, *, kernel, **attrs: F.conv2d_plain(x, gg, **attrs),
        lambda F, gg, out, g, x, *, kernel, **attrs: F.conv2d_input(g, gg, size=x.shape[2:], **attrs),
    ),
    element=_conv2d_weight_element,
    kind="contract",
    arity=(2, 2),
)
