"""Optimizers and schedules: equal to PyTorch's over many steps, where it is installed, and their own rules."""

import copy
import math

import numpy as np
import pytest

import tapecast as tc
from tapecast import nn, optim
from tapecast.eager.ops.executor import run_eagerly, use
from tapecast.eager.optim import updates
from tapecast.optim import lr_scheduler

SHAPES = ((3, 2), (4,), ())
STEPS = 20


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is the oracle of this test")


def parameters(lib, seed: int = 0) -> list:
    rng = np.random.default_rng(seed)
    return [lib.tensor(rng.standard_normal(shape), requires_grad=True) for shape in SHAPES]


def train(lib, optimizer, params, steps: int = STEPS, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        for p in params:
            p.grad = lib.tensor(rng.standard_normal(tuple(p.shape)))
        optimizer.step()


def arrays(params) -> list[np.ndarray]:
    return [p.detach().numpy() for p in params]


def assert_equal(ours, theirs) -> None:
    for a, b in zip(arrays(ours), arrays(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


MAKERS = {
    "sgd": lambda o, p: o.SGD(p, lr=0.1),
    "sgd, momentum": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "sgd, nesterov": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "sgd, dampening": lambda o, p: o.SGD(p, lr=0.1, momentum=0.5, dampening=0.3, maximize=True, foreach=True),
    "adam": lambda o, p: o.Adam(p),
    "adam, decay": lambda o, p: o.Adam(p, lr=0.01, betas=(0.5, 0.7), eps=1e-3, weight_decay=0.1),
    "adam, amsgrad": lambda o, p: o.Adam(p, lr=0.01, amsgrad=True, maximize=True),
    "adamw": lambda o, p: o.AdamW(p, lr=0.01),
    "adamw, amsgrad": lambda o, p: o.AdamW(p, lr=0.01, weight_decay=0.3, amsgrad=True, foreach=False),
    "adamax": lambda o, p: o.Adamax(p, lr=0.05, weight_decay=0.1),
    "nadam": lambda o, p: o.NAdam(p, lr=0.05),
    "nadam, decoupled": lambda o, p: o.NAdam(p, weight_decay=0.1, decoupled_weight_decay=True, maximize=True),
    "radam": lambda o, p: o.RAdam(p, lr=0.05, weight_decay=0.1),
    "radam, decoupled": lambda o, p: o.RAdam(p, weight_decay=0.1, decoupled_weight_decay=True),
    "adagrad": lambda o, p: o.Adagrad(p, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5),
    "adadelta": lambda o, p: o.Adadelta(p, weight_decay=0.1),
    "rmsprop": lambda o, p: o.RMSprop(p),
    "rmsprop, centered": lambda o, p: o.RMSprop(p, momentum=0.9, centered=True, weight_decay=0.1),
    "rprop": lambda o, p: o.Rprop(p, lr=0.1),
    "asgd": lambda o, p: o.ASGD(p, weight_decay=0.1),
    "asgd, averaged": lambda o, p: o.ASGD(p, lr=0.1, t0=3, lambd=0.1, maximize=True),
    "groups": lambda o, p: o.AdamW(
        [{"params": p[:1]}, {"params": p[1:], "lr": 0.5, "weight_decay": 0}], lr=0.01
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_steps_equal_the_oracles(torch, name):
    ours, theirs = parameters(tc), parameters(torch)
    train(tc, MAKERS[name](optim, ours), ours)
    train(torch, MAKERS[name](torch.optim, theirs), theirs)
    assert_equal(ours, theirs)


@pytest.mark.parametrize("name", MAKERS)
def test_text_and_state_dict_have_the_oracles_form(torch, name):
    ours, theirs = parameters(tc), parameters(torch)
    a, b = MAKERS[name](optim, ours), MAKERS[name](torch.optim, theirs)
    train(tc, a, ours, steps=1), train(torch, b, theirs, steps=1)
    assert repr(a) == repr(b)
    mine, wanted = a.state_dict(), b.state_dict()
    assert mine["param_groups"] == wanted["param_groups"]
    assert {i: sorted(s) for i, s in mine["state"].items()} == {
        i: sorted(s) for i, s in wanted["state"].items()
    }


@pytest.mark.parametrize("name", MAKERS)
def test_training_resumes_from_a_state_dict(name):
    through, halves = parameters(tc), parameters(tc)
    train(tc, MAKERS[name](optim, through), through, steps=8)
    first = MAKERS[name](optim, halves)
    rng = np.random.default_rng(1)
    gradients = [[rng.standard_normal(shape) for shape in SHAPES] for _ in range(8)]
    second = None
    for i, grads in enumerate(gradients):
        if i == 3:
            second = MAKERS[name](optim, halves)
            second.load_state_dict(copy.deepcopy(first.state_dict()))
        for p, g in zip(halves, grads, strict=True):
            p.grad = tc.tensor(g)
        (second or first).step()
    assert_equal(halves, through)


@pytest.mark.parametrize("name", MAKERS)
def test_a_step_made_of_recorded_ops_equals_one_on_arrays(name):
    p, q = parameters(tc), parameters(tc)
    train(tc, MAKERS[name](optim, p), p)
    seen = []

    def noting(op, values, attrs):
        seen.append(op.name)
        return run_eagerly(op, values, attrs)

    o = MAKERS[name](optim, q)
    with use(noting):
        train(tc, o, q)
    assert_equal(p, q)
    assert len(seen) > STEPS


@pytest.mark.parametrize("name", ["sgd, nesterov", "adam, amsgrad"])
@pytest.mark.parametrize("turned", [False, True], ids=["dense", "transposed"])
def test_large_parameters_are_moved_whole(torch, monkeypatch, name, turned):
    monkeypatch.setattr(updates, "PIECE", 7)
    values = np.random.default_rng(0).standard_normal((3, 5))
    ours, theirs = tc.tensor(values), torch.tensor(values)
    p, q = ((t.T if turned else t).requires_grad_() for t in (ours, theirs))
    train(tc, MAKERS[name](optim, [p]), [p])
    train(torch, MAKERS[name](torch.optim, [q]), [q])
    assert_equal([p], [q])
    assert not turned or not p.is_contiguous()


@pytest.mark.parametrize("name", ["sgd, momentum", "adamw"])
def test_a_traced_training_step_equals_eager_ones(name):
    def make():
        tc.manual_seed(0)
        m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        return m, MAKERS[name](optim, list(m.parameters()))

    def step_of(m, o):
        def step(x, y):
            o.zero_grad()
            loss = nn.functional.cross_entropy(m(x), y)
            loss.backward()
            o.step()
            return loss

        return step

    batches = [(tc.randn(5, 3), tc.tensor([0, 1, 1, 0, 1])) for _ in range(4)]
    (m, o), (n, p) = make(), make()
    traced, eager = tc.jit.trace(step_of(m, o), batches[0], state=[m, o]), step_of(n, p)
    for batch in batches:
        assert traced(*batch).item() == pytest.approx(eager(*batch).item(), rel=1e-5)


def test_state_can_be_made_before_the_first_step():
    p, q = parameters(tc), parameters(tc)
    for make in (MAKERS["adam, amsgrad"], MAKERS["sgd, momentum"]):
        a, b = make(optim, p), make(optim, q)
        b.prepare()
        assert [id(key) for key in b.state] == [id(x) for x in q] and not a.state
        train(tc, a, p), train(tc, b, q)
        assert_equal(p, q)


def test_a_step_on_saved_values_is_noticed():
    p = tc.ones(2, requires_grad=True)
    loss = (p * p).sum()
    loss.backward(retain_graph=True)
    optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", ["sgd, nesterov", "adamw, amsgrad"])
def test_parameters_and_state_keep_their_dtype(name, dtype):
    p = [tc.ones(3).to(getattr(tc, dtype)).requires_grad_()]
    o = MAKERS[name](optim, p)
    for _ in range(2):
        p[0].grad = tc.ones(3).to(p[0].dtype)
        o.step()
    kept = [v for key, v in o.state[p[0]].items() if key != "step"]
    assert {v.dtype for v in [*p, *kept]} == {getattr(tc, dtype)}
    assert 0 < p[0].float().max().item() < 1


def test_a_loaded_state_is_a_copy():
    p, q = parameters(tc), parameters(tc)
    a, b = optim.Adam(p), optim.Adam(q)
    train(tc, a, p, steps=1)
    b.load_state_dict(a.state_dict())
    train(tc, b, q, steps=1)
    assert a.state[p[0]]["step"].item() == 1 and b.state[q[0]]["step"].item() == 2
    assert a.state[p[0]]["exp_avg"] is not b.state[q[0]]["exp_avg"]


def test_loaded_state_takes_the_parameters_dtype_but_the_count_its_own():
    p = [tc.ones(2, requires_grad=True)]
    q = [tc.ones(2, dtype=tc.float16).requires_grad_()]
    a, b = optim.Adam(p), optim.Adam(q)
    p[0].grad = tc.ones(2)
    a.step()
    b.load_state_dict(a.state_dict())
    assert b.state[q[0]]["exp_avg"].dtype == tc.float16 and b.state[q[0]]["step"].dtype == tc.float32


def test_updates_are_in_place_and_leave_no_history():
    p = tc.ones(3, requires_grad=True)
    view = p.detach()
    (p * 2).sum().backward()
    optim.AdamW([p], lr=0.1).step()
    assert p.is_leaf and p.grad_fn is None and np.array_equal(view.numpy(), p.detach().numpy())
    assert (view.numpy() != 1).all()


def test_parameters_without_gradient_are_left_alone():
    p, q = tc.ones(1, requires_grad=True), tc.ones(1, requires_grad=True)
    o = optim.SGD([p, q], lr=1.0, momentum=0.9, weight_decay=1.0)
    p.grad = tc.zeros(1)
    o.step()
    assert p.item() == 0 and q.item() == 1 and [key is p for key in o.state] == [True]


def test_zero_grad():
    p = tc.ones(1, requires_grad=True)
    o = optim.SGD([p], lr=1.0)
    p.grad = tc.ones(1)
    o.zero_grad(set_to_none=False)
    assert p.grad.item() == 0
    o.zero_grad()
    assert p.grad is None


def test_a_closure_runs_with_a_tape_and_its_loss_is_returned():
    p = tc.tensor([3.0], requires_grad=True)
    o = optim.SGD([p], lr=0.1)

    def closure():
        o.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with tc.no_grad():
        assert o.step(closure).item() == 9
    assert p.item() == pytest.approx(2.4)


@pytest.mark.parametrize("make", [lambda p, lr: optim.SGD(p, lr=lr), lambda p, lr: optim.Adam(p, lr=lr)])
def test_the_rate_may_be_a_tensor(make):
    p, q = parameters(tc), parameters(tc)
    train(tc, make(p, tc.tensor(0.25, dtype=tc.float64)), p), train(tc, make(q, 0.25), q)
    assert_equal(p, q)


def test_named_parameters_and_later_groups():
    m, extra = nn.Linear(2, 1), tc.ones(1, requires_grad=True)
    o = optim.SGD(m.named_parameters(), lr=0.1)
    assert o.param_groups[0]["param_names"] == ["weight", "bias"]
    o.add_param_group({"params": [("extra", extra)], "lr": 1.0})
    assert o.state_dict()["param_groups"][1]["params"] == [2]
    with pytest.raises(ValueError, match="with/without names"):
        o.add_param_group({"params": tc.ones(1, requires_grad=True)})


def one():
    return tc.ones(1, requires_grad=True)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: optim.SGD(one()), TypeError, "should be an iterable of Tensors or dicts"),
        (lambda: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
        (lambda: optim.SGD([1.0]), TypeError, "can only optimize Tensors, but one of the params is float"),
        (lambda: optim.SGD([one() * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda: optim.SGD([{"params": {one()}}]), TypeError, "ordered collections"),
        (lambda: optim.SGD([p := one(), p]), ValueError, "names a parameter twice"),
        (
            lambda: optim.SGD([{"params": (p := [one()])}, {"params": p}]),
            ValueError,
            "more than one parameter group",
        ),
        (lambda: optim.SGD([one()], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda: optim.SGD([one()], momentum=-1), ValueError, "Invalid momentum value: -1"),
        (lambda: optim.SGD([one()], nesterov=True), ValueError, "Nesterov momentum requires a momentum"),
        (lambda: optim.Adam([one()], betas=(1.0, 0.9)), ValueError, "Invalid beta parameter at index 0: 1.0"),
        (lambda: optim.Adam([one()], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda: optim.AdamW([one()], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
        (lambda: optim.SGD([one()]).add_param_group([one()]), TypeError, "param_group must be a dict"),
        (
            lambda: optim.SGD([one()]).load_state_dict({"state": {}, "param_groups": []}),
            ValueError,
            "different number of parameter groups",
        ),
        (
            lambda: optim.SGD([one()]).load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]}),
            ValueError,
            "doesn't match the size of optimizer's group",
        ),
    ],
)
def test_wrong_use_says_what_is_wrong(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_an_optimizer_of_ones_own():
    class Sign(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def update(self, param, grad, state, group):
            param.sub_(grad.sign(), alpha=group["lr"])

    p = tc.tensor([1.0, 1.0], requires_grad=True)
    p.grad = tc.tensor([5.0, -0.1])
    Sign([p], 0.25).step()
    assert p.tolist() == [0.75, 1.25]
    with pytest.raises(NotImplementedError, match="Optimizer must define update"):
        q = one()
        q.grad = tc.ones(1)
        optim.Optimizer([q], {}).step()


# ---- schedules ----------------------------------------------------------------------------------------------

SCHEDULES = {
    "step": lambda s, o: s.StepLR(o, 3),
    "multi step": lambda s, o: s.MultiStepLR(o, [2, 5, 5], gamma=0.5),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 7, 0.01),
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "linear": lambda s, o: s.LinearLR(o, total_iters=4),
    "one cycle": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=30),
    "one cycle, three phases": lambda s, o: s.OneCycleLR(
        o, 1.0, epochs=3, steps_per_epoch=10, three_phase=True, anneal_strategy="linear", pct_start=0.25
    ),
    "plateau": lambda s, o: s.ReduceLROnPlateau(o, patience=2, cooldown=1, min_lr=1e-3),
    "plateau, max": lambda s, o: s.ReduceLROnPlateau(
        o, "max", patience=1, threshold_mode="abs", threshold=0.5
    ),
}


def rates(lib, schedules, optimizers, make, beta: bool) -> list:
    p = lib.zeros(1, requires_grad=True)
    o = optimizers.Adam([p], lr=0.5) if beta else optimizers.SGD([p], lr=0.5, momentum=0.9)
    s = make(schedules, o)
    out = []
    for epoch in range(25):
        o.step()
        group = o.param_groups[0]
        out.append([group["lr"], group["betas"][0] if beta else group["momentum"]])
        s.step(*([abs(8.0 - epoch)] if isinstance(s, schedules.ReduceLROnPlateau) else []))
        assert s.get_last_lr() == [group["lr"]]
    return out


@pytest.mark.parametrize("beta", [False, True], ids=["sgd", "adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_equal_the_oracles(torch, name, beta):
    ours = rates(tc, lr_scheduler, optim, SCHEDULES[name], beta)
    theirs = rates(torch, torch.optim.lr_scheduler, torch.optim, SCHEDULES[name], beta)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert len({rate for rate, _ in ours}) > 2


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_resumes_from_its_state_dict(name):
    o, p = optim.SGD([one()], lr=0.5, momentum=0.9), optim.SGD([one()], lr=0.5, momentum=0.9)
    a, b = SCHEDULES[name](lr_scheduler, o), SCHEDULES[name](lr_scheduler, p)
    metric = [1.0] if name.startswith("plateau") else []
    for _ in range(4):
        o.step(), a.step(*metric)
    p.load_state_dict(o.state_dict()), b.load_state_dict(a.state_dict())
    for _ in range(4):
        o.step(), a.step(*metric), p.step(), b.step(*metric)
    assert a.get_last_lr() == b.get_last_lr() == [p.param_groups[0]["lr"]]


def test_schedules_multiply():
    o = optim.SGD([one()], lr=1.0)
    schedules = [lr_scheduler.ExponentialLR(o, 0.5), lr_scheduler.StepLR(o, 2, gamma=0.1)]
    for _ in range(2):
        o.step()
        for s in schedules:
            s.step()
    assert o.param_groups[0]["lr"] == pytest.approx(0.025)


def test_a_rate_that_is_a_tensor_keeps_its_identity():
    lr = tc.tensor(1.0)
    o = optim.SGD([one()], lr=lr)
    s = lr_scheduler.ExponentialLR(o, 0.5)
    o.step(), s.step()
    assert o.param_groups[0]["lr"] is lr and lr.item() == 0.5 and s.get_last_lr() == [0.5]


def test_stepping_the_schedule_first_warns():
    s = lr_scheduler.StepLR(optim.SGD([one()], lr=1.0), 1)
    with pytest.warns(
        UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"
    ):
        s.step()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda o: lr_scheduler.StepLR(3, 1), TypeError, "int is not an Optimizer"),
        (lambda o: lr_scheduler.StepLR(o, 1, last_epoch=3), KeyError, "'initial_lr' is not specified"),
        (lambda o: lr_scheduler.LambdaLR(o, [abs, abs]), ValueError, "Expected 1 lr_lambdas, but got 2"),
        (lambda o: lr_scheduler.OneCycleLR(o, 1.0), ValueError, "total_steps OR"),
        (
            lambda o: lr_scheduler.OneCycleLR(o, 1.0, total_steps=0),
            ValueError,
            "positive integer total_steps",
        ),
        (
            lambda o: lr_scheduler.OneCycleLR(o, [1.0, 2.0], 5),
            ValueError,
            "expected 1 values for max_lr, got 2",
        ),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor should be < 1.0"),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, mode="low"), ValueError, "mode low is unknown"),
    ],
)
def test_wrong_schedules_say_what_is_wrong(make, error, message):
    with pytest.raises(error, match=message):
        make(optim.SGD([one()], lr=1.0))


def test_adam_fits_a_curve():
    tc.manual_seed(0)
    m = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    o = optim.Adam(m.parameters(), lr=0.02)
    x = tc.linspace(-1, 1, 64).reshape(64, 1)
    losses = []
    for _ in range(150):
        loss = ((m(x) - x * x) ** 2).mean()
        o.zero_grad()
        loss.backward()
        o.step()
        losses.append(loss.item())
    assert losses[-1] < 0.02 * losses[0] and math.isfinite(losses[-1])
