"""The op table: one op, one entry. Every rule is written against a namespace argument, never an import.

| rule        | signature                                              | read by                                    |
|-------------|--------------------------------------------------------|--------------------------------------------|
| `infer`     | `(*avals, **attrs) -> Aval` (a tuple: several outputs) | recorder, graph check, error messages      |
| `run`       | `(xp, *arrays, **attrs) -> array(s)`                   | eager, reference evaluation, folding       |
| `vjp`       | per operand `(F, g, out, *inputs, **attrs) -> grad`    | the tape; written in `F`, the public ops   |
|             | or one rule that gives a tuple, one per operand        | (any number of operands, shared work)      |
| `scalar`    | `(s, *scalars, **attrs) -> scalar`                     | elementwise ops: loops, interpreter, C++   |
| `element`   | `(s, index, *readers, **attrs) -> scalar`              | loop lowering of every op, see below       |
| `decompose` | `(F, *inputs, **attrs) -> output`                      | composite ops: gradient, lowering          |
| `put`       | `(F, base, value, **attrs) -> base`                    | views: in-place writes through the view    |

`element` says what `out[index]` is: `index` is a tuple of integer scalars, one per output axis, and each reader
is called with an index to read its operand, `reader(i, k)`, and has `.shape`, `.dtype`, `.ndim`. Sums and the
like are `s.reduce("add", (size, ...), lambda k, ...: scalar)`. An elementwise op's `element` follows from its
`scalar`; a composite op needs neither, its `decompose` stands for it. `s` is described in `scalars.py`.

Operands are positional; static attributes are keyword-only and hashable. Gradients of broadcast operands are
summed back by the tape (`F.sum_to`), so a rule returns the gradient at the *output's* shape if that is easiest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .types import Aval, broadcast_shapes, same_dtype

Rule = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Op:
    """One entry of the table; `kind`: elementwise, view, reduce, contract, index, create, composite or library."""

    name: str
    infer: Rule
    run: Rule
    vjp: tuple[Rule | None, ...] | Rule | None = None
    scalar: Rule | None = None
    element: Rule | None = None
    decompose: Rule | None = None
    put: Rule | None = None
    kind: str = "elementwise"
    pure: bool = True
    random: bool = False
    # The gradient rules are those of a complex-differentiable function, written as for real numbers: the tape
    # conjugates around them. False: they state the gradient of complex operands themselves, in PyTorch's
    # convention (the conjugate Wirtinger derivative times two).
    holomorphic: bool = True
    # A slot for the arity of operands that may be absent or many, e.g. (1, 3) for an optional weight and bias.
    arity: tuple[int, int | None] = field(default=(1, 1))

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return lookup, (self.name,)


TABLE: dict[str, Op] = {}


def lookup(name: str) -> Op:
    """The entry called `name`; KeyError with the nearest names when there is none."""
    try:
        return TABLE[name]
    except KeyError:
        from difflib import get_close_matches

        near = get_close_matches(name, TABLE, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise KeyError(f"no operator is called {name!r}{hint}") from None


def define(name: str, infer: Rule, run: Rule, **rules: Any) -> Op:
    """Enter an op. A name may be defined once."""
    if name in TABLE:
        raise ValueError(f"operator {name!r} is defined twice")
    op = TABLE[name] = Op(name, infer, run, **rules)
    return op


# ---- families ----------------------------------------------------------------------------------------------


def elementwise(scalar: Rule) -> Rule:
    """The `element` rule of an op that maps scalars: read each operand at the broadcast index, then combine."""

    def element(s: Any, index: tuple[Any, ...], *readers: Any, **attrs: Any) -> Any:
        return scalar(s, *(read(*aligned(s, read, index)) for read in readers), **attrs)

    return element


def aligned(s: Any, read: Any, index: tuple[Any, ...]) -> tuple[Any, ...]:
    """`index` of the output as an index of a broadcast operand: trailing axes, 0 where its size is 1."""
    tail = index[len(index) - read.ndim :]
    return tuple(s.index(0) if n == 1 else i for n, i in zip(read.shape, tail, strict=True))


def unary(
    name: str,
    run: Rule,
    vjp: Rule | None,
    scalar: Rule,
    dtype: Any = None,
    infer: Rule | None = None,
    **rules: Any,
) -> Op:
    """`f(x)`, one element at a time. `dtype`: the output's, when it is not the input's."""

    def same(x: Aval, **attrs: Any) -> Aval:
        return x if dtype is None else Aval(x.shape, dtype)

    return define(
        name,
        infer or same,
        run,
        vjp=None if vjp is None else (vjp,),
        scalar=scalar,
        element=elementwise(scalar),
        **rules,
    )


def binary(
    name: str, run: Rule, vjp: tuple[Rule | None, Rule | None] | None, scalar: Rule, dtype: Any = None
) -> Op:
    """`f(x, y)` of two operands of one dtype, with broadcasting. `dtype`: the output's, when it is another."""

    def infer(x: Aval, y: Aval, **attrs: Any) -> Aval:
        common = same_dtype(name, x, y)
        return Aval(broadcast_shapes(name, x, y), common if dtype is None else dtype)

    return define(name, infer, run, vjp=vjp, scalar=scalar, element=elementwise(scalar), arity=(2, 2))


def library(name: str, infer: Rule, run: Rule, vjp: Any = None, **rules: Any) -> Op:
    """An op that a numerical library computes as a whole (LAPACK, FFT, special functions): it has no loops, runs
    eagerly and in recorded graphs, and the compiler refuses it by name. Its gradients are PyTorch's for complex
    operands too (see `Op.holomorphic`)."""
    return define(name, infer, run, vjp=vjp, kind="library", **{"holomorphic": False, **rules})


def composite(name: str, infer: Rule, run: Rule, decompose: Rule, **rules: Any) -> Op:
    """An op with a meaning in other ops: gradient and lowering follow from `decompose`; `run` is its fast form."""
    return define(name, infer, run, decompose=decompose, kind="composite", **rules)
