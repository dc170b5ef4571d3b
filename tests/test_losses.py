"""Losses against torch where its operator database has no samples, and what the database does not look at."""

import itertools
import warnings

import numpy as np
import pytest

import tapecast as tc
from tapecast import nn
from tapecast.nn import functional as F

torch = pytest.importorskip("torch")


def log_probs(*shape: int) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


LABELS = np.array([[1, 1, 2, 3], [3, 2, 0, 0], [2, 2, 2, 2]])
CASES = {
    "padded": (LABELS, [9, 7, 9], [4, 2, 3]),
    "in a row": (np.concatenate([LABELS[0], LABELS[1, :2], LABELS[2, :3]]), [9, 7, 9], [4, 2, 3]),
    "too long": (LABELS, [9, 1, 3], [4, 2, 4]),
    "empty": (LABELS, [9, 0, 5], [0, 0, 1]),
}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_ctc_loss_and_its_gradient_are_torchs(case: str, zero_infinity: bool, reduction: str) -> None:
    labels, steps, lengths = CASES[case]
    x = log_probs(9, 3, 5)
    ours, theirs = tc.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    options = {
        "blank": 4 if case == "in a row" else 0,
        "reduction": reduction,
        "zero_infinity": zero_infinity,
    }
    labels = labels if options["blank"] else np.maximum(labels, 1)
    got = F.ctc_loss(ours, tc.tensor(labels), steps, tc.tensor(lengths), **options)
    want = torch.nn.functional.ctc_loss(theirs, torch.tensor(labels), steps, lengths, **options)
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-9)
    got.sum().backward()
    want.sum().backward()
    finite = np.isfinite(want.detach().numpy())
    if reduction != "none" and not finite:
        return  # an infinite loss has no gradient in either
    samples = finite if reduction == "none" else slice(None)
    found, wanted = ours.grad.numpy()[:, samples], theirs.grad.numpy()[:, samples]
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-10)


def test_ctc_loss_of_one_sequence_and_as_a_module() -> None:
    x = log_probs(6, 4)
    got = nn.CTCLoss()(tc.tensor(x), tc.tensor([1, 2]), tc.tensor(6), tc.tensor(2))
    want = torch.nn.CTCLoss()(torch.tensor(x), torch.tensor([1, 2]), torch.tensor(6), torch.tensor(2))
    assert got.item() == pytest.approx(want.item(), rel=1e-9)


def test_ctc_loss_says_what_is_wrong() -> None:
    x, labels = tc.tensor(log_probs(5, 2, 4)), tc.tensor([[1, 2], [3, 1]])
    with pytest.raises(RuntimeError, match="input_lengths to have value at most 5"):
        F.ctc_loss(x, labels, [5, 6], [2, 2])
    with pytest.raises(RuntimeError, match="target_lengths to be at most 2"):
        F.ctc_loss(x, labels, [5, 5], [2, 3])
    with pytest.raises(RuntimeError, match="blank must be in label range"):
        F.ctc_loss(x, labels, [5, 5], [2, 2], blank=4)


NAMES = """
    L1Loss MSELoss SmoothL1Loss HuberLoss BCEWithLogitsLoss SoftMarginLoss KLDivLoss PoissonNLLLoss
    HingeEmbeddingLoss MultiLabelSoftMarginLoss
""".split()


@pytest.mark.parametrize(("name", "reduction"), list(itertools.product(NAMES, ["none", "mean", "sum"])))
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
def test_modules_of_two_tensors(name: str, reduction: str) -> None:
    rng = np.random.default_rng(1)
    x, t = rng.normal(size=(4, 3)), rng.choice([1.0, -1.0], size=(4, 3))
    t = (t + 1) / 2 if "MultiLabel" in name or "BCE" in name or "KL" in name or "Poisson" in name else t
    got = getattr(nn, name)(reduction=reduction)(tc.tensor(x), tc.tensor(t))
    want = getattr(torch.nn, name)(reduction=reduction)(torch.tensor(x), torch.tensor(t))
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9)


def test_every_loss_module_of_torch_exists_with_its_arguments() -> None:
    import inspect

    for name in (n for n in dir(torch.nn) if n.endswith(("Loss", "Loss2d"))):
        want = list(inspect.signature(getattr(torch.nn, name).__init__).parameters)
        assert list(inspect.signature(getattr(nn, name).__init__).parameters) == want, name


def test_old_flags_warn_and_give_the_reduction() -> None:
    with pytest.warns(UserWarning, match="reduction='sum'"):
        loss = nn.MSELoss(size_average=False)
    assert loss(tc.ones(3), tc.zeros(3)).item() == 3
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert F.l1_loss(tc.ones(3), tc.zeros(3), reduce=False).shape == (3,)


def test_linear_cross_entropy_in_pieces_is_that_of_the_layers() -> None:
    tc.manual_seed(0)
    x, target = tc.randn(7, 4, dtype=tc.float64), tc.tensor([0, 3, -100, 2, 5, 1, 3])
    weight, bias = tc.randn(6, 4, dtype=tc.float64), tc.randn(6, dtype=tc.float64)
    classes = tc.rand(6, dtype=tc.float64)
    found = []
    for options in (None, nn.LinearCrossEntropyOptions(batch_chunk_size=2)):
        leaves = [v.clone().requires_grad_() for v in (x, weight, bias)]
        loss = F.linear_cross_entropy(
            leaves[0], leaves[1], target, linear_bias=leaves[2], weight=classes, options=options
        )
        loss.backward()
        found.append([loss.detach().numpy(), *(v.grad.numpy() for v in leaves)])
    for whole, pieces in zip(*found, strict=True):
        np.testing.assert_allclose(pieces, whole, rtol=1e-9, atol=1e-12)


def test_the_linear_cross_entropy_module_trains() -> None:
    tc.manual_seed(0)
    loss = nn.LinearCrossEntropyLoss(3, 4, bias=True)
    value = loss(tc.randn(5, 3), tc.tensor([0, 1, 2, 3, 0]))
    value.backward()
    assert all(p.grad is not None for p in loss.parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        places = nn.LinearCrossEntropyLoss(3, 4, out_features=(2,))
        assert places(tc.randn(5, 3), tc.zeros(5, 2, dtype=tc.int64)).shape == ()


def test_the_gradient_of_a_variance_passes_below_eps() -> None:
    var = tc.tensor([0.0, 1.0], requires_grad=True)
    F.gaussian_nll_loss(tc.zeros(2), tc.zeros(2), var, eps=0.5, reduction="sum").backward()
    np.testing.assert_allclose(var.grad.numpy(), [1.0, 0.5])


def test_identical_vectors_are_at_distance_zero_with_gradient_zero() -> None:
    x = tc.ones(3, 2, requires_grad=True)
    F.pdist(x).sum().backward()
    assert not x.grad.any()


def test_adaptive_softmax_is_torchs() -> None:
    torch.manual_seed(0)
    theirs, ours = (
        lib.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 12], 2.0, head_bias=True) for lib in (torch, tc)
    )
    ours.load_state_dict({k: tc.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    x, target = torch.randn(6, 8), torch.tensor([0, 4, 6, 13, 19, 11])
    mine = tc.from_numpy(x.numpy())
    want, got = theirs(x, target), ours(mine, tc.from_numpy(target.numpy()))
    np.testing.assert_allclose(got.output.detach().numpy(), want.output.detach().numpy(), rtol=1e-5)
    want.loss.backward()
    got.loss.backward()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-6)
    assert ours.predict(mine).tolist() == theirs.predict(x).tolist()
    with pytest.raises(RuntimeError, match=r"Target values should be in \[0, 19\]"):
        ours(mine, tc.full((6,), 20))
    with pytest.raises(ValueError, match="cutoffs"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 20, [12, 5])
