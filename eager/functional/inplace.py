"""In-place forms: each computes the plain function, then writes the result over the tensor (`writes.write`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from ..dtypes import category
from ..modes import is_grad_enabled
from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Detached, Tensor, View
from ..writes import check_writable, write
from . import (
    activation,
    addproducts,
    cumulative,
    diagonals,
    gammas,
    indexing,
    masking,
    norms,
    pointwise,
    scattering,
    shaping,
    slicing,
    specials,
    strides,
)
from .base import cast_to, constant, cpp_name, number
from .shaping import expand


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """`f_(x, …)` of `f(x, …)`. What the tape keeps of x is its old self."""

    @wraps(function)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return write(self, fitting(self, function(self._alias(), *args, **kwargs)))

    method.__name__ = method.__qualname__ = function.__name__ + "_"
    method.__doc__ = f"In place: {function.__doc__}"
    return method


def polygamma_(self: Tensor, n: int) -> Tensor:
    """In place: the n-th derivative of digamma."""
    return write(self, fitting(self, gammas.polygamma(n, self._alias())))


def fitting(target: Tensor, value: Tensor) -> Tensor:
    """The value in the target's dtype, if its category allows, and of its shape."""
    mine, theirs = target.array.dtype, value.array.dtype
    if mine != theirs:
        if category(theirs) > category(mine):
            raise RuntimeError(
                f"result type {cpp_name(theirs)} can't be cast to the desired output type {cpp_name(mine)}"
            )
        value = cast_to(value, mine)
    if tuple(value.array.shape) != tuple(target.array.shape):
        raise RuntimeError(
            f"output with shape {list(map(int, target.array.shape))} doesn't match the broadcast shape "
            f"{list(map(int, value.array.shape))}"
        )
    return value


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write the elements of `src`, converted and broadcast."""
    if not isinstance(src, Tensor):
        src = constant(src, self.array.dtype, self)
    value = cast_to(src, self.array.dtype)
    if value.device != self.device:
        from .moving import moved

        value = moved(value, self.device)
    if tuple(value.array.shape) != tuple(self.array.shape):
        value = expand(value, self.array.shape)
    return write(self, replaced(self, value))


def replaced(target: Tensor, value: Tensor) -> Tensor:
    """The value, depending formally on the target where that is on the tape: its gradient is zero, not absent."""
    if target.node is None or not is_grad_enabled() or value.node is not None:
        return value
    check_writable(target)
    never = apply(TABLE["full"], shape=(), value=False, dtype="bool")
    return apply(TABLE["where"], never, target._alias(), value)


def fill_(self: Tensor, value: Any) -> Tensor:
    """Write one number everywhere."""
    plain = number(value)
    if plain is None:
        return copy_(self, value)
    new = apply(TABLE["full"], shape=tuple(self.array.shape), value=plain, dtype=self.dtype.name)
    return copy_(self, new)


def fill(input: Tensor, value: Any) -> Tensor:
    """One number, or a zero-dimensional tensor's, in the shape and dtype of the tensor."""
    return fill_(apply(TABLE["clone"], input), value)


def zero_(self: Tensor) -> Tensor:
    """Write zeros."""
    return fill_(self, 0)


def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """In place: values at (or added at) positions."""
    return write(self, indexing.index_put(self._alias(), indices, values, accumulate))


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write one number on the main diagonal: of a matrix, or of a tensor whose axes have one size.

    `wrap`: that of a tall matrix starts again below each square, after a row.
    """
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    rows, columns = self.array.shape[0], self.array.shape[1]
    if self.ndim > 2:
        if any(n != rows for n in self.array.shape):
            raise RuntimeError("all dimensions of input must be of equal length")
        fill_(strides.as_strided(self, (rows,), (sum(self.stride()),), self.storage_offset()), fill_value)
        return self
    for top in range(0, rows, columns + 1) if wrap else (0,):
        fill_(diagonals.diagonal(slicing.slice_axis(self, 0, top, rows)), fill_value)
    return self


# ---- other shapes of the same memory ------------------------------------------------------------------------------


def reshaped(self: Tensor, function: Callable[..., Tensor], *args: Any) -> Tensor:
    """The tensor becomes a view of its old self, of which the views taken so far are views too."""
    if is_grad_enabled():
        check_writable(self)
    old = self._alias()
    old.link = self.link
    like = function(old, *args)
    for view in old.shared_storage().live_aliases():
        if view.link is not None and view.link.base is self:
            view.link = Detached(old, view.link.silent) if view.link.detached else View(old, view.link.path)
    self.array, self.node, self.link = like.array, like.node, like.link
    self.shared_storage().add_alias(self)
    return self


def squeeze_(self: Tensor, dim: Any = None) -> Tensor:
    """In place: without axes of size 1."""
    return reshaped(self, shaping.squeeze, dim)


def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """In place: with a new axis of size 1."""
    return reshaped(self, shaping.unsqueeze, dim)


def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """In place: two axes swapped."""
    return reshaped(self, shaping.transpose, dim0, dim1)


def t_(self: Tensor) -> Tensor:
    """In place: a matrix transposed."""
    return reshaped(self, shaping.t)


def as_strided_(self: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """In place: another geometry over the same memory."""
    return reshaped(self, strides.as_strided, size, stride, storage_offset)


POINTWISE = """
    abs add addcdiv addcmul ceil clamp clamp_max clamp_min cos div eq erf exp expm1 floor floor_divide fmod ge gt
    le lerp log log1p lt masked_fill mul nan_to_num ne neg pow reciprocal remainder round rsqrt sigmoid sign
    sin sqrt square sub tan tanh trunc bitwise_and bitwise_or bitwise_xor bitwise_not logical_and logical_or
    logical_xor logical_not
    absolute acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh
    bitwise_left_shift bitwise_right_shift conj_physical copysign cosh deg2rad erfc exp2 fix float_power frac gcd
    greater greater_equal heaviside hypot lcm ldexp less less_equal log10 log2 logit negative nextafter not_equal
    rad2deg sgn sinc sinh xlogy
""".split()
FROM: dict[str, Callable[..., Any]] = {
    "addbmm": addproducts.addbmm,
    "addmm": addproducts.addmm,
    "addmv": addproducts.addmv,
    "addr": addproducts.addr,
    "baddbmm": addproducts.baddbmm,
    "celu": activation.celu,
    "elu": activation.elu,
    "hardtanh": activation.hardtanh,
    "selu": activation.selu,
    "threshold": activation.threshold,
    "lgamma": gammas.lgamma,
    "digamma": gammas.digamma,
    "erfinv": gammas.erfinv,
    "igamma": gammas.igamma,
    "igammac": specials.igammac,
    "i0": specials.i0,
    "mvlgamma": gammas.mvlgamma,
    "multiply": pointwise.mul,
    "subtract": pointwise.sub,
    "divide": pointwise.div,
    "true_divide": pointwise.div,
    "relu": activation.relu,
    "rrelu": activation.rrelu,
    "leaky_relu": activation.leaky_relu,
    "cumsum": cumulative.cumsum,
    "cumprod": cumulative.cumprod,
    "renorm": norms.renorm,
    "tril": diagonals.tril,
    "triu": diagonals.triu,
    "scatter": scattering.scatter,
    "scatter_add": scattering.scatter_add,
    "scatter_reduce": scattering.scatter_reduce,
    "index_add": scattering.index_add,
    "index_copy": scattering.index_copy,
    "index_fill": scattering.index_fill,
    "index_reduce": scattering.index_reduce,
    "put": scattering.put,
    "masked_scatter": masking.masked_scatter,
}

#: Every in-place method made from a plain function, by its name with the underscore.
METHODS = {f"{name}_": in_place(getattr(pointwise, name)) for name in POINTWISE}
METHODS |= {f"{name}_": in_place(function) for name, function in FROM.items()}
METHODS["clip_"] = METHODS["clamp_"]
METHODS["polygamma_"] = polygamma_
globals().update(METHODS)  # they are functions too: `abs_(x)`
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
