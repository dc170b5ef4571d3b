"""Programs of views and in-place writes: recorded, they are pure graphs that give what eager gives."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tapecast as tc
from tapecast.tracer.record import TracerWarning

pytestmark = pytest.mark.filterwarnings(f"ignore::{TracerWarning.__module__}.{TracerWarning.__name__}")


def transposed(x: Any, k: int) -> Any:
    return x.transpose(0, -1)


def sliced(x: Any, k: int) -> Any:
    return x[k % x.shape[0] :] if x.ndim else x


def stepped(x: Any, k: int) -> Any:
    return x[..., :: 1 + k % 2] if x.ndim else x


def selected(x: Any, k: int) -> Any:
    return x[k % x.shape[0]] if x.ndim else x


def flattened(x: Any, k: int) -> Any:
    return x.reshape(-1)


def expanded(x: Any, k: int) -> Any:
    return x.unsqueeze(0)


def detached(x: Any, k: int) -> Any:
    return x.detach()


def diagonal(x: Any, k: int) -> Any:
    return x.diagonal() if x.ndim == 2 else x


VIEWS = [transposed, sliced, stepped, selected, flattened, expanded, detached, diagonal]


def adds(x: Any, k: int) -> None:
    x.add_(k)


def doubles(x: Any, k: int) -> None:
    x.mul_(2)


def fills(x: Any, k: int) -> None:
    x.fill_(k)


def assigns(x: Any, k: int) -> None:
    if x.ndim and x.shape[0]:
        x[k % x.shape[0]] = k * 0.5


def assigns_by_mask(x: Any, k: int) -> None:
    x[x > k] = 1.0 if k else 0.0


def accumulates(x: Any, k: int) -> None:
    if x.ndim and x.shape[0]:
        x[..., 0] += x.sum()


def copies(x: Any, k: int) -> None:
    x.copy_(x.exp().clamp(max=3.0))


def zeroes(x: Any, k: int) -> None:
    x.zero_()


WRITES = [adds, doubles, fills, assigns, accumulates, copies, zeroes]

steps = st.lists(
    st.tuples(st.sampled_from([*VIEWS, *WRITES]), st.integers(0, 9), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


def program(plan: list[Any]) -> Any:
    """A function that makes views of a copy of its input and writes through any of them."""

    def run(x: Any) -> list[Any]:
        tensors = [x * 1]
        for step, which, k in plan:
            found = step(tensors[which % len(tensors)], k)
            if found is not None:
                tensors.append(found)
        return tensors

    return run


@settings(max_examples=80, deadline=None)
@given(steps, st.sampled_from([(3,), (2, 3), (3, 3), (2, 3, 2)]))
def test_recorded_writes_are_eagers(plan: list[Any], shape: tuple[int, ...]) -> None:
    x = tc.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    before = x.numpy().copy()
    f = program(plan)
    traced = tc.jit.trace(f, (x,))  # which compares with eager itself, on other values
    np.testing.assert_array_equal(x.numpy(), before)
    for found, wanted in zip(traced(x), f(x), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    assert all(n.op.pure for n in traced.graph.nodes if n.op)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(WRITES), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=4)
)
def test_recorded_writes_to_a_buffer_are_its_next_value(plan: list[Any]) -> None:
    class Holds(tc.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", tc.ones(2, 3))

        def forward(self, x: Any) -> Any:
            parts = [self.table, self.table[1]]
            for step, which, k in plan:
                step(parts[which], k)
            return x + self.table.sum()

    model, twin = Holds().eval(), Holds().eval()
    traced = tc.jit.trace(model, (tc.ones(2),))
    for _ in range(2):
        x = tc.tensor([0.5, 2.0])
        np.testing.assert_array_equal(traced(x).numpy(), twin(x).numpy())
        np.testing.assert_array_equal(model.table.numpy(), twin.table.numpy())


@settings(max_examples=30, deadline=None)
@given(steps)
def test_gradients_through_recorded_writes_are_eagers(plan: list[Any]) -> None:
    plan = [s for s in plan if s[0] not in (detached, fills, zeroes)]
    f = program(plan)

    def slope(x: Any) -> Any:
        (g,) = tc.autograd.grad(f(x)[0].sum(), [x])
        return g

    x = tc.tensor(np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32), requires_grad=True)
    found, wanted = tc.jit.trace(slope, (x,))(x), slope(x)
    np.testing.assert_allclose(found.detach().numpy(), wanted.numpy(), rtol=1e-6)


def test_writing_by_a_mask() -> None:
    """A mask reads no values where it only chooses what to write."""

    def f(x: Any) -> Any:
        y = x * 1
        assigns_by_mask(y, 0)
        return y

    x = tc.tensor([[1.0, -2.0], [0.5, -0.1]])
    traced = tc.jit.trace(f, (x,))
    np.testing.assert_array_equal(traced(-x).numpy(), f(-x).numpy())
