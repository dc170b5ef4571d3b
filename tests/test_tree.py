"""Nested containers of a program's arguments and results: flattened, rebuilt, saved, compared."""

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

import tapecast as tc
from tapecast.tracer import tree
from tapecast.tracer.tree import difference, flatten, is_tensor, unflatten


class Pair(NamedTuple):
    left: tc.Tensor
    right: list


@dataclass(frozen=True)
class Batch:
    image: tc.Tensor
    extra: dict
    scale: float = 2.0
    cache: list = field(default_factory=list, init=False, compare=False)


def batch(n):
    return Batch(tc.ones(n, 3), {"pair": Pair(tc.ones(n), [tc.zeros(n), None])}, 3.0)


def test_records_come_back_as_they_were():
    leaves = []
    structure = flatten(batch(2), "b", leaves, is_tensor)
    assert [name for name, _ in leaves] == ["b.image", "b.extra.pair.left", "b.extra.pair.right.0"]
    again = unflatten(structure, [t for _, t in leaves])
    assert isinstance(again, Batch) and isinstance(again.extra["pair"], Pair) and again.scale == 3.0


def test_a_program_takes_and_returns_records(tmp_path, monkeypatch):
    def f(b):
        return Pair(b.image * b.scale + b.extra["pair"].left[:, None], [b.extra["pair"].right[0]])

    dims = {name: {0: "n"} for name in ("b.image", "b.extra.pair.left", "b.extra.pair.right.0")}
    traced = tc.jit.trace(f, (batch(2),), dynamic=dims)
    traced.save(tmp_path / "m.tape")
    out = tc.jit.load(tmp_path / "m.tape")(batch(5))
    assert isinstance(out, Pair) and out.left.shape == (5, 3)


def test_a_record_of_an_unknown_class_is_a_namedtuple(monkeypatch):
    structure = flatten(Pair(tc.ones(1), []), "p", [], is_tensor)
    monkeypatch.setattr(tree, "_records", {})  # as in another process
    out = unflatten(structure, [tc.ones(2)])
    assert type(out).__name__ == "Pair" and type(out) is not Pair and out._fields == ("left", "right")


def test_another_record_is_refused():
    @dataclass
    class Other:
        image: tc.Tensor

    structures = [flatten(v, "b", [], is_tensor) for v in (Batch(tc.ones(1), {}), Other(tc.ones(1)))]
    assert difference(*structures, "b") == "b must be a Batch, it is a Other"
    traced = tc.jit.trace(lambda b: b.image * b.scale, (Batch(tc.ones(1), {}),))
    with pytest.raises(TypeError, match="scale was 2.0 in the trace".replace(".", r"\.")):
        traced(Batch(tc.ones(1), {}, 5.0))
