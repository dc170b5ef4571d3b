"""Tracing: what is recorded, that sizes stay free, that mutation is kept, and what the errors say."""

import warnings

import numpy as np
import pytest

import tapecast as tc
from tapecast import nn
from tapecast.tracer.dims import size_text
from tapecast.tracer.evaluate import evaluate
from tapecast.tracer.parse import parse
from tapecast.tracer.program import Method, Program
from tapecast.tracer.record import TracerError, TracerWarning
from tapecast.tracer.storage import ProgramError
from tapecast.tracer.text import weights_of

trace, Dim = tc.jit.trace, tc.Dim
RNG = np.random.default_rng(0)


def rand(*shape):
    return tc.tensor(RNG.normal(size=shape).astype(np.float32))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        return self.second(self.first(x).relu())


def ops(traced):
    return [n.op.name for n in traced.graph.nodes if n.op]


def shapes(traced):
    return [",".join(map(size_text, n.shape)) for n in traced.graph.outputs]


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


# ---- what is recorded --------------------------------------------------------------------------------------


def test_a_module_is_recorded_with_names_lines_and_scopes():
    model = MLP().eval()
    traced = trace(model, (rand(2, 8),))
    text = str(traced.graph)
    assert "graph forward(%x: float32[2,8]):" in text
    assert '%first.weight = const float32[16,8] "first.weight"' in text
    assert "# test_tracer.py:" in text
    assert {n.scope for n in traced.graph.nodes if n.op} >= {"first", "second"}
    x = rand(2, 8)
    same(traced(x), model(x))


def test_shared_parameters_are_one_constant():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4, bias=False)
            self.b = nn.Linear(4, 4, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    traced = trace(Tied().eval(), (rand(2, 4),))
    assert [n.name for n in traced.graph.nodes if n.is_const and n.name] == ["a.weight"]


GLOBAL = nn.BatchNorm1d(2)


def test_modules_that_a_function_names_give_their_names():
    inner = nn.Linear(2, 2).eval()
    with pytest.raises(TracerError, match="BatchNorm1d is in train mode"):
        trace(lambda x: GLOBAL(x), (rand(1, 2),))
    GLOBAL.eval()
    traced = trace(lambda x: GLOBAL(inner(x)), (rand(1, 2),))
    names = {n.name for n in traced.graph.nodes if n.is_const}
    assert {"weight", "bias", "weight.1", "bias.1", "running_mean"} <= names


def test_ops_without_traced_operands_are_recorded_too():
    w = rand(3)
    traced = trace(lambda x: x + w.exp(), (rand(2, 3),))
    assert "exp" in ops(traced)


def test_containers_in_and_out():
    def f(pair, scale, *, flags):
        a, b = pair
        out = {"sum": a + b * scale, "list": [a, (b, None)]}
        return out if flags["neg"] is None else -a

    a, b = rand(3), rand(3)
    traced = trace(f, {"pair": (a, b), "scale": 2.0, "flags": {"neg": None}})
    assert [n.name for n in traced.graph.inputs] == ["pair.0", "pair.1"]
    out = traced((b, a), 2.0, flags={"neg": None})
    same(out["sum"], b + a * 2)
    assert out["list"][1][1] is None and isinstance(out["list"][1], tuple)
    with pytest.raises(TypeError, match=r"scale was 2\.0 in the trace, which is fixed, and is 3\.0 now"):
        traced((a, b), 3.0, flags={"neg": None})
    with pytest.raises(TypeError, match="pair must be a tuple, it is a tensor"):
        traced(a, 2.0, flags={"neg": None})
    with pytest.raises(TypeError, match="the argument scale is missing"):
        traced((a, b))


def test_variable_arguments():
    traced = trace(lambda *xs: xs[0] + xs[1], (rand(2), rand(2)))
    a, b = rand(2), rand(2)
    same(traced(a, b), a + b)


def test_arrays_are_taken_as_tensors():
    traced = trace(lambda x: x * 2, (np.ones((2, 3), np.float32),))
    same(traced(np.full((2, 3), 2, np.float32)), tc.full((2, 3), 4.0))


def test_gradients_flow_to_inputs_and_parameters():
    model = MLP().eval()
    traced = trace(model, (rand(2, 8),))
    x = rand(2, 8)
    ours, theirs = tc.tensor(x.numpy(), requires_grad=True), tc.tensor(x.numpy(), requires_grad=True)
    model(theirs).sum().backward()
    wanted = {name: p.grad.numpy().copy() for name, p in model.named_parameters()}
    model.zero_grad()
    traced(ours).sum().backward()
    same(ours.grad, theirs.grad)
    for name, p in traced.named_parameters():
        np.testing.assert_allclose(p.grad.numpy(), wanted[name], rtol=1e-5, atol=1e-6)


def test_backward_can_be_recorded():
    w = tc.tensor(RNG.normal(size=(3,)).astype(np.float32), requires_grad=True)

    def slope(x):
        loss = (x * w).tanh().sum()
        (g,) = tc.autograd.grad(loss, [w])
        return loss, g

    x = rand(2, 3)
    loss, g = trace(slope, (x,))(x)
    wanted_loss, wanted = slope(x)
    same(loss, wanted_loss)
    same(g, wanted)


def test_recording_is_deterministic():
    model = MLP().eval()
    dynamic = {"x": {0: Dim("batch", max=64)}}
    texts = {str(trace(model, (rand(2, 8),), dynamic=dynamic).graph) for _ in range(2)}
    assert len(texts) == 1


def test_a_traced_module_can_be_traced():
    inner = trace(MLP().eval(), (rand(2, 8),), dynamic={"x": {0: Dim("batch", max=64)}})
    outer = trace(lambda y: inner(y * 2).exp(), (rand(3, 8),), dynamic={"y": {0: Dim("rows", max=64)}})
    assert shapes(outer) == ["rows,4"]
    y = rand(5, 8)
    same(outer(y), inner(y * 2).exp())


# ---- sizes -------------------------------------------------------------------------------------------------

BATCH = {"x": {0: Dim("batch", min=1, max=1024)}}


@pytest.mark.parametrize("example", [1, 2, 5, 7])
def test_the_example_size_never_leaks(example):
    model = MLP().eval()
    traced = trace(model, (rand(example, 8),), dynamic=BATCH)
    assert shapes(traced) == ["batch,4"]
    for n in (1, 2, 33):
        x = rand(n, 8)
        same(traced(x), model(x))
    with pytest.raises(ValueError, match=r"batch is 1025, the program was made for 1\.\.1024"):
        traced(rand(1025, 8))


def test_a_range_may_include_zero():
    traced = trace(lambda x: x.exp() + 1, (rand(1, 3),), dynamic={"x": {0: Dim("n", min=0, max=8)}})
    assert traced(rand(0, 3)).shape == (0, 3)


def test_shape_arithmetic_stays_symbolic():
    def f(x):
        batch, channels, h, w = x.shape
        return x.reshape(batch, channels * h * w), x.reshape(-1, h * w), x.flatten(1) / h

    dims = {0: Dim("batch", max=64), 2: Dim("h", min=2, max=32)}
    traced = trace(f, (rand(1, 3, 4, 4),), dynamic={"x": dims})
    assert shapes(traced) == ["batch,h*12", "batch*3,h*4", "batch,h*12"]
    x = rand(2, 3, 6, 4)
    for a, b in zip(traced(x), f(x), strict=True):
        same(a, b)


def test_means_over_a_dynamic_axis():
    traced = trace(lambda x: (x.mean(0), x.sum(0) / x.shape[0]), (rand(1, 3),), dynamic=BATCH)
    x = rand(6, 3)
    for y in traced(x):
        same(y, x.mean(0))


def test_slices_of_a_dynamic_axis():
    def f(x):
        return x[1:], x[:, -1], x[:-1] + x[1:], x[::2]

    traced = trace(f, (rand(4, 3),), dynamic={"x": {0: Dim("n", min=2, max=64)}})
    assert shapes(traced) == ["n-1,3", "n", "n-1,3", "(n+1)//2,3"]
    for n in (2, 3, 9):
        x = rand(n, 3)
        for a, b in zip(traced(x), f(x), strict=True):
            same(a, b)


def test_tensors_made_of_a_dynamic_size():
    def f(x):
        return x + tc.arange(x.shape[1]), tc.zeros(x.shape[1], 2), tc.ones_like(x)

    traced = trace(f, (rand(2, 4),), dynamic={"x": {1: Dim("n", max=64)}})
    assert shapes(traced) == ["2,n", "n,2", "2,n"]
    x = rand(2, 9)
    for a, b in zip(traced(x), f(x), strict=True):
        same(a, b)


def test_dims_by_name_and_inputs_by_position():
    traced = trace(lambda x, y: x @ y, (rand(2, 3), rand(3, 2)), dynamic={0: {0: "n"}, 1: {1: "m"}})
    assert shapes(traced) == ["n,m"]
    assert traced(rand(4, 3), rand(3, 7)).shape == (4, 7)


def test_derived_sizes():
    k = Dim("k", min=1, max=8)
    traced = trace(lambda x: x.reshape(-1, 2), (rand(4),), dynamic={"x": {0: 2 * k}})
    assert shapes(traced) == ["k,2"]
    with pytest.raises(ValueError, match="axis 0 must have"):
        traced(rand(5))


def test_equal_examples_of_two_sizes_are_two_sizes():
    traced = trace(lambda x: x.sum(1), (rand(4, 4),), dynamic={"x": {0: "n", 1: "m"}})
    assert shapes(traced) == ["n"]


def test_a_branch_on_a_size_is_an_error_that_names_the_line():
    def f(x):
        if x.shape[0] > 100:
            return x * 2
        return x

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(TracerError, match=r"`batch > 100` is False.*|.*") as error:
        trace(f, (rand(3, 2),), dynamic=BATCH)
    assert f"test_tracer.py:{line}" in str(error.value) and "`batch > 100`" in str(error.value)


def test_a_branch_that_makes_no_difference_is_none():
    def f(x):
        if x.shape[0] > 100:
            pass
        return x + 1

    assert shapes(trace(f, (rand(3, 2),), dynamic=BATCH)) == ["batch,2"]


def test_an_assertion_within_the_range_is_no_error_and_outside_is():
    def f(x):
        assert x.shape[0] <= 64, "too many"
        return x + 1

    assert shapes(trace(f, (rand(3),), dynamic={"x": {0: Dim("n", max=64)}})) == ["n"]
    with pytest.raises(TracerError, match=r"fails for n=65: too many"):
        trace(f, (rand(3),), dynamic={"x": {0: Dim("n", max=100)}})


def test_a_loop_over_a_size_is_an_error():
    def f(x):
        total = x[0]
        for k in range(1, x.shape[0]):
            total = total + x[k]
        return total

    with pytest.raises(TracerError, match=r"test_tracer.py:.*is not the one for"):
        trace(f, (rand(4, 2),), dynamic=BATCH)


@pytest.mark.parametrize(
    "f, what",
    [
        (lambda x: x / float(x.shape[0]), r"float\(\)"),
        (lambda x: x.reshape(int(x.shape[0]), 2, 1), r"int\(\)"),
        (lambda x: x * (1 / x.shape[0]), "true division"),
    ],
    ids=["float", "int", "division"],
)
def test_what_pinned_a_size_is_named(f, what):
    with pytest.raises(TracerError, match=rf"{what} makes a plain number of the size batch"):
        trace(f, (rand(4, 2),), dynamic=BATCH)


def test_a_size_pinned_by_a_constant_is_an_error():
    w = rand(4)
    with pytest.raises(TracerError, match=r"works for batch=.* and fails for batch="):
        trace(lambda x: x + w, (rand(4),), dynamic=BATCH)
    with pytest.raises((TracerError, RuntimeError)):
        trace(lambda x: x + w, (rand(1),), dynamic=BATCH)


def test_wrong_dynamic_arguments():
    with pytest.raises(ValueError, match="there is no input 'y'; the tensors are x"):
        trace(lambda x: x, (rand(2),), dynamic={"y": {0: "n"}})
    with pytest.raises(ValueError, match="x has 1 axes, there is no axis 1"):
        trace(lambda x: x, (rand(2),), dynamic={"x": {1: "n"}})
    with pytest.raises(ValueError, match=r"n is 5 in the example, outside its range 1\.\.4"):
        trace(lambda x: x, (rand(5),), dynamic={"x": {0: Dim("n", max=4)}})
    with pytest.raises(TypeError, match="wants a Dim or its name"):
        trace(lambda x: x, (rand(5),), dynamic={"x": {0: 5}})


def test_returning_a_size_is_an_error():
    with pytest.raises(TracerError, match=r"output\.1 is the size batch"):
        trace(lambda x: (x, x.shape[0]), (rand(3, 2),), dynamic=BATCH)


# ---- data-dependent Python ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f, what",
    [
        (lambda x: x if x.sum() > 0 else -x, r"bool\(\)"),
        (lambda x: x * x.sum().item(), r"item\(\)"),
        (lambda x: x * int(x.sum()), r"int\(\)"),
        (lambda x: x + tc.tensor(x.numpy()), r"numpy\(\)"),
    ],
    ids=["bool", "item", "int", "numpy"],
)
def test_reading_values_is_an_error_that_names_line_and_ways_out(f, what):
    line = f.__code__.co_firstlineno
    with pytest.raises(TracerError, match=what) as error:
        trace(f, (rand(3),))
    assert f"test_tracer.py:{line}" in str(error.value)
    assert "tc.where" in str(error.value) and "allow_freeze=True" in str(error.value)


def test_freezing_warns_once_for_each_line():
    def f(x):
        for _ in range(3):
            x = x * x.sum().item()
        return x

    with pytest.warns(TracerWarning, match="is frozen") as found:
        trace(f, (rand(3),), allow_freeze=True, check=False)
    assert len(found) == 1


def test_a_constant_that_changes_from_run_to_run_is_found():
    rng = np.random.default_rng(0)
    with pytest.raises(TracerError, match="not the same in a second run"):
        trace(lambda x: x + tc.tensor(rng.normal(size=16).astype(np.float32)), (rand(16),))


def test_outputs_of_no_input_and_unused_inputs_are_warned_of():
    with pytest.warns(TracerWarning, match="output 1 depends on no input"):
        trace(lambda x: (x, tc.ones(2)), (rand(2),))
    with pytest.warns(TracerWarning, match="the input y is not used"):
        trace(lambda x, y: x + 1, (rand(2), rand(2)))


# ---- mutation ----------------------------------------------------------------------------------------------


def test_in_place_ops_and_views_become_functional():
    def f(x):
        y = x * 1
        y[:, 0] += 10
        y[1].mul_(2)
        z = y.t()
        z.add_(1)
        return y, z

    x = rand(3, 3)
    before = x.numpy().copy()
    traced = trace(f, (x,))
    for a, b in zip(traced(x), f(x), strict=True):
        same(a, b)
    np.testing.assert_array_equal(x.numpy(), before)


def test_indexed_in_place_add():
    def f(x, i):
        y = x.clone()
        y[..., i] += 1
        return y

    x, i = rand(2, 4), tc.tensor([1, 3])
    traced = trace(f, (x, i))
    same(traced(x, i), f(x, i))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", tc.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


def test_buffer_writes_are_state():
    model = Counter().eval()
    traced = trace(model, (rand(3),))
    assert traced.graph.state == ((1, 1),)
    assert "%count <- " in str(traced.graph)
    assert model.count.item() == 0
    x = rand(3)
    same(traced(x), x)
    same(traced(x), x * 2)
    assert model.count.item() == 2


class Memory(nn.Module):
    """Binds its buffer to a new tensor at each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("h", tc.zeros(3))

    def forward(self, x):
        self.h = self.h * 0.5 + x
        self.calls = getattr(self, "calls", 0) + 1
        return self.h + 1


def test_a_buffer_bound_to_a_new_tensor_is_state():
    model, twin = Memory().eval(), Memory().eval()
    traced = trace(model, (rand(3),))
    assert [traced.graph.inputs[i].name for i, _ in traced.graph.state] == ["h"]
    assert isinstance(model.h.array, np.ndarray) and not hasattr(model, "calls")
    for _ in range(3):
        x = rand(3)
        same(traced(x), twin(x))
    same(model.h, twin.h)


def test_a_tensor_kept_in_a_plain_attribute_is_refused():
    class Keeps(nn.Module):
        def forward(self, x):
            self.last = x * 2
            return self.last + 1

    with pytest.warns(TracerWarning, match=r"Keeps\.last is set to a value of the recording"):
        trace(Keeps().eval(), (rand(3),))
    model = Keeps().eval()
    model.last = tc.zeros(3)
    with pytest.raises(TracerError, match="make it a buffer"):
        trace(model, (rand(3),))


def test_a_view_of_a_parameter_that_outlives_the_trace_is_left_alone():
    class Shifts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", tc.zeros(2, 2))
            self.views = [self.table[0]]

        def forward(self, x):
            self.table.add_(x)
            return self.views[0] + 1

    model = Shifts().eval()
    traced = trace(model, (rand(2, 2),))
    assert isinstance(model.views[0].array, np.ndarray)
    x = rand(2, 2)
    same(traced(x), x[0] + 1)


def test_batch_norm_in_both_modes():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    model.eval()
    traced = trace(
        model, (rand(5, 4),), modes=("eval", "train"), dynamic={0: {0: Dim("batch", min=2, max=64)}}
    )
    assert list(traced.graphs) == ["forward", "forward_train"]
    assert not model.training and not any(m.training for m in model.modules())
    x = rand(6, 4)
    twin = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    twin.load_state_dict(model.state_dict())
    same(traced(x), twin.eval()(x))
    same(traced.train()(x), twin.train()(x))
    same(traced.eval()(x), twin.eval()(x))


def test_modules_without_modes_may_be_in_train_mode():
    x, model = rand(5, 4), nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.ReLU())
    assert model.training
    same(trace(model, (x,))(x), model(x))


def test_a_module_that_asks_for_its_mode_is_found():
    class Asks(nn.Module):
        def forward(self, x):
            return next(x * 2 if self.training else x for _ in range(1))

    class Inherits(Asks):
        pass

    for kind in (Asks, Inherits):
        with pytest.raises(TracerError, match=f"{kind.__name__} is in train mode"):
            trace(kind(), (rand(2),))
        trace(kind().eval(), (rand(2),))


def test_modes_are_asked_for():
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout())
    with pytest.raises(
        TracerError, match=r"Sequential\.1, a Dropout, is in train mode.*call \.eval\(\) first"
    ):
        trace(model, (rand(5, 4),))
    traced = trace(model.eval(), (rand(5, 4),))
    with pytest.raises(RuntimeError, match="traced in eval mode only"):
        traced.train()
    with pytest.raises(ValueError, match='"eval" and "train"'):
        trace(model, (rand(5, 4),), modes=("test",))


def test_a_tensor_from_outside_must_not_be_changed():
    total = tc.zeros(3)

    def f(x):
        total.add_(x)
        return x + 1

    with pytest.raises(
        TracerError, match=r"a tensor float32\[3\] from outside the program is changed in place"
    ):
        trace(f, (rand(3),))
    assert total.numpy().tolist() == [0, 0, 0]
    traced = trace(f, (rand(3),), state=[total])
    traced(tc.ones(3))
    assert total.numpy().tolist() == [1, 1, 1]


def test_a_training_step_with_its_state():
    model = MLP()
    optimizer = tc.optim.Adam(model.parameters(), lr=1e-2)

    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    x, y = rand(8, 8), rand(8, 4)
    start = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    traced = trace(step, (x, y), state=[model, optimizer])
    assert all((v.numpy() == start[k]).all() for k, v in model.state_dict().items())
    names = [traced.graph.inputs[i].name for i, _ in traced.graph.state]
    assert "first.weight" in names and "first.weight.exp_avg" in names

    twin = MLP()
    twin.load_state_dict(model.state_dict())
    other = tc.optim.Adam(twin.parameters(), lr=1e-2)
    for _ in range(3):
        loss = traced(x, y)
        other.zero_grad()
        wanted = ((twin(x) - y) ** 2).mean()
        wanted.backward()
        other.step()
        same(loss, wanted)
    same(model.first.weight, twin.first.weight)


def test_random_numbers_go_on_from_call_to_call():
    model = nn.Dropout(0.5)
    traced = trace(model, (tc.ones(64),), modes=("train",))
    tc.manual_seed(3)
    ours = [traced(tc.ones(64)).numpy() for _ in range(2)]
    tc.manual_seed(3)
    theirs = [model(tc.ones(64)).numpy() for _ in range(2)]
    np.testing.assert_array_equal(ours, theirs)
    assert (ours[0] != ours[1]).any()


# ---- methods and files -------------------------------------------------------------------------------------


class Codec(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(4, 2, bias=False)

    def encode(self, x):
        return self.w(x)

    def decode(self, z):
        return z @ self.w.weight


def test_several_methods():
    model = Codec().eval()
    dynamic = {"x": {0: Dim("n", max=9)}, "z": {0: Dim("n", max=9)}}
    traced = trace(model, methods={"encode": (rand(3, 4),), "decode": (rand(3, 2),)}, dynamic=dynamic)
    x = rand(5, 4)
    same(traced.decode(traced.encode(x)), model.decode(model.encode(x)))
    with pytest.raises(AttributeError, match="its entry points are encode, decode"):
        _ = traced.forward


def test_save_and_load(tmp_path):
    model = MLP().eval()
    traced = trace(model, (rand(1, 8),), dynamic=BATCH)
    traced.save(tmp_path / "a.tape")
    again = tc.jit.load(tmp_path / "a.tape")
    x = rand(3, 8)
    same(again(x), model(x))
    assert again.code == traced.code
    assert [name for name, _ in again.named_parameters()] == sorted(n for n, _ in model.named_parameters())
    again(x).sum().backward()
    again.save(tmp_path / "b.tape")
    assert (tmp_path / "a.tape").read_bytes() == (tmp_path / "b.tape").read_bytes()
    assert [p.name for p in tmp_path.iterdir() if p.suffix != ".tape"] == []


def test_state_and_methods_are_saved(tmp_path):
    traced = trace(Counter().eval(), (rand(3),))
    traced(rand(3))
    tc.jit.save(traced, tmp_path / "m.tape")
    again = tc.jit.load(tmp_path / "m.tape")
    x = rand(3)
    same(again(x), x * 2)
    same(again(x), x * 3)


def test_later_training_is_in_the_file(tmp_path):
    model = nn.Linear(2, 2).eval()
    traced = trace(model, (rand(1, 2),))
    with tc.no_grad():
        model.weight.copy_(tc.ones(2, 2))
        model.bias.zero_()
    traced.save(tmp_path / "m.tape")
    same(tc.jit.load(tmp_path / "m.tape")(tc.ones(1, 2)), tc.full((1, 2), 2.0))


@pytest.fixture
def tape(tmp_path):
    path = tmp_path / "m.tape"
    trace(MLP().eval(), (rand(1, 8),)).save(path)
    return path


def test_damaged_files_are_refused(tape):
    data = tape.read_bytes()
    cases = {
        "is empty": b"",
        "begins with b'hell'": b"hello world" * 10,
        "is cut short": data[: len(data) // 2],
        "is a library": b"\x7fELF" + bytes(100),
    }
    for message, content in cases.items():
        tape.write_bytes(content)
        with pytest.raises(ProgramError, match=message):
            tc.jit.load(tape)
    for at in (40, len(data) // 3, len(data) // 2):
        tape.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ProgramError, match="is damaged: its bytes do not have the digest"):
            tc.jit.load(tape)
    with pytest.raises(ProgramError, match="does not exist: a tapecast program was wanted"):
        tc.jit.load(tape.with_name("other.tape"))


def test_a_newer_format_is_refused(tape, monkeypatch):
    monkeypatch.setattr("tapecast.tracer.storage.FORMAT_VERSION", 99)
    trace(MLP().eval(), (rand(1, 8),)).save(tape)
    with pytest.raises(ProgramError, match="format version 99 and this tapecast reads up to 1"):
        tc.jit.load(tape)


# ---- the check ---------------------------------------------------------------------------------------------


def test_the_check_compares_with_eager():
    calls = []

    def f(x):  # the fourth run is that of the check
        calls.append(1)
        return x * (2 if len(calls) > 2 else 1)

    with pytest.raises(TracerError, match="output 0 of the recorded program differs from the program's own"):
        trace(f, (rand(3),))
    calls.clear()
    trace(f, (rand(3),), check=False)


def test_squeezing_a_dynamic_axis_is_found_at_its_smallest_size():
    with pytest.raises(
        TracerError, match=r"for batch=1: it is float32\[3\] in eager, float32\[1, 3\] in the graph"
    ):
        trace(lambda x: x.squeeze(), (rand(4, 3),), dynamic=BATCH)
    trace(lambda x: x.squeeze(), (rand(4, 3),), dynamic={"x": {0: Dim("batch", min=2, max=8)}})


def test_tracing_leaves_no_trace():
    model = MLP().eval()
    x = rand(2, 8)
    before = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    trace(model, (x,), dynamic=BATCH)
    assert all(isinstance(p.array, np.ndarray) and p.grad is None for p in model.parameters())
    assert all((v.numpy() == before[k]).all() for k, v in model.state_dict().items())


def test_a_graph_is_its_text():
    traced = trace(MLP().eval(), (rand(1, 8),), dynamic=BATCH)
    graph = traced.graph
    again = parse(str(graph), weights_of(graph))
    x = rand(4, 8)
    np.testing.assert_array_equal(evaluate(again, [x.numpy()])[0], traced(x).detach().numpy())
    program = Program(
        {"forward": Method(again, *list(vars(traced.program.methods["forward"]).values())[1:])}, {}
    )
    same(tc.jit.TracedModule(program)(x), traced(x))


def test_no_warnings_from_an_ordinary_trace():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace(MLP().eval(), (rand(1, 8),), dynamic=BATCH)


# ---- control flow ------------------------------------------------------------------------------------------


def test_cond_runs_one_side_in_eager_and_chooses_in_a_program():
    def f(x):
        return tc.cond(x.sum() > 0, lambda x: (x * 2, {"a": x}), lambda x: (-x, {"a": x + 1}), (x,))

    traced = trace(f, (rand(3),))
    for x in (tc.ones(3), -tc.ones(3)):
        for a, b in zip((traced(x)[0], traced(x)[1]["a"]), (f(x)[0], f(x)[1]["a"]), strict=True):
            same(a, b)
    assert tc.cond(True, lambda: 1, lambda: 2) == 1
    with pytest.raises(TracerError, match="must return the same shapes and dtypes"):
        trace(lambda x: tc.cond(x.sum() > 0, lambda: x, lambda: x[:1]), (rand(3),))
    with pytest.raises(
        TracerError, match="the same kinds of values; the result of false_fn must be a tensor"
    ):
        trace(lambda x: tc.cond(x.sum() > 0, lambda: x, lambda: (x, x)), (rand(3),))


def test_scan():
    def f(x, reverse=False):
        return tc.scan(lambda h, v: (h * 0.5 + v, {"h": h}), tc.zeros(2), x, reverse=reverse)

    x = tc.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    carry, ys = f(x)
    assert carry.tolist() == [6.75, 8.5]
    assert ys["h"].tolist() == [[0, 0], [1, 2], [3.5, 5]]
    assert f(x, reverse=True)[0].tolist() == [3.75, 5.5]
    traced = trace(f, (rand(3, 2),))
    same(traced(x)[0], carry)
    same(traced(x)[1]["h"], ys["h"])
    with pytest.raises(TracerError, match="axis 0 has the dynamic size batch"):
        trace(f, (rand(3, 2),), dynamic=BATCH)


def test_len_of_a_dynamic_axis_is_a_size_that_became_a_number():
    for read in (lambda x: x * int(x.shape[0]), lambda x: x * len(x)):
        with pytest.raises(TracerError, match=r"batch.*int\(\)"):
            trace(read, (rand(3, 2),), dynamic=BATCH)


def test_sizes_that_do_not_broadcast_are_named():
    dynamic = {"x": {0: Dim("b", max=64)}, "y": {0: Dim("c", max=64)}}
    with pytest.raises((RuntimeError, TracerError), match=r"tensor a \(b\).*tensor b \(c\)"):
        trace(lambda x, y: x + y, (rand(3, 2), rand(3, 2)), dynamic=dynamic)
