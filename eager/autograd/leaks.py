"""Tapes that something still holds: the leak of training loops that keep losses without detaching them."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

from .. import backward as engine
from ..caller import Place, place_text, user_place
from ..tape import Item, Node
from ..tensor import Leaf, Tensor


class LiveGraph:
    """One tape that is still held: its newest operation, how many nodes hang on it, and the bytes they save."""

    def __init__(self, root: Any, nodes: int, nbytes: int, holders: list[str]) -> None:
        self.root, self.nodes, self.nbytes, self.holders = root, nodes, nbytes, holders

    def __repr__(self) -> str:
        where = f", made at {self.root.line}" if self.root.line else ""
        held = f", held by {', '.join(self.holders)}" if self.holders else ""
        return (
            f"<tape of {self.nodes} nodes ending in {self.root.name}, {self.nbytes} bytes saved{where}{held}>"
        )


def live_graphs() -> list[LiveGraph]:
    """The tapes that something still holds, largest first: what a list of losses keeps alive shows here.

    The line of the newest operation is known for what was taped under `detect_anomaly`.
    """
    nodes = [o for o in gc.get_objects() if issubclass(type(o), Node | Item)]
    used = {edge for node in nodes for edge in node.edges if edge is not None}
    roots = [node for node in nodes if node not in used]
    held = holders(roots)
    graphs = [live_graph(root, held.get(id(root), set())) for root in roots]
    return sorted(graphs, key=lambda g: (-g.nodes, -g.root.seq))


def live_graph(root: Any, held: set[str]) -> LiveGraph:
    seen, stack, nbytes = {root}, [root], 0
    while stack:
        node = stack.pop()
        for t in getattr(node, "inputs", None) or ():
            nbytes += t.nbytes if isinstance(t, Tensor) else 0
        for edge in node.edges:
            if edge is not None and edge not in seen and type(edge) is not Leaf:
                seen.add(edge)
                stack.append(edge)
    return LiveGraph(root, len(seen), nbytes, sorted(held))


def holders(roots: list[Any]) -> dict[int, set[str]]:
    """For each root, in what kinds of container, or under which variables, the tensors at it are held."""
    places = {id(root) for root in roots}
    tensors = [o for o in gc.get_referrers(*roots) if issubclass(type(o), Tensor) and id(o.node) in places]
    at = {id(t): id(t.node) for t in tensors}
    found: dict[int, set[str]] = {}
    for holder in gc.get_referrers(*tensors) if tensors else ():
        if isinstance(holder, list | tuple) and holder is not tensors:
            for t in holder:
                if id(t) in at:
                    found.setdefault(at[id(t)], set()).add(f"a {type(holder).__name__} of {len(holder)}")
        elif isinstance(holder, dict):
            for key, value in holder.items():
                if id(value) in at:
                    found.setdefault(at[id(value)], set()).add(f"{key!r}")
    return found


# ---- a tape that grows with every step ---------------------------------------------------------------------


class Limit:
    """How many tapes whose gradients were taken may be held before a warning; None for any number."""

    roots = 1000


def set_live_graph_limit(count: int | None) -> None:
    """Warn, naming the user's line, when `count` tapes that one line ran `backward()` on are still held.

    That many are held by a list of losses, or by a sum of losses, that were not detached. None: never warn.
    """
    Limit.roots = count  # type: ignore[assignment]


class Roots:
    """The tapes that one line of the user's ran backward() on, as far as they are held."""

    def __init__(self) -> None:
        self.refs: list[weakref.ref[Any]] = []
        self.next_look = 64
        self.warned = False

    def add(self, root: Any, place: Place) -> None:
        self.refs.append(weakref.ref(root))
        if len(self.refs) < self.next_look or self.warned:
            return
        self.refs = [ref for ref in self.refs if ref() is not None]
        held = len(self.refs)
        self.next_look = max(64, 2 * held) if Limit.roots is None else max(64, min(2 * held, Limit.roots))
        if Limit.roots is not None and held >= Limit.roots:
            self.warned = True
            self.refs = []
            warnings.warn(
                f"{held} tapes whose backward() ran at {place_text(place)} are still held, and with them memory that "
                "grows with every step: a list or a sum of losses keeps the tape of each. Keep loss.item() or "
                "loss.detach() instead. tapecast.autograd.live_graphs() shows what is held.",
                stacklevel=4,
            )


_roots: dict[Place, Roots] = {}


def note_backward(root: Any) -> None:
    """Called for the root of each backward pass."""
    if Limit.roots is None or type(root) is Leaf:
        return
    place = user_place()
    roots = _roots.get(place)
    if roots is None:
        roots = _roots[place] = Roots()
    roots.add(root, place)


engine.note = note_backward
