"""Functions and methods beside the mathematics of tensors, as under PyTorch."""

import warnings

import pytest
from both import assert_same, attempt, program

PROGRAMS = []


@program(PROGRAMS)
def in_place_functions(torch):
    out = []
    for name in (
        "abs_",
        "exp_",
        "sqrt_",
        "clamp_min_",
        "neg_",
        "sigmoid_",
        "floor_",
        "log1p_",
        "square_",
        "tanh_",
    ):
        x = torch.tensor([0.5, 2.0, 1.25])
        args = (1.0,) if name == "clamp_min_" else ()
        out += [getattr(torch, name)(x, *args) is x, x]
    return out


@program(PROGRAMS)
def in_place_methods(torch):
    x, m = torch.tensor([0.5, 0.25, 0.125]), torch.ones(3, 3)
    out = [
        x.clone().lgamma_(),
        x.clone().digamma_(),
        x.clone().erfinv_(),
        x.clone().i0_(),
        x.clone().igamma_(x),
    ]
    out += [x.clone().igammac_(x), x.clone().polygamma_(1), (x + 3).mvlgamma_(2), x.clone().multiply_(2)]
    out += [x.clone().subtract_(1, alpha=2), x.clone().divide_(2), x.clone().true_divide_(4)]
    out += [m.clone().addmm_(m, m, beta=2), m[0].clone().addmv_(m, x), m.clone().addr_(x, x, alpha=3)]
    out += [m.clone().addbmm_(m[None], m[None]), m[None].clone().baddbmm_(m[None], m[None])]
    leaf = torch.ones(2, requires_grad=True)
    y = (leaf * 3).multiply_(leaf)
    y.sum().backward()
    return [*out, y, leaf.grad]


@program(PROGRAMS)
def longer_names(torch):
    x, y = torch.tensor([3, 7]), torch.tensor([2.0, 4.0])
    out = torch.empty(2)
    return [
        torch.multiply(x, y),
        torch.subtract(x, y, alpha=2),
        torch.divide(x, y, rounding_mode="floor"),
        torch.true_divide(x, 2),
        torch.multiply(y, y, out=out) is out,
        out,
    ]


@program(PROGRAMS)
def python_functions_of_elements(torch):
    x = torch.arange(6.0).reshape(2, 3)
    t = x.t()
    out = [x.clone().apply_(lambda v: v * 2 + 1), x.clone().map_(torch.ones(3), lambda a, b: a - b)]
    out += [x.clone().map2_(x, torch.ones(2, 1), lambda a, b, c: a + b * c), t.apply_(lambda v: -v) is t, x]
    out += [torch.tensor([1, 2]).apply_(lambda v: v + 1)]
    return [*out, attempt(lambda: torch.ones(2, requires_grad=True).apply_(abs))]


@program(PROGRAMS)
def questions(torch):
    x = torch.arange(6.0).reshape(2, 3)
    flags = (
        "is_cpu",
        "is_cuda",
        "is_sparse",
        "is_quantized",
        "is_meta",
        "is_mkldnn",
        "is_nested",
        "is_mps",
        "is_xpu",
    )
    out = [getattr(x, flag) for flag in flags]
    out += [
        x.is_signed(),
        x.byte().is_signed(),
        (x > 1).is_signed(),
        x.is_same_size(x.t()),
        x.is_same_size(x + 1),
    ]
    out += [torch.is_signed(x), torch.is_same_size(x, x), x.is_distributed(), x.is_inference(), x.is_pinned()]
    out += [
        x.get_device(),
        torch.get_device(x),
        x.is_set_to(x),
        x.is_set_to(x.view(2, 3)),
        x.is_set_to(x.t()),
    ]
    out += [x.is_set_to(x.clone()), x.dim_order(), x.t().dim_order(), torch.ones(1).is_nonzero(), x.name]
    return [*out, attempt(lambda: x.is_nonzero())]


@program(PROGRAMS)
def new_tensors(torch):
    x = torch.ones(2, dtype=torch.float64)
    out = [x.new([1, 2]), x.new(2, 3).shape, x.new().shape, x.new(torch.Size([3, 1])).shape, x.new(2).dtype]
    return [*out, torch.tensor([1]).new([3.7]), list(reversed(torch.arange(6).reshape(3, 2))), x.to_dense()]


@program(PROGRAMS)
def default_tensor_types(torch):
    warnings.simplefilter("ignore")  # PyTorch's says that they are deprecated
    out = []
    try:
        for kind in ("torch.DoubleTensor", torch.FloatTensor, torch.HalfTensor):
            torch.set_default_tensor_type(kind)
            out.append(torch.tensor(0.5).dtype)
    finally:
        torch.set_default_dtype(torch.float32)
    return [str(d) for d in out]


@program(PROGRAMS)
def vandermonde_matrices(torch):
    x = torch.tensor([1.0, 2.0, 3.0])
    out = [torch.vander(x), torch.vander(x, 2), torch.vander(x, N=4, increasing=True), torch.vander(x, 1)]
    out += [
        torch.vander(x, 0).shape,
        torch.vander(torch.tensor([1, 2])),
        torch.vander(torch.tensor([True, False])),
    ]
    return [*out, attempt(lambda: torch.vander(torch.ones(1, 1))), attempt(lambda: torch.vander(x, -1))]


def low_rank(torch, *batch):
    """Of rank 3, [..., 8, 5]."""
    left, right = (
        torch.arange(24.0).double().reshape(8, 3).sin(),
        torch.arange(15.0).double().reshape(3, 5).cos(),
    )
    return (left @ right).expand(*batch, 8, 5)


@program(PROGRAMS)
def low_rank_decompositions(torch):
    out = []
    for A in (low_rank(torch), low_rank(torch).mT, low_rank(torch, 2)):
        U, S, V = torch.svd_lowrank(A, q=4)
        out += [S, U.shape, V.shape, U * S.unsqueeze(-2) @ V.mH, U.mH @ U]
        U, S, V = torch.svd_lowrank(A, q=4, M=torch.ones(A.shape[-1]).double())
        out += [U * S.unsqueeze(-2) @ V.mH]
        U, S, V = torch.pca_lowrank(A, q=3)
        out += [S, U * S.unsqueeze(-2) @ V.mH, torch.pca_lowrank(A, q=3, center=False)[1]]
    A = low_rank(torch)
    return [*out, attempt(lambda: torch.pca_lowrank(A, q=9)), attempt(lambda: torch.pca_lowrank(A, niter=-1))]


@program(PROGRAMS)
def products_with_q(torch):
    A = torch.arange(12.0).square().reshape(4, 3).cos()
    a, tau = torch.geqrf(A)
    other = torch.arange(8.0).reshape(4, 2)
    return [
        torch.ormqr(a, tau, other),
        torch.ormqr(a, tau, other, transpose=True),
        a.ormqr(tau, other.mT, left=False),
        torch.ormqr(a, tau, other.mT, False, True),
        torch.ormqr(a, tau, torch.ormqr(a, tau, other), transpose=True),
    ]


@pytest.mark.parametrize("run", PROGRAMS)
def test_program(run):
    assert_same(run)
