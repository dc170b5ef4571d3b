"""Reductions over axes (never kept: the functional layer reshapes), running sums, positions and order."""

from __future__ import annotations

from typing import Any

from .arrays import accumulator, sum_over, wide
from .table import define
from .types import DTYPES, Aval, Shape

BOOL, INT64 = DTYPES["bool"], DTYPES["int64"]
Axes = tuple[int, ...]


def merge(index: tuple[Any, ...], axes: Axes, k: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operand's index: `k` along the reduced axes, the output's `index` along the others."""
    kept, reduced = iter(index), iter(k)
    return tuple(next(reduced) if d in axes else next(kept) for d in range(len(index) + len(k)))


def without(shape: Shape, axes: Axes) -> Shape:
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def keep(F: Any, value: Any, shape: Shape, axes: Axes) -> Any:
    """`value` with the reduced axes of an operand of this shape back, at size 1."""
    return F.reshape(value, tuple(1 if d in axes else n for d, n in enumerate(shape)))


def _reduction(name: str, run: Any, op: str, vjp: Any = None, boolean: bool = False) -> None:
    """`f(x; axes)`. `op` is the scalar operator that combines two terms."""

    def infer(x: Aval, *, axes: Axes) -> Aval:
        return Aval(without(x.shape, axes), x.dtype)

    def element(s: Any, index: tuple[Any, ...], x: Any, *, axes: Axes) -> Any:
        combine = {"maximum": "logical_or", "minimum": "logical_and"}.get(op, op) if x.dtype == "bool" else op
        half = x.dtype in ("float16", "bfloat16") and op in ("add", "mul")

        def term(*k: Any) -> Any:
            value = x(*merge(index, axes, k))
            return s.cast(value, "float32") if half else value

        total = s.reduce(combine, tuple(x.shape[a] for a in axes), term)
        return s.cast(total, x.dtype) if half else total

    define(name, infer, run, vjp=None if vjp is None else (vjp,), element=element, kind="reduce")


def _not_empty(name: str, x: Any, axes: Axes) -> None:
    if any(x.shape[a] == 0 for a in axes):
        raise IndexError(
            f"{name}(): Expected reduction dim {axes[0]} to have non-zero size, got an operand of {list(x.shape)}"
        )


def _extreme(name: str, pick: str, op: str) -> None:
    def run(xp: Any, x: Any, *, axes: Axes) -> Any:
        _not_empty(name, x, axes)
        return getattr(xp, pick)(x, axis=axes)

    def vjp(F: Any, g: Any, out: Any, x: Any, *, axes: Axes) -> Any:
        """Elements that tie share the gradient evenly."""
        ties = F.cast(x == keep(F, out, x.shape, axes), x.dtype)
        return ties * keep(F, g / F.sum(ties, axes), x.shape, axes)

    _reduction(name, run, op, vjp)


def _prod_vjp(F: Any, g: Any, out: Any, x: Any, *, axes: Axes) -> Any:
    """The product of the others, which needs no division where a factor is zero."""
    return keep(F, g, x.shape, axes) * F.product_of_others(x, axes)


_reduction(
    "sum",
    lambda xp, x, *, axes: sum_over(xp, x, axes),
    "add",
    lambda F, g, out, x, *, axes: F.expand(keep(F, g, x.shape, axes), x.shape),
)
_reduction(
    "prod",
    lambda xp, x, *, axes: wide(x).prod(axis=axes, dtype=wide(x).dtype).astype(x.dtype, copy=False),
    "mul",
    _prod_vjp,
)
_extreme("amax", "max", "maximum")
_extreme("amin", "min", "minimum")
_reduction("any", lambda xp, x, *, axes: x.any(axis=axes), "logical_or")  # on bool operands
_reduction("all", lambda xp, x, *, axes: x.all(axis=axes), "logical_and")

# ---- positions ---------------------------------------------------------------------------------------------


def _position(name: str, op: str) -> None:
    """argmax and argmin along `dim`: the first place of the extreme; a nan counts as the extreme."""

    def infer(x: Aval, *, dim: int) -> Aval:
        return Aval(without(x.shape, (dim,)), INT64)

    def run(xp: Any, x: Any, *, dim: int) -> Any:
        _not_empty(name, x, (dim,))
        return xp.asarray(getattr(x, name)(axis=dim)).astype(INT64, copy=False)

    def element(s: Any, index: tuple[Any, ...], x: Any, *, dim: int) -> Any:
        size = x.shape[dim]
        combine = {"maximum": "logical_or", "minimum": "logical_and"}[op] if x.dtype == "bool" else op
        at = lambda k: x(*merge(index, (dim,), (k,)))  # noqa: E731
        best = s.reduce(combine, (size,), at)

        def hit(k: Any) -> Any:
            value = at(k)
            found = s.eq(value, best)
            if "float" in x.dtype:
                found = s.logical_or(found, s.isnan(value))
            return s.select(found, k, s.index(size))

        return s.reduce("minimum", (size,), hit)

    define(name, infer, run, element=element, kind="reduce")


_position("argmax", "maximum")
_position("argmin", "minimum")

# ---- running sum -------------------------------------------------------------------------------------------


def _cumsum_element(s: Any, index: tuple[Any, ...], x: Any, *, dim: int) -> Any:
    half = x.dtype in ("float16", "bfloat16")
    dtype = "float32" if half else x.dtype

    def term(k: Any) -> Any:
        value = x(*index[:dim], k, *index[dim + 1 :])
        return s.select(s.le(k, index[dim]), s.cast(value, dtype) if half else value, s.const(0, dtype))

    total = s.reduce("add", (x.shape[dim],), term)
    return s.cast(total, x.dtype) if half else total


define(
    "cumsum",
    lambda x, *, dim: x,
    lambda xp, x, *, dim: xp.cumsum(x, axis=dim, dtype=accumulator(x)).astype(x.dtype, copy=False),
    vjp=(lambda F, g, out, x, *, dim: F.flip(F.cumsum(F.flip(g, dim), dim), dim),),
    element=_cumsum_element,
    kind="reduce",
)

# ---- the inverse of broadcasting ---------------------------------------------------------------------------


def grown_axes(from_shape: Shape, to_shape: Shape) -> tuple[int, Axes]:
    """How `to_shape` broadcasts to `from_shape`: the number of new leading axes, and the axes that grew from 1."""
    lead = len(from_shape) - len(to_shape)
    return lead, tuple(d + lead for d, n in enumerate(to_shape) if n == 1 and from_shape[d + lead] != 1)


def _sum_to_infer(x: Aval, *, shape: Shape) -> Aval:
    lead, _ = grown_axes(x.shape, shape)
    if lead < 0 or any(n != 1 and n != m for n, m in zip(shape, x.shape[lead:], strict=True)):
        raise RuntimeError(f"sum_to: {list(map(int, shape))} does not broadcast to {x}")
    return Aval(shape, x.dtype)


def _sum_to_run(xp: Any, x: Any, *, shape: Shape) -> Any:
    lead, grown = grown_axes(x.shape, shape)
    axes = (*range(lead), *grown)
    return sum_over(xp, x, axes).reshape(shape)


def _sum_to_element(s: Any, index: tuple[Any, ...], x: Any, *, shape: Shape) -> Any:
    lead, grown = grown_axes(x.shape, shape)
    axes = (*range(lead), *grown)
    kept = tuple(i for d, i in enumerate(index, lead) if d not in grown)
    half = x.dtype in ("float16", "bfloat16")

    def term(*k: Any) -> Any:
        value = x(*merge(kept, axes, k))
        return s.cast(value, "float32") if half else value

    total = s.reduce("add", tuple(x.shape[a] for a in axes), term)
    return s.cast(total, x.dtype) if half else total


define(
    "sum_to",
    _sum_to_infer,
    _sum_to_run,
    vjp=(lambda F, g, out, x, *, shape: F.expand(g, x.shape),),
    element=_sum_to_element,
    kind="reduce",
)

# ---- order -------------------------------------------------------------------------------------------------


def _argsort_run(xp: Any, x: Any, *, dim: int, descending: bool) -> Any:
    """Stable; nan sorts as the greatest."""
    if not descending:
        return xp.argsort(x, axis=dim, kind="stable").astype(INT64, copy=False)
    size = x.shape[dim]
    back = xp.argsort(xp.flip(x, dim), axis=dim, kind="stable").astype(INT64, copy=False)
    return xp.flip(size - 1 - back, dim)


def _argsort_element(s: Any, index: tuple[Any, ...], x: Any, *, dim: int, descending: bool) -> Any:
    """out[k] is the j of rank k; the rank counts who comes before: smaller, or equal and earlier."""
    size = x.shape[dim]
    at = lambda k: x(*index[:dim], k, *index[dim + 1 :])  # noqa: E731

    def less(a: Any, b: Any) -> Any:
        if x.dtype == "bool":
            return s.logical_and(s.logical_not(a), b)
        if "int" in x.dtype:
            return s.lt(a, b)
        return s.logical_or(s.lt(a, b), s.logical_and(s.isnan(b), s.logical_not(s.isnan(a))))

    def rank(j: Any) -> Any:
        def before(i: Any) -> Any:
            a, b = at(i), at(j)
            first, last = (less(b, a), less(a, b)) if descending else (less(a, b), less(b, a))
            tie = s.logical_and(s.logical_not(last), s.lt(i, j))
            return s.select(s.logical_or(first, tie), s.index(1), s.index(0))

        return s.reduce("add", (size,), before)

    return s.reduce("add", (size,), lambda j: s.select(s.eq(rank(j), index[dim]), j, s.index(0)))


define(
    "argsort",
    lambda x, *, dim, descending: Aval(x.shape, INT64),
    _argsort_run,
    element=_argsort_element,
    kind="reduce",
)
