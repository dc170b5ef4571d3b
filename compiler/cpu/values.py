"""Values of LLVM text: dtypes as LLVM types, names and literals.

A value's dtype is one of the product's names ("float32"); this table is how each looks in LLVM:

| dtype                        | in a register | in memory | why                                             |
|------------------------------|---------------|-----------|-------------------------------------------------|
| bool                         | i1            | i8        | a mask in registers, a byte of 0 or 1 in arrays |
| int8 … int64, uint8 … uint64 | i8 … i64      | same      | signs belong to operations, not to types        |
| float32, float64             | float, double | same      |                                                 |
| float16, bfloat16            | i16           | i16       | LLVM would call a library to convert them       |
| ptr                          | ptr           | ptr       |                                                 |
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np

REGISTER = {
    "bool": "i1",
    "int8": "i8",
    "uint8": "i8",
    "int16": "i16",
    "uint16": "i16",
    "int32": "i32",
    "uint32": "i32",
    "int64": "i64",
    "uint64": "i64",
    "float16": "i16",
    "bfloat16": "i16",
    "float32": "float",
    "float64": "double",
    "ptr": "ptr",
}
MEMORY = REGISTER | {"bool": "i8"}
#: Bytes an element takes in memory.
SIZE = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8, "ptr": 8}
_MANGLED = {"float": "f32", "double": "f64", "ptr": "p0"}

FLOATS = ("float32", "float64")
HALVES = ("float16", "bfloat16")


def vector(element: str, lanes: int) -> str:
    """The LLVM type of `lanes` elements: the element itself for one."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def item_size(dtype: str) -> int:
    """Bytes of one element in memory."""
    return SIZE[MEMORY[dtype]]


class Value(NamedTuple):
    """An SSA name ("%v3") or a literal ("7", "splat (i64 7)"), its dtype and its number of lanes."""

    name: str
    dtype: str
    lanes: int = 1

    @property
    def type(self) -> str:
        """The LLVM type in a register: `float`, `<8 x float>`."""
        return vector(REGISTER[self.dtype], self.lanes)

    @property
    def typed(self) -> str:
        """Type and name, as an operand is written: `float %v3`."""
        return f"{self.type} {self.name}"

    @property
    def is_literal(self) -> bool:
        return not self.name.startswith(("%", "@"))


def _float_text(value: float, dtype: str) -> str:
    if dtype == "float32":
        with np.errstate(over="ignore"):  # rounding 1e60 to inf is what is asked for
            value = float(np.float32(value))
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _half_text(value: float, dtype: str) -> str:
    rounded = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    with np.errstate(over="ignore"):
        return str(int(np.array(value, rounded).view(np.uint16)))


def literal(value: float | int | bool, dtype: str, lanes: int = 1) -> Value:
    """A constant of the dtype: floats are rounded to it, integers wrap around, with `lanes` equal lanes."""
    if dtype == "bool":
        text = "true" if value else "false"
    elif dtype in FLOATS:
        text = _float_text(float(value), dtype)
    elif dtype in HALVES:
        text = _half_text(float(value), dtype)
    else:
        text = _integer_text(int(value), dtype)
    return Value(text if lanes == 1 else f"splat ({REGISTER[dtype]} {text})", dtype, lanes)


def _integer_text(value: int, dtype: str) -> str:
    bits = 8 * item_size(dtype)
    wrapped = value & ((1 << bits) - 1)
    if not dtype.startswith("uint") and wrapped >> (bits - 1):
        wrapped -= 1 << bits
    return str(wrapped)


def literal_value(x: Value) -> float | int | bool | None:
    """The number a literal (or splat of one) stands for; None for anything that is computed."""
    text = x.name.removeprefix("splat (").removesuffix(")").split()[-1]
    if not x.is_literal or x.name.startswith("<") or x.dtype == "ptr":
        return None
    if x.dtype == "bool":
        return text == "true"
    if x.dtype in FLOATS:
        number: float = struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]
        return number
    if x.dtype in HALVES:
        kind = np.float16 if x.dtype == "float16" else ml_dtypes.bfloat16
        return float(np.array(int(text), np.uint16).view(kind))
    return int(text)


def vector_literal(values: Sequence[int], dtype: str) -> Value:
    """A constant vector of integers or bools with a lane for each value, e.g. the ramp 0, 1, 2, …"""
    lanes = ", ".join(literal(v, dtype).typed for v in values)
    return Value(f"<{lanes}>", dtype, len(values)) if len(values) > 1 else literal(values[0], dtype)


def mangled(element: str, lanes: int) -> str:
    """A type as LLVM writes it in an intrinsic's name: `v8f32`, `i64`."""
    short = _MANGLED.get(element, element)
    return short if lanes == 1 else f"v{lanes}{short}"
