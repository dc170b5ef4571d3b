"""Modules: what they hold, how they print, load, run and hook; against PyTorch where it is installed."""

import copy
import math

import numpy as np
import pytest

import tapecast as tc
from tapecast import nn
from tapecast.eager.nn.module import current_scope

F = nn.functional


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is the oracle of this test")


def array(t) -> np.ndarray:
    return t.detach().numpy()


def copy_weights(ours, theirs) -> None:
    """Give our module the weights of the oracle's, by name."""
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})


class Block(nn.Module):
    def __init__(self, width: int = 4):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.layers = nn.ModuleList([nn.Linear(width, width), nn.ReLU()])
        self.register_buffer("offset", tc.zeros(width))
        self.register_buffer("scratch", tc.ones(1), persistent=False)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.fc(x) + self.offset


# ---- registering and attributes -----------------------------------------------------------------------------


def test_names_come_in_order_of_registration():
    net = nn.Sequential(Block(), nn.Linear(4, 2))
    assert [name for name, _ in net.named_parameters()] == [
        "0.fc.weight",
        "0.fc.bias",
        "0.layers.0.weight",
        "0.layers.0.bias",
        "1.weight",
        "1.bias",
    ]
    assert [name for name, _ in net.named_buffers()] == ["0.offset", "0.scratch"]
    assert [name for name, _ in net.named_modules()] == [
        "",
        "0",
        "0.fc",
        "0.layers",
        "0.layers.0",
        "0.layers.1",
        "1",
    ]
    assert [name for name, _ in net[0].named_children()] == ["fc", "layers"]


def test_shared_parameters_and_modules_come_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    shared = nn.Sequential(net, net)
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert len(list(shared.modules())) == 4 and len(list(shared.children())) == 1
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_assignment_moves_a_name_between_stores():
    m = nn.Module()
    m.x = 3
    m.x = nn.Parameter(tc.ones(2))
    assert list(m._parameters) == ["x"] and "x" not in vars(m)
    m.x = nn.ReLU()
    assert not m._parameters and list(m._modules) == ["x"]
    m.x = None
    assert m._modules == {"x": None} and m.x is None
    del m.x
    assert not hasattr(m, "x")


def test_assigning_a_tensor_to_a_buffer_keeps_it_one():
    m = Block()
    m.offset = tc.ones(4)
    assert dict(m.named_buffers())["offset"] is m.offset
    assert "scratch" not in m.state_dict() and "offset" in m.state_dict()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda m: setattr(m, "weight", tc.ones(2)),
            TypeError,
            r"cannot assign '.*Tensor' as parameter 'weight'",
        ),
        (lambda m: setattr(m, "child", 3), TypeError, r"cannot assign 'int' as child module 'child'"),
        (lambda m: setattr(m, "state", 3), TypeError, r"cannot assign 'int' as buffer 'state'"),
        (lambda m: m.register_buffer("a.b", tc.ones(1)), KeyError, "name can.*t contain"),
        (lambda m: m.register_buffer("", tc.ones(1)), KeyError, "name can.*t be empty"),
        (lambda m: m.register_buffer("forward", tc.ones(1)), KeyError, "attribute 'forward' already exists"),
        (lambda m: m.register_parameter("p", tc.ones(1)), TypeError, "nn.Parameter or None required"),
        (lambda m: m.register_parameter(3, None), TypeError, "parameter name should be a string. Got int"),
        (lambda m: m.add_module("c", 3), TypeError, "int is not a Module subclass"),
        (lambda m: m.nothing, AttributeError, "'Module' object has no attribute 'nothing'"),
        (lambda m: m.get_submodule("child.none"), AttributeError, "ReLU has no attribute `none`"),
        (lambda m: m.get_parameter("state"), AttributeError, "`state` is not an nn.Parameter"),
        (lambda m: m.get_buffer("weight"), AttributeError, "`weight` is not a buffer"),
        (lambda m: m.train(1), ValueError, "training mode is expected to be boolean"),
        (lambda m: m.to(tc.int64), TypeError, "only accepts floating point or complex dtypes"),
        (lambda m: m.to(dtpye=1), TypeError, "unexpected keyword"),
        (lambda m: m(1), NotImplementedError, 'missing the required "forward" function'),
    ],
)
def test_wrong_use_says_what_is_wrong(change, error, message):
    m = nn.Module()
    m.weight, m.child = nn.Parameter(tc.ones(2)), nn.ReLU()
    m.register_buffer("state", tc.ones(1))
    with pytest.raises(error, match=message):
        change(m)


def test_a_module_without_init_says_so():
    class Net(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call.*super\(\).__init__\(\)"):
        Net()


def test_a_computed_tensor_is_no_parameter():
    m = nn.Linear(2, 2)
    with pytest.raises(TypeError):
        m.weight = m.weight * 2


def test_dir_lists_what_a_module_holds():
    assert {"fc", "offset", "forward", "training"} <= set(dir(Block()))


def test_paths_reach_inside():
    net = nn.Sequential(Block())
    assert net.get_submodule("0.layers.1") is net[0].layers[1]
    assert net.get_submodule("") is net
    assert net.get_parameter("0.fc.weight") is net[0].fc.weight
    assert net.get_buffer("0.offset") is net[0].offset


# ---- repr ---------------------------------------------------------------------------------------------------


def zoo(nn, zeros):
    """Every layer, nested, from either library."""
    return nn.Sequential(
        nn.Conv2d(4, 8, 3, stride=(1, 2), padding=1, dilation=2, groups=2, bias=False),
        nn.Conv2d(1, 2, (3, 1), padding="same"),
        nn.BatchNorm2d(4),
        nn.BatchNorm1d(4, momentum=None, affine=False, track_running_stats=False),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Linear(64, 5, bias=False)),
        nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.GELU(), nn.Linear(2, 2)]),
        nn.ModuleList(),
        nn.ModuleList([nn.Sequential(nn.Linear(1, 1), nn.ReLU()) for _ in range(3)]),
        nn.ModuleDict({"a": nn.LayerNorm((2, 3)), "b": nn.Embedding(5, 2, padding_idx=-1)}),
        nn.ParameterList([nn.Parameter(zeros(2, 3)), nn.Parameter(zeros(1))]),
        nn.Identity(),
        nn.GroupNorm(2, 4),
        nn.CrossEntropyLoss(),
        nn.LeakyReLU(0.2, inplace=True),
        nn.AdaptiveAvgPool2d((1, None)),
        nn.AvgPool2d(2, padding=1),
        nn.Softmax(-1),
        nn.LogSoftmax(1),
        nn.SiLU(),
        nn.ReLU6(),
        nn.ELU(),
        nn.Hardtanh(),
        nn.Softplus(),
        nn.Sigmoid(),
        nn.Tanh(),
        nn.GELU("tanh"),
        nn.Unflatten(1, (2, 2)),
        nn.MSELoss(),
    )


def test_repr_is_the_oracles(torch):
    ours = repr(zoo(nn, tc.zeros)).replace("tapecast.", "torch.")  # the names of dtypes
    assert ours == repr(zoo(torch.nn, torch.zeros))


def test_repr_of_a_nest():
    assert repr(nn.Sequential(nn.Linear(2, 3), nn.ModuleList([nn.ReLU(), nn.ReLU()]))) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): ModuleList(\n"
        "    (0-1): 2 x ReLU()\n"
        "  )\n"
        ")"
    )


# ---- state dicts --------------------------------------------------------------------------------------------


def test_state_dict_has_the_oracles_keys_and_order(torch):
    ours, theirs = zoo(nn, tc.zeros).state_dict(), zoo(torch.nn, torch.zeros).state_dict()
    assert list(ours) == list(theirs)
    assert [tuple(v.shape) for v in ours.values()] == [tuple(v.shape) for v in theirs.values()]


def test_state_dict_round_trip():
    a, b = Block(), Block()
    report = b.load_state_dict(a.state_dict())
    assert repr(report) == "<All keys matched successfully>"
    assert all(
        np.array_equal(array(x), array(y)) for x, y in zip(a.parameters(), b.parameters(), strict=True)
    )


def test_state_dict_shares_memory_and_has_no_history():
    m = nn.Linear(2, 2)
    state = m.state_dict()
    assert not state["weight"].requires_grad and m.state_dict(keep_vars=True)["weight"] is m.weight
    with tc.no_grad():
        m.weight.fill_(7)
    assert (array(state["weight"]) == 7).all()


def test_loading_reports_every_key():
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    state = {"0.weight": tc.zeros(3, 2), "0.nothing": tc.zeros(1), "9.x": tc.zeros(1), "1.y": tc.zeros(1)}
    with pytest.raises(RuntimeError) as error:
        m.load_state_dict(state)
    assert str(error.value).split("\n\t") == [
        "Error(s) in loading state_dict for Sequential:",
        'Missing key(s) in state_dict: "0.bias". ',
        'Unexpected key(s) in state_dict: "9.x", "0.nothing", "1.y". ',
        f"size mismatch for 0.weight: copying a param with shape {tc.zeros(3, 2).shape} from checkpoint, the "
        f"shape in current model is {tc.zeros(2, 2).shape}.",
    ]


@pytest.mark.parametrize("keys", [{}, {"x": 1}, {"0.weight": 3, "0.bias": 1, "1.q.r": 2, "junk": 0}])
def test_loading_fails_in_the_oracles_words(torch, keys):
    def complaint(nn, zeros):
        with pytest.raises(RuntimeError) as error:
            nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).load_state_dict(
                {key: zeros(n, 2) for key, n in keys.items()}
            )
        return str(error.value).replace("tapecast.Size", "torch.Size")

    assert complaint(nn, tc.zeros) == complaint(torch.nn, torch.zeros)


def test_loading_without_strict_returns_what_did_not_fit():
    m = nn.Linear(2, 2)
    missing, unexpected = m.load_state_dict({"bias": tc.ones(2), "other": tc.ones(1)}, strict=False)
    assert (missing, unexpected) == (["weight"], ["other"])
    assert (array(m.bias) == 1).all()


def test_loading_takes_arrays_and_refuses_other_things():
    m = nn.Linear(1, 1)
    m.load_state_dict({"weight": np.full((1, 1), 3.0), "bias": np.zeros(1)})
    assert m.weight.item() == 3 and m.weight.dtype == tc.float32
    with pytest.raises(RuntimeError, match=r'"bias", expected torch.Tensor or Tensor-like object'):
        m.load_state_dict({"weight": np.zeros((1, 1)), "bias": "zero"})
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        m.load_state_dict([1])


def test_loading_keeps_identity_and_assign_replaces():
    m, state = nn.Linear(2, 2), nn.Linear(2, 2).double().state_dict()
    weight = m.weight
    m.load_state_dict(state)
    assert m.weight is weight and m.weight.dtype == tc.float32
    m.load_state_dict(state, assign=True)
    assert m.weight is not weight and m.weight.dtype == tc.float64
    assert isinstance(m.weight, nn.Parameter) and m.weight.requires_grad


def test_a_buffer_may_be_a_scalar_and_batch_norm_may_lack_its_count():
    m = nn.BatchNorm1d(2)
    state = {key: value for key, value in m.state_dict().items() if key != "num_batches_tracked"}
    assert m.load_state_dict(state).missing_keys == []
    state["num_batches_tracked"] = tc.tensor([5])
    m.load_state_dict(state)
    assert m.num_batches_tracked.item() == 5


def test_extra_state_travels():
    class Counter(nn.Module):
        n = 0

        def get_extra_state(self):
            return {"n": self.n}

        def set_extra_state(self, state):
            self.n = state["n"]

    a, b = nn.Sequential(Counter()), nn.Sequential(Counter())
    a[0].n = 5
    b.load_state_dict(a.state_dict())
    assert b[0].n == 5 and list(a.state_dict()) == ["0._extra_state"]
    with pytest.raises(RuntimeError, match=r'Missing key.*"0._extra_state"'):
        b.load_state_dict({})


def test_state_dict_hooks():
    m, seen = nn.Linear(1, 1), []
    m.register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append("before save"))
    m.register_state_dict_post_hook(lambda module, state, prefix, meta: state.update({prefix + "more": 1}))
    m.register_load_state_dict_pre_hook(lambda module, state, *rest: state.pop("more"))
    m.register_load_state_dict_post_hook(lambda module, keys: seen.append(keys))
    state = m.state_dict()
    assert list(state) == ["weight", "bias", "more"]
    m.load_state_dict(state)
    assert seen == ["before save", ([], [])]


# ---- modes, conversion, copies ------------------------------------------------------------------------------


def test_train_and_eval_reach_all_modules():
    net = nn.Sequential(Block(), nn.Dropout())
    assert net.eval() is net and not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())


def test_apply_goes_children_first():
    seen = []
    nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh())).apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["ReLU", "Tanh", "Sequential", "Sequential"]


def test_conversion_keeps_parameters_and_leaves_integers():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight = net[0].weight
    weight.grad = tc.ones(2, 2)
    assert net.double() is net
    assert net[0].weight is weight and weight.dtype == tc.float64 and weight.grad.dtype == tc.float64
    assert net[1].running_mean.dtype == tc.float64 and net[1].num_batches_tracked.dtype == tc.int64
    assert net.half()[0].weight.dtype == tc.float16
    assert net.to(tc.float32)[0].weight.dtype == tc.float32
    assert net.to("cpu", dtype=tc.float64)[0].weight.dtype == tc.float64
    assert net.to(tc.zeros(1))[0].weight.dtype == tc.float32
    assert net.float()[0].weight.is_leaf and weight.requires_grad


def test_requires_grad_and_zero_grad():
    m = nn.Linear(2, 1)
    m(tc.ones(1, 2)).sum().backward()
    m.zero_grad(set_to_none=False)
    assert (array(m.weight.grad) == 0).all()
    m.zero_grad()
    assert m.weight.grad is None
    assert not any(p.requires_grad for p in m.requires_grad_(False).parameters())


def test_a_deep_copy_shares_nothing():
    a = nn.Sequential(Block())
    a(tc.ones(1, 4))
    b = copy.deepcopy(a)
    with tc.no_grad():
        b[0].fc.weight.zero_()
    assert (array(a[0].fc.weight) != 0).any()
    assert isinstance(b[0].fc.weight, nn.Parameter) and b[0].fc.weight.requires_grad
    assert array(b(tc.ones(1, 4))).shape == (1, 4)


# ---- containers ---------------------------------------------------------------------------------------------


def test_sequential_is_a_list_of_named_modules():
    a, b, c = nn.Linear(1, 1), nn.ReLU(), nn.Tanh()
    net = nn.Sequential({"first": a, "second": b})
    assert net[0] is a and net[-1] is b and net.first is a and len(net) == 2
    assert isinstance(net[:1], nn.Sequential) and list(net[:1]._modules) == ["first"]
    numbered = nn.Sequential(a, b).append(c).insert(0, nn.Identity())
    assert list(numbered._modules) == ["0", "1", "2", "3"] and numbered[3] is c
    assert numbered.pop(1) is a and list(numbered._modules) == ["0", "1", "2"]
    del numbered[0]
    assert list(numbered) == [b, c]
    assert list(nn.Sequential(a) + nn.Sequential(b)) == [a, b]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        net[5]
    with pytest.raises(ValueError, match="supports only objects of Sequential"):
        net.__add__([a])


def test_module_list():
    a, b, c = nn.Linear(1, 1), nn.ReLU(), nn.Tanh()
    layers = nn.ModuleList([a]) + nn.ModuleList([b])
    layers += [c]
    layers.insert(1, nn.Identity())
    assert [type(m).__name__ for m in layers] == ["Linear", "Identity", "ReLU", "Tanh"]
    del layers[1]
    layers[-1] = a
    assert list(layers) == [a, b, a] and list(layers[1:]) == [b, a] and b in layers
    del layers[1:]
    assert list(layers) == [a]
    with pytest.raises(NotImplementedError):
        layers(1)


def test_module_dict_and_parameter_list():
    d = nn.ModuleDict([("a", nn.ReLU())])
    d["b"] = nn.Tanh()
    d.update({"c": nn.Identity()})
    assert list(d) == ["a", "b", "c"] and "b" in d and len(d) == 3 and isinstance(d.pop("a"), nn.ReLU)
    del d["b"]
    assert list(d.keys()) == ["c"]
    p = nn.ParameterList([tc.ones(2)])
    p.append(tc.zeros(1))
    assert len(p) == 2 and all(isinstance(x, nn.Parameter) for x in p)
    assert [name for name, _ in p.named_parameters()] == ["0", "1"] and p[-1] is p[1]
    with pytest.raises(TypeError, match="should be called with an iterable"):
        p.extend(tc.ones(2))


# ---- the module path ----------------------------------------------------------------------------------------


class Spy(nn.Module):
    def __init__(self, seen: list):
        super().__init__()
        self.seen = seen

    def forward(self, x):
        self.seen.append(".".join(current_scope.get()))
        return x


def test_scope_is_the_path_of_the_running_module():
    seen = []

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(Spy(seen), nn.Sequential(Spy(seen)))
            self.heads = nn.ModuleList([Spy(seen), Spy(seen)])

        def forward(self, x):
            x = self.heads[1](self.body(x))
            seen.append(".".join(current_scope.get()))
            return Spy(seen)(x)

    net = Net()
    net(1)
    assert seen == ["body.0", "body.1.0", "heads.1", "", "Spy"]
    assert current_scope.get() == ()
    net.neck = net.body.pop(1)
    net.body.append(nn.Sequential(net.heads[0], net.neck))
    seen.clear()
    net(1)
    assert seen == ["body.0", "body.1.0", "body.1.1.0", "heads.1", "", "Spy"]


def test_scope_is_restored_after_an_error():
    class Bad(nn.Module):
        def forward(self, x):
            raise RuntimeError("bad")

    with pytest.raises(RuntimeError, match="bad"):
        nn.Sequential(nn.Sequential(Bad()))(1)
    assert current_scope.get() == ()


# ---- hooks --------------------------------------------------------------------------------------------------


def test_forward_hooks_see_and_change():
    m, seen = nn.Identity(), []
    m.register_forward_pre_hook(lambda module, args: seen.append(args))
    m.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    m.register_forward_pre_hook(lambda module, args: args[0] * 10, prepend=True)
    with m.register_forward_hook(lambda module, args, out: (args, out)):
        assert m(1) == ((11,), 11)
    assert m(1) == 11 and seen == [(10,), (10,)]


def test_forward_hooks_with_keywords():
    class Scale(nn.Module):
        def forward(self, x, by=1):
            return x * by

    m = Scale()
    handle = m.register_forward_pre_hook(lambda mod, args, kw: (args, {"by": kw["by"] + 1}), with_kwargs=True)
    m.register_forward_hook(lambda mod, args, kw, out: (kw["by"], out), with_kwargs=True)
    assert m(5, by=1) == (2, 10)
    handle.remove()
    m.register_forward_pre_hook(lambda mod, args, kw: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"None or a tuple of \(new_args, new_kwargs\)"):
        m(5, by=1)


def test_a_hook_that_is_always_called_runs_after_an_error():
    class Bad(nn.Module):
        def forward(self, x):
            raise KeyError("bad")

    m, seen = Bad(), []
    m.register_forward_hook(lambda module, args, out: seen.append("never"))
    m.register_forward_hook(lambda module, args, out: seen.append(out), always_call=True)
    with pytest.raises(KeyError):
        m(1)
    assert seen == [None]
    m.register_forward_hook(lambda module, args, out: 1 / 0, always_call=True)
    with pytest.warns(UserWarning, match="silenced.*division by zero"), pytest.raises(KeyError):
        m(1)


def test_full_backward_hooks_see_all_gradients():
    m, seen = nn.Linear(2, 1, bias=False), []
    m.register_full_backward_hook(lambda module, g_in, g_out: seen.append((g_in, g_out)))
    x = tc.ones(3, 2, requires_grad=True)
    (m(x) * 2).sum().backward()
    ((g_in,), (g_out,)) = seen[0]
    assert np.array_equal(array(g_out), np.full((3, 1), 2.0))
    assert np.allclose(array(g_in), np.tile(2 * array(m.weight), (3, 1)))
    assert np.array_equal(array(x.grad), array(g_in))


def test_full_backward_hooks_change_gradients():
    m = nn.Linear(2, 1, bias=False)
    m.register_full_backward_pre_hook(lambda module, g_out: (g_out[0] * 10,))
    m.register_full_backward_hook(lambda module, g_in, g_out: (g_in[0] + 1,))
    x = tc.ones(1, 2, requires_grad=True)
    m(x).sum().backward()
    assert np.allclose(array(m.weight.grad), 10)
    assert np.allclose(array(x.grad), 10 * array(m.weight) + 1)


def test_full_backward_hooks_without_input_gradients():
    m, seen = nn.Linear(2, 1), []
    m.register_full_backward_hook(lambda module, g_in, g_out: seen.append((g_in, len(g_out))))
    m(tc.ones(1, 2)).sum().backward()
    assert seen == [((None,), 1)]


def test_full_backward_hook_results_are_checked():
    m = nn.Linear(2, 1)
    m.register_full_backward_hook(lambda module, g_in, g_out: (1, 2))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        m(tc.ones(1, 2, requires_grad=True)).sum().backward()


# ---- layers against the oracle ------------------------------------------------------------------------------

LAYERS = {
    "linear": (lambda nn: nn.Linear(5, 3), (4, 5)),
    "linear without bias, no batch": (lambda nn: nn.Linear(5, 3, bias=False), (5,)),
    "conv": (lambda nn: nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 9, 8)),
    "conv, dilated": (lambda nn: nn.Conv2d(2, 3, (3, 2), dilation=(2, 1), bias=False), (2, 2, 9, 8)),
    "conv, same": (lambda nn: nn.Conv2d(2, 3, (5, 3), padding="same"), (2, 2, 7, 6)),
    "conv, valid": (lambda nn: nn.Conv2d(2, 3, 3, padding="valid"), (1, 2, 5, 5)),
    "batch norm 2d": (lambda nn: nn.BatchNorm2d(3), (4, 3, 5, 2)),
    "batch norm 1d": (lambda nn: nn.BatchNorm1d(3, momentum=0.3), (4, 3)),
    "batch norm of sequences": (lambda nn: nn.BatchNorm1d(3, affine=False), (4, 3, 6)),
    "batch norm, plain average": (lambda nn: nn.BatchNorm1d(3, momentum=None), (4, 3)),
    "batch norm, untracked": (lambda nn: nn.BatchNorm1d(3, track_running_stats=False), (4, 3)),
    "layer norm": (lambda nn: nn.LayerNorm((3, 4)), (2, 3, 4)),
    "group norm": (lambda nn: nn.GroupNorm(2, 6), (2, 6, 3)),
    "max pool": (lambda nn: nn.MaxPool2d(3, stride=2, padding=1), (2, 2, 7, 8)),
    "average pool": (lambda nn: nn.AvgPool2d(2), (2, 2, 6, 7)),
    "adaptive pool": (lambda nn: nn.AdaptiveAvgPool2d(1), (2, 3, 5, 4)),
    "relu": (lambda nn: nn.ReLU(), (3, 4)),
    "leaky relu": (lambda nn: nn.LeakyReLU(0.1), (3, 4)),
    "gelu": (lambda nn: nn.GELU(), (3, 4)),
    "gelu, tanh": (lambda nn: nn.GELU("tanh"), (3, 4)),
    "silu": (lambda nn: nn.SiLU(), (3, 4)),
    "elu": (lambda nn: nn.ELU(), (3, 4)),
    "softplus": (lambda nn: nn.Softplus(), (3, 4)),
    "sigmoid": (lambda nn: nn.Sigmoid(), (3, 4)),
    "tanh": (lambda nn: nn.Tanh(), (3, 4)),
    "softmax": (lambda nn: nn.Softmax(1), (3, 4)),
    "log softmax": (lambda nn: nn.LogSoftmax(-1), (3, 4)),
    "flatten": (lambda nn: nn.Flatten(), (2, 3, 4)),
    "dropout of nothing": (lambda nn: nn.Dropout(0.0), (3, 4)),
}


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", LAYERS)
def test_layer_agrees_with_the_oracle(torch, name, mode):
    make, shape = LAYERS[name]
    ours, theirs = make(nn).double(), make(torch.nn).double()
    copy_weights(ours, theirs)
    getattr(ours, mode)(), getattr(theirs, mode)()
    rng = np.random.default_rng(0)
    for _ in range(2):  # twice, for layers with a state
        x, weight = rng.standard_normal(shape), None
        a, b = tc.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        y, z = ours(a), theirs(b)
        weight = rng.standard_normal(z.shape)
        (y * tc.tensor(weight)).sum().backward(), (z * torch.tensor(weight)).sum().backward()
        np.testing.assert_allclose(array(y), array(z), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(array(a.grad), array(b.grad), rtol=1e-8, atol=1e-11)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(array(p.grad), array(q.grad), rtol=1e-8, atol=1e-11)
    for p, q in zip(ours.buffers(), theirs.buffers(), strict=True):
        np.testing.assert_allclose(array(p), array(q), rtol=1e-10)


LOSSES = {
    "cross entropy": (lambda nn, w: nn.CrossEntropyLoss(label_smoothing=0.1), "classes"),
    "cross entropy, weighted": (lambda nn, w: nn.CrossEntropyLoss(w, ignore_index=1), "classes"),
    "nll": (lambda nn, w: nn.NLLLoss(w, reduction="sum"), "classes"),
    "mse": (lambda nn, w: nn.MSELoss(), "numbers"),
    "l1": (lambda nn, w: nn.L1Loss(reduction="none"), "numbers"),
    "smooth l1": (lambda nn, w: nn.SmoothL1Loss(beta=0.5), "numbers"),
    "bce with logits": (lambda nn, w: nn.BCEWithLogitsLoss(pos_weight=w), "probabilities"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss_agrees_with_the_oracle(torch, name):
    make, kind = LOSSES[name]
    rng = np.random.default_rng(1)
    x, weight = rng.standard_normal((6, 4)), rng.random(4)
    target = {
        "classes": np.array([0, 1, 2, 3, 1, 0]),
        "numbers": rng.standard_normal((6, 4)),
        "probabilities": rng.random((6, 4)),
    }[kind]
    a, b = tc.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y, z = (
        make(nn, tc.tensor(weight))(a, tc.tensor(target)),
        make(torch.nn, torch.tensor(weight))(b, torch.tensor(target)),
    )
    y.sum().backward(), z.sum().backward()
    np.testing.assert_allclose(array(y), array(z), rtol=1e-10)
    np.testing.assert_allclose(array(a.grad), array(b.grad), rtol=1e-9, atol=1e-12)


def test_embedding_agrees_with_the_oracle(torch):
    ours, theirs = nn.Embedding(6, 3, padding_idx=2), torch.nn.Embedding(6, 3, padding_idx=2)
    assert (array(ours.weight)[2] == 0).all()
    copy_weights(ours, theirs)
    index = np.array([[0, 2, 5], [2, 0, 0]])
    y, z = ours(tc.tensor(index)), theirs(torch.tensor(index))
    y.sum().backward(), z.sum().backward()
    np.testing.assert_array_equal(array(y), array(z))
    np.testing.assert_array_equal(array(ours.weight.grad), array(theirs.weight.grad))


@pytest.mark.parametrize("masks", ["none", "causal", "padding", "both"])
def test_attention_agrees_with_the_oracle(torch, masks):
    kwargs = {"batch_first": masks == "padding"}
    ours, theirs = nn.MultiheadAttention(8, 2, **kwargs), torch.nn.MultiheadAttention(8, 2, **kwargs)
    copy_weights(ours, theirs)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, 3, 8)).astype(np.float32)
    options = {}
    if masks in ("causal", "both"):
        options["attn_mask"] = np.triu(np.ones((3, 3), bool), 1)
    if masks in ("padding", "both"):
        options["key_padding_mask"] = np.array([[0, 0, 1], [0, 0, 0], [0, 1, 1]], bool)
    a, b = tc.tensor(x), torch.tensor(x)
    y, w = ours(a, a, a, **{key: tc.tensor(value) for key, value in options.items()})
    z, v = theirs(b, b, b, **{key: torch.tensor(value) for key, value in options.items()})
    np.testing.assert_allclose(array(y), array(z), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(array(w), array(v), rtol=1e-5, atol=1e-6)
    assert ours(a, a, a, need_weights=False)[1] is None


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels must be divisible by groups"),
        (lambda: nn.Conv2d(4, 3, 3, groups=2), ValueError, "out_channels must be divisible by groups"),
        (lambda: nn.Conv2d(1, 1, 3, padding="full"), ValueError, "Invalid padding string 'full'"),
        (lambda: nn.Conv2d(1, 1, 3, stride=2, padding="same"), ValueError, "strided"),
        (lambda: nn.Conv2d(1, 1, 3, padding_mode="mirror"), ValueError, "padding_mode must be one of"),
        (lambda: nn.Dropout(1.5), ValueError, "has to be between 0 and 1, but got 1.5"),
        (lambda: nn.GroupNorm(3, 4), ValueError, "must be divisible by num_groups"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), AssertionError, "within num_embeddings"),
        (lambda: nn.MSELoss("average"), ValueError, "not a valid value for reduction"),
        (lambda: nn.MultiheadAttention(6, 4), AssertionError, "divisible by num_heads"),
        (lambda: nn.BatchNorm2d(2)(tc.ones(1, 2)), ValueError, r"expected 4D input \(got 2D input\)"),
        (lambda: nn.BatchNorm1d(2)(tc.ones(1)), ValueError, r"expected 2D or 3D input \(got 1D input\)"),
    ],
)
def test_wrong_settings_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_softmax_without_an_axis_warns():
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax has been deprecated"):
        y = nn.Softmax()(tc.zeros(2, 4))
    assert array(y).tolist() == [[0.25] * 4] * 2


def test_dropout_scales_what_it_keeps():
    tc.manual_seed(0)
    m, x = nn.Dropout(0.25), tc.ones(100, 100)
    y = array(m(x))
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)} and abs((y == 0).mean() - 0.25) < 0.02
    assert m.eval()(x) is x or np.array_equal(array(m(x)), array(x))


# ---- initial values -----------------------------------------------------------------------------------------


def spread(t) -> tuple[float, float]:
    x = array(t)
    return float(np.abs(x).max()), float(x.std())


@pytest.mark.parametrize(
    ("fill", "bound", "std"),
    [
        (lambda w: nn.init.kaiming_uniform_(w, a=math.sqrt(5)), 1 / math.sqrt(300), None),
        (lambda w: nn.init.kaiming_uniform_(w, nonlinearity="relu"), math.sqrt(6 / 300), None),
        (lambda w: nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), None, math.sqrt(2 / 200)),
        (lambda w: nn.init.xavier_uniform_(w, gain=2), 2 * math.sqrt(6 / 500), None),
        (lambda w: nn.init.xavier_normal_(w), None, math.sqrt(2 / 500)),
        (lambda w: nn.init.uniform_(w, -3, 3), 3.0, None),
        (lambda w: nn.init.normal_(w, 0, 0.3), None, 0.3),
        (lambda w: nn.init.trunc_normal_(w), 2.0, 0.8796),
    ],
)
def test_initial_values_have_the_formulas_spread(fill, bound, std):
    tc.manual_seed(0)
    w = nn.Parameter(tc.zeros(200, 300))
    assert fill(w) is w
    largest, deviation = spread(w)
    if bound is not None:
        assert bound * 0.999 < largest <= bound * 1.000001
    assert deviation == pytest.approx(bound / math.sqrt(3) if std is None else std, rel=0.02)


def test_layers_start_as_in_the_oracle(torch):
    tc.manual_seed(0), torch.manual_seed(0)
    for make in (lambda nn: nn.Linear(300, 500), lambda nn: nn.Conv2d(8, 500, 5, groups=2)):
        ours, theirs = make(nn), make(torch.nn)
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            (a, s), (b, t) = spread(p), spread(q)
            assert a == pytest.approx(b, rel=0.02) and s == pytest.approx(t, rel=0.1)


def test_constant_initial_values():
    w = tc.zeros(2, 3)
    assert (array(nn.init.ones_(w)) == 1).all() and (array(nn.init.constant_(w, 5)) == 5).all()
    assert (array(nn.init.zeros_(w)) == 0).all() and np.array_equal(array(nn.init.eye_(w)), np.eye(2, 3))
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_uniform_(tc.zeros(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity cube"):
        nn.init.calculate_gain("cube")
    with pytest.warns(UserWarning, match="no-op"):
        nn.init.kaiming_uniform_(tc.zeros(0, 2))


# ---- nn.utils -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_type", [2.0, 1.0, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clipping_by_norm_agrees_with_the_oracle(torch, norm_type, max_norm):
    rng = np.random.default_rng(3)
    grads = [rng.standard_normal(shape) for shape in ((3, 2), (4,))]
    ours, theirs = [[lib.zeros(g.shape, requires_grad=True) for g in grads] for lib in (tc, torch)]
    for p, q, g in zip(ours, theirs, grads, strict=True):
        p.grad, q.grad = tc.tensor(g, dtype=tc.float32), torch.tensor(g, dtype=torch.float32)
    a = nn.utils.clip_grad_norm_([*ours, tc.zeros(1)], max_norm, norm_type)
    b = torch.nn.utils.clip_grad_norm_([*theirs, torch.zeros(1)], max_norm, norm_type)
    assert a.item() == pytest.approx(b.item(), rel=1e-5)
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(array(p.grad), array(q.grad), rtol=1e-5)


def test_clipping_by_value_and_nonfinite_norms():
    p = tc.zeros(3, requires_grad=True)
    p.grad = tc.tensor([-5.0, 0.5, 5.0])
    nn.utils.clip_grad_value_(p, 1)
    assert array(p.grad).tolist() == [-1.0, 0.5, 1.0]
    p.grad = tc.tensor([math.nan, 0.0, 0.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)


def test_parameters_as_a_vector():
    m = nn.Linear(3, 2)
    vector = nn.utils.parameters_to_vector(m.parameters())
    assert tuple(vector.shape) == (8,)
    nn.utils.vector_to_parameters(vector * 0 + 2, m.parameters())
    assert (array(m.weight) == 2).all() and (array(m.bias) == 2).all() and m.weight.requires_grad
    with pytest.raises(TypeError, match="expected Tensor, but got: list"):
        nn.utils.vector_to_parameters([1.0], m.parameters())


def test_training_fits_a_line():
    tc.manual_seed(0)
    m = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    x = tc.linspace(-1, 1, 32).reshape(32, 1)
    losses = []
    for _ in range(100):
        loss = F.mse_loss(m(x), 2 * x - 1)
        m.zero_grad()
        loss.backward()
        with tc.no_grad():
            for p in m.parameters():
                p.sub_(0.1 * p.grad)
        losses.append(loss.item())
    assert losses[-1] < 0.02 * losses[0]
