"""The scalar language as CUDA C++ text. Functions are CUDA's own; what they leave open is in `preamble.h`.

float16 and bfloat16 values are texts of type float here; the emitter converts where they meet memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ...eager.ops.scalars import SCALARS
from ...eager.ops.types import DTYPES

#: How a value of each dtype lies in memory.
TYPES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "float32": "float",
    "float64": "double",
    "float16": "tc_half",
    "bfloat16": "tc_bfloat",
}
HALVES = ("float16", "bfloat16")
FLOATS = ("float32", "float64")

PREAMBLE = Path(__file__).with_name("preamble.h").read_text(encoding="utf-8")

_COMPARISONS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "logical_and": "&&", "logical_or": "||"
}  # fmt: skip
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_BITS = {"bit_and": "&", "bit_or": "|", "bit_xor": "^"}
#: Functions CUDA has under the same name for double, with an f behind it for float.
_SAME = {
    *("floor", "ceil", "trunc", "sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf"),
    "pow",
}
#: The same under another name.
_NAMED = {"round": "rint", "abs": "fabs"}
#: Functions of the preamble, overloaded for every type.
_OURS = {
    *(
        "add",
        "sub",
        "mul",
        "neg",
        "abs",
        "floordiv",
        "mod",
        "maximum",
        "minimum",
        "sigmoid",
        "pow",
        "shl",
        "shr",
    ),
}


def constant(value: float | int | bool, dtype: str) -> str:
    """A literal. What has no decimal form (infinities, nan) is written by its bits."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in ("float32", *HALVES):
        with np.errstate(over="ignore"):
            rounded = np.float32(DTYPES[dtype].type(value))
        return _float(float(rounded), "f", f"__int_as_float({int(rounded.view(np.int32))})")
    if dtype == "float64":
        return _float(float(value), "", f"__longlong_as_double({int(np.float64(value).view(np.int64))}LL)")
    return _integer(int(value), dtype)


def _float(value: float, suffix: str, bits: str) -> str:
    if not math.isfinite(value):
        return bits
    text = f"{value!r}{suffix}"
    return f"({text})" if text.startswith("-") else text


def _integer(value: int, dtype: str) -> str:
    suffix = "LL" if dtype == "int64" else ""
    if value == np.iinfo(DTYPES[dtype]).min and value < 0:
        text = f"(-{-(value + 1)}{suffix} - 1)"  # C++ has no negative literals, and -min is out of range
    else:
        text = f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"
    return text if dtype in ("int32", "int64") else f"({TYPES[dtype]}){text}"


def scalar_text(op: str, args: Sequence[str], dtype: str) -> str:
    """A scalar function applied to operand texts; `dtype` is the operands'.

    ValueError for a name outside the scalar language, and for a function that the dtype does not have.
    """
    if op not in SCALARS:
        raise ValueError(f"the scalar language has no function {op!r}")
    real = "float32" if dtype in HALVES else dtype
    form = _float_form(op, real) if real in FLOATS else _integer_form(op, real)
    if form is None:
        raise ValueError(f"{op} is not defined for {dtype}: cast its operands first")
    return form(*args)


Form = Callable[..., str]


def _float_form(op: str, dtype: str) -> Form | None:
    if op in ("shl", "shr"):
        return None
    if op in _ARITHMETIC:
        return _infix(_ARITHMETIC[op])
    if op in _SAME or op in _NAMED:
        return _call(_NAMED.get(op, op) + "f" * (dtype == "float32"))
    if op == "neg":
        return lambda x: f"(-{x})"
    return _any_form(op)


def _integer_form(op: str, dtype: str) -> Form | None:
    """bool counts as an integer of one bit here: `add` is or, `mul` is and."""
    if op in ("floor", "ceil", "trunc", "round"):
        return lambda x: x
    if op in _BITS:
        return lambda x, y: f"(({TYPES[dtype]})({x} {_BITS[op]} {y}))"
    if op in ("sigmoid", "div"):
        return None
    return _any_form(op)


def _any_form(op: str) -> Form | None:
    if op in _COMPARISONS:
        return _infix(_COMPARISONS[op])
    if op == "isnan":
        return lambda x: f"({x} != {x})"
    if op == "logical_not":
        return lambda x: f"(!{x})"
    return _call(f"tc_{op}") if op in _OURS else None


def _infix(sign: str) -> Form:
    return lambda x, y: f"({x} {sign} {y})"


def _call(name: str) -> Form:
    return lambda *args: f"{name}({', '.join(args)})"


# ---- conversions ----


def cast_text(text: str, source: str, dtype: str) -> str:
    """numpy's astype, for 16-bit floats yet to be `rounded`. Float to integer truncates; out of range gives the
    nearest end, nan 0."""
    if dtype == "bool":
        return f"({text} != 0)"
    if dtype in HALVES:
        return f"tc_odd({text})" if source == "float64" else f"((float)({text}))"
    if source in (*FLOATS, *HALVES) and dtype not in FLOATS:
        # Small integers go through int, as C compilers and numpy do: -1.0 becomes 255 and not 0 as a uint8.
        return f"tc_int64({text})" if dtype == "int64" else f"(({TYPES[dtype]})tc_int({text}))"
    return f"(({TYPES[dtype]})({text}))"


def loaded(place: str, dtype: str) -> str:
    """What stands at a place in memory, as a value."""
    return f"tc_float({place})" if dtype in HALVES else place


def stored(text: str, dtype: str) -> str:
    """A value as it goes to memory."""
    return f"tc_to_{'half' if dtype == 'float16' else 'bfloat'}({text})" if dtype in HALVES else text


def rounded(text: str, dtype: str) -> str:
    """A value just computed, as precise as its dtype: 16-bit floats are computed in float."""
    return f"tc_float({stored(text, dtype)})" if dtype in HALVES else text
