"""What one element of a value costs: its `element` rule run on a namespace that counts.

The rule is written against `s` and readers, so handing it a counter instead of a code generator tells how
often each operand is read, inside which reductions, and how many operations an element takes. Nothing is
computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..eager.ops.scalars import FUNCTIONS, SCALARS, result_dtype
from ..eager.ops.types import dtype_name
from ..tracer.dims import expr_of
from ..tracer.graph import Node

Sizes = tuple[int, ...]

#: These choose by the index which operand to read, so an element of an operand is read once though there are
#: more elements in the result.
GUARDED = ("cat", "pad")


class Cost(NamedTuple):
    """Work per element: cheap operations, functions such as exp, and whether there is a reduction in it."""

    arithmetic: int = 0
    functions: int = 0
    reduces: bool = False

    def __add__(self, other: Cost) -> Cost:  # type: ignore[override]
        return Cost(
            self.arithmetic + other.arithmetic,
            self.functions + other.functions,
            self.reduces or other.reduces,
        )

    def at_most(self, arithmetic: int) -> bool:
        """No loop, no function, and no more than `arithmetic` cheap operations."""
        return not self.reduces and self.functions == 0 and self.arithmetic <= arithmetic


class Profile(NamedTuple):
    """`cost` of one element; for each operand its reads, each with the sizes of the reductions around it; and whether
    it reports indices that are out of range."""

    cost: Cost
    reads: tuple[tuple[Sizes, ...], ...]
    reports: bool = False


class _Counted(NamedTuple):
    """A scalar of which only the dtype is known. Index scalars cost nothing: they are addresses."""

    dtype: str
    address: bool = False


@dataclass
class _Counter:
    """The namespace `s`."""

    around: Sizes = ()
    arithmetic: int = 0
    functions: int = 0
    reduces: bool = False
    reports: bool = False

    def __getattr__(self, name: str) -> Callable[..., _Counted]:
        if name not in SCALARS:
            raise AttributeError(f"the scalar language has no function {name!r}")

        def count(*args: _Counted) -> _Counted:
            is_address = all(a.address for a in args)
            if not is_address:
                self.functions += name in FUNCTIONS
                self.arithmetic += name not in FUNCTIONS
            return _Counted(result_dtype(name, args[0].dtype), is_address)

        return count

    def const(self, value: Any, dtype: str) -> _Counted:
        return _Counted(dtype, True)

    def index(self, n: int) -> _Counted:
        return _Counted("int64", True)

    def select(self, cond: _Counted, then: _Counted, other: _Counted) -> _Counted:
        is_address = cond.address and then.address and other.address
        self.arithmetic += not is_address
        return _Counted(then.dtype, is_address)

    def cast(self, x: _Counted, dtype: str) -> _Counted:
        self.arithmetic += not x.address and x.dtype != dtype
        return _Counted(dtype, x.address)

    def place(self, k: _Counted, n: int) -> _Counted:
        self.reports = True
        return _Counted("int64", k.address)

    def reduce(self, op: str, sizes: Sequence[int], body: Callable[..., _Counted]) -> _Counted:
        outside, self.around, self.reduces = self.around, (*self.around, *sizes), True
        value = body(*(_Counted("int64", True) for _ in sizes))
        self.around = outside
        return _Counted(value.dtype)


@dataclass
class _Reader:
    s: _Counter
    node: Node
    reads: list[Sizes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shape, self.ndim = self.node.shape, len(self.node.shape)
        self.dtype = dtype_name(self.node.dtype)

    def __call__(self, *index: _Counted) -> _Counted:
        self.reads.append(self.s.around)
        return _Counted(self.dtype)


def profile(node: Node) -> Profile | None:
    """The profile of an op's value; None for one without an element rule, which a backend takes whole."""
    if node.op is None or node.op.element is None:
        return None
    s = _Counter()
    readers = [_Reader(s, i) for i in node.inputs]
    index = tuple(_Counted("int64", True) for _ in node.shape)
    node.op.element(s, index, *readers, **node.attrs)
    return Profile(
        Cost(s.arithmetic, s.functions, s.reduces), tuple(tuple(r.reads) for r in readers), s.reports
    )


def reads_once(node: Node, operand: int, reads: tuple[Sizes, ...]) -> bool:
    """Is each element of the operand read at most once while the whole of `node` is computed?

    A permutation, a slice and a full sum do that; a broadcast or a matrix product does not. Sizes are
    compared as factors, so the answer holds for every value of a dynamic size; in doubt it is no.
    """
    if len(reads) > 1:
        return False
    name, kind = (node.op.name, node.op.kind) if node.op else ("", "")
    if name in GUARDED or (kind == "view" and name != "expand"):
        return True
    return all(divides(node.shape + around, node.inputs[operand].shape) for around in reads)


def divides(few: Sizes, many: Sizes) -> bool:
    """Is product(few) <= product(many), whatever the dynamic sizes are? Equal factors cancel."""
    left = [expr_of(n) for n in few]
    for factor in [expr_of(n) for n in many]:
        if factor in left:
            left.remove(factor)
        else:
            left.append(("over", factor))
    up = [n for n in left if isinstance(n, int)]
    down = [n[1] for n in left if isinstance(n, tuple) and n[0] == "over"]
    if len(up) + len(down) < len(left):
        return False
    return product(up) <= product([n for n in down if isinstance(n, int)])


def product(factors: Sequence[int]) -> int:
    out = 1
    for n in factors:
        out *= n
    return out
