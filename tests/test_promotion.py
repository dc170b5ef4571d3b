"""The dtype, the values and the refusals of two-operand functions, over all pairs of dtypes, against PyTorch.

The right operand is a tensor, a zero-dimensional tensor or a Python number of each kind.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tapecast as tc

torch = pytest.importorskip("torch")

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
NUMBERS = (True, 2, -2, 300, 2.5, 1.5 + 0.5j)
TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "complex64": 1e-5}

FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    name: lambda lib, x, y, name=name: getattr(lib, name)(x, y)
    for name in """
        add sub mul div floor_divide remainder fmod pow eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor
        bitwise_left_shift bitwise_right_shift maximum fmax logical_and atan2 hypot copysign xlogy clamp_min
        float_power result_type
    """.split()
}
FUNCTIONS |= {
    f"operator {name}": lambda lib, x, y, name=name: getattr(operator, name)(x, y)
    for name in "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift lt matmul".split()
}
FUNCTIONS |= {
    "operator r" + name: lambda lib, x, y, name=name: getattr(operator, name)(y, x)
    for name in "add sub mul truediv floordiv mod pow and_ or_ xor lt".split()
}
FUNCTIONS |= {
    "where": lambda lib, x, y: lib.where(lib.tensor([True, False, True, False]), x, y),
    "div trunc": lambda lib, x, y: lib.div(x, y, rounding_mode="trunc"),
    "add alpha": lambda lib, x, y: lib.add(x, y, alpha=2),
    "in place add": lambda lib, x, y: x.add_(y),
    "in place mul": lambda lib, x, y: x.mul_(y),
    "in place div": lambda lib, x, y: x.div_(y),
}


def tensor(lib: Any, values: Any, dtype: str) -> Any:
    return lib.tensor(values, dtype=getattr(lib, dtype))


def operands(lib: Any) -> Iterator[Any]:
    for dtype in DTYPES:
        yield tensor(lib, [1, 2, 3, 1], dtype)
        yield tensor(lib, 3, dtype)
    yield from NUMBERS


def outcome(function: Callable[..., Any], lib: Any, x: Any, y: Any) -> Any:
    """The result, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(lib, x, y)
        except (RuntimeError, TypeError, ValueError) as error:
            return error


def array(x: Any) -> np.ndarray[Any, Any]:
    if isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16:
        return x.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


def difference(want: Any, got: Any) -> str | None:
    """What is wrong with `got`, in a phrase. What is complex32 there, little of it implemented, is complex64 here."""
    if "ComplexHalf" in str(want) or getattr(want, "dtype", want) is torch.complex32:
        refused = isinstance(want, Exception) and isinstance(got, Exception)
        fine = getattr(got, "dtype", got) in (tc.complex64, tc.bool)
        return None if refused or fine else f"wanted complex64, got {got!r:.150}"
    if isinstance(want, Exception) or isinstance(got, Exception):
        same = isinstance(want, Exception) and isinstance(got, Exception)
        return None if same else f"wanted {want!r:.150}, got {got!r:.150}"
    if not isinstance(want, torch.Tensor):
        return None if str(want).split(".")[-1] == str(got).split(".")[-1] else f"wanted {want}, got {got}"
    a, b = array(want), array(got)
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"wanted {a.dtype}{list(a.shape)}, got {b.dtype}{list(b.shape)}"
    exact = a.dtype.kind in "biu"
    rtol = TOLERANCE.get(str(a.dtype), 1e-12)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        close = a == b if exact else np.isclose(b.astype(wide), a.astype(wide), rtol, rtol, equal_nan=True)
    return None if close.all() else f"wanted {a.tolist()}, got {b.tolist()}"


@pytest.mark.parametrize("zero_dim", [False, True], ids=["tensor", "zero_dim"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_torch(name: str, dtype: str, zero_dim: bool) -> None:
    values = 3 if zero_dim else [3, 1, 0, 2]
    problems = []
    for theirs, ours in zip(operands(torch), operands(tc), strict=True):
        want = outcome(FUNCTIONS[name], torch, tensor(torch, values, dtype), theirs)
        got = outcome(FUNCTIONS[name], tc, tensor(tc, values, dtype), ours)
        if problem := difference(want, got):
            kind = str(theirs.dtype) if isinstance(theirs, torch.Tensor) else repr(theirs)
            problems.append(f"{kind}{list(getattr(theirs, 'shape', ['number']))}: {problem}")
    assert not problems, "\n".join(problems)
