"""The equations that `apply_rules` rewrites with. An exact one holds bit for bit for every array, nan and
-0.0 too.
"""

from __future__ import annotations

from typing import Any

from ..eager.ops.types import DTYPES, dtype_name, is_floating
from ..tracer.graph import Node
from .constants import has_exact_reciprocal, is_uniform
from .rewrite import rule


def compose(inner: tuple[int, ...], outer: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that is `inner` and then `outer`."""
    return tuple(inner[d] for d in outer)


def shifted(starts: tuple[int, ...], by: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(starts, by, strict=True))


#: Bits of an integer that every value of the dtype has an exact place for, and the dtype's largest exponent.
_PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_RANGE = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}


def rounds_once(dtype: Any) -> bool:
    """Whether an op of two steps rounds as the steps do: half precision is computed in float32 and rounded last."""
    return is_floating(dtype) and dtype.itemsize > 2


def is_lossless(x: Any, y: Any) -> bool:
    """Does every value of dtype `x` have an equal one in dtype `y`?"""
    if x == y or x.kind == "b":
        return True
    if is_floating(x):
        return is_floating(y) and holds(_PRECISION, y, x) and holds(_RANGE, y, x)
    if is_floating(y):
        return 8 * x.itemsize - (x.kind == "i") <= _PRECISION[dtype_name(y)] and dtype_name(y) != "float16"
    if x.kind in "iu" and y.kind in "iu":
        return y.itemsize > x.itemsize and y.kind == "i"
    return False


def holds(table: dict[str, int], y: Any, x: Any) -> bool:
    return table[dtype_name(y)] >= table[dtype_name(x)]


def passes_through(x: Node, *, inner: str, outer: str) -> bool:
    """Is the cast to `inner` without effect on a cast to `outer` after it?

    It must lose nothing. From float to int what happens out of range depends on the float dtype, so there the
    last cast must lose nothing either.
    """
    middle, last = DTYPES[inner], DTYPES[outer]
    to_int = is_floating(middle) and last.kind in "iu"
    return is_lossless(x.dtype, middle) and (not to_int or is_lossless(x.dtype, last))


def both_constant(x: Node, a: Node, b: Node) -> bool:
    return a.is_const and b.is_const


def is_scalar(c: Node, value: float) -> bool:
    return c.shape == () and is_uniform(c, value)


RULES = [
    # ---- signs
    rule("neg of neg", lambda T, x: T.neg(T.neg(x)), lambda T, x: x),
    rule("abs of neg", lambda T, x: T.abs(T.neg(x)), lambda T, x: T.abs(x), lambda x: x.dtype.kind != "u"),
    rule("abs of abs", lambda T, x: T.abs(T.abs(x)), lambda T, x: T.abs(x)),
    rule("add of neg", lambda T, x, y: T.add(x, T.neg(y)), lambda T, x, y: T.sub(x, y)),
    rule("neg plus", lambda T, x, y: T.add(T.neg(x), y), lambda T, x, y: T.sub(y, x)),
    rule("sub of neg", lambda T, x, y: T.sub(x, T.neg(y)), lambda T, x, y: T.add(x, y)),
    rule("mul of two negs", lambda T, x, y: T.mul(T.neg(x), T.neg(y)), lambda T, x, y: T.mul(x, y)),
    rule(
        "div of two negs",
        lambda T, x, y: T.div(T.neg(x), T.neg(y)),
        lambda T, x, y: T.div(x, y),
        lambda x, y: is_floating(x.dtype),
    ),
    rule("times -1", lambda T, x, c: T.mul(x, c), lambda T, x, c: T.neg(x), lambda x, c: is_uniform(c, -1)),
    # ---- once is enough
    rule("relu of relu", lambda T, x: T.relu(T.relu(x)), lambda T, x: T.relu(x)),
    rule("floor of floor", lambda T, x: T.floor(T.floor(x)), lambda T, x: T.floor(x)),
    rule("not of not", lambda T, x: T.logical_not(T.logical_not(x)), lambda T, x: x),
    rule("bitwise not of not", lambda T, x: T.bitwise_not(T.bitwise_not(x)), lambda T, x: x),
    rule("not equal", lambda T, x, y: T.logical_not(T.eq(x, y)), lambda T, x, y: T.ne(x, y)),
    rule("equal", lambda T, x, y: T.logical_not(T.ne(x, y)), lambda T, x, y: T.eq(x, y)),
    rule("maximum of one", lambda T, x: T.maximum(x, x), lambda T, x: x),
    rule("minimum of one", lambda T, x: T.minimum(x, x), lambda T, x: x),
    rule("where of one", lambda T, c, x: T.where(c, x, x), lambda T, c, x: x),
    rule(
        "where not", lambda T, c, x, y: T.where(T.logical_not(c), x, y), lambda T, c, x, y: T.where(c, y, x)
    ),
    # ---- views
    rule(
        "reshape of reshape",
        lambda T, x, *, inner, outer: T.reshape(T.reshape(x, shape=inner), shape=outer),
        lambda T, x, *, inner, outer: T.reshape(x, shape=outer),
    ),
    rule(
        "permute of permute",
        lambda T, x, *, inner, outer: T.permute(T.permute(x, dims=inner), dims=outer),
        lambda T, x, *, inner, outer: T.permute(x, dims=compose(inner, outer)),
    ),
    rule(
        "expand of expand",
        lambda T, x, *, inner, outer: T.expand(T.expand(x, shape=inner), shape=outer),
        lambda T, x, *, inner, outer: T.expand(x, shape=outer),
    ),
    rule(
        "slice of slice",
        lambda T, x, *, a, b, one, c, d, step: T.slice(
            T.slice(x, starts=a, stops=b, steps=one), starts=c, stops=d, steps=step
        ),
        lambda T, x, *, a, b, one, c, d, step: T.slice(
            x, starts=shifted(a, c), stops=shifted(a, d), steps=step
        ),
        lambda x, *, a, b, one, c, d, step: all(k == 1 for k in one),
    ),
    rule(
        "cast of cast",
        lambda T, x, *, inner, outer: T.cast(T.cast(x, dtype=inner), dtype=outer),
        lambda T, x, *, inner, outer: T.cast(x, dtype=outer),
        passes_through,
    ),
    # ---- cheaper operations with the same result
    rule(
        "div by a power of two",
        lambda T, x, c: T.div(x, c),
        lambda T, x, c: T.mul(x, T.reciprocal(c)),
        lambda x, c: has_exact_reciprocal(c),
    ),
    # numpy computes these powers so, when the exponent is one number; half precision has no such case for the
    # root.
    rule("square", lambda T, x, c: T.pow(x, c), lambda T, x, c: T.mul(x, x), lambda x, c: is_scalar(c, 2)),
    rule(
        "root",
        lambda T, x, c: T.pow(x, c),
        lambda T, x, c: T.sqrt(x),
        lambda x, c: is_scalar(c, 0.5) and x.dtype.itemsize >= 4,
    ),
    rule(
        "power -1",
        lambda T, x, c: T.pow(x, c),
        lambda T, x, c: T.reciprocal(x),
        lambda x, c: is_scalar(c, -1),
    ),
    rule(
        "rsqrt", lambda T, x: T.reciprocal(T.sqrt(x)), lambda T, x: T.rsqrt(x), lambda x: rounds_once(x.dtype)
    ),
    rule(
        "one over sqrt",
        lambda T, c, x: T.div(c, T.sqrt(x)),
        lambda T, c, x: T.rsqrt(x),
        lambda c, x: is_uniform(c, 1) and rounds_once(x.dtype),
    ),
    # ---- under fast_math: other rounding, other results for inf and nan
    rule("log of exp", lambda T, x: T.log(T.exp(x)), lambda T, x: x, exact=False),
    rule("exp of log", lambda T, x: T.exp(T.log(x)), lambda T, x: x, exact=False),
    rule("square of sqrt", lambda T, x: T.mul(T.sqrt(x), T.sqrt(x)), lambda T, x: x, exact=False),
    rule(
        "common factor",
        lambda T, x, y, z: T.add(T.mul(x, y), T.mul(x, z)),
        lambda T, x, y, z: T.mul(x, T.add(y, z)),
        exact=False,
    ),
    rule(
        "div by a constant",
        lambda T, x, c: T.div(x, c),
        lambda T, x, c: T.mul(x, T.reciprocal(c)),
        lambda x, c: c.is_const and is_floating(c.dtype),
        exact=False,
    ),
    rule(
        "div by sqrt",
        lambda T, x, y: T.div(x, T.sqrt(y)),
        lambda T, x, y: T.mul(x, T.rsqrt(y)),
        exact=False,
    ),
    rule(
        "two factors",
        lambda T, x, a, b: T.mul(T.mul(x, a), b),
        lambda T, x, a, b: T.mul(x, T.mul(a, b)),
        both_constant,
        exact=False,
    ),
    rule(
        "two terms",
        lambda T, x, a, b: T.add(T.add(x, a), b),
        lambda T, x, a, b: T.add(x, T.add(a, b)),
        both_constant,
        exact=False,
    ),
    rule(
        "scaled product",
        lambda T, x, w, c: T.mul(T.matmul(x, w), c),
        lambda T, x, w, c: T.matmul(x, T.mul(w, c)),
        lambda x, w, c: w.is_const and c.is_const and c.shape == (),
        exact=False,
    ),
    rule(
        "cube",
        lambda T, x, c: T.pow(x, c),
        lambda T, x, c: T.mul(T.mul(x, x), x),
        lambda x, c: is_uniform(c, 3),
        exact=False,
    ),
]
