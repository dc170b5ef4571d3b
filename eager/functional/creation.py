"""Tensors made from data, from sizes and from random numbers."""

from __future__ import annotations

from math import ceil, prod
from typing import Any

import numpy as np

from ..device import CPU, device, move
from ..dtypes import dtype_of, get_default_dtype
from ..ops.table import TABLE
from ..random import Generator, default_generator
from ..tape import apply
from ..tensor import Tensor
from .base import cast_to, name_of, sizes

FULL, ARANGE = TABLE["full"], TABLE["arange"]
BITS, UNIFORM, NORMAL = TABLE["random_bits"], TABLE["uniform"], TABLE["normal"]

# ---- from data ---------------------------------------------------------------------------------------------


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new leaf holding a copy of numbers, nested sequences, an array or a tensor."""
    array = to_array(data, None if dtype is None else dtype_of(dtype).numpy)
    return placed(array.copy() if array is getattr(data, "array", data) else array, device, requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of the data, sharing memory with an array or tensor where dtype and device allow."""
    if isinstance(data, Tensor):
        return to(data, device, dtype)
    wanted = None if dtype is None else dtype_of(dtype).numpy
    array = np.asarray(data, wanted) if isinstance(data, np.ndarray) else to_array(data, wanted)
    return placed(array, device, False)


def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """A tensor that shares the array's memory; TypeError for a dtype tensors do not have."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dtype_of(ndarray.dtype)
    return Tensor(ndarray)


asarray = as_tensor


def to_array(data: Any, dtype: np.dtype[Any] | None) -> Any:
    """Numbers or nested sequences as an array: Python floats as the default float, ints as int64."""
    if isinstance(data, Tensor):
        array = data._read("tensor()")
        return array if dtype is None else array.astype(dtype)
    if hasattr(data, "dtype") and hasattr(data, "shape"):
        dtype_of(data.dtype)
        return np.array(data, dtype) if not hasattr(data, "get") else data.astype(dtype or data.dtype)
    array = nested_array(data, dtype)
    if dtype is None and array.dtype == "float64" and not _holds_numpy(data):
        array = array.astype(get_default_dtype().numpy)
    if dtype is None and array.dtype == "complex128":
        array = array.astype("complex64" if get_default_dtype().name != "float64" else "complex128")
    return array


def _holds_numpy(data: Any) -> bool:
    """Whether the first element of nested sequences is a numpy value, which has a dtype of its own."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (np.ndarray, np.generic))


def nested_array(data: Any, dtype: np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    try:
        array = np.array(plain(data), dtype)
    except ValueError as error:
        if "inhomogeneous" in str(error):
            raise ValueError(
                f"expected sequences of equal length at each level of nesting ({error})"
            ) from None
        raise
    if array.dtype == object or (
        array.dtype.kind in "USV" and dtype is None and array.dtype.name != "bfloat16"
    ):
        raise TypeError(
            f"new(): invalid data type '{type(first_odd(data)).__name__}'; tensors hold numbers and bools"
        )
    if dtype is None and array.size == 0 and not hasattr(data, "dtype"):
        array = array.astype(get_default_dtype().numpy)
    return array


def plain(data: Any) -> Any:
    """Nested sequences with the tensors in them as arrays."""
    if isinstance(data, Tensor):
        return data._read("tensor()")
    if isinstance(data, (list, tuple)) and any(isinstance(x, (Tensor, list, tuple)) for x in data):
        return [plain(x) for x in data]
    return data


def first_odd(data: Any) -> Any:
    """The first element of nested sequences that is not a number, for a message."""
    if isinstance(data, (list, tuple)):
        for x in data:
            odd = first_odd(x)
            if odd is not None and not isinstance(odd, (bool, int, float, complex)):
                return odd
    return data


def placed(array: Any, where: Any, requires_grad: bool) -> Tensor:
    if not hasattr(array, "shape"):
        array = np.asarray(array)
    return Tensor(array if where is None else move(array, device(where)), requires_grad)


def scalar_tensor(
    value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A zero-dimensional tensor of a number, of the default float."""
    return tensor(value, dtype=dtype or get_default_dtype(), device=device, requires_grad=requires_grad)


# ---- to another dtype or device ----------------------------------------------------------------------------


def to(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """to(dtype), to(device), to(device, dtype), to(other): converted or moved; itself if it is already so."""
    where, wanted, copy = target(args, kwargs)
    out = input if wanted is None else cast_to(input, dtype_of(wanted).numpy)
    if where is not None:
        out = moved(out, device(where))
    return apply(TABLE["clone"], out) if copy and out is input else out


def target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool]:
    """Device, dtype and copy from the many spellings of `to`."""
    where, wanted = kwargs.get("device"), kwargs.get("dtype")
    for arg in args:
        if isinstance(arg, Tensor):
            where, wanted = arg.device, arg.dtype
        elif isinstance(arg, (str, device)) and not _names_dtype(arg):
            where = arg
        elif arg is not None and not isinstance(arg, bool):
            wanted = arg
    return where, wanted, bool(kwargs.get("copy", False))


def _names_dtype(arg: Any) -> bool:
    return isinstance(arg, str) and arg.partition(":")[0] not in ("cpu", "cuda")


def moved(x: Tensor, where: device) -> Tensor:
    """The tensor on another device, its gradient coming back to this one."""
    array = move(x.array, where)
    if array is x.array:
        return x
    from ..tape import moved_to

    return moved_to(x, array)


def cpu(input: Tensor) -> Tensor:
    """The tensor in host memory."""
    return moved(input, CPU)


def cuda(input: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """The tensor on a GPU; RuntimeError without cupy or a GPU."""
    where = "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device
    return to(input, where)


# ---- from sizes --------------------------------------------------------------------------------------------


def filled(shape: Any, value: Any, dtype: Any, where: Any, requires_grad: bool) -> Tensor:
    name = (get_default_dtype() if dtype is None else dtype_of(dtype)).name
    out = apply(FULL, shape=tuple(shape), value=value, dtype=name)
    return finished(out, where, requires_grad)


def finished(out: Tensor, where: Any, requires_grad: bool) -> Tensor:
    """Moved to its device and made a leaf, if asked for."""
    if where is not None:
        out.array = move(out.array, device(where))
    return out.requires_grad_() if requires_grad else out


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of a shape."""
    return filled(sizes(size), 0, dtype, device, requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of a shape."""
    return filled(sizes(size), 1, dtype, device, requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **_: Any) -> Tensor:
    """A tensor whose contents are not to be relied on (they are zeros)."""
    return filled(sizes(size), 0, dtype, device, requires_grad)


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One value throughout; its kind gives the dtype where none is named."""
    shape = sizes((size,)) if not isinstance(size, int) else (size,)
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    if dtype is None:
        dtype = kind_of(fill_value)
    return filled(shape, fill_value, dtype, device, requires_grad)


def kind_of(value: Any) -> Any:
    from ..dtypes import scalar_dtype

    return scalar_dtype(value)


def like(input: Tensor, value: Any, dtype: Any, where: Any, requires_grad: bool) -> Tensor:
    wanted = input.array.dtype if dtype is None else dtype
    place = input.device if where is None else device(where)
    return filled(input.array.shape, value, wanted, None if place == CPU else place, requires_grad)


def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **_: Any
) -> Tensor:
    """Zeros of another tensor's shape, dtype and device."""
    return like(input, 0, dtype, device, requires_grad)


def ones_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **_: Any
) -> Tensor:
    """Ones of another tensor's shape, dtype and device."""
    return like(input, 1, dtype, device, requires_grad)


empty_like = zeros_like


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **_: Any,
) -> Tensor:
    """One value, in another tensor's shape, dtype and device."""
    return like(input, fill_value, dtype, device, requires_grad)


def new_zeros(
    input: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros of a shape, in this tensor's dtype and device."""
    return new_full(input, sizes(size), 0, dtype=dtype, device=device, requires_grad=requires_grad)


def new_ones(
    input: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones of a shape, in this tensor's dtype and device."""
    return new_full(input, sizes(size), 1, dtype=dtype, device=device, requires_grad=requires_grad)


new_empty = new_zeros


def new_full(
    input: Tensor,
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """One value in a shape, in this tensor's dtype and device."""
    place = input.device if device is None else device
    wanted = input.array.dtype if dtype is None else dtype
    return filled(tuple(size), fill_value, wanted, None if place == CPU else place, requires_grad)


def new_tensor(
    input: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A copy of data, in this tensor's dtype and device."""
    return tensor(
        data, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad
    )


def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, … below end. Integers give int64, floats the default float."""
    start, end = (0, start) if end is None else (start, end)
    start, end, step = (v.item() if isinstance(v, (Tensor, np.generic)) else v for v in (start, end, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * (1 if step > 0 else -1) < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = all(isinstance(v, int) for v in (start, end, step))
    name = ("int64" if whole else get_default_dtype().name) if dtype is None else dtype_of(dtype).name
    size = (end - start if step == 1 else -((start - end) // step)) if whole else ceil((end - start) / step)
    if not whole:
        start, step = float(start), float(step)
    return finished(apply(ARANGE, size=size, start=start, step=step, dtype=name), device, requires_grad)


def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`steps` evenly spaced numbers from start to end, both included."""
    name = (get_default_dtype() if dtype is None else dtype_of(dtype)).name
    a, b = (float(v.item() if isinstance(v, Tensor) else v) for v in (start, end))
    step = (b - a) / (steps - 1) if steps > 1 else 0.0
    # Counted from the nearer end, so that both ends are exact.
    first = apply(ARANGE, size=(steps + 1) // 2, start=a, step=step, dtype=name)
    rest = steps - (steps + 1) // 2
    second = apply(ARANGE, size=rest, start=b - step * (rest - 1), step=step, dtype=name)
    out = apply(TABLE["cat"], first, second, dim=0) if rest else first
    return finished(out, device, requires_grad)


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, **options: Any) -> Tensor:
    """base to the power of evenly spaced exponents."""
    from .pointwise import pow

    return pow(base, linspace(start, end, steps, **options))


def eye(
    n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones on the diagonal of an n by m matrix (m = n if not given), else zeros."""
    from .pointwise import cast, eq
    from .shaping import unsqueeze

    same = eq(unsqueeze(arange(n), 1), arange(n if m is None else m))
    return finished(cast(same, get_default_dtype() if dtype is None else dtype), device, requires_grad)


# ---- random ------------------------------------------------------------------------------------------------


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
    name = (get_default_dtype() if dtype is None else dtype_of(dtype)).name
    key = (generator or default_generator).take(-(-prod(shape) // per_block))
    attrs = {"shape": tuple(shape)} if op is BITS else {"shape": tuple(shape), "dtype": name}
    return finished(apply(op, key, **attrs), where, requires_grad)


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform numbers in [0, 1)."""
    return drawn(UNIFORM, sizes(size), generator, dtype, device, requires_grad)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers of the standard normal distribution."""
    return drawn(NORMAL, sizes(size), generator, dtype, device, requires_grad)


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
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    words = random_words(tuple(size), high - low, generator)
    return finished(to(words % (high - low) + low, dtype=dtype), device, requires_grad)


def random_words(size: tuple[int, ...], span: int, generator: Generator | None) -> Tensor:
    """Random bits as int64: 32 of them, or 63 where a range of `span` numbers needs them."""
    if span > 1 << 63:
        raise RuntimeError(f"randint: a range of at most 2**63 numbers is supported, got {span}")
    low = drawn(BITS, size, generator, None, None, False, per_block=4)
    if span <= 1 << 32:
        return low
    high = drawn(BITS, size, generator, None, None, False, per_block=4)
    return (high % (1 << 31)) * (1 << 32) + low


def randperm(
    n: int, *, generator: Generator | None = None, dtype: Any = "int64", device: Any = None
) -> Tensor:
    """The numbers below n in random order."""
    order = apply(
        TABLE["argsort"],
        drawn(BITS, (n,), generator, None, None, False, per_block=4),
        dim=0,
        descending=False,
    )
    return finished(to(order, dtype=dtype), device, False)


def rand_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uniform numbers in another tensor's shape, dtype and device."""
    return drawn_like(UNIFORM, input, dtype, device, requires_grad)


def randn_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Normal numbers in another tensor's shape, dtype and device."""
    return drawn_like(NORMAL, input, dtype, device, requires_grad)


def drawn_like(op: Any, input: Tensor, dtype: Any, where: Any, requires_grad: bool) -> Tensor:
    place = input.device if where is None else device(where)
    return drawn(
        op, input.array.shape, None, dtype or input.dtype, None if place == CPU else place, requires_grad
    )


def randint_like(input: Tensor, low: int, high: int | None = None, *, dtype: Any = None) -> Tensor:
    """Whole numbers in another tensor's shape and dtype."""
    low, high = (0, low) if high is None else (low, high)
    return randint(low, high, input.array.shape, dtype=dtype or input.dtype)


def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Normal numbers: means and deviations are tensors, or numbers with a size."""
    if size is None:
        size = (mean + std * 0 if isinstance(mean, Tensor) else std).array.shape
    return randn(tuple(size), generator=generator) * std + mean


def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability each element gives (or p), else 0."""
    from .pointwise import cast, lt

    chance = input if p is None else p
    wide = "float64" if name_of(input.array.dtype) == "float64" else "float32"
    drawn_ = rand(tuple(input.array.shape), generator=generator, dtype=wide)
    return cast(lt(drawn_, chance), input.dtype)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Positions drawn with the (unnormalised) probabilities of the last axis.

    Without replacement by the order of -log(u) / p, which is a race of exponential clocks; with it by where a
    uniform number falls among the running sums.
    """
    from .cumulative import cumsum
    from .pointwise import log
    from .reduction import argsort, sum
    from .shaping import unsqueeze
    from .slicing import slice_axis

    lead, count = tuple(input.array.shape[:-1]), input.array.shape[-1]
    if not replacement:
        if num_samples > count:
            raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
        u = rand(*lead, count, generator=generator, dtype=input.dtype)
        clocks = -log(1 - u) / input
        return slice_axis(argsort(clocks, -1), input.ndim - 1, 0, num_samples)
    u = rand(*lead, num_samples, generator=generator, dtype=input.dtype)
    edges = cumsum(input / sum(input, -1, True), -1)
    below = unsqueeze(edges, -2) <= unsqueeze(u, -1)
    from .pointwise import clamp

    return clamp(sum(below, -1), max=count - 1)
