"""Gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import functional as F
from ..backward import as_list, grad
from ..modes import enable_grad
from ..tensor import Tensor


class GradcheckError(RuntimeError):
    """A gradient that disagrees with finite differences."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of `func` at float64 or complex128 `inputs` with central differences of width 2·eps.

    Every element of every input that requires a gradient is moved. Raises GradcheckError (or returns False). The
    arguments after `raise_exception` are PyTorch's; what they ask for beyond this comparison is not done.
    """
    args = as_list(inputs)
    if not any(isinstance(x, Tensor) and x.requires_grad for x in args):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    outputs = _differentiable(func(*args))
    try:
        for k, out in enumerate(outputs):
            weights = weighting(out, k)
            wanted = [x for x in args if isinstance(x, Tensor) and x.requires_grad]
            found = grad(out, wanted, weights, retain_graph=True, allow_unused=True)
            for x, g in zip(wanted, found, strict=True):
                _compare(func, args, k, weights, x, g, (eps, atol, rtol))
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _differentiable(out: Any) -> list[Tensor]:
    return [t for t in as_list(out) if t.requires_grad]


def _compare(
    func: Any,
    args: list[Any],
    k: int,
    weights: Tensor,
    x: Tensor,
    g: Tensor | None,
    limits: tuple[float, float, float],
) -> None:
    eps, atol, rtol = limits
    numeric = np.zeros(tuple(x.shape), x.array.dtype)
    for at in np.ndindex(*x.shape):
        for unit in (1, 1j) if x.is_complex() else (1,):
            values = []
            before = x.array[at]
            for step in (eps, -eps):
                x.array[at] = before + step * unit
                with enable_grad():
                    moved = _differentiable(func(*args))[k].array
                values.append((moved * weights.array.conj()).sum().real)
            x.array[at] = before
            numeric[at] += unit * (values[0] - values[1]) / (2 * eps)
    analytic = np.zeros(tuple(x.shape)) if g is None else g.array
    if not np.allclose(analytic, numeric, rtol, atol):
        raise GradcheckError(
            f"Jacobian mismatch for output {k}:\nnumerical:{numeric}\nanalytical:{analytic}\n"
        )


def weighting(out: Tensor, seed: int) -> Tensor:
    """Weights that make one number of an output."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=tuple(out.shape))
    return F.tensor(
        values + 1j * rng.normal(size=values.shape) if out.is_complex() else values, dtype=out.dtype
    )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    *,
    gen_non_contig_grad_outputs: bool = False,
    **limits: Any,
) -> bool:
    """gradcheck of the gradient of `func`: its second order. `grad_outputs`: the weights of the outputs."""
    args = as_list(inputs)
    given = None if grad_outputs is None else as_list(grad_outputs)
    wanted = [k for k, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]

    def first_order(*xs: Any) -> Any:
        outs = _differentiable(func(*xs))
        seeds = given or [
            F.ones_like(o) + 0.5 * F.arange(o.numel()).to(o.dtype).reshape(o.shape) for o in outs
        ]
        grads = grad(outs, [xs[k] for k in wanted], seeds, create_graph=True, allow_unused=True)
        found = [g for g in grads if g is not None and g.requires_grad]
        return found if found else [xs[wanted[0]] * 0]

    return gradcheck(first_order, args, **limits)
