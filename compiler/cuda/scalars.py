"""The scalar language as CUDA C++ text. Functions are CUDA's own; what they leave open is in `PREAMBLE`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...eager.ops.scalars import SCALARS
from ...eager.ops.types import DTYPES
from ..loops import Scalar

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

#: Header-free: NVRTC has no headers by default. The 16-bit floats are stored as bits and computed in float.
PREAMBLE = """\
// Python's integer division: rounded down; by zero it is zero.
template <class T> __device__ __forceinline__ T tc_floordiv(T a, T b) {
  if (b == 0) return 0;
  T q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
template <class T> __device__ __forceinline__ T tc_mod(T a, T b) {
  if (b == 0) return 0;
  T r = a % b;
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
__device__ __forceinline__ float tc_mod(float a, float b) {
  float r = fmodf(a, b);
  return (r != 0.f && ((r < 0.f) != (b < 0.f))) ? r + b : (r == 0.f ? copysignf(r, b) : r);
}
__device__ __forceinline__ double tc_mod(double a, double b) {
  double r = fmod(a, b);
  return (r != 0. && ((r < 0.) != (b < 0.))) ? r + b : (r == 0. ? copysign(r, b) : r);
}
__device__ __forceinline__ float tc_floordiv(float a, float b) { return floorf((a - tc_mod(a, b)) / b + 0.5f); }
__device__ __forceinline__ double tc_floordiv(double a, double b) { return floor((a - tc_mod(a, b)) / b + 0.5); }
// A nan operand gives nan, unlike fmaxf.
template <class T> __device__ __forceinline__ T tc_maximum(T a, T b) { return (a > b || a != a) ? a : b; }
template <class T> __device__ __forceinline__ T tc_minimum(T a, T b) { return (a < b || a != a) ? a : b; }
template <class T> __device__ __forceinline__ T tc_pow(T a, T n) {
  if (n < 0) return a == 1 ? 1 : (a == -1 ? (n % 2 ? -1 : 1) : 0);
  T r = 1;
  for (; n > 0; n >>= 1, a *= a) if (n & 1) r *= a;
  return r;
}
struct tc_half { unsigned short bits; };
struct tc_bfloat { unsigned short bits; };
__device__ __forceinline__ float tc_float(tc_bfloat h) { return __int_as_float((int)((unsigned)h.bits << 16)); }
__device__ __forceinline__ tc_bfloat tc_to_bfloat(float f) {
  unsigned u = (unsigned)__float_as_int(f);
  tc_bfloat h;
  h.bits = f != f ? 0x7fc0 : (unsigned short)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
  return h;
}
__device__ __forceinline__ float tc_float(tc_half h) {
  unsigned sign = (unsigned)(h.bits & 0x8000) << 16, rest = h.bits & 0x7fff;
  if (rest < 0x0400) return __int_as_float((int)sign) + (sign ? -1.f : 1.f) * (float)rest * 5.9604644775390625e-08f;
  unsigned bits = rest >= 0x7c00 ? 0x7f800000u | (rest & 0x3ff) << 13 : (rest << 13) + 0x38000000u;
  return __int_as_float((int)(sign | bits));
}
__device__ __forceinline__ tc_half tc_to_half(float f) {
  unsigned u = (unsigned)__float_as_int(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff, r;
  if (a > 0x7f800000) r = 0x7e00;
  else if (a >= 0x477ff000) r = 0x7c00;
  else if (a < 0x38800000) r = (unsigned)__float_as_int(__int_as_float((int)a) + 0.5f) - 0x3f000000u;
  else r = (a - 0x38000000u + 0xfffu + (a >> 13 & 1)) >> 13;
  tc_half h;
  h.bits = (unsigned short)(sign | r);
  return h;
}
"""

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "logical_and": "&&", "logical_or": "||", "bit_and": "&", "bit_or": "|", "bit_xor": "^",
}  # fmt: skip
#: Functions CUDA has under the same name for double, with an f behind it for float.
_SAME = ("floor", "ceil", "trunc", "sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "pow")


def constant(value: float | int | bool, dtype: str) -> str:
    """A literal. Floats are written by their bits, so that infinities, nan and every digit are right."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in ("float32", "float16", "bfloat16"):
        with np.errstate(over="ignore"):
            rounded = np.float32(DTYPES[dtype].type(value))
        bits = int(rounded.view(np.int32))
        return f"{float(rounded)!r}f" if plain(float(rounded)) else f"__int_as_float({bits})"
    if dtype == "float64":
        bits = int(np.float64(value).view(np.int64))
        return repr(float(value)) if plain(float(value)) else f"__longlong_as_double({bits}LL)"
    return f"(({TYPES[dtype]}){int(value)}LL)" if dtype != "int64" else f"{int(value)}LL"


def plain(value: float) -> bool:
    return math.isfinite(value) and math.copysign(1.0, value) > 0


def scalar_text(e: Scalar, args: list[str], dtype: str) -> str:
    """A scalar function of operand texts; `dtype` is the operands' (float16 and bfloat16 come as float)."""
    if e.op not in SCALARS:
        raise ValueError(f"the scalar language has no function {e.op!r}")
    if e.op in _INFIX:
        return f"({args[0]} {_INFIX[e.op]} {args[1]})"
    if dtype in ("float16", "bfloat16"):
        dtype = "float32"
    if e.op in _SAME and dtype in ("float32", "float64"):
        return f"{e.op}{'f' * (dtype == 'float32')}({', '.join(args)})"
    return _OTHERS[e.op](dtype, *args)


def _abs(dtype: str, x: str) -> str:
    return {"float32": f"fabsf({x})", "float64": f"fabs({x})"}.get(dtype, f"({x} < 0 ? -{x} : {x})")


def _shift(sign: str) -> Callable[[str, str, str], str]:
    def text(dtype: str, x: str, n: str) -> str:
        kind = TYPES[dtype].removeprefix("signed ").removeprefix("unsigned ")
        return f"(({TYPES[dtype]})((unsigned {kind}){x} {sign} {n}))"

    return text


_OTHERS: dict[str, Callable[..., str]] = {
    "floordiv": lambda dtype, x, y: f"tc_floordiv({x}, {y})",
    "mod": lambda dtype, x, y: f"tc_mod({x}, {y})",
    "neg": lambda dtype, x: f"(-{x})",
    "abs": _abs,
    "maximum": lambda dtype, x, y: f"tc_maximum({x}, {y})",
    "minimum": lambda dtype, x, y: f"tc_minimum({x}, {y})",
    "floor": lambda dtype, x: x,
    "ceil": lambda dtype, x: x,
    "trunc": lambda dtype, x: x,
    "round": lambda dtype, x: {"float32": f"rintf({x})", "float64": f"rint({x})"}.get(dtype, x),
    "sigmoid": lambda dtype, x: (
        f"(1.f / (1.f + expf(-{x})))" if dtype == "float32" else f"(1. / (1. + exp(-{x})))"
    ),
    "pow": lambda dtype, x, y: f"tc_pow({x}, {y})",
    "isnan": lambda dtype, x: f"({x} != {x})",
    "logical_not": lambda dtype, x: f"(!{x})",
    "shl": _shift("<<"),
    "shr": _shift(">>"),
}
