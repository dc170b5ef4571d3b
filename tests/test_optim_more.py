"""L-BFGS, weight averaging, hooks, steps on the tape, and every schedule: equal to PyTorch's, step by step."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import tapecast as tc
from tapecast import nn, optim

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")


def rosenbrock(lib, optimizer, p):
    def closure():
        optimizer.zero_grad()
        loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
        loss.backward()
        return loss

    return closure


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 1e-3},
        {"line_search_fn": "strong_wolfe"},
        {"line_search_fn": "strong_wolfe", "max_iter": 7, "history_size": 3, "lr": 0.5},
    ],
)
def test_lbfgs_goes_the_oracles_way(options):
    ends = []
    for lib in (tc, torch):
        p = lib.tensor([-1.2, 1.0], dtype=lib.float64, requires_grad=True)
        o = lib.optim.LBFGS([p], **options)
        losses = [o.step(rosenbrock(lib, o, p)).item() for _ in range(4)]
        state = next(iter(o.state_dict()["state"].values()))
        ends.append((losses, p.detach().numpy(), state["func_evals"], state["n_iter"], set(state) - {"al"}))
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=1e-6)
    assert ends[0][2:] == ends[1][2:]


def test_lbfgs_resumes_and_says_what_is_wrong():
    p = tc.tensor([-1.2, 1.0], dtype=tc.float64, requires_grad=True)
    o = optim.LBFGS([p], line_search_fn="strong_wolfe", max_iter=3)
    o.step(rosenbrock(tc, o, p))
    q = p.detach().clone().requires_grad_()
    again = optim.LBFGS([q], line_search_fn="strong_wolfe", max_iter=3)
    again.load_state_dict(copy.deepcopy(o.state_dict()))
    o.step(rosenbrock(tc, o, p)), again.step(rosenbrock(tc, again, q))
    np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
    with pytest.raises(TypeError, match="needs a closure"):
        o.step()
    with pytest.raises(ValueError, match="per-parameter options"):
        optim.LBFGS([{"params": [p]}, {"params": [q]}])


SCHEDULES = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda e: 0.9**e),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, [lambda e: 0.9, lambda e: 1.1]),
    "step": lambda s, o: s.StepLR(o, 3, 0.5),
    "multistep": lambda s, o: s.MultiStepLR(o, [2, 5, 5], 0.5),
    "constant": lambda s, o: s.ConstantLR(o, 0.5, 4),
    "linear": lambda s, o: s.LinearLR(o, 0.25, 0.75, 6),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.8),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "polynomial": lambda s, o: s.PolynomialLR(o, 7, 2.0),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, 5),
    "cyclic, triangular2": lambda s, o: s.CyclicLR(o, [0.01, 0.02], 0.1, 3, mode="triangular2"),
    "cyclic, range": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 2, mode="exp_range", gamma=0.9),
    "cyclic, own": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 2, scale_fn=lambda x: 0.5**x, scale_mode="iterations"
    ),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=30),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [3, 6]
    ),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)]),
    "nested": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=3), s.CosineAnnealingLR(o, 9)], [3]
    ),
}


def optimizer_of(lib):
    p = [lib.ones(2, requires_grad=True), lib.ones(3, requires_grad=True)]
    return lib.optim.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 0.3}], lr=0.1, momentum=0.9)


def rates(lib, make, steps):
    """The settings after each step."""
    o = optimizer_of(lib)
    s = make(lib.optim.lr_scheduler, o)
    found = []
    for step in steps:
        found += [[g["lr"], g["momentum"]] for g in o.param_groups]
        assert s.get_last_lr() == [g["lr"] for g in o.param_groups]
        o.step()
        s.step(*step)
    return np.array(found)


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_the_oracles(name):
    steps = [()] * 25
    ours, theirs = rates(tc, SCHEDULES[name], steps), rates(torch, SCHEDULES[name], steps)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


@pytest.mark.filterwarnings("ignore:The epoch parameter")
@pytest.mark.parametrize(
    "name", [n for n in SCHEDULES if n not in ("sequential", "chained", "nested", "multiplicative")]
)
def test_going_to_an_epoch_is_the_oracles(name):
    steps = [(4,), (), (9,), (2,), ()]
    ours, theirs = rates(tc, SCHEDULES[name], steps), rates(torch, SCHEDULES[name], steps)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_resumes_from_its_state(name):
    o = optimizer_of(tc)
    s = SCHEDULES[name](optim.lr_scheduler, o)
    for _ in range(4):
        o.step(), s.step()
    o2 = optimizer_of(tc)
    s2 = SCHEDULES[name](optim.lr_scheduler, o2)
    o2.load_state_dict(copy.deepcopy(o.state_dict())), s2.load_state_dict(copy.deepcopy(s.state_dict()))
    for _ in range(5):
        o.step(), s.step(), o2.step(), s2.step()
        assert s.get_last_lr() == s2.get_last_lr() == [g["lr"] for g in o2.param_groups]


def test_schedules_refuse_what_they_cannot_do():
    o = optimizer_of(tc)
    s = optim.lr_scheduler
    plateau = s.ReduceLROnPlateau(o)
    for make in (lambda: s.ChainedScheduler([plateau]), lambda: s.SequentialLR(o, [plateau], [])):
        with pytest.raises(ValueError, match="does not support `ReduceLROnPlateau`"):
            make()
    with pytest.raises(ValueError, match="belong to the same optimizer"):
        s.ChainedScheduler([s.StepLR(o, 1), s.StepLR(optimizer_of(tc), 1)])
    with pytest.raises(ValueError, match="number of milestone points"):
        s.SequentialLR(o, [s.StepLR(o, 1)], [3])
    with pytest.raises(ValueError, match="mode is invalid"):
        s.CyclicLR(o, 0.1, 0.2, mode="square")


@pytest.mark.parametrize("kind", ["swa", "ema", "own", "buffers"])
def test_averaged_models_are_the_oracles(kind):
    def make(lib):
        swa = lib.optim.swa_utils
        options = {
            "swa": {},
            "ema": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.7)},
            "own": {"avg_fn": lambda average, current, count: 0.1 * average + 0.9 * current},
            "buffers": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.7), "use_buffers": True},
        }[kind]
        model = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3))
        averaged = swa.AveragedModel(model, **options)
        rng = np.random.default_rng(0)
        with lib.no_grad():
            for _ in range(4):
                for t in [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]:
                    t.copy_(lib.from_numpy(rng.normal(size=tuple(t.shape)).astype("float32")))
                averaged.update_parameters(model)
            data = [lib.from_numpy(rng.normal(size=(6, 2)).astype("float32")) for _ in range(3)]
            swa.update_bn(data, averaged)
            return {k: v.numpy() for k, v in averaged.state_dict().items()}

    ours, theirs = make(tc), make(torch)
    assert list(ours) == list(theirs)
    for key, value in ours.items():
        np.testing.assert_allclose(value, theirs[key], rtol=1e-4, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 4])
def test_swalr_is_the_oracles(strategy, epochs):
    def run(lib):
        o = optimizer_of(lib)
        s = lib.optim.swa_utils.SWALR(o, [0.05, 0.5], epochs, strategy)
        found = []
        for _ in range(7):
            found.append([g["lr"] for g in o.param_groups])
            o.step(), s.step()
        return found

    np.testing.assert_allclose(run(tc), run(torch), rtol=1e-12)


def test_hooks_of_optimizers_run_in_order_and_can_be_removed():
    p = tc.ones(2, requires_grad=True)
    o = optim.SGD([p], lr=0.1)
    seen = []
    handles = [
        o.register_step_pre_hook(lambda o, args, kwargs: seen.append("pre")),
        o.register_step_post_hook(lambda o, args, kwargs: seen.append("post")),
        optim.optimizer.register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("all")),
        o.register_state_dict_post_hook(lambda o, d: {**d, "more": 1}),
        o.register_load_state_dict_pre_hook(lambda o, d: seen.append("load")),
    ]
    o.step()
    assert seen == ["pre", "post", "all"] and o.state_dict()["more"] == 1
    o.load_state_dict(o.state_dict())
    assert seen[-1] == "load"
    for handle in handles:
        handle.remove()
    o.step()
    assert len(seen) == 4 and "more" not in o.state_dict()


def test_a_step_can_be_differentiated():
    def meta(lib):
        rate = lib.tensor(0.1, dtype=lib.float64, requires_grad=True)
        p = lib.tensor([1.0, -2.0], dtype=lib.float64, requires_grad=True)
        q = p.clone()
        o = lib.optim.SGD([q], lr=rate, differentiable=True)
        for _ in range(2):
            q.grad = (q * 3 + 1).detach()
            o.step()
        (q**2).sum().backward()
        return rate.grad.item(), p.grad.numpy()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (rate, grads), (expected, theirs) = meta(tc), meta(torch)
    assert rate == pytest.approx(expected)
    np.testing.assert_allclose(grads, theirs)


def test_the_oracles_state_dict_can_be_loaded():
    def make(lib, name):
        p = lib.ones(3, requires_grad=True)
        o = getattr(lib.optim, name)([p])
        p.grad = lib.full((3,), 0.5)
        return p, o

    for name in ("Adam", "NAdam", "ASGD", "Rprop", "RMSprop", "Adagrad", "Adadelta", "RAdam", "Adamax"):
        (p, o), (q, theirs) = make(tc, name), make(torch, name)
        theirs.step()
        state = theirs.state_dict()
        state["state"] = {
            i: {k: tc.from_numpy(v.numpy()) for k, v in s.items()} for i, s in state["state"].items()
        }
        o.load_state_dict(state)
        with tc.no_grad():
            p.copy_(tc.from_numpy(q.detach().numpy()))
        o.step(), theirs.step()
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-6, err_msg=name)


def test_an_optimizer_can_be_pickled():
    model = nn.Linear(2, 1)
    o = optim.Adam(model.parameters())
    model(tc.ones(3, 2)).sum().backward()
    o.step()
    again = pickle.loads(pickle.dumps(o))
    assert again.state_dict()["state"].keys() == o.state_dict()["state"].keys()
    again.step()
