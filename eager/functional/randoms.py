"""Tensors of random numbers. Each draw is a pure function of a key of the generator's stream."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..device import CPU, device
from ..dtypes import COMPLEX, dtype_of, get_default_dtype
from ..ops.table import TABLE
from ..random import Generator, default_generator
from ..tape import apply
from ..tensor import Tensor
from .base import cast_to, known_now, name_of, sizes
from .creation import checked_shape, finished, strided
from .moving import to
from .output import takes_out

BITS, UNIFORM, NORMAL = TABLE["random_bits"], TABLE["uniform"], TABLE["normal"]


def uniform_from(key: Tensor, shape: Any, dtype: str) -> Tensor:
    """[0, 1) as a pure function of a key."""
    return apply(UNIFORM, key, shape=tuple(shape), dtype=dtype)


def drawn(
    op: Any,
    shape: Any,
    generator: Generator | None,
    dtype: Any,
    where: Any,
    requires_grad: bool,
    per_block: int = 2,
) -> Tensor:
    """Numbers from the generator's stream, which advances by the blocks of four words they take."""
    wanted = get_default_dtype() if dtype is None else dtype_of(dtype)
    shape = checked_shape(shape)
    if wanted.category == COMPLEX:
        return finished(both_parts(op, shape, generator, wanted), where, requires_grad)
    if op is not BITS and not wanted.is_floating_point:
        raise RuntimeError(f'"{op.name}" not implemented for {wanted!r}; it wants a floating dtype')
    key = (generator or default_generator).take(-(-prod(shape) // per_block))
    attrs = {"shape": shape} if op is BITS else {"shape": shape, "dtype": wanted.name}
    return finished(apply(op, key, **attrs), where, requires_grad)


def both_parts(op: Any, shape: tuple[int, ...], generator: Generator | None, wanted: Any) -> Tensor:
    """Real and imaginary part drawn alike; of normal numbers each has half the variance."""
    from .. import functional

    part = "float64" if wanted.name == "complex128" else "float32"
    parts = drawn(op, (2, *shape), generator, part, None, False)
    if op is NORMAL:
        parts = parts * 0.5**0.5
    return functional.complex(parts[0], parts[1])


@takes_out
@strided
def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform numbers in [0, 1)."""
    return drawn(UNIFORM, sizes(size), generator, dtype, device, requires_grad)


@takes_out
@strided
def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers of the standard normal distribution."""
    return drawn(NORMAL, sizes(size), generator, dtype, device, requires_grad)


@takes_out
@strided
def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = "int64",
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Whole numbers in [low, high): randint(high, size) or randint(low, high, size)."""
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    low, high = (int(v.item()) if isinstance(v, Tensor) else v for v in (low, high))
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    words = random_words(checked_shape(size), high - low, generator)
    kind = dtype_of("int64" if dtype is None else dtype)
    return finished(cast_to(words % (high - low) + low, kind.numpy), device, requires_grad)


def random_words(size: tuple[int, ...], span: int, generator: Generator | None) -> Tensor:
    """Random bits as int64: 32 of them, or 63 where a range of `span` numbers needs them."""
    if span > 1 << 63:
        raise RuntimeError(f"randint: a range of at most 2**63 numbers is supported, got {span}")
    low = drawn(BITS, size, generator, None, None, False, per_block=4)
    if span <= 1 << 32:
        return low
    high = drawn(BITS, size, generator, None, None, False, per_block=4)
    return (high % (1 << 31)) * (1 << 32) + low


@takes_out
@strided
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: Any = "int64",
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers below n in random order."""
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    order = apply(
        TABLE["argsort"],
        drawn(BITS, (n,), generator, None, None, False, per_block=4),
        dim=0,
        descending=False,
    )
    return finished(to(order, dtype=dtype), device, requires_grad)


@strided
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform numbers in another tensor's shape, dtype and device."""
    return drawn_like(UNIFORM, input, generator, dtype, device, requires_grad)


@strided
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers in another tensor's shape, dtype and device."""
    return drawn_like(NORMAL, input, generator, dtype, device, requires_grad)


def drawn_like(
    op: Any, input: Tensor, generator: Generator | None, dtype: Any, where: Any, requires_grad: bool
) -> Tensor:
    place = input.device if where is None else device(where)
    elsewhere = None if place == CPU else place
    return drawn(op, input.array.shape, generator, dtype or input.dtype, elsewhere, requires_grad)


@strided
def randint_like(
    input: Tensor,
    low: Any,
    high: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Whole numbers in another tensor's shape and dtype."""
    low, high = (0, low) if high is None else (low, high)
    kind, place = dtype or input.dtype, device or input.device
    return randint(
        low,
        high,
        input.array.shape,
        generator=generator,
        dtype=kind,
        device=None if place == CPU else place,
        requires_grad=requires_grad,
    )


# ---- distributions -----------------------------------------------------------------------------------------


@takes_out
@strided
def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers: means and deviations are tensors, or numbers with a size."""
    check_deviation(std)
    if size is not None:
        return finished(
            randn(tuple(size), generator=generator, dtype=dtype) * std + mean, device, requires_grad
        )
    given = [v for v in (mean, std) if isinstance(v, Tensor)]
    if not given:
        raise TypeError("normal(): wants a size where mean and std are numbers")
    if any(v.is_complex() for v in given):
        raise RuntimeError("normal expects standard deviation and mean to be non-complex")
    from .shaping import broadcast_shapes

    shape = broadcast_shapes(*(v.array.shape for v in given))
    return randn(tuple(shape), generator=generator, dtype=given[0].dtype) * std + mean


def check_deviation(std: Any) -> None:
    """RuntimeError for a negative one that is known now."""
    found = known_now(std) if isinstance(std, Tensor) else std
    if found is not None and np.any(np.less(found, 0)):
        told = "" if isinstance(std, Tensor) else f", got {std}"
        raise RuntimeError(f"normal expects all elements of std >= 0.0{told}")


@takes_out
def bernoulli(input: Tensor, p: Any = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability each element gives (or p), else 0."""
    from .pointwise import cast, lt

    if p is None and not input.dtype.is_floating_point:
        raise RuntimeError(f"bernoulli: expected a floating dtype for probabilities, got {input.dtype!r}")
    chance = input if p is None else p
    check_probabilities("bernoulli", chance)
    wide = "float64" if name_of(input.array.dtype) == "float64" else "float32"
    found = rand(tuple(input.array.shape), generator=generator, dtype=wide)
    return cast(lt(found, chance), input.dtype)


def check_probabilities(name: str, p: Any) -> None:
    """RuntimeError for one outside [0, 1] that is known now."""
    found = known_now(p) if isinstance(p, Tensor) else p
    if found is None:
        return
    good = ((found >= 0) & (found <= 1)).all() if isinstance(p, Tensor) else 0 <= found <= 1
    if not good:
        raise RuntimeError(
            f"{name} expects p to be in [0, 1]{'' if isinstance(p, Tensor) else f', but got p={p}'}"
        )


@takes_out(exact=True)
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Positions drawn with the (unnormalised) probabilities of the last axis: [n] or [rows, n], int64.

    Without replacement by the order of -log(u) / p, which is a race of exponential clocks; with it by where a
    uniform number falls among the running sums.
    """
    from .cumulative import cumsum
    from .pointwise import clamp, log1p
    from .reduction import sum
    from .shaping import unsqueeze
    from .slicing import slice_axis
    from .sorting import argsort

    check_distribution(input, num_samples, replacement)
    lead, count = tuple(input.array.shape[:-1]), input.array.shape[-1]
    wide = input if input.array.dtype.itemsize > 2 else to(input, "float32")
    if not replacement:
        u = rand(*lead, count, generator=generator, dtype=wide.dtype)
        clocks = -log1p(-u) / wide
        return slice_axis(argsort(clocks, -1), input.ndim - 1, 0, num_samples)
    u = rand(*lead, num_samples, generator=generator, dtype=wide.dtype)
    edges = cumsum(wide / sum(wide, -1, True), -1)
    below = unsqueeze(edges, -2) <= unsqueeze(u, -1)
    last = sum(unsqueeze(edges, -2) < slice_axis(unsqueeze(edges, -2), input.ndim, count - 1, count), -1)
    return clamp(sum(below, -1), max=last)


def check_distribution(p: Tensor, count: int, replacement: bool) -> None:
    """RuntimeError for what is no table of weights, as far as its contents are known now."""
    if p.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got {p.ndim}")
    if not p.dtype.is_floating_point:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {p.dtype!r}")
    if count <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {count}")
    size = p.array.shape[-1]
    if not replacement and count > size:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if size > 1 << 24:
        raise RuntimeError(f"number of categories cannot exceed 2^24, got {size}")
    found = known_now(p)
    if found is None:
        return
    if not ((found >= 0) & (found < float("inf"))).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (found.sum(axis=-1) == 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
