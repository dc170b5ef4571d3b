"""Reading and writing at positions that are data: gather, scatter, advanced indexing, embedding."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .table import define
from .types import DTYPES, Aval, broadcast_shapes, same_dtype
from .view import flat_index, unflat_index

INT64 = DTYPES["int64"]


def _integers(name: str, *indices: Aval) -> None:
    for index in indices:
        if index.dtype != INT64:
            raise RuntimeError(f"{name}: an index must be int64, got {index}")


def _wrap(s: Any, k: Any, size: int) -> Any:
    """A negative position counts from the end."""
    k = s.cast(k, "int64")
    return s.select(s.lt(k, s.index(0)), s.add(k, s.index(size)), k)


def add_at(xp: Any, out: Any, places: Any, values: Any) -> None:
    """out[places[i]] += values[i] along axis 0 of out [rows, width], with repeats; float sums in float64 order."""
    if xp is np and values.dtype in ("float32", "float64"):
        from scipy.sparse import csr_array

        count = len(places)
        pick = csr_array(
            (np.ones(count, values.dtype), places, np.arange(count + 1)), shape=(count, len(out))
        )
        out += pick.T @ values
    else:
        xp.add.at(out, places, values)


# ---- advanced indexing: integer tensors on adjacent axes ---------------------------------------------------


def _index_infer(x: Aval, *indices: Aval, dim: int) -> Aval:
    """x indexed at axes dim, dim+1, … by int64 tensors that broadcast to one shape, which takes the axes' place."""
    _integers("index", *indices)
    if dim + len(indices) > x.ndim:
        raise IndexError(f"index: too many indices ({len(indices)} from axis {dim}) for {x}")
    places = broadcast_shapes("index", *indices)
    return Aval((*x.shape[:dim], *places, *x.shape[dim + len(indices) :]), x.dtype)


def _check_places(x: Any, indices: Any, dim: int) -> None:
    """IndexError naming the first index out of its axis."""
    for d, index in enumerate(indices, dim):
        size = x.shape[d]
        if index.size and (index.min() < -size or index.max() >= size):
            bad = index[(index < -size) | (index >= size)].reshape(-1)[0]
            raise IndexError(f"index {int(bad)} is out of bounds for dimension {d} with size {int(size)}")


def _index_run(xp: Any, x: Any, *indices: Any, dim: int) -> Any:
    try:
        return x[(slice(None),) * dim + indices]
    except IndexError:
        _check_places(x, indices, dim)
        raise


def _broadcast_read(s: Any, index: Any, at: tuple[Any, ...]) -> Any:
    tail = at[len(at) - index.ndim :]
    return index(*(s.index(0) if n == 1 else i for n, i in zip(index.shape, tail, strict=True)))


def _index_element(s: Any, index: tuple[Any, ...], x: Any, *indices: Any, dim: int) -> Any:
    width = max(i.ndim for i in indices)
    at = index[dim : dim + width]
    picked = []
    for k, i in enumerate(indices):
        size = x.shape[dim + k]
        picked.append(s.place(_wrap(s, _broadcast_read(s, i, at), size), size))
    return x(*index[:dim], *picked, *index[dim + width :])


define(
    "index",
    _index_infer,
    _index_run,
    vjp=lambda F, g, out, x, *indices, dim: (
        F.index_put_axes(g.new_zeros(x.shape), g, indices, dim, accumulate=True),
        *(None for _ in indices),
    ),
    element=_index_element,
    kind="index",
    arity=(2, None),
)


def _index_put_infer(x: Aval, value: Aval, *indices: Aval, dim: int, accumulate: bool) -> Aval:
    want = _index_infer(x, *indices, dim=dim)
    if tuple(value) != tuple(want):
        raise RuntimeError(f"index_put: the indexed part is {want}, the value {value}")
    return x


def _index_put_run(xp: Any, x: Any, value: Any, *indices: Any, dim: int, accumulate: bool) -> Any:
    out = x.copy()
    if not accumulate:
        try:
            out[(slice(None),) * dim + indices] = value
        except IndexError:
            _check_places(x, indices, dim)
            raise
        return out
    count = len(indices)
    places = xp.broadcast_arrays(*indices)
    width = places[0].ndim
    sizes = x.shape[dim : dim + count]
    flat = xp.zeros(places[0].shape, INT64)
    _check_places(x, indices, dim)
    for place, size in zip(places, sizes, strict=True):
        flat = flat * size + xp.where(place < 0, place + size, place)
    # The indexed axes to the front as one, the others behind as one: rows that are added to.
    order = (*range(dim, dim + count), *range(dim), *range(dim + count, x.ndim))
    moved = out.transpose(order)
    shape = (prod(sizes), prod(moved.shape[count:]))
    rows = np.ascontiguousarray(moved).reshape(shape) if xp is np else moved.reshape(shape).copy()
    order_value = (*range(dim, dim + width), *range(dim), *range(dim + width, value.ndim))
    add_at(xp, rows, flat.ravel(), value.transpose(order_value).reshape(flat.size, rows.shape[1]))
    moved[...] = rows.reshape(moved.shape)
    return out


def _index_put_element(
    s: Any, index: tuple[Any, ...], x: Any, value: Any, *indices: Any, dim: int, accumulate: bool
) -> Any:
    """Look through all places for those that name this element: their sum, or the last of them."""
    count, width = len(indices), max(i.ndim for i in indices)
    sizes = value.shape[dim : dim + width]
    before, here, after = index[:dim], index[dim : dim + count], index[dim + count :]

    def match(k: tuple[Any, ...]) -> Any:
        hit = s.const(True, "bool")
        for j, i in enumerate(indices):
            hit = s.logical_and(hit, s.eq(_wrap(s, _broadcast_read(s, i, k), x.shape[dim + j]), here[j]))
        return hit

    if accumulate:
        zero = s.const(0, value.dtype)
        total = s.reduce("add", sizes, lambda *k: s.select(match(k), value(*before, *k, *after), zero))
        return s.add(x(*index), total)
    last = s.reduce("maximum", sizes, lambda *k: s.select(match(k), flat_index(s, k, sizes), s.index(-1)))
    return s.select(s.ge(last, s.index(0)), value(*before, *unflat_index(s, last, sizes), *after), x(*index))


def _index_put_vjp(
    F: Any, g: Any, out: Any, x: Any, value: Any, *indices: Any, dim: int, accumulate: bool
) -> tuple[Any, ...]:
    picked = F.index_axes(g, indices, dim)
    base = g if accumulate else F.index_put_axes(g, g.new_zeros(value.shape), indices, dim)
    return (base, picked, *(None for _ in indices))


define(
    "index_put",
    _index_put_infer,
    _index_put_run,
    vjp=_index_put_vjp,
    element=_index_put_element,
    kind="index",
    arity=(3, None),
)

# ---- embedding ---------------------------------------------------------------------------------------------


def _embedding_infer(weight: Aval, index: Aval) -> Aval:
    _integers("embedding", index)
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got {weight}")
    return Aval((*index.shape, weight.shape[1]), weight.dtype)


def _embedding_run(xp: Any, weight: Any, index: Any) -> Any:
    if index.size and (index.min() < 0 or index.max() >= len(weight)):
        raise IndexError(f"embedding: index out of range in self: indices lie in 0..{len(weight) - 1}")
    return weight[index]


define(
    "embedding",
    _embedding_infer,
    _embedding_run,
    vjp=(
        lambda F, g, out, weight, index: F.index_put_axes(
            g.new_zeros(weight.shape), g, (index,), 0, accumulate=True
        ),
        None,
    ),
    element=lambda s, index, weight, k: weight(
        s.place(s.cast(k(*index[:-1]), "int64"), weight.shape[0]), index[-1]
    ),
    kind="index",
    arity=(2, 2),
)

# ---- gather and scatter along one axis ---------------------------------------------------------------------


def _along(name: str, x: Aval, index: Aval, dim: int) -> None:
    _integers(name, index)
    if index.ndim != x.ndim:
        raise RuntimeError(
            f"{name}: Index tensor must have the same number of dimensions as input tensor; {index}, {x}"
        )
    if any(d != dim and n > m for d, (n, m) in enumerate(zip(index.shape, x.shape, strict=True))):
        raise RuntimeError(
            f"{name}: Size does not match: expected index {index} to be no larger than {x} apart from dimension {dim}"
        )


def _gather_infer(x: Aval, index: Aval, *, dim: int) -> Aval:
    _along("gather", x, index, dim)
    return Aval(index.shape, x.dtype)


def _grid(xp: Any, index: Any, dim: int) -> tuple[Any, ...]:
    """The full index that reads x at index[…] along dim and at its own place along the other axes."""
    own = xp.ogrid[tuple(slice(n) for n in index.shape)]
    return tuple(index if d == dim else o for d, o in enumerate(own))


class OutOfBounds(IndexError, RuntimeError):
    """What an index names, or a source covers, is not there.

    PyTorch raises an IndexError for it in some functions and a RuntimeError in others; this is both.
    """


def _bounds(name: str, index: Any, dim: int, size: int) -> None:
    """Out of range is an error, and so is negative: these positions are not counted from the end."""
    if index.size and (index.min() < 0 or index.max() >= size):
        bad = index[(index < 0) | (index >= size)].reshape(-1)[0]
        raise OutOfBounds(
            f"{name}(): index {int(bad)} is out of bounds for dimension {dim} with size {int(size)}"
        )


def _gather_run(xp: Any, x: Any, index: Any, *, dim: int) -> Any:
    if index.ndim != x.ndim:
        raise RuntimeError("gather: ranks differ")  # the shape rule says which
    _bounds("gather", index, dim, x.shape[dim])
    return x[_grid(xp, index, dim)]


define(
    "gather",
    _gather_infer,
    _gather_run,
    vjp=(
        lambda F, g, out, x, index, *, dim: F.scatter_add(g.new_zeros(x.shape), dim, index, g),
        None,
    ),
    element=lambda s, at, x, index, *, dim: x(
        *at[:dim], s.place(s.cast(index(*at), "int64"), x.shape[dim]), *at[dim + 1 :]
    ),
    kind="index",
    arity=(2, 2),
)


def _scatter_infer(name: str, x: Aval, index: Aval, src: Aval, dim: int) -> Aval:
    _along(name, x, index, dim)
    same_dtype(name, x, src)
    if src.shape != index.shape:
        raise RuntimeError(f"{name}: the source must have the index's shape, got {src} and {index}")
    return x


def _scatter_run(xp: Any, x: Any, index: Any, src: Any, *, dim: int) -> Any:
    _bounds("scatter", index, dim, x.shape[dim])
    out = x.copy()
    out[_grid(xp, index, dim)] = src
    return out


def _scatter_add_run(xp: Any, x: Any, index: Any, src: Any, *, dim: int) -> Any:
    _bounds("scatter_add", index, dim, x.shape[dim])
    out = x.copy()
    xp.add.at(out, _grid(xp, index, dim), src)
    return out


def _scatter_hits(s: Any, at: tuple[Any, ...], index: Any, dim: int) -> Any:
    """A test whether the k-th entry of this line of `index` names the element; lines beyond the index have none."""
    inside = s.const(True, "bool")
    for d, n in enumerate(index.shape):
        if d != dim:
            inside = s.logical_and(inside, s.lt(at[d], s.index(n)))

    def hit(k: Any) -> Any:
        # A choice, so that no line outside the index is read.
        place = s.select(inside, s.cast(index(*at[:dim], k, *at[dim + 1 :]), "int64"), s.index(-1))
        return s.eq(place, at[dim])

    return hit


def _scatter_element(s: Any, at: tuple[Any, ...], x: Any, index: Any, src: Any, *, dim: int) -> Any:
    hit = _scatter_hits(s, at, index, dim)
    last = s.reduce("maximum", (index.shape[dim],), lambda k: s.select(hit(k), k, s.index(-1)))
    return s.select(s.ge(last, s.index(0)), src(*at[:dim], last, *at[dim + 1 :]), x(*at))


def _scatter_add_element(s: Any, at: tuple[Any, ...], x: Any, index: Any, src: Any, *, dim: int) -> Any:
    hit, zero = _scatter_hits(s, at, index, dim), s.const(0, src.dtype)
    total = s.reduce(
        "add", (index.shape[dim],), lambda k: s.select(hit(k), src(*at[:dim], k, *at[dim + 1 :]), zero)
    )
    return s.add(x(*at), total)


define(
    "scatter",
    lambda x, index, src, *, dim: _scatter_infer("scatter", x, index, src, dim),
    _scatter_run,
    vjp=(
        lambda F, g, out, x, index, src, *, dim: F.scatter(g, dim, index, g.new_zeros(src.shape)),
        None,
        lambda F, g, out, x, index, src, *, dim: F.gather(g, dim, index),
    ),
    element=_scatter_element,
    kind="index",
    arity=(3, 3),
)
define(
    "scatter_add",
    lambda x, index, src, *, dim: _scatter_infer("scatter_add", x, index, src, dim),
    _scatter_add_run,
    vjp=(
        lambda F, g, out, x, index, src, *, dim: g,
        None,
        lambda F, g, out, x, index, src, *, dim: F.gather(g, dim, index),
    ),
    element=_scatter_add_element,
    kind="index",
    arity=(3, 3),
)
