"""`assert_close`: tensors, numbers and containers of them compared, with messages that say where they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import functional as F
from .dtypes import dtype_of
from .tensor import Tensor

__all__ = ["assert_close", "make_tensor"]

TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
"""By dtype, the relative and the absolute tolerance; of others nothing is tolerated."""

NUMBERS = (bool, int, float, complex, np.number, np.bool_)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere, and shapes and dtypes agree.

    Takes tensors, arrays, numbers, None, and sequences and mappings of them. `rtol` and `atol` go together; by default
    they follow from the dtype. `msg`: the message, or a function of the one that would be given.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}."
        )
    tolerances = None if rtol is None or atol is None else (rtol, atol)
    compare = Comparison(tolerances, equal_nan, check_device, check_dtype, check_stride, allow_subclasses)
    try:
        compare(actual, expected, "")
    except StructureMismatch as found:
        raise AssertionError(str(found)) from None
    except Mismatch as found:
        text = str(found)
        raise AssertionError(msg(text) if callable(msg) else text if msg is None else msg) from None


class Mismatch(Exception):
    """What differs, in words."""


class StructureMismatch(Mismatch):
    """Containers that differ in what they contain, for which no other message is asked."""


class Comparison:
    """The settings of one call."""

    def __init__(
        self,
        tolerances: tuple[float, float] | None,
        equal_nan: bool,
        device: bool,
        dtype: bool,
        stride: bool,
        subclasses: bool,
    ) -> None:
        self.tolerances, self.equal_nan, self.device, self.dtype = tolerances, equal_nan, device, dtype
        self.stride, self.subclasses = stride, subclasses

    def __call__(self, actual: Any, expected: Any, at: str) -> None:
        """Compare two values; `at` is the path to them in their containers."""
        for handles, compare in (
            (either_none, self.identity),
            (both_booleans, self.identity),
            (both_numbers, self.numbers),
            (both_tensors, self.tensors),
            (both_mappings, self.mappings),
            (both_sequences, self.sequences),
        ):
            if handles(actual, expected):
                compare(actual, expected, at)
                return
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
        )

    def identity(self, actual: Any, expected: Any, at: str) -> None:
        """None, True and False."""
        what = "Booleans" if isinstance(actual, bool | np.bool_) else "None"
        if actual is not expected and (what == "None" or bool(actual) is not bool(expected)):
            raise self.mismatch(f"{what} mismatch: {actual} is not {expected}", at)

    def sequences(self, actual: Any, expected: Any, at: str) -> None:
        if len(actual) != len(expected):
            text = f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
            raise StructureMismatch(self.mismatch(text, at))
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            self(a, b, f"{at}[{i}]")

    def mismatch(self, text: str, at: str) -> Mismatch:
        return Mismatch(f"{text}\n\nThe failure occurred for item {at}" if at else text)

    def mappings(self, actual: Mapping[Any, Any], expected: Mapping[Any, Any], at: str) -> None:
        if set(actual) != set(expected):
            missing = [k for k in expected if k not in actual]
            more = [k for k in actual if k not in expected]
            text = (
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing, key=str)}\n"
                f"Additional keys in the actual mapping: {sorted(more, key=str)}"
            )
            raise StructureMismatch(self.mismatch(text, at))
        for key in expected:
            self(actual[key], expected[key], f"{at}[{key!r}]")

    def numbers(self, actual: Any, expected: Any, at: str) -> None:
        if self.dtype and type(actual) is not type(expected):
            raise self.mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.", at)
        whole = isinstance(actual, int) and isinstance(expected, int)
        rtol, atol = self.tolerances or ((0, 0) if whole else TOLERANCES["float64"])
        self.scalars(actual, expected, rtol, atol, at)

    def scalars(self, actual: Any, expected: Any, rtol: float, atol: float, at: str) -> None:
        if np.isclose(actual, expected, rtol, atol, self.equal_nan) or actual == expected:
            return
        away = abs(actual - expected)
        relative = away / abs(expected) if expected != 0 else float("inf")
        exact = rtol == atol == 0
        limits = ("", "") if exact else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
        raise self.mismatch(
            f"Scalars are not {'equal' if exact else 'close'}!\n\nExpected {expected} but got {actual}.\n"
            f"Absolute difference: {away}{limits[0]}\nRelative difference: {relative}{limits[1]}",
            at,
        )

    def tensors(self, actual: Any, expected: Any, at: str) -> None:
        actual, expected = as_tensor(actual), as_tensor(expected)
        if not self.subclasses and type(actual) is not type(expected):
            raise TypeError(f"No comparison pair was able to handle {type(actual)} and {type(expected)}.")
        attributes = ["shape", *(["device"] if self.device else []), *(["dtype"] if self.dtype else [])]
        for name in attributes:
            a, b = getattr(actual, name), getattr(expected, name)
            if a != b:
                raise self.mismatch(f"The values for attribute {name!r} do not match: {a} != {b}.", at)
        if self.stride and actual.stride() != expected.stride():
            a, b = actual.stride(), expected.stride()
            raise self.mismatch(f"The values for attribute 'stride()' do not match: {a} != {b}.", at)
        rtol, atol = self.tolerances or loosest(actual, expected)
        a, b = actual._read_cpu("assert_close"), expected._read_cpu("assert_close")
        wide = comparable(a.dtype, b.dtype)
        self.arrays(a.astype(wide), b.astype(wide), rtol, atol, at)

    def arrays(self, a: Any, b: Any, rtol: float, atol: float, at: str) -> None:
        with np.errstate(all="ignore"):
            close = np.isclose(a, b, rtol, atol, self.equal_nan) | (a == b)
            if close.all():
                return
            if a.size == 1 and not a.ndim:
                self.scalars(a.item(), b.item(), rtol, atol, at)
            away = np.abs(a - b)
            whole = b.dtype.kind in "iu"  # whose quotients are float32 in PyTorch
            relative = (away.astype(np.float32) if whole else away) / np.abs(b).astype(
                np.float32 if whole else away.dtype
            )
        away[close] = relative[close] = 0
        exact, count = rtol == atol == 0, int((~close).sum())
        lines = [
            f"Greatest {name} difference: {values.max().item()} at index {where_largest(values)}"
            + ("" if exact else f" (up to {limit} allowed)")
            for name, values, limit in (("absolute", away, atol), ("relative", relative, rtol))
        ]
        raise self.mismatch(
            f"Tensor-likes are not {'equal' if exact else 'close'}!\n\n"
            f"Mismatched elements: {count} / {a.size} ({count / a.size:.1%})\n" + "\n".join(lines),
            at,
        )


def where_largest(values: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(values.argmax()), values.shape))


def comparable(a: Any, b: Any) -> Any:
    """A dtype in which differences can be taken."""
    if not {a.kind, b.kind} <= set("biufc"):  # bfloat16
        return np.dtype(np.float64)
    common = np.promote_types(a, b)
    return np.dtype(np.int64) if common.kind in "biu" else common


def either_none(a: Any, b: Any) -> bool:
    return a is None or b is None


def both_booleans(a: Any, b: Any) -> bool:
    return isinstance(a, bool | np.bool_) and isinstance(b, bool | np.bool_)


def both_numbers(a: Any, b: Any) -> bool:
    return isinstance(a, NUMBERS) and isinstance(b, NUMBERS)


def both_tensors(a: Any, b: Any) -> bool:
    return any(isinstance(a, kind) and isinstance(b, kind) for kind in (Tensor, np.ndarray))


def both_mappings(a: Any, b: Any) -> bool:
    return isinstance(a, Mapping) and isinstance(b, Mapping)


def both_sequences(a: Any, b: Any) -> bool:
    return all(isinstance(v, Sequence) and not isinstance(v, str) for v in (a, b))


def as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else F.from_numpy(value)


def loosest(*tensors: Tensor) -> tuple[float, float]:
    """The larger tolerances of the dtypes."""
    pairs = [TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in tensors]
    return max(r for r, _ in pairs), max(a for _, a in pairs)


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Random numbers in [low, high): [-9, 9) for floats, [-9, 10) for signed and [0, 10) for unsigned whole numbers."""
    of = dtype_of(dtype)
    size = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    signed, floating = of.is_signed, of.is_floating_point or of.is_complex
    bottom = (-9 if signed else 0) if low is None else low
    top = (9 if floating else 2 if of.name == "bool" else 10) if high is None else high
    size = tuple(size)
    if noncontiguous and size:
        size = (*size[:-1], 2 * size[-1])
    if floating:
        wide = "float64" if (of.itemsize > 4 and not of.is_complex) or of.name == "complex128" else "float32"
        out = F.rand(size, dtype=wide) * (top - bottom) + bottom
        if of.is_complex:
            out = F.cast(out, of) + 1j * (F.rand(size, dtype=wide) * (top - bottom) + bottom)
    else:
        out = F.randint(int(np.ceil(bottom)), int(np.ceil(top)), size)
    if exclude_zero:
        out = F.where(out == 0, 1, out)
    out = F.cast(out, of).to(device=device)
    out = out[..., ::2] if noncontiguous and size else out
    return out.detach().requires_grad_(requires_grad)
