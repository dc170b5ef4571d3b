"""The tape: backward, grad, modes, hooks, in-place writes and views, errors, life time."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from tapecast.eager import autograd, functional as F, tape
from tapecast.eager.ops import executor
from tapecast.eager.ops.reads import READ, SHAPE, UNUSED, reads_of
from tapecast.eager.ops.table import TABLE
from tapecast.eager.tensor import Tensor

torch = pytest.importorskip("torch")


def leaf(*values: float) -> Tensor:
    return F.tensor(list(values), requires_grad=True)


# ---- backward and grad ----------------------------------------------------------------------------------------


def test_backward_adds_to_grad() -> None:
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    kept = x.grad
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    assert x.grad is kept, "the gradient is added to in place"


def test_gradients_do_not_share_memory() -> None:
    x, y = leaf(1.0), leaf(2.0)
    (x + y).sum().backward()
    x.grad.zero_()
    assert y.grad.item() == 1.0


def test_a_broadcast_operand_gets_a_gradient_of_its_shape() -> None:
    x, y = F.ones(2, 1, requires_grad=True), F.ones(3, requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.tolist() == [[3.0], [3.0]] and y.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_gradient_has_its_tensors_dtype() -> None:
    x = F.tensor([1.0], dtype="float16", requires_grad=True)
    (x * F.tensor([2.0], dtype="float64")).sum().backward()
    assert x.grad.dtype.name == "float16"


def test_second_order() -> None:
    x = leaf(2.0)
    (g,) = autograd.grad(x**3, x, create_graph=True)
    (h,) = autograd.grad(g, x)
    assert g.item() == 12.0 and h.item() == 12.0


def test_grad_of_an_intermediate_value() -> None:
    x = leaf(3.0)
    y = x * 2
    gy, gx = autograd.grad(y * y, [y, x])
    assert gy.item() == 12.0 and gx.item() == 24.0


def test_grad_of_unused() -> None:
    x, y = leaf(1.0), leaf(1.0)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        autograd.grad(x * 2, [x, y])
    assert autograd.grad(x * 2, [x, y], allow_unused=True)[1] is None
    assert autograd.grad(x * 2, [x, y], materialize_grads=True)[1].item() == 0.0


def test_grad_leaves_grad_alone() -> None:
    x = leaf(1.0)
    autograd.grad(x * 2, x)
    assert x.grad is None


def test_backward_of_given_inputs_only() -> None:
    x, y = leaf(1.0), leaf(2.0)
    (x * y).sum().backward(inputs=[x])
    assert x.grad.item() == 2.0 and y.grad is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: F.ones(1).backward(),
            "element 0 of tensors does not require grad and does not have a grad_fn",
        ),
        (lambda: (leaf(1.0, 2.0) * 2).backward(), "grad can be implicitly created only for scalar outputs"),
        (lambda: (leaf(1.0, 2.0) * 2).backward(F.ones(3)), "Mismatch in shape: grad_output"),
        (lambda: autograd.grad(leaf(1.0) * 2, F.ones(1)), "does not require grad"),
    ],
)
def test_wrong_use(make, message) -> None:
    with pytest.raises(RuntimeError, match=message):
        make()


def test_a_second_backward_needs_retain_graph() -> None:
    x = leaf(2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8.0
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_nodes_that_save_nothing_can_be_walked_again() -> None:
    x = leaf(2.0)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.item() == 2.0


def test_backward_order_is_reverse_of_making() -> None:
    x = leaf(1.0)
    y = x * 2
    z = y * 3 + y * y  # y gets its whole gradient before it is passed on
    z.backward()
    assert x.grad.item() == 2 * (3 + 2 * 2.0)


def test_deep_graphs() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y + x
    y.backward()
    assert x.grad.item() == 20_001
    del y  # a recursive free would end the process


# ---- modes ------------------------------------------------------------------------------------------------------


def test_no_grad() -> None:
    x = leaf(1.0)
    with autograd.no_grad():
        assert not autograd.is_grad_enabled() and not (x * 2).requires_grad
        with autograd.enable_grad():
            assert (x * 2).requires_grad
    assert autograd.is_grad_enabled()


def test_modes_as_decorators() -> None:
    x = leaf(1.0)

    @autograd.no_grad()
    def called(n: int) -> bool:
        return (x * 2).requires_grad if n == 0 else called(n - 1)

    @autograd.no_grad
    def bare() -> bool:
        return (x * 2).requires_grad

    @autograd.set_grad_enabled(False)
    def off() -> bool:
        return (x * 2).requires_grad

    @autograd.inference_mode()
    def inference() -> bool:
        return (x * 2).requires_grad or not autograd.is_inference_mode_enabled()

    assert not called(3) and not bare() and not off() and not inference()
    assert autograd.is_grad_enabled() and called.__name__ == "called"


def test_set_grad_enabled_at_once_and_as_context() -> None:
    autograd.set_grad_enabled(False)
    assert not autograd.is_grad_enabled()
    autograd.set_grad_enabled(True)
    with autograd.set_grad_enabled(False):
        assert not autograd.is_grad_enabled()
    assert autograd.is_grad_enabled()


def test_the_mode_survives_an_exception() -> None:
    with pytest.raises(KeyError), autograd.no_grad():
        raise KeyError
    assert autograd.is_grad_enabled()


def test_detach() -> None:
    x = leaf(1.0, 2.0)
    y = (x * 2).detach()
    assert not y.requires_grad and y.is_leaf
    y.add_(1)
    z = x * 2
    z.detach().zero_()
    assert z.tolist() == [0.0, 0.0], "a detached tensor shares memory"


def test_anomaly_names_the_forward_line() -> None:
    x = leaf(0.0)
    with autograd.detect_anomaly():
        y = F.sqrt(x) * 0
        with pytest.raises(RuntimeError, match=r"SqrtBackward0.*nan.*test_tape.py:\d+ in test_anomaly"):
            y.backward()


# ---- hooks --------------------------------------------------------------------------------------------------------


def test_hooks_see_and_replace_gradients() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    handle = y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    y.sum().backward(retain_graph=True)
    assert seen == [[1.0, 1.0]] and x.grad.tolist() == [21.0, 21.0]
    handle.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_retain_grad_and_post_accumulate_hook() -> None:
    x = leaf(1.0)
    called = []
    x.register_post_accumulate_grad_hook(lambda t: called.append(t.grad.item()))
    y = x * 2
    y.retain_grad()
    (y * 3).backward()
    assert y.grad.item() == 3.0 and called == [6.0] and y.retains_grad


def test_a_hook_needs_a_gradient() -> None:
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        F.ones(1).register_hook(print)


# ---- life time ----------------------------------------------------------------------------------------------------


def test_a_dropped_tape_is_freed_without_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0)
        y = F.exp(x * 2).tanh()
        y.mul_(x)
        node = weakref.ref(y.node)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_backward_lets_go_of_saved_values() -> None:
    x = leaf(1.0)
    a = x * 2
    y = a * a
    saved = weakref.ref(a)
    del a
    assert saved() is not None
    y.backward()
    assert saved() is None


def test_what_no_rule_reads_is_not_kept() -> None:
    x = F.ones(4, requires_grad=True)
    a = x * 2
    held = weakref.ref(a)
    b = a + 1
    del a
    assert held() is None and b.requires_grad


def test_live_graphs() -> None:
    gc.collect()
    before = len(autograd.live_graphs())
    losses = []
    x = leaf(1.0)
    for _ in range(3):
        with autograd.detect_anomaly():
            losses.append((x * 2).exp())
    found = autograd.live_graphs()
    assert len(found) == before + 3
    text = repr(found[0])
    assert "ExpBackward0" in text and "a list of 3" in text and "test_tape.py" in text
    del losses, found


def test_reads() -> None:
    assert [reads_of(TABLE["mul"]).of(k) for k in range(2)] == [READ, READ]
    assert [reads_of(TABLE["add"]).of(k) for k in range(2)] == [UNUSED, UNUSED]
    assert reads_of(TABLE["sum"]).of(0) == SHAPE and not reads_of(TABLE["sum"]).out
    assert reads_of(TABLE["exp"]).out and reads_of(TABLE["exp"]).of(0) == UNUSED
    assert reads_of(TABLE["mul"]).positions(0, 2) == [1]


# ---- stale values ---------------------------------------------------------------------------------------------------


def test_a_stale_saved_value_is_an_error_before_anything_is_written() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    a = x * 1
    y = (a * w).sum() + (w * 2).sum()
    a.add_(1)
    with pytest.raises(RuntimeError) as error:
        y.backward()
    text = str(error.value)
    assert "modified by an inplace operation" in text and "MulBackward0" in text
    assert (
        "is at version 1; expected version 0" in text and "test_tape.py" in text and "in test_a_stale" in text
    )
    assert w.grad is None and x.grad is None


def test_only_what_a_needed_rule_reads_can_be_stale() -> None:
    x, w = F.ones(2), leaf(3.0, 4.0)
    y = (x * w).sum()
    with autograd.no_grad():
        w.add_(1)  # w is read only for the gradient of x, which wants none
    y.backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_a_stale_output_is_an_error() -> None:
    x = leaf(1.0)
    y = F.exp(x)
    z = y * 1
    y.add_(1)
    with pytest.raises(RuntimeError, match="output of ExpBackward0"):
        z.backward()


def test_a_write_through_a_detached_alias_counts_and_through_data_does_not() -> None:
    x = leaf(2.0)
    a = x * 1
    y = a * a
    a.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    a = x * 1
    y = a * a
    a.data.mul_(2)
    y.backward()
    assert x.grad.item() == 8.0


# ---- in place ---------------------------------------------------------------------------------------------


def against_torch(program, *shapes: tuple[int, ...]) -> None:
    """The same program on both: values and gradients."""
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=s) for s in shapes]
    mine = [Tensor(a.copy(), requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    a, b = program(F, *mine), program(torch, *theirs)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-12)
    weights = rng.normal(size=b.shape)
    a.backward(F.from_numpy(weights))
    b.backward(torch.from_numpy(weights))
    for x, y in zip(mine, theirs, strict=True):
        assert (x.grad is None) == (y.grad is None)
        if y.grad is not None:
            np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-12)


def write_to_a_row(F, x, w):
    y = x * 2
    y[1] = w
    return y * y


def write_through_two_views(F, x, w):
    y = x.clone()
    row, column = y[0], y[:, 1]
    row.mul_(2)
    column.add_(w[:3])
    return (y * y).sum() + row.sum() * column.prod()


def transposed_view_of_a_slice(F, x, w):
    y = x * 1
    y[1:].t()[2:].copy_(w.sum().reshape(1, 1))
    return y.exp()


def chain(F, x, w):
    y = x * 1
    y.add_(w).mul_(x).sub_(x, alpha=2).sigmoid_()
    return y


def old_value_is_needed(F, x, w):
    y = x * 1
    y.mul_(x).mul_(w).pow_(2)
    return y


def other_view_follows(F, x, w):
    y = x * 1
    v = y.reshape(-1)
    y.mul_(3)
    y[0, 0] = 0.0
    return v * v


def masks_and_lists(F, x, w):
    y = x * 1
    y[y > 0] = 0.5
    y[[0, 2], 1:3] = w[:2]
    y[:, -1] += w[:3]
    return y * y


def zero_keeps_the_tape(F, x, w):
    y = x * w
    y.zero_()
    return y + x


def filled_diagonal(F, x, w):
    y = x * 1
    y.diagonal().mul_(w[:3])
    return y**3


def relu_in_place(F, x, w):
    y = x * w
    z = y[1:]
    z.relu_()
    return y * y


def augmented(F, x, w):
    y = x * 1
    y += w
    y *= x
    y -= 1
    y /= 2.0
    return y


PROGRAMS = [
    write_to_a_row, write_through_two_views, transposed_view_of_a_slice, chain, old_value_is_needed,
    other_view_follows, masks_and_lists, zero_keeps_the_tape, filled_diagonal, relu_in_place, augmented,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_in_place_programs(program) -> None:
    against_torch(program, (3, 4), (4,))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_in_place_programs_without_memory(program) -> None:
    """The same programs where nothing may be written: values are replaced, as while recording."""
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(3, 4)), rng.normal(size=4)
    wanted = program(F, Tensor(x.copy()), Tensor(w.copy()))
    with executor.use(frozen_run):
        a, b = Tensor(Frozen(x.copy()), requires_grad=True), Tensor(Frozen(w.copy()), requires_grad=True)
        out = program(F, a, b)
        np.testing.assert_array_equal(out.array.array, wanted.array)
        found = autograd.grad(out.sum(), [a, b], allow_unused=True)
    real = [Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)]
    for g, h in zip(found, autograd.grad(program(F, *real).sum(), real, allow_unused=True), strict=True):
        assert (g is None) == (h is None)
        if g is not None:
            np.testing.assert_array_equal(g.array.array, h.array)


class Frozen:
    """A value that cannot be written to, as a recorder's."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.array.flags.writeable = False

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)

    def concrete(self, reason: str) -> np.ndarray:
        return self.array


def frozen_run(op, values, attrs):
    plain = [v.array if isinstance(v, Frozen) else v for v in values]
    out = executor.run_eagerly(op, plain, attrs)
    return Frozen(out.copy()) if op.kind != "view" else Frozen(out)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: leaf(1.0).add_(1),
            RuntimeError,
            "a leaf Variable that requires grad is being used in an in-place",
        ),
        (lambda: leaf(1.0)[:1].add_(1), RuntimeError, "a view of a leaf Variable that requires grad"),
        (lambda: F.ones(3).add_(F.ones(2, 3)), RuntimeError, r"output with shape \[3\] doesn't match"),
        (
            lambda: F.arange(3).add_(1.5),
            RuntimeError,
            "result type Float can't be cast to the desired output type Long",
        ),
        (lambda: F.ones(1).expand(3).add_(1), RuntimeError, "more than one element of the written-to tensor"),
    ],
)
def test_wrong_writes(make, error, message) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_failed_write_writes_nothing() -> None:
    x = leaf(1.0)
    with pytest.raises(RuntimeError):
        x.add_(1)
    assert x.item() == 1.0 and x._version == 0


def test_versions_are_shared_by_views() -> None:
    x = F.ones(2, 2)
    row = x[0]
    row.add_(1)
    x.mul_(2)
    assert x._version == row._version == x.detach()._version == 2


def test_parameters_may_be_written_without_grad() -> None:
    x = leaf(1.0, 2.0)
    with autograd.no_grad():
        x.sub_(0.5)
        x[0] = 7.0
    assert x.tolist() == [7.0, 1.5] and x.is_leaf and x.requires_grad


# ---- custom functions, checks ---------------------------------------------------------------------------------------


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x**3 * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x * ctx.factor, None


def test_custom_function() -> None:
    x = F.tensor([1.0, 2.0], dtype="float64", requires_grad=True)
    y = Cube.apply(x, 2.0)
    assert repr(y.grad_fn) == "<CubeBackward>"
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 24.0]
    assert autograd.gradcheck(lambda t: Cube.apply(t, 2.0), x)
    assert autograd.gradgradcheck(lambda t: Cube.apply(t, 2.0), x)


class Both(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h * 3


def test_custom_function_with_two_outputs() -> None:
    x = leaf(1.0)
    a, b = Both.apply(x)
    (a * 5 + b).sum().backward()
    assert x.grad.item() == 13.0
    a, b = Both.apply(x)
    assert autograd.grad(b.sum(), x)[0].item() == 3.0


def test_gradcheck_finds_a_wrong_gradient() -> None:
    class Wrong(Cube):
        @staticmethod
        def backward(ctx, g):
            return g, None

    x = F.tensor([2.0], dtype="float64", requires_grad=True)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        autograd.gradcheck(lambda t: Wrong.apply(t, 1.0), x)
    assert not autograd.gradcheck(lambda t: Wrong.apply(t, 1.0), x, raise_exception=False)


def test_a_composite_without_a_gradient_rule_is_differentiated_through_its_parts() -> None:
    from dataclasses import replace

    op = replace(TABLE["softmax"], vjp=None)
    x = F.tensor([[0.1, 0.4, 0.2]], dtype="float64", requires_grad=True)
    assert autograd.gradcheck(lambda t: tape.apply(op, t * 2, dim=1), x)
    assert autograd.gradgradcheck(lambda t: tape.apply(op, t * 2, dim=1), x)
