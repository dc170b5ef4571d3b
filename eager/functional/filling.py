"""In place: tensors filled with random numbers."""

from __future__ import annotations

from math import log, pi
from typing import Any

from ..dtypes import COMPLEX, FLOATING, dtype_of
from ..tensor import Tensor
from .base import constant
from .inplace import copy_
from .pointwise import ceil, clamp, exp, log1p, tan
from .randoms import bernoulli, check_deviation, check_probabilities, rand, randint, randn
from .shaping import expand


def unit(x: Tensor, generator: Any) -> Tensor:
    """Uniform numbers in [0, 1) for a tensor: in its dtype, in float32 for half precision and integers."""
    wide = x.dtype if x.dtype.name == "float64" else "float32"
    return rand(tuple(x.array.shape), generator=generator, dtype=wide)


def floating(name: str, x: Tensor) -> None:
    if x.dtype.category < FLOATING:
        raise RuntimeError(f'"{name}" not implemented for {x.dtype!r}; it wants a floating dtype')


def uniform_(self: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with uniform numbers in [a, b)."""
    floating("uniform_", self)
    if a > b:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}")
    kind = self.dtype
    found = rand(tuple(self.array.shape), generator=generator, dtype=kind) * (b - a)
    return copy_(self, found + (a + a * 1j if kind.category == COMPLEX else a))


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with normal numbers."""
    floating("normal_", self)
    check_deviation(std)
    return copy_(self, randn(tuple(self.array.shape), generator=generator, dtype=self.dtype) * std + mean)


def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Fill with numbers whose logarithms are normal with this mean and deviation."""
    floating("log_normal_", self)
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return copy_(
        self, exp(randn(tuple(self.array.shape), generator=generator, dtype=self.dtype) * std + mean)
    )


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with exponentially distributed numbers of rate lambd."""
    floating("exponential_", self)
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return copy_(self, log1p(-unit(self, generator)) * (-1 / lambd))


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with numbers of the Cauchy distribution of this median and half width."""
    floating("cauchy_", self)
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return copy_(self, tan((unit(self, generator) - 0.5) * pi) * sigma + median)


def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the number of trials of probability p until the first success, 1 at least."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    trials = ceil(log1p(-unit(self, generator)) / log(1 - p))
    return copy_(self, clamp(trials, min=1.0))


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with 1 (with probability p) and 0."""
    check_probabilities("bernoulli_", p)
    chance = p if isinstance(p, Tensor) else constant(p, dtype_of("float32").numpy, self)
    return copy_(self, bernoulli(expand(chance, self.array.shape), generator=generator))


#: The largest whole number up to which a floating dtype has them all.
WHOLE = {"float16": 1 << 11, "bfloat16": 1 << 8, "float32": 1 << 24, "float64": 1 << 53}


def random_(self: Tensor, *bounds: Any, generator: Any = None, **named: Any) -> Tensor:
    """Fill with whole numbers: random_(from, to) in [from, to), random_(to) in [0, to), random_() any there are."""
    low, high = (*bounds, None, None)[:2] if len(bounds) == 2 else (named.get("from", 0), (*bounds, None)[0])
    high = named.get("to", high)
    if high is None:
        name = self.dtype.name
        if name in WHOLE:
            high = WHOLE[name] + 1
        elif name == "bool":
            high = 2
        else:
            high = 1 << (8 * self.dtype.itemsize - (1 if self.dtype.is_signed else 0))
            high = high - 1 if name == "int64" else high
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    found = randint(low, high, tuple(self.array.shape), generator=generator)
    return copy_(self, found)


FILLS = (uniform_, normal_, log_normal_, exponential_, cauchy_, geometric_, bernoulli_, random_)
