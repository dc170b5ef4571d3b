"""Running products, extremes and log-sum-exps along an axis, and the linear recurrence their gradients are.

Their `element` rules fold all that comes before each place, which is quadratic: compiled code is right, not fast.
"""

from __future__ import annotations

from math import inf
from typing import Any

from .arrays import accumulator
from .table import composite, define
from .types import DTYPES, Aval

INT64 = DTYPES["int64"]
#: Up to this length a recurrence goes step by step; beyond, doubling takes log2(n) passes over the whole array.
STEPS = 512


def at(index: tuple[Any, ...], dim: int, k: Any) -> tuple[Any, ...]:
    """The index with k on axis `dim`."""
    return (*index[:dim], k, *index[dim + 1 :])


# ---- the linear recurrence ---------------------------------------------------------------------------------


def _recurrence_infer(a: Aval, b: Aval, *, dim: int) -> Aval:
    if a != b:
        raise RuntimeError(f"recurrence: wants two operands of one shape and dtype, got {a} and {b}")
    return a


def _recurrence_run(xp: Any, a: Any, b: Any, *, dim: int) -> Any:
    kind = accumulator(a)
    factor, out = xp.moveaxis(a, dim, 0).astype(kind), xp.moveaxis(b, dim, 0).astype(kind)
    size = len(out)
    if size <= STEPS:
        for k in range(1, size):
            out[k] += factor[k] * out[k - 1]
    else:
        step = 1
        while step < size:
            out[step:] += factor[step:] * out[:-step]
            factor[step:] = factor[step:] * factor[:-step]
            step *= 2
    return xp.ascontiguousarray(xp.moveaxis(out, 0, dim)).astype(a.dtype, copy=False)


def _recurrence_element(s: Any, index: tuple[Any, ...], a: Any, b: Any, *, dim: int) -> Any:
    """The sum over j <= k of b[j] times the product of a after j up to k."""
    size, k = a.shape[dim], index[dim]
    kind = "float32" if a.dtype in ("float16", "bfloat16") else a.dtype

    def read(x: Any, j: Any) -> Any:
        value = x(*at(index, dim, j))
        return value if kind == a.dtype else s.cast(value, kind)

    def factor(j: Any, i: Any) -> Any:
        return s.select(s.logical_and(s.lt(j, i), s.le(i, k)), read(a, i), s.const(1, kind))

    def term(j: Any) -> Any:
        product = s.reduce("mul", (size,), lambda i: factor(j, i))
        return s.select(s.le(j, k), s.mul(read(b, j), product), s.const(0, kind))

    total = s.reduce("add", (size,), term)
    return total if kind == a.dtype else s.cast(total, a.dtype)


def shifted(F: Any, x: Any, dim: int, by: int, fill: float) -> Any:
    """x moved along an axis by one, forwards or back, with `fill` in the place that becomes free."""
    size = x.shape[dim]
    if not size:
        return x
    edge = F.full_like(F.narrow(x, dim, 0, 1), fill)
    if by > 0:
        return F.cat([edge, F.narrow(x, dim, 0, size - 1)], dim)
    return F.cat([F.narrow(x, dim, 1, size - 1), edge], dim)


def backwards(F: Any, a: Any, b: Any, dim: int) -> Any:
    """y[k] = b[k] + a[k]·y[k + 1]: the recurrence from the end."""
    return F.flip(F.recurrence(F.flip(a, (dim,)), F.flip(b, (dim,)), dim), (dim,))


def _recurrence_vjp(F: Any, g: Any, out: Any, a: Any, b: Any, *, dim: int) -> tuple[Any, Any]:
    """The gradient runs through the same recurrence from the end."""
    gb = backwards(F, shifted(F, a, dim, -1, 0.0), g, dim)
    return gb * shifted(F, out, dim, 1, 0.0), gb


define(
    "recurrence",
    _recurrence_infer,
    _recurrence_run,
    vjp=_recurrence_vjp,
    element=_recurrence_element,
    kind="reduce",
    arity=(2, 2),
)

# ---- running products --------------------------------------------------------------------------------------


def _fold_element(op: str, unit: float) -> Any:
    """The `element` rule of a running fold."""

    def element(s: Any, index: tuple[Any, ...], x: Any, *, dim: int) -> Any:
        half = x.dtype in ("float16", "bfloat16")
        kind = "float32" if half else x.dtype

        def term(k: Any) -> Any:
            value = x(*at(index, dim, k))
            return s.select(s.le(k, index[dim]), s.cast(value, kind) if half else value, s.const(unit, kind))

        total = s.reduce(op, (x.shape[dim],), term)
        return s.cast(total, x.dtype) if half else total

    return element


def _cumprod_run(xp: Any, x: Any, *, dim: int) -> Any:
    return xp.cumprod(x, axis=dim, dtype=accumulator(x)).astype(x.dtype, copy=False)


def cumprod_gradient(F: Any, g: Any, x: Any, dim: int) -> Any:
    """Σ over j >= k of g[j] times the product of x up to j without x[k]: no division, so zeros are no exception.

    The product before k, times a recurrence that runs from the end.
    """
    before = shifted(F, F.cumprod(x, dim), dim, 1, 1.0)
    return before * backwards(F, shifted(F, x, dim, -1, 0.0), g, dim)


define(
    "cumprod",
    lambda x, *, dim: x,
    _cumprod_run,
    vjp=(lambda F, g, out, x, *, dim: cumprod_gradient(F, g, x, dim),),
    element=_fold_element("mul", 1),
    kind="reduce",
)


def _others_run(xp: Any, x: Any) -> Any:
    zero = x == 0
    rest = xp.where(zero, x.dtype.type(1), x)
    others = rest.prod(axis=-1, keepdims=True) / rest
    zeros = zero.sum(axis=-1, keepdims=True) - zero
    return xp.where(zeros == 0, others, x.dtype.type(0)).astype(x.dtype, copy=False)


def _others(F: Any, x: Any) -> Any:
    zero = x == 0
    rest = F.where(zero, 1.0, x)
    zeros = F.sum(zero, -1, True) - F.cast(zero, "int64")
    return F.where(zeros == 0, F.prod(rest, -1, True) / rest, 0.0)


def _others_vjp(F: Any, g: Any, out: Any, x: Any) -> Any:
    """Of (the product before) · (the product after), neither of which divides."""
    dim = len(x.shape) - 1
    back = F.flip(x, (dim,))
    before = shifted(F, F.cumprod(x, dim), dim, 1, 1.0)
    after = F.flip(shifted(F, F.cumprod(back, dim), dim, 1, 1.0), (dim,))
    from_before = cumprod_gradient(F, shifted(F, g * after, dim, -1, 0.0), x, dim)
    turned = shifted(F, F.flip(g * before, (dim,)), dim, -1, 0.0)
    return from_before + F.flip(cumprod_gradient(F, turned, back, dim), (dim,))


composite("product_of_others", lambda x: x, _others_run, _others, vjp=(_others_vjp,))

# ---- running extremes: where they are ----------------------------------------------------------------------


def _cumextreme(name: str, op: str) -> None:
    """The place of the extreme so far, the last of equal ones; a nan counts as the extreme."""

    def run(xp: Any, x: Any, *, dim: int) -> Any:
        best = getattr(xp, op).accumulate(x, axis=dim)
        places = xp.arange(x.shape[dim]).reshape([-1 if d == dim else 1 for d in range(x.ndim)])
        hit = x == best if x.dtype.kind in "biu" else (x == best) | xp.isnan(x)
        return xp.maximum.accumulate(xp.where(hit, places, 0), axis=dim).astype(INT64, copy=False)

    def element(s: Any, index: tuple[Any, ...], x: Any, *, dim: int) -> Any:
        size, here = x.shape[dim], index[dim]
        combine = {"maximum": "logical_or", "minimum": "logical_and"}[op] if x.dtype == "bool" else op
        read = lambda k: x(*at(index, dim, k))  # noqa: E731
        # Beyond `here` the first element stands in, which is never beyond it.
        best = s.reduce(combine, (size,), lambda k: s.select(s.le(k, here), read(k), read(s.index(0))))

        def place(k: Any) -> Any:
            hit = s.eq(read(k), best)
            if "float" in x.dtype:
                hit = s.logical_or(hit, s.isnan(read(k)))
            return s.select(s.logical_and(hit, s.le(k, here)), k, s.index(0))

        return s.reduce("maximum", (size,), place)

    define(name, lambda x, *, dim: Aval(x.shape, INT64), run, element=element, kind="reduce")


_cumextreme("cummax_indices", "maximum")
_cumextreme("cummin_indices", "minimum")

# ---- running log-sum-exp -----------------------------------------------------------------------------------


def _logcumsumexp_run(xp: Any, x: Any, *, dim: int) -> Any:
    w = x.astype(accumulator(x))
    if x.dtype.kind != "c":
        return xp.logaddexp.accumulate(w, axis=dim).astype(x.dtype, copy=False)
    out = w.copy()
    rows, sums = xp.moveaxis(w, dim, 0), xp.moveaxis(out, dim, 0)
    for k in range(1, len(rows)):
        first, second = sums[k - 1], rows[k]
        large, small = xp.where(first.real >= second.real, (first, second), (second, first))
        # As PyTorch's, the imaginary part goes on from the larger one's rather than back into one turn.
        sums[k] = xp.where(xp.isneginf(large.real), large, large + xp.log1p(xp.exp(small - large)))
    return out.astype(x.dtype, copy=False)


def _logcumsumexp_element(s: Any, index: tuple[Any, ...], x: Any, *, dim: int) -> Any:
    """Shifted by the largest so far; an infinite one is not shifted by."""
    half = x.dtype in ("float16", "bfloat16")
    kind, size, here = "float32" if half else x.dtype, x.shape[dim], index[dim]
    low, zero = s.const(-inf, kind), s.const(0, kind)

    def read(k: Any) -> Any:
        value = x(*at(index, dim, k))
        return s.select(s.le(k, here), s.cast(value, kind) if half else value, low)

    top = s.reduce("maximum", (size,), read)
    top = s.select(s.eq(s.abs(top), s.const(inf, kind)), zero, top)
    total = s.reduce("add", (size,), lambda k: s.exp(s.sub(read(k), top)))
    out = s.add(s.log(total), top)
    return s.cast(out, x.dtype) if half else out


def _logcumsumexp_vjp(F: Any, g: Any, out: Any, x: Any, *, dim: int) -> Any:
    """Σ over j >= k of g[j]·exp(x[k] - out[j]), by a recurrence whose factors are at most 1."""
    sums = F.where(out == -inf, 0.0, out)
    factor = F.exp(sums - shifted(F, sums, dim, -1, 0.0))
    return F.exp(x - sums) * backwards(F, factor, g, dim)


define(
    "logcumsumexp",
    lambda x, *, dim: x,
    _logcumsumexp_run,
    vjp=(_logcumsumexp_vjp,),
    element=_logcumsumexp_element,
    kind="reduce",
)
