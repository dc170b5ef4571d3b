"""From an optimised graph to a unit: kernels in canonical form, the buffer behind each name, the workspace plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..eager.ops.types import Aval, dtype_name
from ..tracer.dims import expr_of, merge_ranges, size_text
from ..tracer.graph import Graph, Node
from . import loops
from .hosts import hosts_of
from .layout import CHANNELS_LAST, STAGE, staged, stages, storage_orders
from .library import Spec
from .loops import Kernel
from .lower import KERNELS, STATUS, SUMS, TILES, Place, copy_kernel, lower_group
from .memory import ALIGNMENT, Value, live_values, plan
from .passes.fuse import Fusion, Group, fuse
from .unit import Location, Step, Unit
from .winograd import Winograd, transformed, winograd_of

#: What buffers are called, by role: x0, w1, y2. Loops are i0, i1, … and k0, k1, …; registers acc0, v0, ….
LETTERS = {"in": "x", "out": "y", "temp": "t", "weight": "w", "status": "s"}


class Assembly:
    """One graph on its way to a unit. `tiles`: for a backend with a schedule for `lower/winograd.py`."""

    def __init__(self, graph: Graph, tiles: bool = False) -> None:
        refuse_complex(graph)
        self.graph = graph
        self.fusion: Fusion = fuse(graph)
        outputs = [self.fusion.stored(o) for o in graph.outputs]
        self.hosts = hosts_of(self.fusion, outputs)
        self.places: dict[Node, Place] = {}
        self.locations: dict[Node, Location] = {}
        self.staged = staged(self.fusion, outputs)
        self.orders = storage_orders(graph, self.fusion, outputs)
        self.tiles = self._by_tiles() if tiles else {}
        self.plan = plan(
            [
                *live_values(self.fusion, graph.outputs, hosts=self.hosts),
                *stages(self.fusion, self.staged),
                *rooms(self.fusion, self.tiles),
            ]
        )
        self.constants: list[Any] = []
        self._place_all(outputs)

    def _by_tiles(self) -> dict[Node, Winograd]:
        """The groups whose convolution is computed by F(2×2, 3×3), by their roots."""
        out = {}
        for g in self.fusion.groups:
            last = g.root in self.staged or self.orders[g.root] == CHANNELS_LAST
            if w := winograd_of(g, self.orders, last):
                out[g.root] = w
        return out

    def _place_all(self, outputs: Sequence[Node]) -> None:
        for k, n in enumerate(self.graph.inputs):
            self._place(n, "in", Location("input", k))
        for k, n in enumerate(outputs):
            self._place(n, "out", Location("output", k))
        for g in self.fusion.groups:
            if g.root not in self.places and g.root not in self.hosts:
                self._place(g.root, "temp", Location("temp", self.plan.offsets[g.root]), self.orders[g.root])
        for value, pad in self.hosts.items():
            self.locations[value] = self.locations[pad]
            self.places[value] = self.places[pad]._replace(before=pad.attrs["before"], shape=pad.shape)
        for n in self.graph.nodes:
            if n.is_const and n.shape != ():
                self._place(n, "weight", Location("constant", len(self.constants)))
                self.constants.append(n.value)

    def _place(self, n: Node, role: str, where: Location, order: tuple[int, ...] | None = None) -> None:
        self.locations[n] = where
        self.places[n] = Place(
            f"{LETTERS[role]}{len(self.places)}", role, order or tuple(range(len(n.shape)))
        )

    def unit(self) -> Unit:
        kernels: dict[str, Kernel] = {}
        lines: dict[str, tuple[str, ...]] = {}
        steps = []
        known: dict[str, str] = {}
        made = [(g, *one) for g in self.fusion.groups for one in self._kernels(g)]
        for g, kernel, where in made:
            name = known.get(str(kernel))
            if name is None:
                name = known[str(kernel)] = f"{self.graph.name}_k{len(kernels)}_{kernel.name or label(g)}"
                kernels[name] = kernel.replace(name=name)
                lines[name] = ()
            lines[name] = tuple(dict.fromkeys([*lines[name], *(n.line for n in g.nodes if n.line)]))
            steps.append(Step(name, where))
        inputs, outputs = self._specs()
        ranges = merge_ranges(s for n in self.graph.inputs for s in n.shape)
        reports = any(b.role == "status" for k in kernels.values() for b in k.buffers)
        workspace = (self.plan.total, self.plan.text)
        if reports:
            workspace = (loops.add(self.plan.total, loops.const(ALIGNMENT)), f"{self.plan.text}+{ALIGNMENT}")
        return Unit(
            self.graph.name, inputs, outputs, tuple(sorted(ranges)), tuple(steps), kernels, lines,
            *workspace, tuple(self.constants), self.graph.state, self.plan.total if reports else None,
        )  # fmt: skip

    def _kernels(self, g: Group) -> Iterator[tuple[Kernel, dict[str, Location]]]:
        """The group's kernel; for a value that is staged a second one, which puts its axes in order."""
        places = {n: self._seen(n) for n in (*g.inputs, g.root)}
        found = {STATUS: Location("temp", self.plan.total)}
        found |= {place.name: self.locations[self.fusion.stored(n)] for n, place in places.items()}
        tiles = self.tiles.get(g.root)
        if tiles is not None:
            found[TILES], found[SUMS] = (
                Location("temp", self.plan.offsets[n, g.root]) for n in (TILES, SUMS)
            )
            found[KERNELS] = Location("constant", len(self.constants))
            self.constants.append(transformed(tiles.conv.inputs[1].value))
        if g.root not in self.staged:
            yield self._numbered(lower_group(g, places, "", tiles), found)
            return
        stage = Place("stage", "temp", CHANNELS_LAST)
        found["stage"] = Location("temp", self.plan.offsets[STAGE, g.root])
        yield self._numbered(lower_group(g, {**places, g.root: stage}, "", tiles), found)
        yield self._numbered(copy_kernel(g.root, stage, places[g.root], "in_order"), found)

    def _numbered(self, kernel: Kernel, found: Mapping[str, Location]) -> tuple[Kernel, dict[str, Location]]:
        """The kernel with buffers called by position, so that equal kernels print alike."""
        names = {b.name: f"{LETTERS[b.role]}{k}" for k, b in enumerate(kernel.buffers)}
        return renamed(kernel, names), {names[b.name]: found[b.name] for b in kernel.buffers}

    def _seen(self, n: Node) -> Place:
        """The place of a value; an alias is the stored value's memory under its own shape."""
        home = self.places[self.fusion.stored(n)]
        if n in self.places:
            return home
        shape = "x".join(map(size_text, n.shape))
        return Place(f"{home.name}.{shape}", home.role, tuple(range(len(n.shape))))

    def _specs(self) -> tuple[tuple[Spec, ...], tuple[Spec, ...]]:
        inputs = tuple(spec(n, n.name or f"input{k}") for k, n in enumerate(self.graph.inputs))
        many = len(self.graph.outputs) > 1
        outputs = tuple(spec(n, f"output{k}" if many else "output") for k, n in enumerate(self.graph.outputs))
        return inputs, outputs


def rooms(fusion: Fusion, tiles: Mapping[Node, Winograd]) -> Iterator[Value]:
    """The workspace of convolutions by tiles: each at its own step alone."""
    for step, g in enumerate(fusion.groups):
        if g.root in tiles:
            for name, size in zip((TILES, SUMS), tiles[g.root].room, strict=True):
                yield Value((name, g.root), size, step, step)


def refuse_complex(graph: Graph) -> None:
    """NotImplementedError naming the operator and the user's line: scalars of compiled code are real."""
    for n in graph.nodes:
        avals = n.aval if isinstance(n.aval, tuple) and not isinstance(n.aval, Aval) else (n.aval,)
        if any(isinstance(a, Aval) and a.dtype.kind == "c" for a in avals):
            raise NotImplementedError(
                f"{n.label} (at {n.line or 'an unknown line'}) is {', '.join(map(str, avals))}, and complex numbers "
                f"cannot be compiled: keep real and imaginary parts as tensors of their own"
            )


def spec(n: Node, name: str) -> Spec:
    def size(s: int) -> int | str:
        return int(s) if isinstance(expr_of(s), int) else size_text(s)

    return Spec(name, dtype_name(n.dtype), tuple(map(size, n.shape)))


def label(g: Group) -> str:
    """What a kernel does, in a word: its anchor and its root."""
    words = [n.op.name for n in (g.anchor, g.root) if n is not None and n.op is not None]
    return "_".join(dict.fromkeys(words))


def renamed(kernel: Kernel, names: dict[str, str]) -> Kernel:
    """The kernel with its buffers called otherwise."""
    body = loops.map_access(kernel.body, lambda b, index: (names.get(b, b), index))
    return kernel.replace(buffers=tuple(b.replace(name=names[b.name]) for b in kernel.buffers), body=body)
