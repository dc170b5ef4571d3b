"""The scalar language (`eager.ops.scalars`) as LLVM text, on values of any number of lanes.

One method for each name of the language, with the same meaning. Operands of one call share a dtype; a scalar
beside a vector is broadcast. float16 and bfloat16 are computed in float32 and rounded after every operation.
Nothing here makes LLVM call a library: what the level has no instruction for is spelt out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from . import conversions, division, powers, trigonometry, vmath
from .builder import FLOATS, HALVES, REGISTER, Function, Value, literal, literal_value, vector
from .levels import Level

Method = TypeVar("Method", bound=Callable[..., Value])

_SIGN_BIT = 0x8000  # of both 16-bit floats


def is_float(dtype: str) -> bool:
    """True of all four floating dtypes."""
    return dtype in FLOATS or dtype in HALVES


def is_unsigned(dtype: str) -> bool:
    """True where LLVM's unsigned instructions apply: unsigned integers, and bool as one bit."""
    return dtype == "bool" or dtype.startswith("uint")


def elementwise(method: Method) -> Method:
    """Gives the method operands of equal lanes; of float16 and bfloat16, their float32 values."""

    @wraps(method)
    def wrapper(self: LlvmScalars, *args: Value) -> Value:
        args = self.aligned(method.__name__, *args)
        dtype = args[0].dtype
        if dtype not in HALVES:
            return method(self, *args)
        out = method(self, *(self.cast(a, "float32") for a in args))
        return self.cast(out, dtype) if out.dtype == "float32" else out

    return wrapper  # type: ignore[return-value]


def floats_only(method: Method) -> Method:
    """An elementwise method that integers have no meaning for."""

    @wraps(method)
    def wrapper(self: LlvmScalars, *args: Value) -> Value:
        if not is_float(args[0].dtype):
            raise TypeError(
                f"{method.__name__}: wants floating-point operands, got {args[0].dtype}; cast them"
            )
        return method(self, *args)

    return elementwise(wrapper)  # type: ignore[return-value]


def integers_only(method: Method) -> Method:
    """An elementwise method that floats have no meaning for; bool counts as an integer of one bit."""

    @wraps(method)
    def wrapper(self: LlvmScalars, *args: Value) -> Value:
        if is_float(args[0].dtype):
            raise TypeError(
                f"{method.__name__}: wants integer or bool operands, got {args[0].dtype}; cast them"
            )
        return method(self, *self.aligned(method.__name__, *args))

    return wrapper  # type: ignore[return-value]


class LlvmScalars:
    """The namespace `s` for one function at one level; methods append to the function and return values."""

    def __init__(self, function: Function, level: Level) -> None:
        self.function = function
        self.level = level

    # -- operands and instructions

    def const(self, value: float | int | bool, dtype: str) -> Value:
        """A literal of the dtype, one lane; beside a vector it is broadcast."""
        return literal(value, dtype)

    def aligned(self, name: str, *args: Value) -> tuple[Value, ...]:
        """The operands with equal lanes; TypeError, naming the function, unless they share a dtype."""
        if len({a.dtype for a in args}) > 1:
            raise TypeError(
                f"{name}: operands must share a dtype, got {', '.join(a.dtype for a in args)}; cast one"
            )
        lanes = max(a.lanes for a in args)
        return tuple(self.function.broadcast(a, lanes) for a in args)

    def binary(self, instruction: str, x: Value, y: Value) -> Value:
        """One LLVM instruction on two values of one type: `binary("lshr", x, y)`."""
        x, y = self.aligned(instruction, x, y)
        return x._replace(name=self.function.assign(f"{instruction} {x.typed}, {y.name}"))

    def convert(self, instruction: str, x: Value, dtype: str) -> Value:
        """One LLVM conversion between register types: `convert("sitofp", x, "float32")`."""
        to = vector(REGISTER[dtype], x.lanes)
        if to == x.type:
            return x._replace(dtype=dtype)
        return Value(self.function.assign(f"{instruction} {x.typed} to {to}"), dtype, x.lanes)

    def bitcast(self, x: Value, dtype: str) -> Value:
        """The same bits under another dtype of the same size."""
        return self.convert("bitcast", x, dtype)

    def compare(self, predicate: str, x: Value, y: Value) -> Value:
        """`fcmp` or `icmp` with the predicate as given; a bool."""
        x, y = self.aligned(predicate, x, y)
        instruction = "fcmp" if x.dtype in FLOATS else "icmp"
        return Value(self.function.assign(f"{instruction} {predicate} {x.typed}, {y.name}"), "bool", x.lanes)

    def _unary(self, intrinsic: str, x: Value, *more: Value) -> Value:
        return self.function.intrinsic(intrinsic, x, x, *more)

    # -- arithmetic

    @elementwise
    def add(self, x: Value, y: Value) -> Value:
        return self.binary("fadd" if x.dtype in FLOATS else "or" if x.dtype == "bool" else "add", x, y)

    @elementwise
    def sub(self, x: Value, y: Value) -> Value:
        if x.dtype == "bool":
            raise TypeError("sub: bool has no subtraction; use bit_xor, or cast to an integer")
        return self.binary("fsub" if x.dtype in FLOATS else "sub", x, y)

    @elementwise
    def mul(self, x: Value, y: Value) -> Value:
        return self.binary("fmul" if x.dtype in FLOATS else "and" if x.dtype == "bool" else "mul", x, y)

    @floats_only
    def div(self, x: Value, y: Value) -> Value:
        return self.binary("fdiv", x, y)

    @elementwise
    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x * y + z with one rounding where the level has the instruction, two where it has not."""
        if x.dtype in FLOATS and self.level.fma:
            return self.function.intrinsic("fma", x, x, y, z)
        return self.add(self.mul(x, y), z)

    @elementwise
    def _floordiv(self, x: Value, y: Value) -> Value:
        return division.floordiv(self, x, y)

    @elementwise
    def _mod(self, x: Value, y: Value) -> Value:
        return division.mod(self, x, y)

    def floordiv(self, x: Value, y: Value, *, nonneg: bool = False) -> Value:
        """Quotient rounded down; an integer x // 0 is 0. `nonneg` promises integers x >= 0 and y > 0."""
        return self.binary("udiv", x, y) if nonneg else self._floordiv(x, y)

    def mod(self, x: Value, y: Value, *, nonneg: bool = False) -> Value:
        """Remainder with the sign of y; integer x mod 0 is 0. `nonneg` promises integers x >= 0 and y > 0."""
        return self.binary("urem", x, y) if nonneg else self._mod(x, y)

    def neg(self, x: Value) -> Value:
        if x.dtype in HALVES:
            return self.binary("xor", x, self._half_bits(x, _SIGN_BIT))
        if x.dtype in FLOATS:
            return x._replace(name=self.function.assign(f"fneg {x.typed}"))
        return self.sub(literal(0, x.dtype), x)

    def abs(self, x: Value) -> Value:
        if x.dtype in HALVES:
            return self.binary("and", x, self._half_bits(x, _SIGN_BIT - 1))
        if x.dtype in FLOATS:
            return self._unary("fabs", x)
        return x if is_unsigned(x.dtype) else self._unary("abs", x, Value("false", "bool"))

    def _half_bits(self, like: Value, bits: int) -> Value:
        return self.function.broadcast(Value(str(bits), like.dtype), like.lanes)

    # -- extremes

    def maximum(self, x: Value, y: Value) -> Value:
        return self._extreme("maximum", x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        return self._extreme("minimum", x, y)

    def _extreme(self, name: str, x: Value, y: Value) -> Value:
        x, y = self.aligned(name, x, y)
        if x.dtype in HALVES:
            return self.cast(self._extreme(name, self.cast(x, "float32"), self.cast(y, "float32")), x.dtype)
        less = "lt" if name == "minimum" else "gt"
        if x.dtype not in FLOATS:
            predicate = ("u" if is_unsigned(x.dtype) else "s") + less
            return self.select(self.compare(predicate, x, y), x, y)
        # `c > x ? c : x` is one instruction and gives x where that is nan, so a literal goes first.
        if literal_value(y) is not None:
            x, y = y, x
        chosen = self.select(self.compare("o" + less, x, y), x, y)
        number = literal_value(x)
        if number is not None and number == number:
            return chosen
        return self.select(self.isnan(x), x, chosen)

    # -- rounding

    def floor(self, x: Value) -> Value:
        return self._rounded("floor", x)

    def ceil(self, x: Value) -> Value:
        return self._rounded("ceil", x)

    def trunc(self, x: Value) -> Value:
        return self._rounded("trunc", x)

    def round(self, x: Value) -> Value:
        return self._rounded("roundeven", x)

    def _rounded(self, intrinsic: str, x: Value) -> Value:
        if x.dtype in HALVES:
            return self.cast(self._unary(intrinsic, self.cast(x, "float32")), x.dtype)
        return self._unary(intrinsic, x) if x.dtype in FLOATS else x

    # -- functions

    @floats_only
    def sqrt(self, x: Value) -> Value:
        return self._unary("sqrt", x)

    @floats_only
    def rsqrt(self, x: Value) -> Value:
        return self.div(literal(1.0, x.dtype), self.sqrt(x))

    @floats_only
    def exp(self, x: Value) -> Value:
        return vmath.exp(self, x)

    @floats_only
    def expm1(self, x: Value) -> Value:
        return vmath.expm1(self, x)

    @floats_only
    def log(self, x: Value) -> Value:
        return vmath.log(self, x)

    @floats_only
    def log1p(self, x: Value) -> Value:
        return vmath.log1p(self, x)

    @floats_only
    def sin(self, x: Value) -> Value:
        return trigonometry.sin(self, x)

    @floats_only
    def cos(self, x: Value) -> Value:
        return trigonometry.cos(self, x)

    @floats_only
    def tanh(self, x: Value) -> Value:
        return vmath.tanh(self, x)

    @floats_only
    def sigmoid(self, x: Value) -> Value:
        return vmath.sigmoid(self, x)

    @floats_only
    def erf(self, x: Value) -> Value:
        return vmath.erf(self, x)

    @elementwise
    def pow(self, x: Value, y: Value) -> Value:
        return powers.pow(self, x, y)

    # -- comparison

    def eq(self, x: Value, y: Value) -> Value:
        return self._compared("eq", x, y)

    def ne(self, x: Value, y: Value) -> Value:
        return self._compared("ne", x, y)

    def lt(self, x: Value, y: Value) -> Value:
        return self._compared("lt", x, y)

    def le(self, x: Value, y: Value) -> Value:
        return self._compared("le", x, y)

    def gt(self, x: Value, y: Value) -> Value:
        return self._compared("gt", x, y)

    def ge(self, x: Value, y: Value) -> Value:
        return self._compared("ge", x, y)

    def _compared(self, name: str, x: Value, y: Value) -> Value:
        x, y = self.aligned(name, x, y)
        if x.dtype in HALVES:
            x, y = self.cast(x, "float32"), self.cast(y, "float32")
        if x.dtype in FLOATS:
            return self.compare("une" if name == "ne" else "o" + name, x, y)
        if name in ("eq", "ne"):
            return self.compare(name, x, y)
        return self.compare(("u" if is_unsigned(x.dtype) else "s") + name, x, y)

    def isnan(self, x: Value) -> Value:
        if x.dtype in HALVES:
            return self.isnan(self.cast(x, "float32"))
        return self.compare("uno", x, x) if x.dtype in FLOATS else literal(False, "bool", x.lanes)

    # -- logic and bits

    def logical_and(self, x: Value, y: Value) -> Value:
        return self.binary("and", self.cast(x, "bool"), self.cast(y, "bool"))

    def logical_or(self, x: Value, y: Value) -> Value:
        return self.binary("or", self.cast(x, "bool"), self.cast(y, "bool"))

    def logical_not(self, x: Value) -> Value:
        return self.binary("xor", self.cast(x, "bool"), literal(True, "bool"))

    @integers_only
    def bit_and(self, x: Value, y: Value) -> Value:
        return self.binary("and", x, y)

    @integers_only
    def bit_or(self, x: Value, y: Value) -> Value:
        return self.binary("or", x, y)

    @integers_only
    def bit_xor(self, x: Value, y: Value) -> Value:
        return self.binary("xor", x, y)

    @integers_only
    def shl(self, x: Value, y: Value) -> Value:
        return self._shift("shl", x, y)

    @integers_only
    def shr(self, x: Value, y: Value) -> Value:
        """x shifted right, zeros coming in whatever the sign."""
        return self._shift("lshr", x, y)

    def _shift(self, instruction: str, x: Value, y: Value) -> Value:
        if x.dtype == "bool":
            raise TypeError(f"{instruction}: bool has no shifts; cast to an integer")
        bits = int(REGISTER[x.dtype][1:])
        amount = literal_value(y)
        if amount is not None and 0 <= amount < bits:
            return self.binary(instruction, x, y)
        # Shifting by the width or more means nothing to LLVM; here it leaves 0.
        inside = self.compare("ult", y, literal(bits, y.dtype))
        zero = literal(0, x.dtype)
        return self.select(inside, self.binary(instruction, x, self.select(inside, y, zero)), zero)

    # -- choice, conversion, lanes

    def select(self, cond: Value, then: Value, other: Value) -> Value:
        """Lane by lane; both sides are computed (`Function.choose` guards a side that must not be)."""
        then, other = self.aligned("select", then, other)
        lanes = max(cond.lanes, then.lanes)
        then, other = self.function.broadcast(then, lanes), self.function.broadcast(other, lanes)
        if cond.lanes not in (1, lanes):
            cond = self.function.broadcast(cond, lanes)
        return then._replace(name=self.function.assign(f"select {cond.typed}, {then.typed}, {other.typed}"))

    def cast(self, x: Value, dtype: str) -> Value:
        """numpy's astype; a float beyond the range of an integer dtype gives its nearest end, nan gives 0."""
        return conversions.cast(self, x, dtype)

    def reduce(self, op: str, x: Value) -> Value:
        """All lanes combined by add, mul, maximum, minimum, logical_or or logical_and: a scalar.

        Halves are combined first, then quarters; the number of lanes is a power of two.
        """
        combine = getattr(self, op)
        while x.lanes > 2:
            half = x.lanes // 2
            x = combine(self.function.shuffle(x, range(half)), self.function.shuffle(x, range(half, x.lanes)))
        return combine(self.function.extract(x, 0), self.function.extract(x, 1)) if x.lanes == 2 else x

    def any(self, x: Value) -> Value:
        """Is a bool true in some lane? One test instruction, where `reduce` would shuffle."""
        if x.lanes == 1:
            return x
        callee = f"llvm.vector.reduce.or.v{x.lanes}i1"
        return Value(self.function.call(callee, "i1", x, declare=True), "bool")
