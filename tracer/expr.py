"""Symbolic integers: polynomials in named sizes, with floor division, max and min as further atoms.

    Expr = int | ("dim", name) | (op, Expr, Expr)          op: add mul floordiv mod max min

Every function here returns a canonical expression, so two sizes that a program computes in different ways are
usually the same tuple: `(batch*64)//64` is `batch`, `(h-1)//2 + 1` is `(h+1)//2`. `a - b` is `a + b*-1`, and
`a % b` counts as `a - b*(a//b)` (Python's definition) but is written as `mod` where that is shorter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import gcd, inf
from typing import Any

Expr = Any  # int | tuple; recursive, which mypy cannot check through `match` on tuples
Monomial = tuple[Expr, ...]  # atoms with repetition, sorted by their text; () is the constant term
Poly = dict[Monomial, int]
Range = tuple[int, int | None]  # smallest and largest value, both included; None: no upper bound


# ---- building ------------------------------------------------------------------------------------------


def dim(name: str) -> Expr:
    return ("dim", name)


@lru_cache(maxsize=65536)
def add(a: Expr, b: Expr) -> Expr:
    return a + b if isinstance(a, int) and isinstance(b, int) else _tree(_sum(_poly(a), _poly(b)))


def sub(a: Expr, b: Expr) -> Expr:
    return add(a, mul(b, -1))


@lru_cache(maxsize=65536)
def mul(a: Expr, b: Expr) -> Expr:
    return a * b if isinstance(a, int) and isinstance(b, int) else _tree(_product(_poly(a), _poly(b)))


@lru_cache(maxsize=65536)
def floordiv(a: Expr, b: Expr) -> Expr:
    """`a // b`, rounding down. ZeroDivisionError for a divisor of 0; a symbolic one is nonzero."""
    if isinstance(b, int) and b < 0:
        a, b = mul(a, -1), -b
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return _tree(_divided(_poly(a), b) if isinstance(b, int) else _long_division(_poly(a), _poly(b)))


def mod(a: Expr, b: Expr) -> Expr:
    """`a % b` with the sign of `b`, as in Python."""
    return a % b if isinstance(a, int) and isinstance(b, int) else sub(a, mul(b, floordiv(a, b)))


def maximum(a: Expr, b: Expr) -> Expr:
    return extreme("max", a, b, {})


def minimum(a: Expr, b: Expr) -> Expr:
    return extreme("min", a, b, {})


def extreme(op: str, a: Expr, b: Expr, ranges: Mapping[str, Range]) -> Expr:
    """`max` or `min` of two, without what is never the largest (smallest) of all within the ranges."""
    kept: list[Expr] = []
    for e in sorted({*_operands(op, a), *_operands(op, b)}, key=text):
        if not any(_beats(op, other, e, ranges) for other in kept):
            kept = [*(other for other in kept if not _beats(op, e, other, ranges)), e]
    out = kept[0]
    for e in kept[1:]:
        out = (op, out, e)
    return out


def _operands(op: str, e: Expr) -> list[Expr]:
    nested = not isinstance(e, int) and e[0] == op
    return [*_operands(op, e[1]), *_operands(op, e[2])] if nested else [e]


def _beats(op: str, a: Expr, b: Expr, ranges: Mapping[str, Range]) -> bool:
    """Whether `a` is never smaller (for min: larger) than `b`."""
    low, high = bounds(sub(a, b), ranges)
    return (low is not None and low >= 0) if op == "max" else (high is not None and high <= 0)


#: The function behind each operator of an `Expr`.
BUILD: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": add,
    "mul": mul,
    "floordiv": floordiv,
    "mod": mod,
    "max": maximum,
    "min": minimum,
}


# ---- polynomials ---------------------------------------------------------------------------------------


def _poly(e: Expr) -> Poly:
    if isinstance(e, int):
        return {(): e} if e else {}
    match e:
        case ("add", a, b):
            return _sum(_poly(a), _poly(b))
        case ("mul", a, b):
            return _product(_poly(a), _poly(b))
        case ("mod", a, b):
            return _sum(_poly(a), _product({(): -1}, _product(_poly(b), _poly(floordiv(a, b)))))
    return {(e,): 1}


def _sum(a: Poly, b: Poly) -> Poly:
    out = dict(a)
    for monomial, c in b.items():
        out[monomial] = out.get(monomial, 0) + c
    return {m: c for m, c in out.items() if c}


def _product(a: Poly, b: Poly) -> Poly:
    out: Poly = {}
    for m, c in a.items():
        for n, d in b.items():
            key = tuple(sorted((*m, *n), key=text))
            out[key] = out.get(key, 0) + c * d
    return {m: c for m, c in out.items() if c}


def _ordered(p: Poly) -> list[tuple[Monomial, int]]:
    """Terms by falling degree, then text; the constant last. The first is the leading term."""
    return sorted(p.items(), key=lambda term: (-len(term[0]), [text(atom) for atom in term[0]]))


def _tree(p: Poly) -> Expr:
    """The canonical expression of a polynomial."""
    if not set(p) - {()}:
        return p.get((), 0)
    p = _with_mods(_with_halves(p))
    terms = sorted(_ordered(p), key=_place)
    out = _term(*terms[0])
    for monomial, c in terms[1:]:
        out = ("add", out, _term(monomial, c))
    return out


def _place(term: tuple[Monomial, int]) -> int:
    """Terms that are added before those that are subtracted, a negative constant at the end."""
    monomial, c = term
    return (0 if c > 0 else 2) + (not monomial)


def _term(monomial: Monomial, c: int) -> Expr:
    if not monomial:
        return c
    out = monomial[0]
    for atom in monomial[1:]:
        out = ("mul", out, atom)
    return out if c == 1 else ("mul", out, c)


def _with_halves(p: Poly) -> Poly:
    """`x//2 + (x+1)//2 = x`, used where that leaves fewer terms: `x - x//2` becomes `(x+1)//2`.

    Of two forms that are equally long, the one with `x//2` is canonical.
    """
    for monomial, c in _ordered(p):
        match monomial:
            case (("floordiv", x, 2),):
                even = {m: a for m, a in _poly(x).items() if m}
                odd = not _poly(x).get((), 0)
                partner = {(("floordiv", _tree(_sum(even, {(): 1} if odd else {})), 2),): -c}
                other = _sum(_sum(p, {monomial: -c}), _sum(_product({(): c}, even), partner))
                if len(other) < len(p) or (len(other) == len(p) and not odd):
                    return _with_halves(other)
    return p


def _with_mods(p: Poly) -> Poly:
    """`x - c*(x//c)` written as `x % c`, where that leaves fewer terms."""
    for monomial, coefficient in _ordered(p):
        match monomial:
            case (("floordiv", x, int(c)),) if coefficient % c == 0:
                m = -coefficient // c
                shorter = _sum(p, _sum(_product({(): -m}, _poly(x)), {monomial: -coefficient}))
                if len(shorter) < len(p) - 1:
                    return _with_mods(_sum(shorter, {(("mod", x, c),): m}))
    return p


# ---- division ------------------------------------------------------------------------------------------


def _divided(p: Poly, c: int) -> Poly:
    """`p // c` for a positive int: what divides exactly comes out, the rest becomes one canonical atom."""
    if c == 0:
        raise ZeroDivisionError(f"{text(_tree(p))} // 0: a size is divided by zero")
    quotient: Poly = {m: q for m, a in p.items() if (q := _nearest(a, c) if m else a // c)}
    rest = _sum(p, _product({(): -c}, quotient))
    if not set(rest) - {()}:
        return quotient
    if (
        _ordered(rest)[0][1] < 0
    ):  # floor(-x/c) = -floor((x + c - 1)/c): the leading coefficient is made positive
        flipped = _sum(_product({(): -1}, rest), {(): c - 1})
        return _sum(quotient, _product({(): -1}, _divided(flipped, c)))
    return _sum(quotient, _floor_atom(rest, c))


def _nearest(a: int, c: int) -> int:
    """The q for which `a - q*c` lies in (-c/2, c/2]."""
    return -((c - 2 * a) // (2 * c))


def _floor_atom(p: Poly, c: int) -> Poly:
    """`p // c` where no coefficient of `p` reaches `c`, in lowest terms."""
    common = gcd(c, *(a for m, a in p.items() if m))
    if common > 1:  # floor((g*x + r)/(g*d)) = floor((x + floor(r/g))/d)
        return _divided({m: q for m, a in p.items() if (q := a // common)}, c // common)
    constant, rest = p.get((), 0), {m: a for m, a in p.items() if m}
    match list(rest.items()):
        case [((("floordiv", x, int(d)),), 1)]:  # floor((floor(x/d) + k)/c) = floor((x + k*d)/(c*d))
            return _divided(_sum(_poly(x), {(): constant * d} if constant else {}), c * d)
    return {(("floordiv", _tree(p), c),): 1}


def _long_division(p: Poly, d: Poly) -> Poly:
    """`p // d` for a symbolic `d`: common factors cancel, then every term that divides exactly comes out."""
    p, d = _cancelled(p, d)
    if not set(d) - {()}:
        c = d.get((), 0)
        return _divided(p, c) if c > 0 else _divided(_product({(): -1}, p), -c)
    quotient, rest = _exact_part(p, d)
    if quotient and rest:
        return _sum(quotient, _long_division(rest, d))
    return quotient if not rest else {(("floordiv", _tree(rest), _tree(d)),): 1}


def _exact_part(p: Poly, d: Poly) -> tuple[Poly, Poly]:
    """(q, r) with p = q*d + r. A divisor of several terms divides wholly or not at all."""
    quotient: Poly = {}
    rest = p
    lead, c = _ordered(d)[0]
    for _ in range(len(p) + len(d)):
        step = next((t for m, a in _ordered(rest) if (t := _term_quotient(m, a, lead, c))), None)
        if step is None:
            break
        quotient, rest = (_sum(quotient, step), _sum(rest, _product({(): -1}, _product(step, d))))
    return (quotient, rest) if not rest or len(d) == 1 else ({}, p)


def _term_quotient(m: Monomial, a: int, lead: Monomial, c: int) -> Poly | None:
    left = Counter(m)
    left.subtract(Counter(lead))
    if a % c or min(left.values(), default=0) < 0:
        return None
    return {tuple(sorted(left.elements(), key=text)): a // c}


def _cancelled(p: Poly, d: Poly) -> tuple[Poly, Poly]:
    """Both divided by the atoms that every term of both has; a size that cancels is nonzero."""
    if not p:
        return p, {(): 1}
    common = Counter(next(iter(d)))
    for m in (*p, *d):
        common &= Counter(m)
    return _without(p, common), _without(d, common)


def _without(p: Poly, factor: Counter[Expr]) -> Poly:
    return {tuple(sorted((Counter(m) - factor).elements(), key=text)): c for m, c in p.items()}


# ---- reading -------------------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def text(e: Expr) -> str:
    """`batch*64`, `(h+1)//2`, `max(n, 4)`: Python's syntax, and what `dims.parse_dim` reads."""
    if isinstance(e, int):
        return str(e)
    match e:
        case ("dim", name):
            return str(name)
        case ("add", a, ("mul", b, int(c))) if c < 0:
            return f"{text(a)}-{text(('mul', b, -c) if c != -1 else b)}"
        case ("add", a, int(b)) if b < 0:
            return f"{text(a)}-{-b}"
        case ("add", a, b):
            return f"{text(a)}+{text(b)}"
        case ("mul", a, b):
            return f"{_factor(a, ('dim', 'mul', 'max', 'min'))}*{_factor(b, ('dim', 'max', 'min'))}"
        case ("floordiv" | "mod" as op, a, b):
            sign = "//" if op == "floordiv" else "%"
            return f"{_factor(a, ('dim', 'max', 'min'))}{sign}{_factor(b, ('dim', 'max', 'min'))}"
        case (op, a, b):
            return f"{op}({text(a)}, {text(b)})"
    raise TypeError(f"{e!r} is not a size expression")


def _factor(e: Expr, bare: tuple[str, ...]) -> str:
    plain = e >= 0 if isinstance(e, int) else e[0] in bare
    return text(e) if plain else f"({text(e)})"


def names(e: Expr) -> frozenset[str]:
    """The sizes an expression depends on."""
    if isinstance(e, int):
        return frozenset()
    return frozenset({e[1]}) if e[0] == "dim" else names(e[1]) | names(e[2])


def evaluate(e: Expr, sizes: Mapping[str, int]) -> int:
    """The value of `e` where each size has the given value. KeyError names a size that is missing."""
    if isinstance(e, int):
        return int(e)
    match e:
        case ("dim", name):
            if name not in sizes:
                raise KeyError(f"size {name!r} has no value; given are {', '.join(sorted(sizes)) or 'none'}")
            return sizes[name]
        case (op, a, b):
            return APPLY[op](evaluate(a, sizes), evaluate(b, sizes))
    raise TypeError(f"{e!r} is not a size expression")


#: What each operator does to two ints.
APPLY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
}


def bounds(e: Expr, ranges: Mapping[str, Range]) -> tuple[int | None, int | None]:
    """A smallest and a largest value of `e` over the ranges, by interval arithmetic; None where unbounded.

    The bounds hold for every size in range but need not be reached. A size without a range is any integer.
    """
    low, high = _interval(e, ranges)
    return (None if low == -inf else int(low)), (None if high == inf else int(high))


def _interval(e: Expr, ranges: Mapping[str, Range]) -> tuple[float, float]:
    if isinstance(e, int):
        return e, e
    match e:
        case ("dim", name):
            low, high = ranges.get(name, (-inf, None))
            return low, inf if high is None else high
        case (op, a, b):
            return _combined(op, _interval(a, ranges), _interval(b, ranges))
    raise TypeError(f"{e!r} is not a size expression")


def _combined(op: str, a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    match op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "mul":
            return _hull(x * y if x and y else 0 for x in a for y in b)
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "mod" if b[0] > 0:
            return a if 0 <= a[0] and a[1] < b[0] else (0, b[1] - 1)
        case "floordiv" if b[0] > 0:
            return _hull(_floor(x, y) for x in a for y in b)
    return -inf, inf


def _floor(x: float, y: float) -> float:
    if abs(x) == inf:
        return x
    return x // y if y != inf else (0 if x >= 0 else -1)


def _hull(values: Iterable[float]) -> tuple[float, float]:
    found = list(values)
    return min(found), max(found)
