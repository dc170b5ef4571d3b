"""The public face of the tape, compared with PyTorch where it is installed: the same script run on both."""

import gc
import warnings

import numpy as np
import pytest

import tapecast as tc
from tapecast import autograd

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")
LIBS = [pytest.param(tc, id="tapecast"), pytest.param(torch, id="torch")]
both = pytest.mark.parametrize("lib", LIBS)


def vector(lib, *values, grad=True):
    return lib.tensor(values or (0.5, -1.5, 2.0), dtype=lib.float64, requires_grad=grad)


def numbers(value):
    """Nested tuples of arrays."""
    if isinstance(value, tuple | list):
        return [numbers(v) for v in value]
    return None if value is None else value.detach().numpy()


def same(a, b):
    if isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif a is None:
        assert b is None
    else:
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


# ---- functional ----------------------------------------------------------------------------------------------


def one(x):
    return (x**3).sum()


def many(x, y):
    return (x * y).sin(), (x**2).sum() * y


FUNCTIONAL = {
    "vjp": lambda f, a, x, y: f.vjp(many, (x, y), (y.detach() + 1, x.detach())),
    "vjp, no v": lambda f, a, x, y: f.vjp(one, x),
    "jvp": lambda f, a, x, y: f.jvp(many, (x, y), (y.detach() + 1, x.detach())),
    "jacobian": lambda f, a, x, y: f.jacobian(many, (x, y)),
    "jacobian, single": lambda f, a, x, y: f.jacobian(lambda x: x**2, x),
    "jacobian, independent": lambda f, a, x, y: f.jacobian(lambda x, y: x * 2, (x, y)),
    "jacobian, graph": lambda f, a, x, y: a.grad(f.jacobian(lambda x: x**3, x, create_graph=True).sum(), x),
    "hessian": lambda f, a, x, y: f.hessian(one, x),
    "hessian, two": lambda f, a, x, y: f.hessian(lambda x, y: (x**2 * y).sum(), (x, y)),
    "vhp": lambda f, a, x, y: f.vhp(one, x, y.detach()),
    "hvp": lambda f, a, x, y: f.hvp(lambda x, y: (x**2 * y**2).sum(), (x, y), (y.detach(), x.detach())),
}


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional_equals_the_oracle(name):
    def run(lib):
        x, y = vector(lib), vector(lib, 1.0, 2.0, -0.5)
        return numbers(FUNCTIONAL[name](lib.autograd.functional, lib.autograd, x, y))

    same(run(tc), run(torch))


@both
def test_functional_refuses_what_makes_no_sense(lib):
    f, x = lib.autograd.functional, vector(lib)
    with pytest.raises(RuntimeError, match="strict mode"):
        f.jacobian(lambda x: vector(lib), x, strict=True)
    with pytest.raises(RuntimeError, match="single element"):
        f.hessian(lambda x: x, x)
    with pytest.raises(RuntimeError, match="can only be None"):
        f.vjp(lambda x: x, x)


# ---- grad ----------------------------------------------------------------------------------------------------


@both
def test_batched_and_materialized_gradients(lib):
    x, y = vector(lib), vector(lib)
    out = x**2
    rows = lib.eye(3, dtype=lib.float64)
    (g,) = lib.autograd.grad(out, x, rows, is_grads_batched=True)
    np.testing.assert_allclose(g.numpy(), np.diag([1.0, -3.0, 4.0]))
    g = lib.autograd.grad((x * 2).sum(), (x, y), materialize_grads=True)
    assert g[1].tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        lib.autograd.grad((x * 2).sum(), (x, y))
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * 2).sum().backward(inputs=[])


@both
def test_a_freed_graph_says_so(lib):
    x = vector(lib)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert x.grad.tolist() == [2.0, -6.0, 8.0]
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


# ---- the graph -----------------------------------------------------------------------------------------------

NAMES = {
    "add": lambda x: x + x,
    "sub": lambda x: x - 1,
    "mul": lambda x: x * 2,
    "div": lambda x: x / 2,
    "pow": lambda x: x**2,
    "neg": lambda x: -x,
    "exp": lambda x: x.exp(),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "relu": lambda x: x.relu(),
    "sigmoid": lambda x: x.sigmoid(),
    "clone": lambda x: x.clone(),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "select": lambda x: x[0],
}


@pytest.mark.parametrize("name", NAMES)
def test_nodes_have_the_oracles_names(name):
    ours, theirs = (NAMES[name](vector(lib)).grad_fn for lib in (tc, torch))
    assert ours.name() == theirs.name() == ours.name


@both
def test_next_functions_lead_to_the_leaves(lib):
    x, y = vector(lib), vector(lib, grad=False)
    out = (x * y).sum()
    product = out.grad_fn.next_functions[0][0]
    assert product.name() == "MulBackward0"
    (leaf, number), (nothing, _) = product.next_functions
    assert leaf.variable is x and number == 0 and nothing is None
    first, second, _ = functions(lib)[4].apply(x)
    assert (first + second).grad_fn.next_functions[1][1] == 1
    assert lib.autograd.graph.get_gradient_edge(out).node is out.grad_fn


@both
def test_hooks_on_nodes_see_and_change_gradients(lib):
    x = vector(lib)
    y = x * 2
    seen = []
    y.grad_fn.register_prehook(lambda grads: seen.append("before"))
    handle = y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, *inputs[1:]))
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [20, 20, 20] and seen == ["before"]
    handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [22, 22, 22]


@both
def test_a_hook_of_several_gradients(lib):
    x, y, z = vector(lib), vector(lib), vector(lib)
    seen = []
    handle = lib.autograd.graph.register_multi_grad_hook(
        (x, y, z), lambda gs: seen.append([g is None for g in gs])
    )
    (x * y).sum().backward()
    (x * y * z).sum().backward()
    handle.remove()
    (x * y).sum().backward()
    assert seen == [[False, False, True], [False, False, False]]
    any_seen = []
    lib.autograd.graph.register_multi_grad_hook((x, y), lambda g: any_seen.append(1), mode="any")
    (x * y).sum().backward()
    assert any_seen == [1]


@both
def test_saved_tensors_go_through_hooks(lib):
    x = vector(lib)
    packed, unpacked = [], []

    def pack(t):
        packed.append(t.shape)
        return t.detach().numpy().copy()

    def unpack(a):
        unpacked.append(a.shape)
        return lib.from_numpy(a)

    with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (x * x).exp()
    assert packed and not unpacked
    (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = lib.autograd.grad(g.sum(), x)
    v = x.detach().numpy()
    np.testing.assert_allclose(g.detach().numpy(), 2 * v * np.exp(v * v))
    np.testing.assert_allclose(gg.numpy(), (2 + 4 * v * v) * np.exp(v * v))
    assert unpacked
    with lib.autograd.graph.save_on_cpu():
        z = (x * x).sum()
    z.backward()
    assert x.grad.tolist() == [1.0, -3.0, 4.0]
    with lib.autograd.graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"):
            with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
                (x * x).sum()


# ---- custom functions ----------------------------------------------------------------------------------------


def functions(lib):  # noqa: C901  # a list of classes
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            assert ctx.needs_input_grad == (True,)
            return 3 * x**2 * g

    class Exp(lib.autograd.Function):
        @staticmethod
        def forward(x, scale):
            return (x * scale).exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.scale = inputs[1]
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y * ctx.scale, None

    class Once(Cube):
        @staticmethod
        @lib.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Two(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            big = x > 0
            ctx.mark_non_differentiable(big)
            return x * 2, x * 3, big

        @staticmethod
        def backward(ctx, a, b, c):
            assert a is None and c is None
            return b * 3

    return Cube, Exp, Once, Double, Two


@both
def test_custom_functions(lib):
    Cube, Exp, Once, Double, Two = functions(lib)
    x = vector(lib)
    v = x.detach().numpy()
    for f, first, second in (
        (Cube.apply, 3 * v**2, 6 * v),
        (lambda x: Exp.apply(x, 2.0), 2 * np.exp(2 * v), 4 * np.exp(2 * v)),
    ):
        y = f(x)
        (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        np.testing.assert_allclose(g.detach().numpy(), first)
        (gg,) = lib.autograd.grad(g.sum(), x)
        np.testing.assert_allclose(gg.numpy(), second)
    (g,) = lib.autograd.grad(Once.apply(x), x, vector(lib), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()
    y = x * 1
    z = Double.apply(y)
    assert z is y and y.grad_fn.name() == "DoubleBackward"
    (g,) = lib.autograd.grad((y * x).sum(), x)
    np.testing.assert_allclose(g.numpy(), 4 * v)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        Double.apply(x)
    a, b, big = Two.apply(x)
    assert not big.requires_grad and a.requires_grad
    (g,) = lib.autograd.grad(b.sum(), x)
    assert g.tolist() == [3, 3, 3]


@both
def test_custom_functions_free_and_guard_what_they_saved(lib):
    Cube, Exp, *_ = functions(lib)
    x = vector(lib)
    for f in (Cube.apply, lambda x: Exp.apply(x, 1.0)):
        loss = f(x).sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    y = x * 1
    loss = Cube.apply(y).sum()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@both
def test_a_wrong_number_of_gradients_is_an_error(lib):
    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="returned an incorrect number of gradients"):
        Wrong.apply(vector(lib), 2.0).sum().backward()


def test_custom_functions_leave_no_cycles():
    Cube, Exp, *_ = functions(tc)
    x = vector(tc)
    gc.collect()
    gc.disable()
    try:
        node = None
        for _ in range(3):
            loss = Exp.apply(Cube.apply(x), 1.0).sum()
            loss.backward()
            del loss
        node = [o for o in gc.get_objects() if type(o).__name__ == "FunctionNode"]
    finally:
        gc.enable()
    assert node == []


# ---- modes ---------------------------------------------------------------------------------------------------


@both
def test_modes_as_decorators_and_functions(lib):
    x = vector(lib)

    @lib.no_grad()
    def f():
        return (x * 2).requires_grad

    @lib.no_grad
    def g():
        return (x * 2).requires_grad

    @lib.no_grad()
    def generator():
        yield (x * 2).requires_grad
        got = yield (x * 2).requires_grad
        yield got

    @lib.inference_mode()
    def h():
        return (x * 2).requires_grad, lib.is_inference_mode_enabled()

    assert not f() and not g() and h() == (False, True)
    it = generator()
    assert next(it) is False and lib.is_grad_enabled() and next(it) is False and it.send(3) == 3
    lib.set_grad_enabled(False)
    try:
        assert not (x * 2).requires_grad
        with lib.enable_grad():
            assert (x * 2).requires_grad
    finally:
        lib.set_grad_enabled(True)
    with lib.set_grad_enabled(False):
        assert not lib.is_grad_enabled()

    @lib.set_grad_enabled(False)
    def k():
        return lib.is_grad_enabled()

    assert lib.is_grad_enabled() and not k()


def test_anomalies_name_the_line():
    x = vector(tc, 0.0, 1.0)
    with autograd.detect_anomaly():
        y = (x * 0).sqrt()  # here
        with pytest.raises(RuntimeError, match=r"MulBackward0' returned nan.*test_autograd.py:\d+"):
            y.sum().backward()
    with autograd.set_detect_anomaly(True):
        assert y.grad_fn.metadata and (x * 2).grad_fn.metadata["line"].startswith("test_autograd.py")
    assert not (x * 2).grad_fn.metadata


# ---- leaks ---------------------------------------------------------------------------------------------------


def test_a_loop_that_keeps_its_losses_is_warned_with_the_line():
    autograd.set_live_graph_limit(100)
    try:
        x = vector(tc)
        kept = []
        with pytest.warns(
            UserWarning, match=r"100 tapes whose backward\(\) ran at test_autograd.py:\d+.*grow"
        ):
            for _ in range(130):
                loss = (x * x).sum()
                loss.backward()
                kept.append(loss)
        total = 0
        with pytest.warns(UserWarning, match="still held"):
            for _ in range(130):
                loss = (x * x).sum()
                loss.backward()
                total = total + loss
    finally:
        autograd.set_live_graph_limit(1000)
    assert len(autograd.live_graphs()) >= 100


def test_a_loop_that_keeps_numbers_is_not_and_its_memory_stays_flat():
    import tracemalloc

    autograd.set_live_graph_limit(50)
    try:
        x = vector(tc)
        losses = []
        tracemalloc.start()
        sizes = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for step in range(600):
                loss = (x * x).exp().sum()
                loss.backward()
                losses.append(loss.item())
                if step in (199, 599):
                    gc.collect()
                    sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    finally:
        autograd.set_live_graph_limit(1000)
    assert sizes[1] - sizes[0] < 40_000  # 400 floats, and the refs that are looked through now and then


# ---- checks --------------------------------------------------------------------------------------------------


@both
def test_gradcheck_finds_wrong_gradients(lib):
    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = vector(lib)
    z = lib.tensor([1 + 2j, 0.5 - 1j], dtype=lib.complex128, requires_grad=True)
    assert lib.autograd.gradcheck(lambda x: x.sin() * x, (x,)) and lib.autograd.gradgradcheck(
        lambda x: x**3, (x,)
    )
    assert lib.autograd.gradcheck(lambda z: z * 2 + z, (z,))
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        lib.autograd.gradcheck(Wrong.apply, (x,))
    assert not lib.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False)
    with pytest.raises(ValueError, match="require gradient"):
        lib.autograd.gradcheck(lambda x: x, (x.detach(),))
