"""The GPU schedule of long reductions: a block of threads for each result.

    grid row < results:
      shared partial[threads]
      block thread < threads:
        acc = identity;  for every threads-th term from `thread` on: acc op= term;  partial[thread] = acc
        sync;  half of the threads add the other half's partials to their own, until one is left
        thread 0: acc = start op partial[0], and the epilogue

Neighbouring threads read neighbouring terms, and a sum of many terms is a tree of short sums, which also rounds less.
"""

from __future__ import annotations

from typing import NamedTuple

from ..loops import (
    Accumulate,
    Alloc,
    Body,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Load,
    Stmt,
    Store,
    Sync,
    add,
    ceildiv,
    const,
    less,
    mul,
    statements,
)
from ..lower.scalars import identity
from .contract import chain
from .steps import flatten, let, unwrap
from .stream import along_sum

#: Threads for one result: as many as there are terms for two each, within these bounds.
FEWEST, MOST = 32, 256


class Reduction(NamedTuple):
    """A canonical kernel `… for i: acc = start; for k…: acc op= term; epilogue`."""

    results: tuple[For, ...]
    acc: Alloc
    head: Body
    terms: tuple[For, ...]
    term: Accumulate
    tail: Body


def match_reduction(kernel: Kernel) -> Reduction | None:
    """The single reduction of a kernel whose terms lie side by side in memory; None where there is no such thing."""
    nest, body = unwrap(kernel.body)
    if len(body) != 1 or not isinstance(body[0], Alloc):
        return None
    acc = body[0]
    inner = [k for k, s in enumerate(acc.body) if any(isinstance(x, For) for x in statements((s,)))]
    if len(inner) != 1 or any(isinstance(s, Alloc) for s in acc.body[: inner[0]]):
        return None
    terms, term = chain(acc.body[inner[0]])
    if not terms or not isinstance(term, Accumulate) or term.buffer != acc.buffer:
        return None
    buffers = {b.name: b for b in kernel.buffers}
    if nest and not along_sum(body, list(terms), buffers, nest[-1].var):
        return None
    return Reduction(tuple(nest), acc, acc.body[: inner[0]], terms, term, acc.body[inner[0] + 1 :])


def threads_for(r: Reduction) -> int:
    """How many threads share one result; 1 where a thread is better off alone."""
    count, _ = flatten(r.terms, "term")
    if not isinstance(count, Const):
        return MOST
    threads = MOST
    while threads > int(count.value) // 2:
        threads //= 2
    return threads if threads >= FEWEST else 1


def schedule_reduction(kernel: Kernel, r: Reduction, threads: int) -> Kernel:
    """`threads`: a power of two."""
    results, in_results = flatten(r.results, "result")
    body = (*_partial(r, threads), Sync(), *_tree(r.term.op, r.acc.dtype, threads), _finish(r))
    block = For("thread", const(threads), "block", (r.acc.replace(body=body),))
    shared = Alloc("partial", (threads,), r.acc.dtype, "shared", (block,))
    return kernel.replace(body=(For("result", results, "grid", in_results((shared,))),))


def _partial(r: Reduction, threads: int) -> Body:
    """What one thread adds up of the terms, put where the others see it."""
    count, in_terms = flatten(r.terms, "term")
    term = add(mul(Index("step"), const(threads)), Index("thread"))
    body = let("term", term, (If(less(Index("term"), count), in_terms((r.term,))),))
    start = Store(r.acc.buffer, (), Const(identity(r.term.op, r.acc.dtype), r.acc.dtype))
    steps = For("step", ceildiv(count, threads), "serial", body)
    return (start, steps, Store("partial", (Index("thread"),), Load(r.acc.buffer, (), r.acc.dtype)))


def _tree(op: str, dtype: str, threads: int) -> Body:
    out: Body = ()
    half = threads // 2
    while half:
        other = Load("partial", (add(Index("thread"), const(half)),), dtype)
        mine = Accumulate("partial", (Index("thread"),), op, other)
        out = (*out, If(less(Index("thread"), const(half)), (mine,)), Sync())
        half //= 2
    return out


def _finish(r: Reduction) -> Stmt:
    whole: Expr = Load("partial", (const(0),), r.acc.dtype)
    total = Accumulate(r.acc.buffer, (), r.term.op, whole)
    return If(less(Index("thread"), const(1)), (*r.head, total, *r.tail))
