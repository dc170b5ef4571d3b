"""Small parts of nn beside its layers, as under PyTorch."""

import importlib
import warnings

import pytest
from both import assert_same, attempt, filled, program

PROGRAMS = []


@program(PROGRAMS)
def poolings_with_indices(torch):
    F, out = torch.nn.functional, []
    for n in (1, 2, 3):
        x = torch.arange(6.0**n).sin().reshape(1, 1, *[6] * n)
        out += getattr(F, f"max_pool{n}d_with_indices")(x, 2, stride=2)
        out += getattr(F, f"adaptive_max_pool{n}d_with_indices")(x, 2)
    x = torch.arange(36.0).sin().reshape(1, 1, 6, 6)
    values, indices = F.fractional_max_pool2d_with_indices(x, 2, output_size=3)
    return [*out, values.shape, indices.shape, torch.max_pool1d_with_indices(x[0], 2)]


@program(PROGRAMS)
def activations_in_place(torch):
    F, out = torch.nn.functional, []
    for name in ("celu_", "elu_", "hardtanh_", "leaky_relu_", "rrelu_", "selu_", "relu_"):
        x = torch.tensor([-2.0, 0.5, 3.0])
        out += [getattr(F, name)(x) is x, x]
    x = torch.tensor([-2.0, 0.5, 3.0])
    return [
        *out,
        F.threshold_(x, 1.0, 7.0) is x,
        x,
        F.native_channel_shuffle(torch.arange(4.0).reshape(1, 4, 1), 2),
    ]


@program(PROGRAMS)
def older_initialisers(torch):
    init, out = torch.nn.init, []
    for name in ("uniform", "normal", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal"):
        out += [getattr(init, name)(torch.empty(3, 2)).shape]
    out += [init.constant(torch.empty(2), 3.0), init.eye(torch.empty(2, 3)), init.dirac(torch.empty(2, 2, 3))]
    return [*out, init.orthogonal(torch.empty(3, 3)).shape, init.sparse(torch.empty(3, 3), 0.5).shape]


@program(PROGRAMS)
def data_parallel(torch):
    net = filled(torch, torch.nn.Linear(2, 3))
    m = torch.nn.DataParallel(net)
    x = torch.tensor([[1.0, 2.0]])
    return [
        m,
        m(x),
        m(input=x),
        m.module is net,
        list(m.state_dict()),
        isinstance(m, torch.nn.parallel.DataParallel),
    ]


@program(PROGRAMS)
def kernels_of_attention(torch):
    attention = importlib.import_module(f"{torch.__name__}.nn.attention")
    x = torch.arange(12.0).reshape(1, 1, 3, 4).sin()
    with attention.sdpa_kernel(attention.SDPBackend.MATH):
        one = torch.nn.functional.scaled_dot_product_attention(x, x, x)
    with attention.sdpa_kernel([attention.SDPBackend.MATH, attention.SDPBackend.FLASH_ATTENTION]):
        two = torch.nn.functional.scaled_dot_product_attention(x, x, x)

    def wrong():
        with attention.sdpa_kernel(3):
            pass

    return [one, two, attention.SDPBackend.FLASH_ATTENTION.name, attempt(wrong)]


@program(PROGRAMS)
def storages(torch):
    x = torch.arange(12.0).reshape(3, 4)
    base = x.untyped_storage()
    out = [base.nbytes(), base.size(), len(base), x[1].untyped_storage().nbytes(), base.device]
    out += [
        base.data_ptr() == t.untyped_storage().data_ptr() for t in (x, x.t(), x[1:, 2], x.clone(), x.detach())
    ]
    return out


@program(PROGRAMS)
def linearized(torch):
    warnings.simplefilter("ignore")  # PyTorch's are about itself
    x = torch.tensor([0.5, 1.0])
    value, derivative = torch.func.linearize(lambda v: v.sin() * v, x)
    return [value, derivative(torch.ones(2)), derivative(torch.tensor([0.0, 2.0]))]


@program(PROGRAMS)
def gradients_of_convolutions(torch):
    out = []
    for n in (1, 2, 3):
        x = torch.arange(2.0 * 5**n).sin().reshape(1, 2, *[5] * n)
        w = torch.arange(4.0 * 3**n).cos().reshape(4, 1, *[3] * n)
        settings = {"stride": 2, "padding": 1, "groups": 2}
        y = getattr(torch.nn.functional, f"conv{n}d")(x, w, None, **settings)
        g = torch.ones(y.shape).cumsum(-1)
        out += [getattr(torch.nn.grad, f"conv{n}d_input")(x.shape, w, g, **settings)]
        out += [getattr(torch.nn.grad, f"conv{n}d_weight")(x, w.shape, g, **settings)]
    return out


@program(PROGRAMS)
def modules_by_their_names(torch):
    def get(name):
        return importlib.import_module(f"{torch.__name__}.{name}")

    return [
        get("nn.utils.clip_grad").clip_grad_norm_ is torch.nn.utils.clip_grad_norm_,
        get("nn.utils.convert_parameters").parameters_to_vector is torch.nn.utils.parameters_to_vector,
        get("nn.utils.parametrize").is_parametrized(torch.nn.ReLU()),
        get("nn.parameter").Parameter is torch.nn.Parameter,
        get("nn.modules.batchnorm").BatchNorm2d is torch.nn.BatchNorm2d,
        get("types").Number == int | float | bool,
        hasattr(get("nn.common_types"), "_size_2_t"),
    ]


@program(PROGRAMS)
def gradients_by_frequency(torch):
    nn, at = torch.nn, torch.tensor([1, 1, 2, 4])
    out = []
    for layer in (
        nn.Embedding(5, 2, padding_idx=4, scale_grad_by_freq=True),
        nn.Embedding.from_pretrained(torch.ones(5, 2), freeze=False, scale_grad_by_freq=True, max_norm=3.0),
    ):
        x = filled(torch, layer)(at.reshape(2, 2))
        (x * x).sum().backward()
        out += [layer, x, layer.weight.grad]
    for mode in ("sum", "mean"):
        bag = filled(torch, nn.EmbeddingBag(5, 2, scale_grad_by_freq=True, mode=mode))
        # Every index twice: of others PyTorch takes the count of a neighbour.
        bag(torch.tensor([1, 1, 3, 3]), torch.tensor([0, 3])).square().sum().backward()
        out += [bag, bag.weight.grad]
    return out


@program(PROGRAMS)
def wrong_arguments(torch):
    layer = torch.nn.Linear(2, 3)
    return [attempt(lambda: layer(3)), attempt(lambda: layer(None)), str(torch.nn.Buffer(torch.ones(2)))]


@pytest.mark.parametrize("run", PROGRAMS)
def test_program(run):
    assert_same(run)
