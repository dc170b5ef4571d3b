"""What a gradient rule reads of its operands, found in the rule itself.

A rule `lambda F, g, out, x, y: g * y` reads the contents of y alone; `F.reshape(g, x.shape)` needs x's shape, not
x. The tape keeps only what is read. The answer comes from the rule's bytecode: every use of a parameter that is
not `.shape`, `.dtype` or `.ndim` of it counts as reading, so a doubtful case is kept, never lost.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

from .table import Op

UNUSED, SHAPE, READ = range(3)
SHAPE_ATTRIBUTES = ("shape", "dtype", "ndim")


class Reads:
    """Of one op: the use of each operand by each rule, and whether the output is read."""

    def __init__(self, op: Op) -> None:
        rules = [op.vjp] if callable(op.vjp) else list(op.vjp or ())
        if not rules:  # differentiated through its parts, which may read anything
            self.uses, self.rest, self.out = [], READ, False
            self.per_rule: list[tuple[list[int], int]] = []
        else:
            found = [uses_of(rule) for rule in rules if rule is not None]
            width = max((len(uses) for uses, _, _ in found), default=0)
            self.uses = [max(self._at(uses, rest, k) for uses, rest, _ in found) for k in range(width)]
            self.rest = max((rest for _, rest, _ in found), default=UNUSED)
            self.out = any(out == READ for _, _, out in found)
            self.per_rule = [([], UNUSED) if rule is None else uses_of(rule)[:2] for rule in rules]
        self.all_inputs = self.rest != SHAPE and all(use == READ for use in self.uses)
        self.differentiable = bool(rules) or op.decompose is not None
        self.no_inputs = self.rest == UNUSED and all(use == UNUSED for use in self.uses)
        self.any = self.out or READ in (*self.uses, self.rest)

    @staticmethod
    def _at(uses: list[int], rest: int, k: int) -> int:
        return uses[k] if k < len(uses) else rest

    def of(self, k: int) -> int:
        """The use of operand k by any rule."""
        return self._at(self.uses, self.rest, k)

    def positions(self, rule: int, count: int) -> list[int]:
        """The operands, of `count`, whose contents the gradient of operand `rule` is computed from."""
        uses, rest = self.per_rule[rule if len(self.per_rule) > 1 else 0] if self.per_rule else ([], READ)
        return [k for k in range(count) if self._at(uses, rest, k) == READ]


@cache
def reads_of(op: Op) -> Reads:
    return Reads(op)


def uses_of(rule: Callable[..., Any]) -> tuple[list[int], int, int]:
    """The use of each operand after (F, g, out), of further ones (`*rest`), and of `out`."""
    code = rule.__code__
    found = dict.fromkeys(code.co_varnames, UNUSED)
    instructions = list(dis.get_instructions(code))
    for instruction, after in zip(instructions, [*instructions[1:], None], strict=True):
        if not instruction.opname.startswith("LOAD_FAST"):
            continue
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        for name in names:
            shape_only = (
                name == names[-1]
                and after is not None
                and after.opname == "LOAD_ATTR"
                and after.argval in SHAPE_ATTRIBUTES
            )
            found[name] = max(found[name], SHAPE if shape_only else READ)
    for name in code.co_cellvars:
        found[name] = READ
    return _positional(code, found)


def _positional(code: CodeType, found: dict[str, int]) -> tuple[list[int], int, int]:
    names = code.co_varnames
    operands = [found[name] for name in names[3 : code.co_argcount]]
    has_rest = bool(code.co_flags & 0x04)
    rest = found[names[code.co_argcount + code.co_kwonlyargcount]] if has_rest else UNUSED
    return operands, rest, found[names[2]]
