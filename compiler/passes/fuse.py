"""Groups of nodes that become one kernel each, and which values get a buffer.

A group computes one value, its `root`; every other node of it is folded into the root's expression by index
arithmetic and has no buffer, so nothing can leave a group and come back: any grouping is legal, and the order
of the roots in the graph is an order for the kernels. What remains is to choose the values that are stored.

networkx: with the edges out of stored values removed, a group is its root and the root's ancestors
(reachability); values nothing reaches are in no group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import networkx as nx

from ...tracer.dims import expr_of, same_shape
from ...tracer.graph import Graph, Node
from ..cost import Cost, Profile, profile, reads_once
from ..strides import Strides, dense, splits_or_merges, through_view
from .drop_dead import drop_dead

# Stop conditions. A value is stored, and fusion ends there, when
#   1. it is an output of the graph;
#   2. its op, or one that reads it (but for strided views of a buffer), has no element rule: a backend takes it
#      whole, from buffers to a buffer;
#   3. it is an operand of a contraction and no strided view of a buffer: tiles load whole vectors;
#   4. it is an operand of a reduction and takes more than REDUCED operations: such loops stay small;
#   5. it would be computed more than once per element (broadcast, read in a window, at two places of a group,
#      or in several groups) and takes more than REPEATED operations;
#   6. it holds a reduction or contraction and is not read at the root's own index, or the group has one;
#   7. its expression, written out as a tree, has more than TREE operations;
#   8. it reports indices out of range: folded into an op that guards its reads it would report those never read;
#   9. a reshape that splits or merges axes reads it: dividing every index costs more than the buffer.
REDUCED = 2
REPEATED = 1
TREE = 512

Place = tuple[object, ...]  # how an index of the root becomes an index of a value; () is the root's own


@dataclass(frozen=True, eq=False)
class Group:
    """One kernel. `root`: the value it stores. `anchor`: the reduction or contraction in it, if there is one.

    `nodes` are those it computes (constants without axes among them), operands first; `inputs` the values it
    reads from buffers: inputs of the graph, constants, roots of other groups, and aliases, which have a shape
    of their own.
    """

    root: Node
    anchor: Node | None
    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]

    @property
    def outputs(self) -> tuple[Node, ...]:
        return (self.root,)


@dataclass(frozen=True, eq=False)
class Fusion:
    """Groups in an order to run them in. `aliases`: reshaped value -> the stored value whose bytes it is."""

    groups: tuple[Group, ...]
    aliases: Mapping[Node, Node] = field(default_factory=dict)

    def stored(self, n: Node) -> Node:
        """The value whose buffer holds `n`: itself, or the one it is an alias of."""
        while n in self.aliases:
            n = self.aliases[n]
        return n

    def __str__(self) -> str:
        return fusion_text(self)


def fuse(graph: Graph) -> Fusion:
    """Divide a graph into groups. Outputs must each have a buffer of their own (`separate_outputs` sees to
    that).
    """
    graph = drop_dead(graph)
    facts = Facts.of(graph)
    base = set(facts.stored)
    estimate(facts)
    guessed = set(facts.stored)
    settle(facts)
    facts.stored = base | (facts.stored - guessed)
    estimate(facts)  # again, now that it is known what costs its readers nothing
    anchors = settle(facts)
    aliases = {n: n.inputs[0] for n in graph.nodes if is_alias(facts, n)}
    facts.stored.update(aliases)
    check_outputs(graph, Fusion((), aliases))
    return Fusion(tuple(groups_of(facts, aliases, anchors)), aliases)


def fusion_text(fusion: Fusion) -> str:
    """One line a group, for eyes and golden tests: root = operations (inputs)."""
    names: dict[Node, str] = {}

    def name(n: Node) -> str:
        return n.name if n.op is None and n.name else names.setdefault(n, f"t{len(names)}")

    lines = [f"{name(n)} is {name(of)} as {n.single}" for n, of in fusion.aliases.items() if of.op is None]
    for g in fusion.groups:
        ops = ", ".join(f"[{n.label}]" if n is g.anchor else n.label for n in g.nodes if n.op)
        lines.append(f"{name(g.root)}: {g.root.single} = {ops} ({', '.join(map(name, g.inputs))})")
        lines += [
            f"{name(n)} is {name(of)} as {n.single}" for n, of in fusion.aliases.items() if of is g.root
        ]
    return "\n".join(lines)


# ---- what is known of each value ---------------------------------------------------------------------------


class Use(NamedTuple):
    """`reader` takes the value as its operand number `operand`."""

    reader: Node
    operand: int


@dataclass(eq=False)
class Facts:
    """What the decisions are made from. `stored` grows as they are made; `costs` is per element if not
    stored.
    """

    graph: Graph
    profiles: dict[Node, Profile | None]
    uses: dict[Node, list[Use]]
    stored: set[Node]
    costs: dict[Node, Cost] = field(default_factory=dict)
    trees: dict[Node, int] = field(default_factory=dict)

    @staticmethod
    def of(graph: Graph) -> Facts:
        profiles = {n: profile(n) for n in graph.nodes}
        uses: dict[Node, list[Use]] = {n: [] for n in graph.nodes}
        for n in graph.nodes:
            for k, i in enumerate(n.inputs):
                uses[i].append(Use(n, k))
        stored = {n for n in graph.nodes if n.op is None and not is_literal(n)} | set(graph.outputs)
        return Facts(graph, profiles, uses, stored)


def is_literal(n: Node) -> bool:
    """A constant written into the code: no axes, and no complex number, which scalars do not have."""
    return n.is_const and n.shape == () and n.dtype.kind != "c"


# ---- forward: what the operations themselves ask for -------------------------------------------------------


def estimate(facts: Facts) -> None:
    """Operands before users: the cost of each value, and whether one of its readers wants it in a buffer."""
    for n in facts.graph.nodes:
        spend(facts, n)
        if n not in facts.stored and n.op and wants_buffer(facts, n):
            facts.stored.add(n)
        for use in facts.uses[n]:
            facts.stored |= operand_buffers(facts, n, use)


def spend(facts: Facts, n: Node) -> None:
    """An estimate from above: operands that turn out to be stored later still count."""
    known = facts.profiles[n]
    folded = [i for i in n.inputs if i not in facts.stored]
    cost = known.cost if known else Cost()
    facts.costs[n] = sum((facts.costs[i] for i in dict.fromkeys(folded)), cost)
    facts.trees[n] = 1 + cost.arithmetic + cost.functions + sum(facts.trees[i] for i in folded)


def wants_buffer(facts: Facts, n: Node) -> bool:
    known = facts.profiles[n]
    return known is None or known.reports or facts.trees[n] > TREE


def operand_buffers(facts: Facts, n: Node, use: Use) -> set[Node]:
    """The value that must be stored for `use` to read `n`, if any: mostly `n`, or what it is a view of."""
    reader = use.reader
    known, cost = facts.profiles[reader], facts.costs[n]
    if n in facts.stored:
        return set()
    if known is None:
        base = strided_base(facts, n)
        return {n} if base is None else {base}
    assert reader.op is not None
    if reader.op.kind == "contract":
        base = strided_base(facts, n)
        return {n} if base is None else {base}
    if reader.op.name == "reshape" and splits_or_merges(reader) and not is_literal(n):
        return {n}
    if cost.reduces and not reads_in_step(use):
        return {n}
    once = reads_once(reader, use.operand, known.reads[use.operand])
    small = cost.at_most(REPEATED if not once else REDUCED)
    return set() if small or (once and not known.cost.reduces) else {n}


def reads_in_step(use: Use) -> bool:
    """Does the reader take the operand at its own index? Only then can a reduction be the anchor of its group."""
    reader, operand = use
    in_step = reader.op is not None and reader.op.kind == "elementwise"
    return in_step and same_shape(reader.inputs[operand].shape, reader.shape)


def strided_base(facts: Facts, n: Node) -> Node | None:
    """What `n` is a view of, if a tile can load from there: strides along the last two axes, one being 1."""
    chain: list[Node] = []
    while n not in facts.stored and n.op and n.op.kind == "view":
        chain.append(n)
        n = n.inputs[0]
    strides: Strides | None = dense(n.shape)
    for view in reversed(chain):
        strides = through_view(view, strides) if strides is not None else None
    if strides is None or is_literal(n) or not chain:
        return None
    last = strides[-2:]
    return n if None not in last and any(s == 1 for s in last) else None


# ---- backward: where a value would be computed -------------------------------------------------------------


class Home(NamedTuple):
    """A group that would compute the value, and at which index."""

    root: Node
    place: Place


def settle(facts: Facts) -> dict[Node, Node]:
    """Users before operands: store what would be computed too often, and give each group its anchor."""
    homes: dict[Node, set[Home]] = {}
    anchors: dict[Node, Node] = {}
    for n in reversed(facts.graph.nodes):
        if n.op is None:
            continue
        known = facts.profiles[n]
        heavy = known is not None and known.cost.reduces
        wanted = {home for use in facts.uses[n] for home in homes_through(homes, use)}
        if n not in facts.stored and must_store(facts, n, wanted, anchors if heavy else {}):
            facts.stored.add(n)
        if n in facts.stored and is_reshape(n) and not is_literal(n.inputs[0]):
            facts.stored.add(n.inputs[0])
        homes[n] = {Home(n, ())} if n in facts.stored else wanted
        if heavy:
            anchors.update({home.root: n for home in homes[n]})
    return anchors


def homes_through(homes: Mapping[Node, set[Home]], use: Use) -> Iterable[Home]:
    reader, operand = use
    value = reader.inputs[operand]
    for root, place in homes[reader]:
        if reads_in_step(use):
            yield Home(root, place)
        elif reader.op is not None and reader.op.kind == "elementwise":
            yield Home(root, (*place, tuple(map(expr_of, value.shape))))
        else:
            yield Home(root, (*place, reader, operand))


def must_store(facts: Facts, n: Node, wanted: set[Home], anchors: Mapping[Node, Node]) -> bool:
    """Conditions 5 and 6. `anchors`: the groups that have their reduction, if `n` is one itself."""
    if facts.costs[n].reduces:
        return len(wanted) > 1 or any(place != () or root in anchors for root, place in wanted)
    return len(wanted) > 1 and not facts.costs[n].at_most(REPEATED)


# ---- the groups --------------------------------------------------------------------------------------------


def is_reshape(n: Node) -> bool:
    return n.op is not None and n.op.name == "reshape"


def is_alias(facts: Facts, n: Node) -> bool:
    """A reshape of a stored value is that value's bytes."""
    return is_reshape(n) and n.inputs[0] in facts.stored


def groups_of(facts: Facts, aliases: Mapping[Node, Node], anchors: Mapping[Node, Node]) -> Iterable[Group]:
    folded = facts.graph.nx()
    folded.remove_edges_from([e for e in folded.edges if e[0] in facts.stored])
    position = {n: k for k, n in enumerate(facts.graph.nodes)}
    for root in facts.graph.nodes:
        if root in facts.stored and root.op and root not in aliases:
            nodes = sorted({root, *nx.ancestors(folded, root)}, key=position.__getitem__)
            inputs = dict.fromkeys(i for n in nodes for i in n.inputs if i in facts.stored)
            yield Group(root, anchors.get(root), tuple(nodes), tuple(inputs))


def check_outputs(graph: Graph, fusion: Fusion) -> None:
    seen: dict[Node, int] = {}
    for k, out in enumerate(graph.outputs):
        home = fusion.stored(out)
        if home.op is None:
            raise ValueError(
                f"output {k} is {home.label} itself; run separate_outputs before fuse, so that it is copied"
            )
        if home in seen:
            raise ValueError(
                f"outputs {seen[home]} and {k} share the value of {home.label}; "
                "run separate_outputs before fuse, so that one is copied"
            )
        seen[home] = k
