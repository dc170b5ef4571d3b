"""Sizes that stay symbolic: `Dim` is an int that remembers how it was computed.

Where a program is recorded, `x.shape[0]` of a dynamic axis is a `Dim`. Its value is the one of that run, and
arithmetic keeps the formula (`expr.py`), so `x.reshape(batch, seq*64)` records `seq*64` and not a number.

What cannot stay symbolic is written down in the active `SizeLog`: a *guard* is a comparison whose outcome is
not the same for all sizes in range, a *pin* a place where a size became a plain number. The tracer records
again at other sizes and, where the graphs differ, names the guard or the pin. Outside a recording two sizes
are equal only if their formulas are.
"""

from __future__ import annotations

import ast
import keyword
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..eager.ops.types import DTYPES
from . import expr
from .expr import Expr, Range
from .source import called_by_user, user_line

#: Words that mean something else in a graph's text, in a formula (read as Python), or to an entry point.
RESERVED = frozenset({"inf", "nan", "max", "min", "complex", "graph", "threads", *keyword.kwlist, *DTYPES})


#: Bounds fit in 62 bits, so that comparing with them is safe in 64.
LIMIT = 2**62


@dataclass(frozen=True)
class Guard:
    """A comparison whose outcome depends on the sizes. `user`: it stands in user code, not in tapecast."""

    op: str  # eq ne lt le gt ge
    left: Expr
    right: Expr
    outcome: bool
    line: str
    user: bool

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """The outcome at other sizes."""
        return bool(COMPARE[self.op](expr.evaluate(self.left, sizes), expr.evaluate(self.right, sizes)))

    def __str__(self) -> str:
        return f"{expr.text(self.left)} {SIGNS[self.op]} {expr.text(self.right)}"


@dataclass(frozen=True)
class Pin:
    """A place where a symbolic size became a plain number: `what` names the operation."""

    what: str
    size: Expr
    line: str


@dataclass
class SizeLog:
    """What a recording noted about its sizes."""

    guards: list[Guard] = field(default_factory=list)
    pins: list[Pin] = field(default_factory=list)


_log: ContextVar[SizeLog | None] = ContextVar("size log", default=None)


@contextmanager
def log_sizes() -> Iterator[SizeLog]:
    """Within the block comparisons of sizes use their values, and are noted in the log that it yields."""
    token = _log.set(log := SizeLog())
    try:
        yield log
    finally:
        _log.reset(token)


_floats_known: ContextVar[bool] = ContextVar("sizes may become floats", default=True)


@contextmanager
def no_floats() -> Iterator[None]:
    """Within the block a size that would become a float raises TypeError: it has no number yet."""
    token = _floats_known.set(False)
    try:
        yield
    finally:
        _floats_known.reset(token)


COMPARE: dict[str, Callable[[int, int], bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class Dim(int):
    """A size known by name: `Dim("batch", min=1, max=1024)`. `max` None means no upper bound.

    An int with a formula: `+ - * // %`, `at_most` and `at_least` give another Dim. The integer value is that
    of the run being recorded; a Dim that was only declared has some value within its range.
    ValueError for a name that is no identifier or is reserved, and for a range that is empty or too wide;
    TypeError for a name that is no text or a bound that is no integer.
    """

    expr: Expr
    ranges: dict[str, Range]

    def __new__(cls, name: str, min: int = 1, max: int | None = None) -> Dim:
        _check_name(name)
        low, high = _bound("min", min), None if max is None else _bound("max", max)
        if low < 0 or (high is not None and high < low):
            raise ValueError(f"Dim: {name} needs 0 <= min <= max, got min={min}, max={max}")
        return _symbolic(expr.dim(name), _placeholder(low, high), {name: (low, high)})

    @property
    def name(self) -> str:
        """The formula as text; for a declared size its name."""
        return expr.text(self.expr)

    def bounds(self) -> tuple[int | None, int | None]:
        """Its smallest and largest value over the ranges of the sizes in it; None where there is no bound."""
        return expr.bounds(self.expr, self.ranges)

    def bind(self, sizes: Mapping[str, int]) -> Dim:
        """The same formula with the values it has at these sizes."""
        return _symbolic(self.expr, expr.evaluate(self.expr, sizes), self.ranges)

    def same(self, other: int) -> bool:
        """Whether the formulas are equal. Unlike `==` this is no guard: it holds for all sizes or is False."""
        return bool(self.expr == expr_of(other))

    def at_most(self, other: int) -> int:
        """`min(self, other)`, kept symbolic (the builtin would have to choose one of the two)."""
        return self._extreme("min", other)

    def at_least(self, other: int) -> int:
        """`max(self, other)`, kept symbolic."""
        return self._extreme("max", other)

    def _extreme(self, op: str, other: int) -> int:
        ranges = merge_ranges((self, other))
        e = expr.extreme(op, self.expr, expr_of(other), ranges)
        if isinstance(e, int):
            return e
        return _symbolic(e, expr.APPLY[op](value_of(self), value_of(other)), ranges)

    # Arithmetic. A float on the other side needs the number, which is then fixed.

    def __add__(self, other: int) -> int:
        return _binary("add", self, other)

    def __radd__(self, other: int) -> int:
        return _binary("add", other, self)

    def __sub__(self, other: int) -> int:
        return _binary("sub", self, other)

    def __rsub__(self, other: int) -> int:
        return _binary("sub", other, self)

    def __mul__(self, other: int) -> int:
        return _binary("mul", self, other)

    def __rmul__(self, other: int) -> int:
        return _binary("mul", other, self)

    def __floordiv__(self, other: int) -> int:
        return _binary("floordiv", self, other)

    def __rfloordiv__(self, other: int) -> int:
        return _binary("floordiv", other, self)

    def __mod__(self, other: int) -> int:
        return _binary("mod", self, other)

    def __rmod__(self, other: int) -> int:
        return _binary("mod", other, self)

    def __divmod__(self, other: int) -> tuple[int, int]:
        return self // other, self % other

    def __rdivmod__(self, other: int) -> tuple[int, int]:
        return other // self, other % self

    def __neg__(self) -> int:
        return _binary("mul", self, -1)

    def __pos__(self) -> int:
        return self

    def __abs__(self) -> int:
        return self.at_least(-self)

    def __pow__(self, exponent: int, modulus: int | None = None) -> Any:
        if modulus is None and type(exponent) is int and 0 <= exponent <= 4:
            return _power(self, exponent)
        return pow(self.pinned("**"), exponent, modulus)

    def __truediv__(self, other: float) -> float:
        return self.pinned("true division") / other

    def __rtruediv__(self, other: float) -> float:
        return other / self.pinned("true division")

    def __int__(self) -> int:
        return self.pinned("int()")

    def __float__(self) -> float:
        return float(self.pinned("float()"))

    def __round__(self, ndigits: int | None = None) -> int:  # type: ignore[override]
        return self if ndigits is None or ndigits >= 0 else round(self.pinned("round()"), ndigits)

    def __trunc__(self) -> int:
        return self

    __floor__ = __ceil__ = __trunc__

    def pinned(self, what: str) -> int:
        """The value as a plain number, noted as a pin of the active recording."""
        if what != "int()" and not _floats_known.get():
            raise TypeError(
                f"{what} needs the number behind the size {self}, which only a run of the program has"
            )
        log = _log.get()
        if log is not None:
            log.pins.append(Pin(what, self.expr, user_line()))
        return value_of(self)

    # Comparison: see `_compare`. The hash is the value's, as equality within a recording is of values.

    def __eq__(self, other: object) -> Any:
        return _compare("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return _compare("ne", self, other)

    def __lt__(self, other: int) -> Any:
        return _compare("lt", self, other)

    def __le__(self, other: int) -> Any:
        return _compare("le", self, other)

    def __gt__(self, other: int) -> Any:
        return _compare("gt", self, other)

    def __ge__(self, other: int) -> Any:
        return _compare("ge", self, other)

    def __bool__(self) -> bool:
        return bool(_compare("ne", self, 0))

    def __hash__(self) -> int:
        return int.__hash__(self)

    def __repr__(self) -> str:
        return expr.text(self.expr)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec) if not spec or spec.endswith("s") else format(value_of(self), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return _symbolic, (self.expr, value_of(self), self.ranges)


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"Dim: a size is named by text, such as Dim('batch'), got {name!r}")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in RESERVED:
        raise ValueError(
            f"Dim: a size is named by an identifier of ASCII letters that is no reserved word, got {name!r}"
        )


def _bound(which: str, n: object) -> int:
    """A bound of a range as a plain int."""
    if not _is_integer(n) or isinstance(n, (bool, Dim)):
        raise TypeError(f"Dim: {which} is an integer{' or None' if which == 'max' else ''}, got {n!r}")
    if abs(operator.index(n)) >= LIMIT:  # type: ignore[arg-type]
        raise ValueError(f"Dim: {which} is less than 2**62, got {n}; leave max out for no upper bound")
    return operator.index(n)  # type: ignore[arg-type]


def _placeholder(low: int, high: int | None) -> int:
    """The value of a size that was declared and not yet used: 7 unless the range forbids it."""
    return max(low, 7 if high is None else min(7, high))


def _symbolic(e: Expr, value: int, ranges: Mapping[str, Range]) -> Dim:
    d = int.__new__(Dim, value)
    d.expr, d.ranges = e, dict(ranges)
    return d


def _power(base: int, exponent: int) -> int:
    out = 1
    for _ in range(exponent):
        out = out * base
    return out


def _binary(op: str, a: Any, b: Any) -> Any:
    """`a op b` where one is a Dim; NotImplemented where the other is no integer, and a pin for a float."""
    if not (_is_integer(a) and _is_integer(b)):
        size, other = (a, b) if isinstance(a, Dim) else (b, a)
        if isinstance(other, (float, complex, np.floating)):
            size.pinned("arithmetic with a float")
        return NotImplemented
    build = expr.sub if op == "sub" else expr.BUILD[op]
    e = build(expr_of(a), expr_of(b))
    if isinstance(e, int):
        return e
    value = value_of(a) - value_of(b) if op == "sub" else expr.APPLY[op](value_of(a), value_of(b))
    return _symbolic(e, value, merge_ranges((a, b)))


def _is_integer(n: object) -> bool:
    return isinstance(n, (int, np.integer))


def _compare(op: str, a: Dim, b: Any) -> Any:
    """What is certain for all sizes in range is answered from the formulas.

    The rest is answered, in a recording, by the values, and noted as a guard; elsewhere two formulas that
    differ are unequal and an order is that of the values.
    """
    if not _is_integer(b):
        return NotImplemented
    left, right = a.expr, expr_of(b)
    if (certain := _certain(op, expr.sub(left, right), {**a.ranges, **ranges_of(b)})) is not None:
        return certain
    log = _log.get()
    if log is None and op in ("eq", "ne"):
        return op == "ne"
    outcome = COMPARE[op](value_of(a), value_of(b))
    if log is not None:
        log.guards.append(Guard(op, left, right, outcome, user_line(), called_by_user(2)))
    return outcome


def _certain(op: str, difference: Expr, ranges: Mapping[str, Range]) -> bool | None:
    """The outcome of `difference op 0` if it is the same for all sizes in range."""
    low, high = expr.bounds(difference, ranges)
    if low is not None and high is not None and low == high:
        return COMPARE[op](low, 0)
    below, above = high is not None and high < 0, low is not None and low > 0
    if below or above:
        return COMPARE[op](-1 if below else 1, 0)
    if op in ("lt", "ge") and low == 0:
        return op == "ge"
    if op in ("gt", "le") and high == 0:
        return op == "le"
    return None


# ---- working with sizes --------------------------------------------------------------------------------


def expr_of(n: int) -> Expr:
    """The formula of a size: the int itself, or a `Dim`'s expression."""
    return n.expr if isinstance(n, Dim) else operator.index(n)


def value_of(n: int) -> int:
    """The plain integer value of a size; nothing is noted."""
    return int.__add__(n, 0) if isinstance(n, Dim) else operator.index(n)


def ranges_of(n: int) -> dict[str, Range]:
    return n.ranges if isinstance(n, Dim) else {}


def merge_ranges(sizes: Iterable[int]) -> dict[str, Range]:
    """The ranges of all sizes in the formulas. ValueError where one name is declared with two ranges."""
    out: dict[str, Range] = {}
    for n in sizes:
        for name, found in ranges_of(n).items():
            if out.setdefault(name, found) != found:
                raise ValueError(f"Dim: {name} is declared with two ranges, {out[name]} and {found}")
    return out


def same_size(a: int, b: int) -> bool:
    """Whether two sizes are the same for every value of the dynamic ones: their formulas are equal."""
    return bool(expr_of(a) == expr_of(b))


def same_shape(a: Iterable[int], b: Iterable[int]) -> bool:
    """`same_size` along every axis."""
    return tuple(map(expr_of, a)) == tuple(map(expr_of, b))


def size_text(n: int) -> str:
    """The formula as text, for ints and Dims: `64`, `batch*64`."""
    return expr.text(expr_of(n))


def size(e: Expr, ranges: Mapping[str, Range], sizes: Mapping[str, int] | None = None) -> int:
    """The int or Dim of a formula. Its value is that at `sizes`, or some value in range.

    ValueError names a size in the formula that has no range.
    """
    if isinstance(e, int):
        return e
    used = sorted(expr.names(e))
    if missing := [name for name in used if name not in ranges]:
        raise ValueError(f"size {expr.text(e)}: {missing[0]!r} is not declared; known are {sorted(ranges)}")
    values = sizes or {name: _placeholder(*ranges[name]) for name in used}
    return _symbolic(e, expr.evaluate(e, values), {name: ranges[name] for name in used})


def evaluate(n: int | Expr, sizes: Mapping[str, int]) -> int:
    """The value of a size (int, Dim or Expr) where each dynamic size has the given value."""
    return expr.evaluate(n if isinstance(n, tuple) else expr_of(n), sizes)


def resolve(attr: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute (or shape) with every Dim in it, also inside tuples, replaced by its value at `sizes`."""
    if isinstance(attr, Dim):
        return expr.evaluate(attr.expr, sizes)
    if isinstance(attr, tuple):
        return tuple(resolve(a, sizes) for a in attr)
    return attr


def plain(attr: Any) -> Any:
    """An attribute with every Dim in it replaced by the value it has now."""
    if isinstance(attr, Dim):
        return value_of(attr)
    if isinstance(attr, tuple):
        return tuple(map(plain, attr))
    return attr


def dims_in(attr: Any) -> Iterator[Dim]:
    """Every Dim in an attribute or shape."""
    if isinstance(attr, Dim):
        yield attr
    elif isinstance(attr, tuple):
        for a in attr:
            yield from dims_in(a)


# ---- text ----------------------------------------------------------------------------------------------

_AST_OPS: dict[type[ast.operator], Callable[[Expr, Expr], Expr]] = {
    ast.Add: expr.add,
    ast.Sub: expr.sub,
    ast.Mult: expr.mul,
    ast.FloorDiv: expr.floordiv,
    ast.Mod: expr.mod,
}


def parse_expr(source: str) -> Expr:
    """`(h+1)//2` as a canonical expression, from integers, names, `+ - * // %`, `max` and `min`.

    ValueError for any other text.
    """
    try:
        return expr_from_ast(ast.parse(source.strip(), mode="eval").body)
    except SyntaxError:
        raise ValueError(f"size {source!r} is not an expression of names and integers") from None


def parse_dim(source: str, ranges: Mapping[str, Range]) -> int:
    """The int or Dim that a text such as `batch*64` means, given the ranges of its names."""
    return size(parse_expr(source), ranges)


def expr_from_ast(node: ast.expr) -> Expr:
    """The expression of a parsed Python expression; ValueError where it is no size."""
    match node:
        case ast.Constant(value=int(n)) if not isinstance(n, bool):
            return n
        case ast.Name(id=name):
            return expr.dim(name)
        case ast.UnaryOp(op=ast.USub(), operand=a):
            return expr.mul(expr_from_ast(a), -1)
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _AST_OPS:
            return _AST_OPS[type(op)](expr_from_ast(a), expr_from_ast(b))
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=[a, b], keywords=[]):
            return expr.BUILD[name](expr_from_ast(a), expr_from_ast(b))
    raise ValueError(f"size {ast.unparse(node)!r} is not an expression of names and integers")
