"""Index arithmetic on the way to LLVM: every integer expression as a linear form over few values.

    3 + 16*%i4 + 1*lane        Linear(terms=(("%i4", 16), ("lane", 1)), const=3)

Unrolled variables are numbers here, so neighbouring accesses differ in `const` alone and share the rest; the factor of
`lane` tells a broadcast from a vector load from a gather; and the sums in front of every access need no tree of nodes.
What is not linear (a quotient, a load used as an index) is computed once per block and becomes a term itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..loops import INDEX, Const, Expr, Index, Scalar, Size
from .builder import Function, Value, literal, vector_literal
from .scalars import LlvmScalars

#: The number of the lane, as a term.
LANE = "lane"

Terms = tuple[tuple[str, int], ...]


class Linear(NamedTuple):
    """`const + sum of factor * name`, names sorted, factors nonzero."""

    terms: Terms
    const: int

    @property
    def lane(self) -> int:
        """The factor of the lane number."""
        return dict(self.terms).get(LANE, 0)

    def plus(self, other: Linear) -> Linear:
        if not other.terms:
            return Linear(self.terms, self.const + other.const)
        total = dict(self.terms)
        for name, factor in other.terms:
            total[name] = total.get(name, 0) + factor
        return Linear(_sorted(total), self.const + other.const)

    def times(self, factor: int) -> Linear:
        if factor == 0:
            return Linear((), 0)
        return Linear(tuple((n, f * factor) for n, f in self.terms), self.const * factor)

    def without_lane(self) -> Linear:
        return Linear(tuple(t for t in self.terms if t[0] != LANE), self.const)


def size_name(name: str) -> str:
    """What the function calls a size: no name that a builder makes up has a dot."""
    return f"size.{name}"


def number(n: int) -> Linear:
    return Linear((), n)


def _sorted(factors: dict[str, int]) -> Terms:
    return tuple(sorted((n, f) for n, f in factors.items() if f))


class Indexer:
    """Linear forms of expressions in one function. `other` computes what is no arithmetic (loads, casts).

    `vars` gives each loop variable its form: a number where unrolled, a term where counted, LANE in a vector loop.
    """

    def __init__(self, f: Function, s: LlvmScalars, other: Callable[[Expr], Value]) -> None:
        self.f, self.s, self.other = f, s, other
        self.vars: dict[str, Linear] = {}
        self.lanes = 1
        self.wide: dict[str, Value] = {}
        self.counts: set[str] = {LANE}  # names that are certainly not below zero, and no wrapped user data
        self.known: list[dict[object, Value | str]] = [{}]

    # ---- forms ----

    def linear(self, e: Expr) -> Linear:
        match e:
            case Const(value):
                return number(int(value))
            case Index(var):
                return self.vars[var]
            case Size(name):
                self.counts.add(f"%{size_name(name)}")
                return Linear(((f"%{size_name(name)}", 1),), 0)
            case Scalar(op, (x, y), "int64") if op in _RULES:
                return _RULES[op](self, self.linear(x), self.linear(y))
        return self.term(self.other(e), False)

    def term(self, value: Value, counts: bool) -> Linear:
        """A computed value as a term of its own."""
        if value.lanes > 1:
            self.wide[value.name] = value
        if counts:
            self.counts.add(value.name)
        return Linear(((value.name, 1),), 0)

    def is_count(self, x: Linear) -> bool:
        """Certainly not negative, and free of numbers from memory, which may have wrapped around."""
        return x.const >= 0 and all(f > 0 and n in self.counts for n, f in x.terms)

    def product(self, x: Linear, y: Linear) -> Linear:
        if not x.terms or not y.terms:
            return y.times(x.const) if not x.terms else x.times(y.const)
        return self.computed("mul", x, y)

    def quotient(self, x: Linear, y: Linear) -> Linear:
        if not y.terms and y.const > 0 and self.is_count(x):
            whole, rest = self.divisible(x, y.const)
            if not rest.terms:
                return whole.plus(number(rest.const // y.const))
            return whole.plus(self.computed("floordiv", rest, y))
        return self.computed("floordiv", x, y)

    def remainder(self, x: Linear, y: Linear) -> Linear:
        if not y.terms and y.const > 0 and self.is_count(x):
            _, rest = self.divisible(x, y.const)
            return self.computed("mod", rest, y) if rest.terms else number(rest.const % y.const)
        return self.computed("mod", x, y)

    def divisible(self, x: Linear, d: int) -> tuple[Linear, Linear]:
        """x = d * whole + rest, every term on the side it belongs to; the constant goes with the rest."""
        whole = tuple((n, f // d) for n, f in x.terms if f % d == 0)
        rest = tuple(t for t in x.terms if t[1] % d)
        return Linear(whole, 0), Linear(rest, x.const)

    def extreme(self, op: str, x: Linear, y: Linear) -> Linear:
        if not x.terms and not y.terms:
            return number((min if op == "minimum" else max)(x.const, y.const))
        return x if x == y else self.computed(op, x, y)

    def computed(self, op: str, x: Linear, y: Linear) -> Linear:
        """An operation that has no linear form, done once per block."""
        key = (op, x, y)
        known = self.recall(key)
        if known is None:
            counts = self.is_count(x) and self.is_count(y)
            extra = {"nonneg": True} if counts and op in ("floordiv", "mod") else {}
            known = getattr(self.s, op)(self.value(x), self.value(y), **extra)
            self.known[-1][key] = known
            return self.term(known, counts)
        assert isinstance(known, Value)
        return self.term(known, False)

    # ---- values ----

    def value(self, x: Linear) -> Value:
        """The form as an int64 value: one for all lanes, or one a lane where it has lane terms."""
        if not x.terms:
            return literal(x.const, INDEX)
        known = self.recall(x)
        if isinstance(known, Value):
            return known
        if x.const:
            out = self.s.add(self.value(Linear(x.terms, 0)), literal(x.const, INDEX))
        else:
            out = self.summed(x.terms)
        self.known[-1][x] = out
        return out

    def summed(self, terms: Terms) -> Value:
        """Terms that are the same in all lanes are added first."""
        total: Value | None = None
        for name, factor in sorted(terms, key=lambda t: (t[0] == LANE or t[0] in self.wide, t)):
            part = self.scaled(name, factor)
            total = part if total is None else self.s.add(total, part)
        assert total is not None
        return total

    def scaled(self, name: str, factor: int) -> Value:
        if name == LANE:
            return vector_literal([factor * k for k in range(self.lanes)], INDEX)
        value = self.wide.get(name, Value(name, INDEX))
        return value if factor == 1 else self.s.mul(value, literal(factor, INDEX))

    def is_same_in_lanes(self, x: Linear) -> bool:
        return all(n != LANE and n not in self.wide for n, _ in x.terms)

    def is_strided(self, x: Linear) -> bool:
        """Is the only difference between lanes the lane number?"""
        return all(n not in self.wide for n, _ in x.terms)

    # ---- what is known in this block and those around it ----

    def recall(self, key: object) -> Value | str | None:
        for known in reversed(self.known):
            if key in known:
                return known[key]
        return None

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed in a block is known there and in the blocks inside it, nowhere else."""
        self.known.append({})
        try:
            yield
        finally:
            self.known.pop()


Rule = Callable[[Indexer, Linear, Linear], Linear]

_RULES: dict[str, Rule] = {
    "add": lambda self, x, y: x.plus(y),
    "sub": lambda self, x, y: x.plus(y.times(-1)),
    "mul": Indexer.product,
    "floordiv": Indexer.quotient,
    "mod": Indexer.remainder,
    "minimum": lambda self, x, y: self.extreme("minimum", x, y),
    "maximum": lambda self, x, y: self.extreme("maximum", x, y),
}
