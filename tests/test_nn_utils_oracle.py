"""nn.utils: parametrizations, norms of weights, fusion, calls with other parameters, pruning; as under PyTorch."""

import copy
import importlib
import pickle
import warnings

import pytest
from both import assert_same, attempt, filled, program

PROGRAMS = []


def utils(torch):
    return torch.nn.utils


def pruning_of(torch):
    return importlib.import_module(f"{torch.__name__}.nn.utils.prune")


def symmetric(torch):
    class Symmetric(torch.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

        def right_inverse(self, x):
            return x.triu()

    return Symmetric()


def doubled(torch):
    class Doubled(torch.nn.Module):
        def forward(self, x):
            return x * 2

    return Doubled()


def shortened(torch):
    class Shortened(torch.nn.Module):
        def forward(self, x):
            return x[:1]

    return Shortened()


def step(torch, module, x):
    """Output, gradients and the state after one step of training."""
    out = module(x)
    (out * out).sum().backward()
    with torch.no_grad():
        for p in module.parameters():
            p -= 0.1 * p.grad
    return [out, dict(module.named_parameters()), module(x)]


def rows(torch, n, m):
    return torch.arange(1.0, n * m + 1).reshape(n, m) / (n * m)


@program(PROGRAMS)
def parametrize(torch):
    p = utils(torch).parametrize
    m = filled(torch, torch.nn.Linear(3, 3))
    original = m.weight
    out = [p.is_parametrized(m), p.register_parametrization(m, "weight", symmetric(torch)) is m]
    out += [m, m.weight, p.is_parametrized(m), p.is_parametrized(m, "weight"), p.is_parametrized(m, "bias")]
    out += [m.parametrizations.weight.original is original, type(m).__name__, list(m.state_dict())]
    out += [p.type_before_parametrizations(m).__name__, isinstance(m, torch.nn.Linear)]
    out += step(torch, m, rows(torch, 2, 3))
    p.register_parametrization(m, "weight", doubled(torch))
    out += [m.weight, m, attempt(lambda: setattr(m, "weight", torch.ones(3, 3)))]
    p.register_parametrization(m, "bias", doubled(torch))
    out += [
        m.bias,
        [n for n, _ in m.named_parameters()],
        copy.deepcopy(m).weight,
        attempt(lambda: pickle.dumps(m))[:30],
    ]
    p.remove_parametrizations(m, "bias", leave_parametrized=False)
    out += [m.bias, m]
    p.remove_parametrizations(m, "weight")
    return [
        *out,
        m.weight,
        m,
        type(m).__name__,
        m.weight is original,
        isinstance(m.weight, torch.nn.Parameter),
    ]


@program(PROGRAMS)
def assigning_parametrized(torch):
    p = utils(torch).parametrize
    m = filled(torch, torch.nn.Linear(3, 3))
    p.register_parametrization(m, "weight", symmetric(torch))
    m.weight = rows(torch, 3, 3)
    first = [m.weight, m.parametrizations.weight.original, m.parametrizations.weight[0]]
    other = filled(torch, torch.nn.Linear(3, 3), seed=4)
    p.register_parametrization(other, "weight", symmetric(torch))
    return [*first, other.load_state_dict(m.state_dict()), other.weight]


@program(PROGRAMS)
def refused_parametrizations(torch):
    p = utils(torch).parametrize
    m = torch.nn.Linear(3, 3)
    out = [
        attempt(lambda: p.register_parametrization(m, "weight", shortened(torch))),
        attempt(lambda: p.register_parametrization(m, "nothing", doubled(torch))),
        attempt(lambda: p.remove_parametrizations(m, "weight")),
    ]
    p.register_parametrization(m, "weight", shortened(torch), unsafe=True)
    return [*out, m.weight.shape]


@program(PROGRAMS)
def cached_parametrizations(torch):
    p, calls = utils(torch).parametrize, []

    class Counted(torch.nn.Module):
        def forward(self, x):
            calls.append(1)
            return x * 2

    m = p.register_parametrization(torch.nn.Linear(2, 2), "weight", Counted())
    calls.clear()
    _ = m.weight, m.weight
    plain = len(calls)
    with p.cached():
        same = m.weight is m.weight
        with p.cached():
            _ = m.weight
        _ = m.weight
    once = len(calls) - plain
    _ = m.weight
    return plain, once, same, len(calls)


@program(PROGRAMS)
def transferred_parametrizations(torch):
    p = utils(torch).parametrize
    a = p.register_parametrization(filled(torch, torch.nn.Linear(3, 3)), "weight", symmetric(torch))
    b = filled(torch, torch.nn.Linear(3, 3), seed=5)
    p.transfer_parametrizations_and_params(a, b)
    return [b, b.weight, b.bias]


@program(PROGRAMS)
def parametrized_weight_norm(torch):
    out = []
    for make, name, dim in (
        (lambda: torch.nn.Linear(2, 3), "weight", 0),
        (lambda: torch.nn.Linear(2, 3), "weight", None),
        (lambda: torch.nn.Linear(2, 3), "weight", 1),
        (lambda: torch.nn.Conv1d(2, 3, 2), "weight", 0),
    ):
        m = utils(torch).parametrizations.weight_norm(filled(torch, make()), name, dim)
        x = rows(torch, 4, 2) if "Linear" in type(m).__name__ else rows(torch, 2, 3).reshape(1, 2, 3)
        out += [m, list(m.state_dict()), *step(torch, m, x)]
        with torch.no_grad():
            m.weight = m.weight * 2
        out += [m.weight, dict(m.named_parameters())]
        out += [utils(torch).parametrize.remove_parametrizations(m, name)]
    return out


@program(PROGRAMS)
def older_states_of_weight_norm(torch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = utils(torch).weight_norm(filled(torch, torch.nn.Linear(2, 3)))
    new = utils(torch).parametrizations.weight_norm(torch.nn.Linear(2, 3))
    return [new.load_state_dict(old.state_dict()), new.weight]


@program(PROGRAMS)
def weight_norm(torch):
    m = utils(torch).weight_norm(filled(torch, torch.nn.Linear(2, 3)))
    out = [m, m.weight, list(m.state_dict()), *step(torch, m, rows(torch, 4, 2)), m.weight]
    out += [str(attempt(lambda: utils(torch).weight_norm(m)))[:50]]
    utils(torch).remove_weight_norm(m)
    return [*out, m.weight, list(m.state_dict()), attempt(lambda: utils(torch).remove_weight_norm(m))]


def known_vectors(torch, u, v):
    """The same start of the power iterations in both libraries, where it is random."""
    with torch.no_grad():
        for t in (u, v):
            t.copy_(torch.nn.functional.normalize(torch.arange(1.0, t.numel() + 1), dim=0))


@program(PROGRAMS)
def spectral_norm(torch):
    m = utils(torch).spectral_norm(filled(torch, torch.nn.Linear(2, 3)), n_power_iterations=2)
    known_vectors(torch, m.weight_u, m.weight_v)
    out = [m, sorted(m.state_dict()), *step(torch, m, rows(torch, 4, 2)), m.weight, m.weight_u]
    out += [m.eval()(rows(torch, 4, 2))]
    utils(torch).remove_spectral_norm(m)
    return [*out, m.weight, list(m.state_dict()), attempt(lambda: utils(torch).remove_spectral_norm(m))]


@program(PROGRAMS)
def parametrized_spectral_norm(torch):
    out = []
    for make in (
        lambda: torch.nn.Linear(2, 3),
        lambda: torch.nn.ConvTranspose1d(2, 3, 2),
        lambda: torch.nn.Conv1d(2, 3, 2),
    ):
        m = utils(torch).parametrizations.spectral_norm(filled(torch, make()))
        entry = m.parametrizations.weight[0]
        known_vectors(torch, entry._u, entry._v)
        x = rows(torch, 4, 2) if "Linear" in type(m).__name__ else rows(torch, 2, 3).reshape(1, 2, 3)
        out += [m, list(m.state_dict()), *step(torch, m, x), entry._u, m.eval()(x)]
    m = utils(torch).parametrizations.spectral_norm(filled(torch, torch.nn.LayerNorm(3)))
    return [*out, m.weight, attempt(lambda: utils(torch).parametrizations.spectral_norm(m, "nothing"))]


@program(PROGRAMS)
def orthogonal(torch):
    out = []
    for size in ((3, 3), (4, 2), (2, 4)):
        for kind in ("matrix_exp", "cayley", "householder", None):
            m = filled(torch, torch.nn.Linear(*size))
            utils(torch).parametrizations.orthogonal(m, "weight", kind, use_trivialization=False)
            out += [m, m.weight, *step(torch, m, rows(torch, 2, size[0]))]
            if kind == "householder":
                m.weight = torch.nn.init.eye_(torch.empty(size[1], size[0]))
                out += [m.weight]
            elif kind is not None:
                out += [attempt(lambda m=m: setattr(m, "weight", m.weight.detach() + 1))]
    square = utils(torch).parametrizations.orthogonal(filled(torch, torch.nn.Linear(3, 3)))
    out += [square, square.weight, sorted(square.state_dict()), *step(torch, square, rows(torch, 2, 3))]
    p = utils(torch).parametrizations
    out += [attempt(lambda: p.orthogonal(torch.nn.Linear(3, 3), "bias"))]
    return [*out, attempt(lambda: p.orthogonal(torch.nn.Linear(3, 3), "weight", "other"))]


@program(PROGRAMS)
def fusing(torch):
    nn, u = torch.nn, utils(torch)
    out = []
    for layer, bn, x in (
        (nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), rows(torch, 2, 9).reshape(1, 2, 3, 3)),
        (
            nn.Conv2d(2, 3, 2, bias=False),
            nn.BatchNorm2d(3, affine=False),
            rows(torch, 2, 9).reshape(1, 2, 3, 3),
        ),
        (nn.ConvTranspose2d(2, 3, 2), nn.BatchNorm2d(3), rows(torch, 2, 9).reshape(1, 2, 3, 3)),
        (nn.Linear(2, 3), nn.BatchNorm1d(3), rows(torch, 4, 2)),
        (nn.Linear(2, 3, bias=False), nn.BatchNorm1d(1), rows(torch, 4, 2)),
    ):
        both = filled(torch, nn.Sequential(layer, bn)).eval()
        if isinstance(layer, nn.Linear):
            fused = u.fuse_linear_bn_eval(both[0], both[1])
        else:
            fused = u.fuse_conv_bn_eval(both[0], both[1], transpose="Transpose" in type(layer).__name__)
        out += [fused, fused(x), dict(fused.named_parameters())]
    return [*out, attempt(lambda: u.fuse_conv_bn_eval(nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1)))]


@program(PROGRAMS)
def calling_with_other_parameters(torch):
    nn = torch.nn
    m = filled(torch, nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)))
    x = rows(torch, 4, 2)
    before = {k: v.clone() for k, v in m.state_dict().items()}
    other = {k: v.detach() * 2 for k, v in m.named_parameters()}
    other["0.weight"].requires_grad_()
    call = torch.func.functional_call
    y = call(m, other, (x,))
    y.sum().backward()
    out = [y, other["0.weight"].grad, m[0].weight.grad is None, call(m, {"0.bias": torch.zeros(3)}, x)]
    buffers = {k: v.clone() for k, v in m.named_buffers()}
    out += [
        call(m, ({"2.bias": torch.ones(1)}, buffers), x),
        buffers,
        utils(torch).stateless.functional_call(m, other, x),
    ]
    out += [attempt(lambda: call(m, {"nothing": x}, x)), attempt(lambda: call(m, {"9.weight": x}, x))]
    out += [attempt(lambda: call(m, {"0.bias": x, "zz": x}, x, strict=True))]
    m.tied = nn.Linear(2, 3)
    m.tied.weight = m[0].weight
    out += [attempt(lambda: call(m, {"0.weight": torch.ones(3, 2), "tied.weight": torch.zeros(3, 2)}, x))]
    same = {k: bool((v == before[k]).all()) for k, v in m.state_dict().items() if k in ("0.weight", "2.bias")}
    return [*out, same]


@program(PROGRAMS)
def ensembles(torch):
    models = [filled(torch, torch.nn.Linear(2, 3), seed=i) for i in range(3)]
    params, buffers = torch.func.stack_module_state(models)
    base, x = torch.nn.Linear(2, 3), rows(torch, 4, 2)

    def call(params, buffers, x):
        return torch.func.functional_call(base, (params, buffers), (x,))

    out = torch.func.vmap(call, in_dims=(0, 0, None))(params, buffers, x)
    grads = torch.func.grad(lambda p: call(p, {}, x).sum())(dict(models[0].named_parameters()))
    return [params, buffers, out, grads, attempt(lambda: torch.func.stack_module_state([]))]


@program(PROGRAMS)
def clipping(torch):
    u, out = utils(torch), []
    for norm in (1.0, 2.0, 3.0, float("inf"), 0.5):
        m = filled(torch, torch.nn.Linear(2, 3))
        m(rows(torch, 4, 2)).sum().backward()
        grads = [p.grad for p in m.parameters()]
        out += [u.get_total_norm(grads, norm), u.clip_grad_norm_(m.parameters(), 0.5, norm), grads]
        u.clip_grad_value_(m.parameters(), 0.05)
        out += [grads]
        u.clip_grads_with_norm_(m.parameters(), 0.1, torch.tensor(3.0))
        out += [grads, u.clip_grad_norm(m.parameters(), 0.01)]
    out += [u.clip_grad_norm_([], 1.0), u.clip_grad_norm_(torch.ones(2), 1.0)]
    bad = torch.ones(2, requires_grad=True)
    bad.grad = torch.tensor([1.0, float("nan")])
    out += [
        attempt(lambda: u.clip_grad_norm_(bad, 1.0, error_if_nonfinite=True)),
        u.clip_grad_norm_(bad, 1.0),
    ]
    m = filled(torch, torch.nn.Linear(2, 3))
    vector = u.parameters_to_vector(m.parameters())
    u.vector_to_parameters(vector * 2, m.parameters())
    return [*out, vector, m.weight, m.bias, attempt(lambda: u.vector_to_parameters(3, m.parameters()))]


@program(PROGRAMS)
def skipping_initial_values(torch):
    u = utils(torch)
    m = u.skip_init(torch.nn.Linear, 2, 3, bias=False)
    return [
        m,
        m.weight.shape,
        attempt(lambda: u.skip_init(torch.nn.ReLU)),
        attempt(lambda: u.skip_init(dict)),
    ]


@program(PROGRAMS)
def pruning(torch):
    prune = pruning_of(torch)
    m = filled(torch, torch.nn.Linear(4, 3))
    prune.l1_unstructured(m, "weight", 0.25)
    out = [m, m.weight, m.weight_mask, list(m.state_dict()), prune.is_pruned(m)]
    prune.l1_unstructured(m, "weight", 2)
    out += [m.weight, *step(torch, m, rows(torch, 2, 4))]
    prune.ln_structured(m, "weight", 1, n=2, dim=0)
    prune.ln_structured(m, "weight", 0.5, n=1, dim=1)
    out += [m.weight, m.weight_mask]
    prune.custom_from_mask(m, "bias", torch.tensor([1, 0, 1]))
    prune.identity(m, "bias")
    out += [m.bias, m(rows(torch, 2, 4)), [n for n, _ in m.named_buffers()]]
    prune.remove(m, "weight")
    out += [m.weight, sorted(m.state_dict()), prune.is_pruned(m)]
    prune.remove(m, "bias")
    out += [prune.is_pruned(m), sorted(m.state_dict())]
    for call in (
        lambda: prune.remove(m, "weight"),
        lambda: prune.l1_unstructured(m, "weight", 99),
        lambda: prune.l1_unstructured(m, "weight", 1.5),
        lambda: prune.l1_unstructured(m, "weight", -1),
        lambda: prune.l1_unstructured(m, "weight", "a"),
    ):
        out += [attempt(call)]
    return out


@program(PROGRAMS)
def pruning_by_chance_and_together(torch):
    prune, nn = pruning_of(torch), torch.nn
    a, b = filled(torch, nn.Linear(4, 3)), filled(torch, nn.Linear(3, 2), seed=1)
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=5)
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=0.2)
    out = [a.weight, b.weight]
    m = nn.Linear(10, 10)
    prune.random_unstructured(m, "weight", 0.3)
    prune.random_structured(m, "weight", 4, dim=1)
    t = torch.tensor([1.0, -3.0, 2.0])
    return [*out, (m.weight_mask.sum(0) == 0).sum() >= 4, prune.L1Unstructured(1).prune(t)]


@pytest.mark.parametrize("run", PROGRAMS)
def test_program(run):
    assert_same(run)
