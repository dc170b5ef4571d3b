"""LLVM text, built line by line: values, functions with structured control flow, modules.

Text is the form LLVM itself reads, so the whole language is at hand and building costs next to nothing. The
classes here know types, names and blocks; they know no arithmetic (`scalars.py`) and choose no schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .values import (
    FLOATS,
    HALVES,
    MEMORY,
    REGISTER,
    Value,
    item_size,
    literal,
    literal_value,
    mangled,
    vector,
    vector_literal,
)

__all__ = [
    "FLOATS", "HALVES", "MEMORY", "REGISTER", "Function", "Module", "Value",
    "item_size", "literal", "literal_value", "mangled", "vector", "vector_literal",
]  # fmt: skip

Body = Callable[[], None]


class Function:
    """One LLVM function, written from top to bottom. Text goes to the current block; methods for control flow
    open and close blocks around callbacks that emit their insides.

    `params` pairs names with LLVM types, attributes included: `[("x", "ptr noalias"), ("n", "i64")]`; the
    body calls them `%x` and `%n`. A function without explicit `ret` gets `ret void`.
    State that changes in loops lives in `alloca`s, which LLVM promotes to registers.
    """

    def __init__(
        self,
        name: str,
        params: Sequence[tuple[str, str]],
        *,
        result: str = "void",
        linkage: str = "internal",
        attributes: str = "nounwind",
    ) -> None:
        self.name, self.params, self.result = name, tuple(params), result
        self.linkage, self.attributes = linkage, attributes
        self.declarations: set[str] = set()
        self.helpers: dict[str, Function] = {}
        self.globals: dict[str, str] = {}
        self._allocas: list[str] = []
        self._lines: list[str] = []
        self._metadata: list[tuple[str, ...]] = []
        self._count = 0
        self._block = "entry"
        self._closed = False

    # -- lines, names, blocks

    def emit(self, text: str) -> None:
        """One instruction without a result."""
        self._lines.append("  " + text)

    def assign(self, text: str) -> str:
        """One instruction with a result; returns its new name, `%v…`."""
        name = self.fresh("%v")
        self._lines.append(f"  {name} = {text}")
        return name

    def fresh(self, stem: str) -> str:
        """A name no other in this function has: the stem and a number."""
        self._count += 1
        return f"{stem}{self._count}"

    @property
    def block(self) -> str:
        """The label of the block that text goes to now (what a phi names as its predecessor)."""
        return self._block

    def label(self, name: str) -> None:
        """Starts a block. The one before must have been closed by a branch or `ret`."""
        self._lines.append(f"{name}:")
        self._block, self._closed = name, False

    def branch(self, label: str) -> None:
        self.emit(f"br label %{label}")
        self._closed = True

    def cond_branch(self, cond: Value, then: str, other: str) -> None:
        self.emit(f"br i1 {cond.name}, label %{then}, label %{other}")
        self._closed = True

    def phi(self, incoming: Sequence[tuple[Value, str]]) -> Value:
        """The value that came with the block control came from: pairs of value and label."""
        first = incoming[0][0]
        pairs = ", ".join(f"[ {value.name}, %{label} ]" for value, label in incoming)
        return first._replace(name=self.assign(f"phi {first.type} {pairs}"))

    def ret(self, value: Value | None = None) -> None:
        self.emit("ret void" if value is None else f"ret {value.typed}")
        self._closed = True

    # -- control flow

    def loop(
        self,
        lo: Value,
        stop: Value,
        step: int | Value,
        body: Callable[[Value], None],
        *,
        hints: Sequence[str] = (),
    ) -> None:
        """`for i in range(lo, stop, step): body(i)` over int64, step > 0; no iterations when lo >= stop.

        `hints` are loop metadata by name, `"llvm.loop.unroll.disable"`, with an operand if they take one:
        `"llvm.loop.unroll.count, i32 4"`.
        """
        stride = step if isinstance(step, Value) else literal(step, "int64")
        start, end = literal_value(lo), literal_value(stop)
        if start is not None and end is not None and start >= end:
            return
        head, done = self.fresh("loop"), self.fresh("done")
        before = self.block
        if start is None or end is None:
            self.cond_branch(self._less(lo.name, stop.name), head, done)
        else:
            self.branch(head)
        self.label(head)
        i, at = Value(self.fresh("%i"), "int64"), len(self._lines)
        body(i)
        following = self.assign(f"add nsw i64 {i.name}, {stride.name}")
        again = self._less(following, stop.name)
        self._lines.insert(
            at, f"  {i.name} = phi i64 [ {lo.name}, %{before} ], [ {following}, %{self.block} ]"
        )
        self.emit(f"br i1 {again.name}, label %{head}, label %{done}{self._loop_metadata(hints)}")
        self.label(done)

    def _less(self, x: str, y: str) -> Value:
        return Value(self.assign(f"icmp slt i64 {x}, {y}"), "bool")

    def _loop_metadata(self, hints: Sequence[str]) -> str:
        if not hints:
            return ""
        self._metadata.append(tuple(hints))
        return f", !llvm.loop {_PLACE}{self.name}.{len(self._metadata) - 1}{_PLACE}"

    def while_loop(self, condition: Callable[[], Value], body: Body) -> None:
        """Runs `body` as long as `condition`, emitted before each turn, gives true."""
        head, inside, done = self.fresh("while"), self.fresh("turn"), self.fresh("done")
        self.branch(head)
        self.label(head)
        self.cond_branch(condition(), inside, done)
        self.label(inside)
        body()
        self.branch(head)
        self.label(done)

    def iterate(
        self,
        state: Sequence[Value],
        going: Callable[..., Value],
        step: Callable[..., Sequence[Value]],
    ) -> tuple[Value, ...]:
        """`while going(*state): state = step(*state)`; returns the last state."""
        slots = [self.alloca(v.dtype, v.lanes) for v in state]

        def write(values: Sequence[Value]) -> None:
            for value, slot in zip(values, slots, strict=True):
                self.store(value, slot)

        def read() -> tuple[Value, ...]:
            return tuple(self.load(slot, v.dtype, v.lanes) for v, slot in zip(state, slots, strict=True))

        write(state)
        self.while_loop(lambda: going(*read()), lambda: write(step(*read())))
        return read()

    def when(self, cond: Value, body: Body, otherwise: Body | None = None) -> None:
        """`if cond: body() else: otherwise()`; what they compute leaves through memory (see `choose`)."""
        then, done = self.fresh("then"), self.fresh("done")
        other = self.fresh("else") if otherwise else done
        self.cond_branch(cond, then, other)
        for name, part in ((then, body), (other, otherwise)):
            if part is not None:
                self.label(name)
                part()
                if not self._closed:
                    self.branch(done)
        self.label(done)

    def choose(self, cond: Value, then: Callable[[], Value], other: Callable[[], Value]) -> Value:
        """The value of the side that the scalar condition picks; only that side runs (a guarded load)."""
        sides: list[tuple[Value, str]] = []

        def side(value: Callable[[], Value]) -> Body:
            return lambda: sides.append((value(), self.block))

        self.when(cond, side(then), side(other))
        return self.phi(sides)

    # -- memory

    def alloca(self, dtype: str, lanes: int = 1, count: int = 1, align: int | None = None) -> str:
        """A pointer to uninitialised room for `count` (vectors of) elements, in the entry block."""
        name, element = self.fresh("%slot"), vector(MEMORY[dtype], lanes)
        room = element if count == 1 else f"[{count} x {element}]"
        bytes_ = align or min(item_size(dtype) * lanes, 64)
        self._allocas.append(f"  {name} = alloca {room}, align {bytes_}")
        return name

    def gep(self, pointer: str, offset: Value, dtype: str) -> str:
        """The address `offset` elements of the dtype after `pointer`; offset is an int64."""
        if literal_value(offset) == 0:
            return pointer
        return self.assign(f"getelementptr {MEMORY[dtype]}, ptr {pointer}, i64 {offset.name}")

    def load(
        self, pointer: str, dtype: str, lanes: int = 1, align: int | None = None, mask: Value | None = None
    ) -> Value:
        """`lanes` neighbours from memory; with a mask, only its true lanes are touched and others read as 0.

        `align` is in bytes and an element's size by default; a mask is a bool of as many lanes.
        """
        at = align or item_size(dtype)
        type_ = vector(MEMORY[dtype], lanes)
        if mask is None:
            return self._from_memory(self.assign(f"load {type_}, ptr {pointer}, align {at}"), dtype, lanes)
        if lanes == 1:
            return self.choose(mask, lambda: self.load(pointer, dtype, 1, align), lambda: literal(0, dtype))
        if self._splits(dtype, lanes):
            mask = self._hidden_in_register(mask)
        callee = f"@llvm.masked.load.{mangled(MEMORY[dtype], lanes)}.p0"
        self.declare(f"declare {type_} {callee}(ptr, {mask.type}, {type_})")
        text = f"call {type_} {callee}(ptr align {at} {pointer}, {mask.typed}, {type_} zeroinitializer)"
        return self._from_memory(self.assign(text), dtype, lanes)

    def _splits(self, dtype: str, lanes: int) -> bool:
        """Whether LLVM cuts a masked load into AVX2 registers."""
        masks_in_registers = "+avx2" in self.attributes and "+avx512vl" not in self.attributes
        return masks_in_registers and item_size(dtype) >= 4 and item_size(dtype) * lanes > 32

    def _hidden_in_register(self, mask: Value) -> Value:
        """The same mask, of which LLVM knows nothing.

        LLVM 22 makes a plain load of the half of a masked load that it knows to be excluded whole: past the end of what
        there is to read.
        """
        signs = vector(f"i{256 // mask.lanes}", mask.lanes)
        wide = self.assign(f"sext {mask.typed} to {signs}")
        wide = self.assign(f'call {signs} asm "", "=x,0"({signs} {wide})')
        return mask._replace(name=self.assign(f"icmp slt {signs} {wide}, zeroinitializer"))

    def store(self, value: Value, pointer: str, align: int | None = None, mask: Value | None = None) -> None:
        """Writes a value's lanes one after the other; with a mask, only its true lanes (see `load`)."""
        at = align or item_size(value.dtype)
        stored = self._to_memory(value)
        if mask is None:
            self.emit(f"store {stored}, ptr {pointer}, align {at}")
        elif value.lanes == 1:
            self.when(mask, lambda: self.store(value, pointer, align))
        else:
            if value.dtype not in FLOATS and item_size(value.dtype) < 8 and "+avx512f" in self.attributes:
                mask = self.hidden(mask)
            callee = f"@llvm.masked.store.{mangled(MEMORY[value.dtype], value.lanes)}.p0"
            type_ = vector(MEMORY[value.dtype], value.lanes)
            self.declare(f"declare void {callee}({type_}, ptr, {mask.type})")
            self.emit(f"call void {callee}({stored}, ptr align {at} {pointer}, {mask.typed})")

    def hidden(self, mask: Value) -> Value:
        """The same mask, of which LLVM knows nothing.

        LLVM 22 narrows an integer and stores it under a mask in one AVX-512 instruction. Where it knows the mask to
        have a single lane it makes a plain store of that, of the wide integer: up to 7 bytes past the element.
        """
        bits = f"i{mask.lanes}"
        number = self.assign(f"bitcast {mask.typed} to {bits}")
        wide = number if mask.lanes >= 32 else self.assign(f"zext {bits} {number} to i32")
        word = f"i{max(mask.lanes, 32)}"
        wide = self.assign(f'call {word} asm "", "=r,0"({word} {wide})')
        number = wide if mask.lanes >= 32 else self.assign(f"trunc {word} {wide} to {bits}")
        return mask._replace(name=self.assign(f"bitcast {bits} {number} to {mask.type}"))

    def gather(self, pointer: str, offsets: Value, dtype: str, mask: Value | None = None) -> Value:
        """Elements of the dtype at int64 `offsets` from `pointer`; lanes that the mask excludes read as 0."""
        lanes = offsets.lanes
        if lanes == 1:
            return self.load(self.gep(pointer, offsets, dtype), dtype, mask=mask)
        type_, chosen = vector(MEMORY[dtype], lanes), mask or literal(True, "bool", lanes)
        places = self.assign(f"getelementptr {MEMORY[dtype]}, ptr {pointer}, {offsets.typed}")
        callee = f"@llvm.masked.gather.{mangled(MEMORY[dtype], lanes)}.v{lanes}p0"
        self.declare(f"declare {type_} {callee}(<{lanes} x ptr>, {chosen.type}, {type_})")
        text = (
            f"call {type_} {callee}(<{lanes} x ptr> align {item_size(dtype)} {places}, {chosen.typed}, "
            f"{type_} zeroinitializer)"
        )
        return self._from_memory(self.assign(text), dtype, lanes)

    def scatter(self, value: Value, pointer: str, offsets: Value, mask: Value | None = None) -> None:
        """Writes lanes to int64 `offsets` (elements) from `pointer`; of equal offsets the last lane wins."""
        lanes = offsets.lanes
        if lanes == 1:
            return self.store(value, self.gep(pointer, offsets, value.dtype), mask=mask)
        type_, chosen = vector(MEMORY[value.dtype], lanes), mask or literal(True, "bool", lanes)
        places = self.assign(f"getelementptr {MEMORY[value.dtype]}, ptr {pointer}, {offsets.typed}")
        callee = f"@llvm.masked.scatter.{mangled(MEMORY[value.dtype], lanes)}.v{lanes}p0"
        self.declare(f"declare void {callee}({type_}, <{lanes} x ptr>, {chosen.type})")
        self.emit(
            f"call void {callee}({self._to_memory(self.broadcast(value, lanes))}, "
            f"<{lanes} x ptr> align {item_size(value.dtype)} {places}, {chosen.typed})"
        )

    def _from_memory(self, name: str, dtype: str, lanes: int) -> Value:
        # A byte's lowest bit, so that a stray 2 cannot make a bool that is neither.
        if dtype == "bool":
            name = self.assign(f"trunc {vector('i8', lanes)} {name} to {vector('i1', lanes)}")
        return Value(name, dtype, lanes)

    def _to_memory(self, value: Value) -> str:
        if value.dtype != "bool":
            return value.typed
        bytes_ = vector("i8", value.lanes)
        return f"{bytes_} {self.assign(f'zext {value.typed} to {bytes_}')}"

    # -- lanes

    def broadcast(self, value: Value, lanes: int) -> Value:
        """The value in all of `lanes` lanes; itself when it has them already."""
        if value.lanes == lanes:
            return value
        if value.lanes != 1:
            raise ValueError(f"broadcast: a value of {value.lanes} lanes has no form with {lanes}: {value}")
        if value.is_literal:
            return Value(f"splat ({value.typed})", value.dtype, lanes)
        type_ = vector(REGISTER[value.dtype], lanes)
        one = self.assign(f"insertelement {type_} poison, {value.typed}, i64 0")
        zeros = vector("i32", lanes)
        return Value(
            self.assign(f"shufflevector {type_} {one}, {type_} poison, {zeros} zeroinitializer"),
            value.dtype,
            lanes,
        )

    def extract(self, value: Value, lane: int | Value) -> Value:
        """One lane as a scalar."""
        if value.lanes == 1:
            return value
        at = lane.name if isinstance(lane, Value) else lane
        return Value(self.assign(f"extractelement {value.typed}, i64 {at}"), value.dtype)

    def insert(self, value: Value, item: Value, lane: int | Value) -> Value:
        """The value with one lane replaced by a scalar."""
        if value.lanes == 1:
            return item
        at = lane.name if isinstance(lane, Value) else lane
        return value._replace(name=self.assign(f"insertelement {value.typed}, {item.typed}, i64 {at}"))

    def shuffle(self, value: Value, lanes: Sequence[int]) -> Value:
        """The lanes of a vector that `lanes` names, in that order."""
        picked = ", ".join(f"i32 {lane}" for lane in lanes)
        text = f"shufflevector {value.typed}, {value.type} poison, <{len(lanes)} x i32> <{picked}>"
        return Value(self.assign(text), value.dtype, len(lanes))

    # -- calls

    def intrinsic(
        self, name: str, result: Value | tuple[str, int], *args: Value, overloads: Sequence[Value] = ()
    ) -> Value:
        """A call of `llvm.name`, declared; `result` gives dtype and lanes, or a value of the wanted type.

        LLVM puts overloaded types into the name: those of `overloads` follow the result's.
        """
        dtype, lanes = (result.dtype, result.lanes) if isinstance(result, Value) else result
        out = vector(REGISTER[dtype], lanes)
        suffix = ".".join(
            [mangled(REGISTER[dtype], lanes), *(mangled(REGISTER[v.dtype], v.lanes) for v in overloads)]
        )
        return Value(self.call(f"llvm.{name}.{suffix}", out, *args, declare=True), dtype, lanes)

    def call(self, callee: str, result: str, *args: Value, declare: bool = False) -> str:
        """A call of `@callee`; returns the result's name, empty for `void`."""
        if declare:
            self.declare(f"declare {result} @{callee}({', '.join(a.type for a in args)})")
        text = f"call {result} @{callee}({', '.join(a.typed for a in args)})"
        if result != "void":
            return self.assign(text)
        self.emit(text)
        return ""

    def declare(self, line: str) -> None:
        """Notes a `declare …` line that the module must have."""
        self.declarations.add(line)

    def require(self, helper: Function) -> None:
        """Notes a function this one calls; the module holds each helper once, by name."""
        self.helpers.setdefault(helper.name, helper)

    def constant(self, name: str, text: str) -> str:
        """Notes a constant this function reads, `[2 x i64] [i64 1, i64 2]`; returns its address, `@name`."""
        self.globals.setdefault(name, f"@{name} = internal unnamed_addr constant {text}")
        return f"@{name}"

    # -- text

    @property
    def metadata(self) -> tuple[tuple[str, ...], ...]:
        """The hints of each loop that has any, in the order their places appear in the text."""
        return tuple(self._metadata)

    def text(self, attributes: str | None = None) -> str:
        """The definition; a module passes the name of the attribute group to use for `attributes`.

        Loop hints need nodes of the module: use `Module.text` for a function that has any.
        """
        params = ", ".join(f"{type_} %{name}" for name, type_ in self.params)
        linkage = f"{self.linkage} " if self.linkage not in ("", "external") else ""
        shown = self.attributes if attributes is None else attributes
        head = f"define {linkage}{self.result} @{self.name}({params}) {shown} {{"
        end = [] if self._closed else ["  ret void" if self.result == "void" else "  unreachable"]
        return "\n".join([head, "entry:", *self._allocas, *self._lines, *end, "}"])


#: Marks the place of a loop's metadata number, which only the module knows; no LLVM text holds it.
_PLACE = "\x00"


class Module:
    """Functions, globals and declarations, printed as one LLVM module: same content, same text."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self.globals: dict[str, str] = {}
        self.declarations: set[str] = set()
        self.raw: list[str] = []

    def add(self, function: Function) -> Function:
        """Takes a function and, once each, the helpers it requires."""
        if self.functions.get(function.name, function) is not function:
            raise ValueError(f"module: there already is a function @{function.name}; give one another name")
        self.functions[function.name] = function
        return function

    def define(self, name: str, text: str) -> str:
        """A global: `define("table", "internal constant [2 x float] [float 1.0, float 2.0], align 64")`."""
        line = f"@{name} = {text}"
        if self.globals.setdefault(name, line) != line:
            raise ValueError(f"module: there already is a different global @{name}; give one another name")
        return f"@{name}"

    def declare(self, line: str) -> None:
        """A `declare …` line for a function defined elsewhere."""
        self.declarations.add(line)

    def include(self, text: str) -> None:
        """Whole definitions already in text form (the thread pool)."""
        self.raw.append(text)

    def text(self) -> str:
        functions = self._with_helpers()
        attributes = {a: f"#{n}" for n, a in enumerate(sorted({f.attributes for f in functions}))}
        nodes = _Metadata()
        bodies = [nodes.placed(f, f.text(attributes[f.attributes])) for f in functions]
        constants = {name: line for f in functions for name, line in f.globals.items()} | self.globals
        declared = self.declarations.union(*(f.declarations for f in functions))
        groups = [f"attributes {name} = {{ {text} }}" for text, name in attributes.items()]
        constant_lines = [constants[name] for name in sorted(constants)]
        parts = [constant_lines, self.raw, bodies, sorted(declared), groups, nodes.lines]
        return "\n".join(line for part in parts for line in part) + "\n"

    def _with_helpers(self) -> list[Function]:
        found, waiting = dict(self.functions), list(self.functions.values())
        while waiting:
            for name, helper in waiting.pop().helpers.items():
                if name not in found:
                    found[name] = helper
                    waiting.append(helper)
        return list(found.values())


class _Metadata:
    """Numbers the loops' metadata nodes over a whole module: `!0 = distinct !{!0, !1}`, `!1 = !{!"…"}`."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def placed(self, function: Function, text: str) -> str:
        for at, hints in enumerate(function.metadata):
            number = self._node(hints)
            text = text.replace(f"{_PLACE}{function.name}.{at}{_PLACE}", f"!{number}")
        return text

    def _node(self, hints: Sequence[str]) -> int:
        number = len(self.lines)
        parts = ", ".join(f"!{number + 1 + k}" for k in range(len(hints)))
        self.lines.append(f"!{number} = distinct !{{!{number}, {parts}}}")
        for k, hint in enumerate(hints):
            name, _, operand = hint.partition(", ")
            node = f'!{{!"{name}", {operand}}}' if operand else f'!{{!"{name}"}}'
            self.lines.append(f"!{number + 1 + k} = {node}")
        return number
