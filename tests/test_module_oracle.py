"""Programs about modules that run under tapecast and under PyTorch: texts, values and errors are the same."""

import copy
import io
import operator
import pickle
import warnings
from collections import OrderedDict

import pytest
from both import assert_same, attempt, filled, program


def net(torch):
    nn = torch.nn
    net = nn.Sequential(
        OrderedDict(a=nn.Linear(2, 3), b=nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()), c=nn.Linear(3, 1))
    )
    net.register_buffer("kept", torch.ones(2))
    net.register_buffer("lost", torch.zeros(1), persistent=False)
    return filled(torch, net)


PROGRAMS = []


# ---- registering ----------------------------------------------------------------------------------------------


@program(PROGRAMS)
def registering(torch):
    m, nn = torch.nn.Module(), torch.nn
    out = []
    for call in (
        lambda: m.register_parameter("p", nn.Parameter(torch.ones(2))),
        lambda: m.register_parameter("p.q", nn.Parameter(torch.ones(2))),
        lambda: m.register_parameter("", None),
        lambda: m.register_parameter("none", None),
        lambda: m.register_parameter("forward", None),
        lambda: m.register_parameter(3, None),
        lambda: m.register_parameter("t", 3),
        lambda: m.register_parameter("t", torch.ones(2)),
        lambda: m.register_buffer("b", torch.ones(2)),
        lambda: m.register_buffer("b", torch.ones(3), persistent=False),
        lambda: m.register_buffer("b.c", torch.ones(2)),
        lambda: m.register_buffer("", torch.ones(2)),
        lambda: m.register_buffer(1, torch.ones(2)),
        lambda: m.register_buffer("train", torch.ones(2)),
        lambda: m.register_buffer("c", "text"),
        lambda: m.register_buffer("p", torch.ones(2)),
        lambda: m.register_module("m", nn.Linear(1, 1)),
        lambda: m.register_module("m", 3),
        lambda: m.register_module("n.m", nn.ReLU()),
        lambda: m.register_module("", nn.ReLU()),
        lambda: m.register_module(5, nn.ReLU()),
        lambda: m.register_module("eval", nn.ReLU()),
        lambda: m.add_module("none_m", None),
        lambda: setattr(m, "p", torch.ones(1)),
        lambda: setattr(m, "m", torch.ones(1)),
        lambda: setattr(m, "b", 5),
        lambda: setattr(m, "none_m", 5),
        lambda: setattr(m, "p", None),
        lambda: setattr(m, "b", None),
        lambda: setattr(m, "m", None),
        lambda: m.missing,
        lambda: delattr(m, "missing"),
        lambda: delattr(m, "b"),
        lambda: delattr(m, "p"),
        lambda: setattr(m, "buf", nn.Buffer(torch.ones(2), persistent=False)),
        lambda: setattr(m, "buf", torch.ones(3)),
    ):
        out.append(attempt(call))
    return out, list(m._parameters), list(m._buffers), list(m._modules), sorted(m.state_dict()), m


@program(PROGRAMS)
def before_init(torch):
    class Bad(torch.nn.Module):
        def __init__(self, kind):
            if kind == "p":
                self.p = torch.nn.Parameter(torch.ones(1))
            elif kind == "m":
                self.m = torch.nn.ReLU()
            elif kind == "b":
                self.register_buffer("b", torch.ones(1))
            elif kind == "rp":
                self.register_parameter("p", None)

    return [str(attempt(lambda k=k: Bad(k)))[:60] for k in ("p", "m", "b", "rp")]


@program(PROGRAMS)
def names(torch):
    m = net(torch)
    m.again, m.c.tied = m.a, m.a.weight
    out = []
    for options in ({}, {"prefix": "x"}, {"recurse": False}, {"remove_duplicate": False}):
        out.append([n for n, _ in m.named_parameters(**options)])
        out.append([n for n, _ in m.named_buffers(**options)])
    out.append([n for n, _ in m.named_modules(prefix="y", remove_duplicate=False)])
    out.append([n for n, _ in m.named_modules()])
    out.append([n for n, _ in m.named_children()])
    out.append(len(list(m.modules())))
    return out


@program(PROGRAMS)
def paths(torch):
    m = net(torch)
    out = []
    for f, targets in (
        (m.get_submodule, ("", "b.0", "b.7", "a.weight", "nothing.x")),
        (m.get_parameter, ("a.weight", "b.0.running_mean", "a.nothing", "q.w", "kept")),
        (m.get_buffer, ("b.0.running_mean", "kept", "a.weight", "a.nothing")),
    ):
        out += [attempt(lambda f=f, t=t: f(t)) for t in targets]
    return out


@program(PROGRAMS)
def setting_submodules(torch):
    m, nn = net(torch), torch.nn
    out = []
    for call in (
        lambda: m.set_submodule("b.0", nn.Identity()),
        lambda: m.set_submodule("b.new", nn.Tanh()),
        lambda: m.set_submodule("fresh", nn.Tanh()),
        lambda: m.set_submodule("fresh2", nn.Tanh(), strict=True),
        lambda: m.set_submodule("", nn.Tanh()),
        lambda: m.set_submodule("q.r", nn.Tanh()),
        lambda: m.set_submodule("a.weight.z", nn.Tanh()),
        lambda: m.set_submodule("a.weight", nn.Tanh()),
        lambda: m.set_submodule("a", 3),
    ):
        out.append(attempt(call))
    return out, m


# ---- all tensors ------------------------------------------------------------------------------------------------


@program(PROGRAMS)
def conversions(torch):
    out = []
    for convert in (
        lambda m: m.double(),
        lambda m: m.half(),
        lambda m: m.bfloat16(),
        lambda m: m.float(),
        lambda m: m.to(torch.float64),
        lambda m: m.to("cpu", torch.float16),
        lambda m: m.to(torch.ones(1, dtype=torch.float64)),
        lambda m: m.to(dtype=torch.float64, non_blocking=True),
        lambda m: m.to(torch.int64),
        lambda m: m.type(torch.float64),
        lambda m: m.cpu(),
        lambda m: m.to(memory_format=torch.channels_last),
        lambda m: m.to_empty(device="cpu"),
        lambda m: m.requires_grad_(False),
    ):
        m = net(torch)
        before = m.a.weight
        done = attempt(lambda convert=convert, m=m: convert(m))
        out.append(done if isinstance(done, str) else done is m)
        out.append(
            [(n, str(t.dtype), t.requires_grad) for n, t in [*m.named_parameters(), *m.named_buffers()]]
        )
        out.append(m.a.weight is before)
    return out


@program(PROGRAMS)
def gradients(torch):
    m = net(torch)
    m(torch.tensor([[1.0, 2.0], [3.0, 5.0], [0.0, 1.0]])).sum().backward()
    first = [p.grad for p in m.parameters()]
    m.zero_grad(set_to_none=False)
    zeros = [p.grad for p in m.parameters()]
    m.zero_grad()
    return (
        first,
        zeros,
        [p.grad is None for p in m.parameters()],
        m.b[0].running_mean,
        m.b[0].num_batches_tracked,
    )


@program(PROGRAMS)
def modes(torch):
    m = net(torch).eval()
    flags = [c.training for c in m.modules()]
    m.b.train()
    return flags, [c.training for c in m.modules()], attempt(lambda: m.train(3)), m.train() is m


@program(PROGRAMS)
def applying(torch):
    seen = []
    m = net(torch).apply(lambda c: seen.append(type(c).__name__))
    return seen, m


@program(PROGRAMS)
def listing(torch):
    m = net(torch)
    return [
        n for n in ("a", "b", "kept", "lost", "weight", "forward", "state_dict") if n in dir(m)
    ], "0" in dir(m.b)


@program(PROGRAMS)
def copies(torch):
    m = net(torch)
    m.a.weight.grad = torch.ones(3, 2)
    hooked = []
    m.register_forward_hook(lambda *args: hooked.append(1))
    deep, shallow = copy.deepcopy(m), copy.copy(m)
    file = io.BytesIO(pickle.dumps(net(torch)))
    loaded = pickle.load(file)
    with torch.no_grad():
        m.a.weight.fill_(9)
    deep(torch.ones(2, 2))
    return deep.state_dict(), deep.a.weight.grad, shallow.a is m.a, loaded.state_dict(), loaded, len(hooked)


@program(PROGRAMS)
def layouts(torch):
    m = filled(torch, torch.nn.Conv2d(3, 4, 2))
    x = torch.arange(27.0).reshape(1, 3, 3, 3)
    before = m(x)
    m.to(memory_format=torch.channels_last)
    return m.weight.stride(), m.weight, before, m(x), torch.nn.init._calculate_fan_in_and_fan_out(m.weight)


# ---- state dicts ------------------------------------------------------------------------------------------------


@program(PROGRAMS)
def states(torch):
    m = net(torch)
    into = {}
    m.state_dict(destination=into, prefix="p.")
    kept = m.state_dict(keep_vars=True)
    return m.state_dict(), into, kept["a.weight"] is m.a.weight, dict(m.state_dict()._metadata)


@program(PROGRAMS)
def loading(torch):
    state = net(torch).state_dict()
    wrong = {
        **{k: v for k, v in state.items() if k != "a.bias"},
        "c.weight": torch.ones(5, 5),
        "more": torch.ones(1),
    }
    out = []
    for given in (wrong, [1], {**state, "a.weight": "text"}, {**state, "extra.x.y": torch.ones(1)}, {}):
        for options in ({}, {"strict": False}, {"assign": True}, {"strict": False, "assign": True}):
            out.append(attempt(lambda g=given, o=options: net(torch).load_state_dict(g, **o)))
    fitting = net(torch).load_state_dict(state)
    return out, repr(fitting), fitting.missing_keys, type(fitting).__name__.strip("_")


@program(PROGRAMS)
def loading_other_dtypes(torch):
    state = net(torch).double().state_dict()
    copied, assigned = net(torch), net(torch)
    copied.load_state_dict(state)
    assigned.load_state_dict(state, assign=True)
    frozen = net(torch).requires_grad_(False)
    frozen.load_state_dict(state, assign=True)
    return copied.state_dict(), assigned.state_dict(), [p.requires_grad for p in frozen.parameters()]


@program(PROGRAMS)
def extra_state(torch):
    class Counter(torch.nn.Module):
        n = 0

        def get_extra_state(self):
            return {"n": self.n}

        def set_extra_state(self, state):
            self.n = state["n"]

    m, other = torch.nn.Sequential(Counter()), torch.nn.Sequential(Counter())
    m[0].n = 4
    report = other.load_state_dict(m.state_dict())
    return (
        m.state_dict(),
        report,
        other[0].n,
        attempt(lambda: other.load_state_dict({})),
        attempt(lambda: torch.nn.Sequential(torch.nn.ReLU()).load_state_dict(m.state_dict())),
    )


@program(PROGRAMS)
def state_hooks(torch):
    m, seen = net(torch), []
    handles = [
        m.a.register_state_dict_pre_hook(lambda module, prefix, keep: seen.append(("pre", prefix, keep))),
        m.a.register_state_dict_post_hook(
            lambda module, state, prefix, meta: seen.append((len(state), prefix, meta))
        ),
        m.register_load_state_dict_pre_hook(
            lambda module, state, prefix, *rest: seen.append(("load", prefix, rest))
        ),
        m.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear()),
        m._register_load_state_dict_pre_hook(lambda state, prefix, *rest: seen.append(("old", prefix))),
        m._register_load_state_dict_pre_hook(
            lambda module, state, prefix, *rest: seen.append(("with", type(module).__name__)),
            with_module=True,
        ),
        m._register_state_dict_hook(lambda module, state, prefix, meta: OrderedDict(list(state.items())[:2])),
    ]
    state = m.state_dict()
    report = m.load_state_dict(state)
    for handle in handles:
        handle.remove()
    return list(state), seen, report, list(m.state_dict())


# ---- hooks of calls ---------------------------------------------------------------------------------------------


@program(PROGRAMS)
def forward_hooks(torch):
    m, seen = filled(torch, torch.nn.Linear(2, 2)), []
    x = torch.tensor([[1.0, 2.0]])
    m.register_forward_pre_hook(lambda module, args: seen.append(("pre", args)))
    m.register_forward_pre_hook(lambda module, args: (args[0] * 2,), prepend=True)
    m.register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs), with_kwargs=True)
    m.register_forward_hook(lambda module, args, out: out + 1)
    handle = m.register_forward_hook(
        lambda module, args, kwargs, out: seen.append((args, kwargs, out)), with_kwargs=True
    )
    first = m(x)
    handle.remove()
    handle.remove()
    second = m(x)
    m.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    return first, second, seen, attempt(lambda: m(x))


@program(PROGRAMS)
def always_called_hooks(torch):
    m, seen = torch.nn.Linear(2, 2), []
    m.register_forward_hook(lambda module, args, out: seen.append(("always", out)), always_call=True)
    m.register_forward_hook(lambda module, args, out: seen.append("not"))
    return attempt(lambda: m(torch.ones(5)))[:12], seen


@program(PROGRAMS)
def backward_hooks(torch):
    m, seen = net(torch).eval(), []
    m.a.register_full_backward_pre_hook(lambda module, grad: seen.append(("pre", grad)))
    m.a.register_full_backward_pre_hook(lambda module, grad: (grad[0] * 2,), prepend=True)
    m.a.register_full_backward_hook(lambda module, into, out: seen.append(("hook", into, out)))
    m.a.register_full_backward_hook(lambda module, into, out: tuple(g * 3 for g in into), prepend=True)
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    m(x).sum().backward()
    return seen, x.grad, [p.grad for p in m.parameters()]


@program(PROGRAMS)
def old_backward_hooks(torch):
    m, seen = filled(torch, torch.nn.Linear(2, 2)), []
    warnings.simplefilter("ignore")  # PyTorch's says that its gradients of the inputs are not to be relied on
    m.register_backward_hook(lambda module, into, out: seen.append(out))
    first = attempt(lambda: m.register_full_backward_hook(lambda *args: None))
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    m(x).sum().backward()
    return first, seen[0][0]


@program(PROGRAMS)
def global_hooks(torch):
    g = torch.nn.modules.module
    m, seen = net(torch).eval(), []
    handles = [
        g.register_module_forward_pre_hook(lambda module, args: seen.append(("pre", type(module).__name__))),
        g.register_module_forward_hook(lambda module, args, out: seen.append((type(module).__name__, out))),
        g.register_module_full_backward_pre_hook(
            lambda module, grad: seen.append(("back", type(module).__name__))
        ),
        g.register_module_full_backward_hook(
            lambda module, into, out: seen.append((type(module).__name__, out))
        ),
        g.register_module_parameter_registration_hook(
            lambda module, name, p: seen.append(("parameter", name))
        ),
        g.register_module_buffer_registration_hook(lambda module, name, b: seen.append(("buffer", name))),
        g.register_module_module_registration_hook(lambda module, name, m: seen.append(("module", name))),
    ]
    try:
        m(torch.ones(1, 2, requires_grad=True)).sum().backward()
        torch.nn.Sequential(torch.nn.BatchNorm1d(2))
    finally:
        for handle in handles:
            handle.remove()
    n = len(seen)
    m(torch.ones(1, 2))
    return seen, n == len(seen)


# ---- containers -------------------------------------------------------------------------------------------------


@program(PROGRAMS)
def sequentials(torch):
    nn = torch.nn
    s = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    out = [s[0], s[-1], s[1:], s[:0], len(s), attempt(lambda: s[3]), attempt(lambda: s[-4])]
    s.append(nn.Tanh()).insert(1, nn.Sigmoid())
    s.insert(-1, nn.GELU())
    out += [str(s), attempt(lambda: s.insert(99, nn.ReLU())), attempt(lambda: s.insert(0, 3))]
    out += [s.pop(1), s.pop(-1), str(s), s.extend(nn.Sequential(nn.ELU())), attempt(lambda: s.pop(99))]
    s[0] = nn.Identity()
    del s[1]
    del s[0:2]
    out += [str(s), str(s + nn.Sequential(nn.ReLU())), attempt(lambda: s + 3), attempt(lambda: s * 0)]
    s = nn.Sequential(nn.ReLU(), nn.Tanh())
    out += [str(s * 2), attempt(lambda: s * "a"), str(2 * s)]
    s *= 2
    s += nn.Sequential(nn.ELU())
    named = nn.Sequential(OrderedDict(x=nn.ReLU(), y=nn.Tanh()))
    del named[0]
    return [*out, str(s), named]


@program(PROGRAMS)
def module_lists(torch):
    nn = torch.nn
    s = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU()])
    out = [s, s[0], s[-1], s[1:], s[::2], len(s), attempt(lambda: s[3]), attempt(lambda: s[-4])]
    s.append(nn.Tanh()).insert(1, nn.Sigmoid())
    out += [
        str(s),
        attempt(lambda: s.extend(3)),
        str(s.extend([nn.ELU()])),
        str(s.pop(0)),
        str(s.pop(-1)),
        str(s),
    ]
    s[0] = nn.Identity()
    del s[1]
    del s[0:2]
    return [
        *out,
        s,
        operator.add(s, [nn.ReLU()]),
        attempt(lambda: s + 3),
        attempt(lambda: s(3)),
        "0" in dir(s),
        nn.ReLU() in s,
    ]


@program(PROGRAMS)
def module_dicts(torch):
    nn = torch.nn
    d = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Tanh()})
    out = [d, list(d), list(d.keys()), list(d.values()), list(d.items()), len(d), "a" in d]
    d.update([("c", nn.ELU())])
    d.update(nn.ModuleDict({"d": nn.GELU()}))
    d["e"] = nn.Identity()
    del d["b"]
    out += [
        str(d),
        d.pop("a"),
        attempt(lambda: d["q"]),
        attempt(lambda: d.update(3)),
        attempt(lambda: d.update([3])),
    ]
    out += [
        attempt(lambda: d.update([("a", nn.ReLU(), 3)])),
        attempt(lambda: d.pop("zz")),
        attempt(lambda: d({})),
    ]
    d.clear()
    return [*out, d]


@program(PROGRAMS)
def parameter_lists(torch):
    nn = torch.nn
    p = nn.ParameterList([nn.Parameter(torch.ones(2)), torch.zeros(3), "text"])
    p.append(torch.ones(1, 2)).extend([nn.Parameter(torch.zeros(2, 2))])
    p += [torch.ones(5)]
    out = [
        p,
        str(p[0].requires_grad),
        p[-1],
        p[1:3],
        len(p),
        [n for n, _ in p.named_parameters()],
        attempt(lambda: p[9]),
    ]
    p[1] = torch.ones(4)
    return [*out, str(p), attempt(lambda: p.extend(3)), attempt(lambda: p(3)), list(p.state_dict())]


@program(PROGRAMS)
def parameter_dicts(torch):
    nn = torch.nn
    p = nn.ParameterDict({"b": nn.Parameter(torch.ones(2)), "a": torch.zeros(3)})
    p["c"] = torch.ones(1)
    p.update({"d": torch.ones(2)})
    out = [
        p,
        list(p),
        list(p.keys()),
        [k for k, _ in p.items()],
        len(p),
        p.get("z"),
        p.setdefault("e", torch.ones(1)),
    ]
    out += [p.pop("a"), p.popitem()[0], attempt(lambda: p["q"]), attempt(lambda: p.update(3)), str(p.copy())]
    out += [
        str(p | {"z": torch.ones(1)}),
        list(reversed(p)),
        str(nn.ParameterDict().fromkeys(["x", "y"], torch.ones(1))),
    ]
    p |= {"w": torch.ones(3)}
    out += [str(p), attempt(lambda: p({})), [n for n, _ in p.named_parameters()]]
    p.clear()
    return [*out, p]


# ---- names of types ---------------------------------------------------------------------------------------------


@program(PROGRAMS)
def type_names(torch):
    x = torch.ones(2)
    out = [
        x.type(),
        x.double().type(),
        x.type("torch.LongTensor"),
        x.type(torch.HalfTensor),
        x.type(torch.int32),
    ]
    out += [
        torch.typename(x),
        torch.typename(3),
        torch.typename("a"),
        attempt(lambda: x.type("torch.NoTensor")),
    ]
    for name in ("Float", "Double", "Half", "Byte", "Char", "Short", "Int", "Long", "Bool", "BFloat16"):
        make = getattr(torch, f"{name}Tensor")
        out += [
            make([1, 0]),
            make(2, 3).shape,
            make().shape,
            make(torch.Size([2])).shape,
            isinstance(x, make),
        ]
    return out


@program(PROGRAMS)
def settings_as_tuples(torch):
    u = torch.nn.modules.utils
    state = OrderedDict([("module.a", 1), ("module.b.c", 2), ("other", 3)])
    u.consume_prefix_in_state_dict_if_present(state, "module.")
    return u._pair(3), u._pair((1, 2)), u._triple(1), u._single([4]), u._quadruple(2), u._ntuple(5)(1), state


@program(PROGRAMS)
def files_of_layers(torch):
    m = torch.nn.modules
    return [
        isinstance(torch.nn.Conv2d(1, 1, 1), m.conv._ConvNd),
        isinstance(torch.nn.BatchNorm2d(1), m.batchnorm._BatchNorm),
        isinstance(torch.nn.InstanceNorm2d(1), m.batchnorm._NormBase),
        isinstance(torch.nn.InstanceNorm2d(1), m.batchnorm._BatchNorm),
        isinstance(torch.nn.MSELoss(), m.loss._Loss),
        isinstance(torch.nn.NLLLoss(), m.loss._WeightedLoss),
        isinstance(torch.nn.Dropout(), m.dropout._DropoutNd),
        isinstance(torch.nn.MaxPool2d(2), m.pooling._MaxPoolNd),
        m.linear.Linear is torch.nn.Linear,
        m.activation.ReLU is torch.nn.ReLU,
        m.container.Sequential is torch.nn.Sequential,
        m.rnn.LSTM is torch.nn.LSTM,
        m.sparse.Embedding is torch.nn.Embedding,
        m.normalization.LayerNorm is torch.nn.LayerNorm,
        m.Module is torch.nn.Module,
        m.ReLU is torch.nn.ReLU,
    ]


@pytest.mark.parametrize("run", PROGRAMS)
def test_program(run):
    assert_same(run)
