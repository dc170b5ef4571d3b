"""PyTorch's own sample inputs, run through tapecast: value, dtype, shape, gradient and errors of each operator.

    python tests/opinfo.py                     a table of all operators in operators.txt, failures first
    python tests/opinfo.py add linalg.svd      these operators, each failure in a line
    python tests/opinfo.py --dtypes float32 bfloat16 complex64 -v add

torch's operator database (`torch.testing._internal`, importable with the package `expecttest`) gives the inputs and
torch itself the answers. Random operators are compared in dtype and shape.
"""

from __future__ import annotations

import argparse
import random
import traceback
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import special

import tapecast as tc

#: float64 also checks gradients. int64 and bool stand for the types without gradients.
DTYPES = ("float32", "float64", "int64", "bool", "bfloat16", "complex64", "complex128")
RANDOM = (
    "alpha_dropout bernoulli cauchy dropout dropout2d dropout3d exponential geometric log_normal multinomial "
    "normal rand_like randint randint_like randn randn_like rrelu uniform empty empty_like new_empty "
    "new_empty_strided empty_strided empty_permuted feature_alpha_dropout"
).split()


@cache
def database() -> dict[str, Any]:
    """OpInfo by the name `operators.txt` uses: the operator's, a dot and its variant."""
    from torch.testing._internal.common_methods_invocations import op_db

    listed = (Path(__file__).parent / "operators.txt").read_text().split()
    found = {f"{o.name}.{o.variant_test_name}" if o.variant_test_name else o.name: o for o in op_db}
    return {name: found[name] for name in listed}


def function(op: Any) -> Any:
    """tapecast's function of the operator's name. A lambda of the database runs with tapecast for torch."""
    f = op.op
    if getattr(f, "__name__", "") == "<lambda>":
        scope = {**f.__globals__, "torch": tc}
        return types.FunctionType(f.__code__, scope, f.__name__, f.__defaults__, f.__closure__)
    found: Any = tc
    for part in op.name.split("."):
        found = getattr(found, part, None)
    found = found if callable(found) else getattr(tc.Tensor, op.name.split(".")[-1], None)
    if found is None:
        raise AttributeError(f"tapecast has no {op.name}")
    return found


def ours(x: Any, leaf: Any = None) -> Any:
    """The same argument for tapecast: tensors with their strides, dtypes and containers by value.

    `leaf` makes a tensor of one of torch's.
    """
    match x:
        case torch.Tensor():
            return (leaf or tensor)(x)
        case torch.dtype():
            return getattr(tc, str(x).removeprefix("torch."))
        case torch.device():
            return str(x)
        case torch.memory_format() | torch.layout():
            return getattr(tc, str(x).removeprefix("torch."))
        case torch.nn.PairwiseDistance():
            return tc.nn.PairwiseDistance(x.norm, x.eps, x.keepdim)
        case torch.nn.LinearCrossEntropyOptions():
            return tc.nn.LinearCrossEntropyOptions(
                x.allow_retain_graph, x.batch_chunk_size, x.chunking_method
            )
        case tuple() if hasattr(x, "_fields"):
            return type(x)(*(ours(v, leaf) for v in x))
        case tuple() | list():
            return (list if isinstance(x, list) else tuple)(ours(v, leaf) for v in x)
        case dict():
            return {k: ours(v, leaf) for k, v in x.items()}
    return x


def sharing(x: torch.Tensor, made: dict[Any, Any]) -> Any:
    """A leaf over the tensor's own memory: operands that are one in torch, or overlap, do so here. `made`: so far."""
    if id(x) not in made:
        key = (x.untyped_storage().data_ptr(), x.dtype)
        if key not in made:
            made[key] = tc.from_numpy(
                arrays(torch.empty(0, dtype=x.dtype).set_(x.detach().untyped_storage()))
            )
        out = tc.as_strided(made[key], tuple(x.shape), x.stride(), x.storage_offset())
        made[id(x)] = out.requires_grad_() if x.requires_grad else out
    return made[id(x)]


def tensor(x: torch.Tensor) -> Any:
    """A leaf of tapecast over a copy of the tensor's memory, laid out alike."""
    if x.ndim > 64:  # more axes than numpy has: tapecast itself is asked for such a tensor
        return tc.ones(tuple(x.shape))
    plain = x.detach().resolve_conj().resolve_neg()
    if 0 in plain.stride() and plain.numel() and not x.requires_grad:
        once = plain[tuple(slice(1) if step == 0 else slice(None) for step in plain.stride())]
        return tensor(once).expand(plain.shape)
    dense = np.empty(plain.shape, arrays(plain).dtype)
    if plain.ndim and plain.numel() and 0 not in plain.stride():
        order = sorted(range(plain.ndim), key=lambda d: -plain.stride(d))
        dense = np.empty([plain.shape[d] for d in order], dense.dtype).transpose(np.argsort(order))
    dense[...] = arrays(plain)
    out = tc.from_numpy(dense)
    return out.requires_grad_() if x.requires_grad else out


def arrays(x: torch.Tensor) -> np.ndarray:
    if x.dtype == torch.bfloat16:
        import ml_dtypes

        return x.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


def leaves(x: Any, kind: type) -> Iterator[Any]:
    """The tensors of `kind` in nested containers, in order."""
    if isinstance(x, kind):
        yield x
    elif isinstance(x, dict):
        for v in x.values():
            yield from leaves(v, kind)
    elif isinstance(x, (list, tuple)):
        for v in x:
            yield from leaves(v, kind)


def values(x: Any) -> Any:
    """numpy arrays and numbers of a result, for either library."""
    if isinstance(x, torch.Tensor):
        return arrays(x.detach().resolve_conj().resolve_neg())
    if isinstance(x, tc.Tensor):
        return x.detach().numpy()
    if isinstance(x, (list, tuple)):
        return [values(v) for v in x]
    return x


TOLERANCE = {
    "float32": 2e-5,
    "float64": 1e-7,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "complex64": 4e-5,
    "complex128": 1e-7,
}


def difference(want: Any, got: Any, where: str, exact: bool = True, slack: float = 1.0) -> str | None:
    """What is wrong with `got`, in a phrase; None if nothing is."""
    if isinstance(want, list):
        if not isinstance(got, list) or len(want) != len(got):
            return f"{where}: wanted {len(want)} results, got {got!r:.60}"
        parts = (
            difference(w, g, f"{where}[{i}]", exact, slack)
            for i, (w, g) in enumerate(zip(want, got, strict=True))
        )
        return next((p for p in parts if p), None)
    if not isinstance(want, np.ndarray):
        return (
            None
            if np.array_equal(want, got, equal_nan=isinstance(want, float))
            else f"{where}: wanted {want!r}, got {got!r:.60}"
        )
    if not isinstance(got, np.ndarray):
        return f"{where}: wanted a tensor, got {type(got).__name__}"
    if want.dtype != got.dtype or want.shape != got.shape:
        return f"{where}: wanted {want.dtype}{list(want.shape)}, got {got.dtype}{list(got.shape)}"
    if not exact:
        return None
    tolerance = TOLERANCE.get(str(want.dtype), 0) * slack
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = (want, got) if tolerance == 0 else (want.astype(wide), got.astype(wide))
    with np.errstate(all="ignore"):
        close = a == b if tolerance == 0 else np.isclose(b, a, rtol=tolerance, atol=tolerance, equal_nan=True)
    if close.all():
        return None
    at = tuple(int(i) for i in np.argwhere(~close)[0])
    return f"{where}: {int((~close).sum())} of {close.size} differ, at {at} wanted {want[at]}, got {got[at]}"


@dataclass
class Tally:
    """What came of one operator: samples that passed, and a line for each that failed."""

    passed: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, problem: str | None) -> None:
        if problem is None:
            self.passed += 1
        else:
            self.failures.append(problem)


def examine(
    name: str,
    dtypes: tuple[str, ...] = DTYPES,
    errors: bool = True,
    trace: bool = False,
    most: int | None = None,
) -> Tally:
    """The samples of one operator in the dtypes torch supports for it, gradients in float64 and complex128.

    most: of so many samples per dtype, `spread` over all; None for all.
    """
    op, tally = database()[name], Tally()
    for dtype in dtypes:
        kind = getattr(torch, dtype)
        if kind not in op.supported_dtypes("cpu"):
            continue
        graded = (
            dtype in ("float64", "complex128")
            and op.supports_autograd
            and kind in op.supported_backward_dtypes("cpu")
        )
        for seed in (torch.manual_seed, random.seed, np.random.seed):  # torch draws samples from all three
            seed(0)
        samples = list(enumerate(op.sample_inputs("cpu", kind, requires_grad=graded)))
        for i, sample in samples if most is None else spread(samples, most):
            problem = attempt(op, sample, graded, trace)
            tally.add(problem and f"{dtype} sample {i}: {problem}  {summary(sample)}")
    if errors and op.error_inputs_func is not None:
        for i, case in enumerate(op.error_inputs("cpu")):
            problem = raises(op, case)
            tally.add(problem and f"error {i}: {problem}  {summary(case.sample_input)}")
    return tally


def spread(samples: list[tuple[int, Any]], most: int) -> list[tuple[int, Any]]:
    """At most so many, evenly over all, of those whose operands have no more than a million elements."""
    small = [
        (i, s) for i, s in samples if sum(t.numel() for t in leaves([s.input, s.args], torch.Tensor)) <= 1e6
    ]
    return small if len(small) <= most else [small[k * len(small) // most] for k in range(most)]


def attempt(op: Any, sample: Any, graded: bool, trace: bool = False) -> str | None:
    """One sample in both libraries: None when they agree. A sample torch itself refuses counts as agreed."""
    args, asked = (sample.input, *sample.args), REFERENCES.get(op.name, lambda f: f)(op.op)
    try:
        want = asked(*args, **sample.kwargs)
    except Exception:
        return None
    drawn = any(part in RANDOM for part in op.name.split(".")) or drops(op, sample)
    try:
        mine, mine_kw = ours(args), ours(sample.kwargs)
        got = function(op)(*mine, **mine_kw)
        undo = sample.output_process_fn_grad
        found = settled(op, sample, values(want), values(got))
        problem = difference(values(want), found, "value", exact=not drawn)
        if problem and REFERENCES.get(op.name) is in_double:
            problem = (
                None if as_exact(values(op.op(*args, **sample.kwargs)), values(want), found) else problem
            )
        if problem or not graded or drawn:
            return problem
        return gradients(undo(want), untorched(undo)(got), (args, sample.kwargs), (mine, mine_kw))
    except Exception as e:
        if trace:
            traceback.print_exc()
        return f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"


def drops(op: Any, sample: Any) -> bool:
    """Whether elements are dropped at random, in an operator that can do without."""
    if op.name == "nn.functional.multi_head_attention_forward":
        return bool(sample.args[9])
    return bool(sample.kwargs.get("dropout_p"))


def in_double(f: Any) -> Any:
    """torch's function computed in double precision, its results rounded once to the dtype of the operands."""

    def widened(*args: Any, **kwargs: Any) -> Any:
        kind = next(leaves(args, torch.Tensor)).dtype
        wide = torch.complex128 if kind.is_complex else torch.float64 if kind.is_floating_point else kind
        args, kwargs = recast((args, kwargs), kind, wide)
        return recast(f(*args, **kwargs), wide, kind)

    return widened


def as_exact(theirs: Any, exact: Any, found: Any) -> bool:
    """Whether our largest error is that of torch in the same precision, or a rounding of the largest number.

    Up to four times that of torch: with a few elements, luck decides.
    """
    if isinstance(exact, list):
        return all(as_exact(*three) for three in zip(theirs, exact, found, strict=True))
    if exact is None or exact.dtype != found.dtype or exact.shape != found.shape:
        return exact is found
    there, mine, size = (
        np.abs(x).max(initial=0.0)
        for x in (wide(theirs) - wide(exact), wide(found) - wide(exact), wide(exact))
    )
    return bool(mine <= max(4 * there, TOLERANCE[str(exact.dtype)] / 4 * size))


def wide(x: Any) -> Any:
    return x.astype(np.complex128)


def recast(x: Any, old: torch.dtype, new: torch.dtype) -> Any:
    """Containers with the tensors of one dtype in another."""
    match x:
        case torch.Tensor():
            return x.to(new) if x.dtype == old else x
        case dict():
            return {k: recast(v, old, new) for k, v in x.items()}
        case list() | tuple():
            return type(x)(recast(v, old, new) for v in x)
    return x


def by_scipy(f: Any) -> Any:
    """scipy's function of the same meaning: special_bessel_j0 is its j0."""
    of = getattr(special, f.__name__.rpartition("_")[2])

    def asked(x: torch.Tensor) -> torch.Tensor:
        kind = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
        return torch.from_numpy(np.asarray(of(x.to(torch.float64).numpy()))).to(kind)

    return asked


def copied_into(f: Any) -> Any:
    """as_strided_scatter as a copy into a view."""

    def asked(x: torch.Tensor, source: torch.Tensor, *geometry: Any, **named: Any) -> torch.Tensor:
        out = x.clone()
        out.as_strided(*geometry, **named).copy_(source)
        return out

    return asked


#: What is asked, made from torch's function, where that is wrong or coarser than what is compared.
REFERENCES = {
    # torch's gradient of the input is 1 where it is written over and 0 where it is not; gradcheck says so too.
    "as_strided_scatter": copied_into,
    # Off by up to 1e-6 near 5 in float64, where it passes from one expansion to the other.
    "special.bessel_j0": by_scipy,
    "special.bessel_j1": by_scipy,
    "special.bessel_y0": by_scipy,
    "special.bessel_y1": by_scipy,
    # The squarings multiply the rounding of single precision; in bfloat16 the result is nan.
    "matrix_exp": in_double,
    "linalg.matrix_exp": in_double,
    # In bfloat16 the sum is rounded after each matrix: off by 0.3 of 2.5.
    "addbmm": in_double,
    # Likewise after each tap of the kernel: off by 0.4 of 3.5.
    "nn.functional.conv_transpose1d": in_double,
    "nn.functional.conv_transpose2d": in_double,
    "nn.functional.conv_transpose3d": in_double,
    # Scores of some hundreds: a softmax multiplies their rounding.
    "nn.functional.multi_head_attention_forward": in_double,
}


#: Searches that may name any of several equal elements, and which argument is the axis.
UNSETTLED = {"sort": 0, "argsort": 0, "topk": 1, "kthvalue": 1, "mode": 0, "median": 0, "nanmedian": 0}


def settled(op: Any, sample: Any, want: Any, got: Any) -> Any:
    """Our results, with torch's in their place where both are right.

    Positions of elements that are equal; eigenvectors and singular vectors, which a sign, a phase or a rotation
    among those of equal values leaves what they are.
    """
    if op.name in SPECTRA and alike(op.name, want, got):
        return want
    if op.name not in UNSETTLED or sample.kwargs.get("stable"):
        return got
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got) == 2:
        return [got[0], settled_positions(op, sample, want[1], got[1])]
    return settled_positions(op, sample, want, got) if op.name == "argsort" else got


SPECTRA = ("linalg.eig", "linalg.eigh", "linalg.svd", "svd")


def alike(name: str, want: list[Any], got: list[Any]) -> bool:
    """Whether the values are torch's, the vectors orthonormal (of norm 1) and the product of all the same matrix."""
    if [(w.dtype, w.shape) for w in want] != [(g.dtype, g.shape) for g in got]:
        return False
    values_at = 1 if "svd" in name else 0
    norms = [gram(name, v) for v in vectors(name, got)]
    units = [np.broadcast_to(np.eye(n.shape[-1], dtype=n.dtype), n.shape) for n in norms]
    return not difference(
        [want[values_at], product(name, want), *units],
        [got[values_at], product(name, got), *norms],
        "",
        slack=10.0,
    )


def vectors(name: str, parts: list[Any]) -> list[Any]:
    """The eigenvectors, or the singular vectors on both sides, as columns."""
    if "svd" not in name:
        return parts[1:]
    u, _, v = parts
    return [u, v if name == "svd" else v.conj().swapaxes(-1, -2)]


def gram(name: str, v: Any) -> Any:
    """The products of the columns with each other; of vectors that need not be orthogonal with themselves alone."""
    out = v.conj().swapaxes(-1, -2) @ v
    return out * np.eye(out.shape[-1], dtype=out.dtype) if name == "linalg.eig" else out


def product(name: str, parts: list[Any]) -> Any:
    """The matrix that has these values and vectors."""
    if "svd" not in name:
        w, v = parts
        back = np.linalg.inv(v) if name == "linalg.eig" else v.conj().swapaxes(-1, -2)
        return v * w[..., None, :] @ back
    u, v = vectors(name, parts)
    k = parts[1].shape[-1]
    return u[..., :k] * parts[1][..., None, :] @ v[..., :k].conj().swapaxes(-1, -2)


def settled_positions(op: Any, sample: Any, want: Any, got: Any) -> Any:
    x, at = arrays(sample.input.detach()), UNSETTLED[op.name]
    if not x.ndim or want.dtype != np.int64 or np.shape(want) != np.shape(got) or got.dtype != want.dtype:
        return got
    dim = sample.kwargs.get("dim", sample.args[at] if len(sample.args) > at else -1)
    w, g = (np.expand_dims(i, dim) if i.ndim < x.ndim else i for i in (want, got))
    if w.size and (g.min() < 0 or g.max() >= x.shape[dim]):
        return got
    a, b = np.take_along_axis(x, w, dim), np.take_along_axis(x, g, dim)
    repeated = op.name in ("sort", "argsort") and (np.sort(g, dim) != np.sort(w, dim)).any()
    equal = (a == b) | ((a != a) & (b != b))
    return got if repeated else np.where(equal, w, g).reshape(want.shape)


def untorched(f: Any) -> Any:
    """A processing lambda of the database with tapecast in torch's place."""
    if not isinstance(f, types.FunctionType):
        return f
    return types.FunctionType(
        f.__code__, {**f.__globals__, "torch": tc}, f.__name__, f.__defaults__, f.__closure__
    )


def gradients(want: Any, got: Any, args: Any, mine: Any) -> str | None:
    """Compare the gradients of a fixed weighting of all differentiable outputs."""
    outs = [t for t in leaves(want, torch.Tensor) if t.requires_grad]
    our_outs = [t for t in leaves(got, tc.Tensor) if t.requires_grad]
    if len(outs) != len(our_outs):
        return f"gradient: {len(outs)} outputs require one, of ours {len(our_outs)}"
    ins = [t for t in leaves(args, torch.Tensor) if t.requires_grad]
    our_ins = [t for t in leaves(mine, tc.Tensor) if t.requires_grad]
    if not outs or not ins:
        return None
    weights = [
        torch.linspace(0.5, 1.5, t.numel(), dtype=torch.float64).reshape(t.shape).to(t.dtype) for t in outs
    ]
    try:
        expected = torch.autograd.grad(outs, ins, weights, allow_unused=True)
    except Exception:
        return None
    found = tc.autograd.grad(our_outs, our_ins, [ours(w) for w in weights], allow_unused=True)
    pairs = [
        (e if e is not None else torch.zeros_like(i), f) for e, f, i in zip(expected, found, ins, strict=True)
    ]
    wants = [values(e) for e, _ in pairs]
    gots = [np.zeros_like(w) if f is None else values(f) for w, (_, f) in zip(wants, pairs, strict=True)]
    return difference(wants, gots, "gradient", slack=10.0)


def raises(op: Any, case: Any) -> str | None:
    """An input torch refuses must be refused, with an error a program can catch alike."""
    sample, made = case.sample_input, dict[Any, Any]()
    leaf = partial(sharing, made=made)
    if any(t.is_meta for t in leaves([sample.input, sample.args, sample.kwargs], torch.Tensor)):
        return None  # tensors without contents are nothing that tapecast has
    try:
        op.op(sample.input, *sample.args, **sample.kwargs)
        return None  # listed as an error, but torch takes it
    except Exception as e:
        # torch's own classes are known by what they derive from.
        wanted = next(kind for kind in type(e).__mro__ if kind.__module__ == "builtins")
    try:
        function(op)(*ours((sample.input, *sample.args), leaf), **ours(sample.kwargs, leaf))
    except Exception as e:
        found = f"wanted {wanted.__name__}, got {type(e).__name__}: {e!s:.100}"
        return None if isinstance(e, wanted) else found
    return f"no error, torch raises {wanted.__name__} ({case.error_regex:.80})"


def summary(sample: Any) -> str:
    """The arguments of a sample, short."""

    def short(x: Any) -> str:
        if isinstance(x, torch.Tensor):
            return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
        if isinstance(x, (list, tuple)):
            return "[" + ", ".join(map(short, x)) + "]"
        return repr(x)

    parts = [
        short(sample.input),
        *map(short, sample.args),
        *(f"{k}={short(v)}" for k, v in sample.kwargs.items()),
    ]
    return "(" + ", ".join(parts)[:160] + ")"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES))
    parser.add_argument("--no-errors", action="store_true")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="every failure, with the traceback of exceptions"
    )
    args = parser.parse_args()
    names, totals = args.names or list(database()), Counter[str]()
    for name in names:
        tally = examine(name, tuple(args.dtypes), not args.no_errors, args.verbose)
        totals.update(passed=tally.passed, failed=len(tally.failures), ok=not tally.failures)
        if tally.failures:
            print(f"{name}: {tally.passed} passed, {len(tally.failures)} failed")
            shown = tally.failures if args.verbose else tally.failures[: 8 if args.names else 1]
            print("".join(f"    {line}\n" for line in shown), end="", flush=True)
    print(
        f"{totals['ok']} of {len(names)} operators pass; samples: {totals['passed']} passed, {totals['failed']} failed"
    )


if __name__ == "__main__":
    main()
