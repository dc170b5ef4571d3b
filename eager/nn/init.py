"""Initial values of parameters: each function fills a tensor in place, without a tape, and returns it.

Sources: Glorot and Bengio 2010 (xavier), He et al. 2015 (kaiming).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from ..modes import no_grad
from ..ops.arrays import special
from ..ops.executor import namespace_of
from ..tensor import Tensor

GAINS = {"linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "sigmoid": 1.0}
GAINS |= {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights make up for `nonlinearity`; `param` is the slope of "leaky_relu"."""
    if nonlinearity == "leaky_relu":
        if isinstance(param, bool) or not isinstance(param, int | float | None):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in GAINS:
        raise ValueError(
            f"Unsupported nonlinearity {nonlinearity}; the known ones are {', '.join([*GAINS, 'leaky_relu'])}"
        )
    return GAINS[nonlinearity]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform between a and b."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with the given mean and standard deviation."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Normal, with values outside of a to b drawn again. The bounds are absolute, not multiples of `std`."""
    if not a < b:
        raise ValueError(f"trunc_normal_: wanted a < b, got a={a} and b={b}")
    if (mean < a - 2 * std) or (mean > b + 2 * std):
        warnings.warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_.", stacklevel=2)
    low, high = (0.5 * (1 + math.erf((bound - mean) / std / math.sqrt(2))) for bound in (a, b))
    with no_grad():
        quantiles = tensor.uniform_(low, high, generator=generator).array
        normal = special(namespace_of((quantiles,)), "ndtri", quantiles)
        return tensor.copy_(Tensor(normal)).mul_(std).add_(mean).clamp_(a, b)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every element `val`."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Every element 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Every element 0."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix: ones on the diagonal of a matrix, zeros elsewhere."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.zero_()
        for i in range(min(tensor.shape)):
            tensor[i, i] = 1
        return tensor


def fans(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output of the layer has, and how many outputs an input; shape (out, in, kernel...)."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = fans  # the name by which layers of programs ask for them


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform with variance 2 gain² / (fan_in + fan_out)."""
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with variance 2 gain² / (fan_in + fan_out)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Uniform with variance gain² / fan; `a` is the slope of a leaky relu, `mode` "fan_in" or "fan_out"."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Normal with variance gain² / fan; `a` is the slope of a leaky relu, `mode` "fan_in" or "fan_out"."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    return normal_(tensor, 0.0, kaiming_std(tensor, a, mode, nonlinearity), generator)


def kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return calculate_gain(nonlinearity, a) / math.sqrt(fans(tensor)[modes.index(mode.lower())])


def default_bias_(bias: Tensor, weight: Tensor) -> Tensor:
    """What Linear and Conv layers give their bias: uniform within 1/sqrt(fan_in) of `weight`."""
    fan_in = fans(weight)[0]
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    return uniform_(bias, -bound, bound)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Orthogonal rows or columns, times `gain`; all axes but the first count as one (Saxe et al. 2013)."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        flat = normal_(tensor.new_empty((max(rows, columns), min(rows, columns))), generator=generator)
        q, r = namespace_of((flat.array,)).linalg.qr(flat.array)
        q = q * namespace_of((q,)).sign(r.diagonal())  # the signs make the draw uniform
        q = q.T if rows < columns else q
        return tensor.copy_(Tensor(q.reshape(tuple(tensor.shape)))).mul_(gain)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight (out, in / groups, kernel...) that hands on as many channels as it can."""
    if not 3 <= tensor.ndim <= 5:
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    out = tensor.shape[0] // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(out, tensor.shape[1])):
                tensor[(group * out + channel, channel, *centre)] = 1
        return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal columns, of which each has a share `sparsity` of zeros, at random (Martens 2010)."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    zeros = math.ceil(sparsity * tensor.shape[0])
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        order = tensor.new_empty(tensor.shape).uniform_(0, 1, generator=generator).argsort(0)
        return tensor.mul_((order.argsort(0) >= zeros).to(tensor.dtype))


# ---- older names ------------------------------------------------------------------------------------------------


def renamed(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function under its name without the underscore, which warns."""
    new = function.__name__
    old = new[:-1]

    @wraps(function)
    def deprecated(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    deprecated.__name__ = old
    return deprecated


uniform = renamed(uniform_)
normal = renamed(normal_)
constant = renamed(constant_)
eye = renamed(eye_)
dirac = renamed(dirac_)
xavier_uniform = renamed(xavier_uniform_)
xavier_normal = renamed(xavier_normal_)
kaiming_uniform = renamed(kaiming_uniform_)
kaiming_normal = renamed(kaiming_normal_)
orthogonal = renamed(orthogonal_)
sparse = renamed(sparse_)
