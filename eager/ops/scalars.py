"""The scalar language: the closed set of functions that `scalar` and `element` rules may call on `s`.

Every backend implements exactly these (LLVM vectors, CUDA C++ text, the numpy interpreter), so a rule written
once runs everywhere. A scalar has a dtype; both operands of an arithmetic function share it.

| group       | names                                                                                          |
|-------------|------------------------------------------------------------------------------------------------|
| arithmetic  | add sub mul div (true division, floats) floordiv mod (Python's sign rules) neg abs             |
| extremes    | maximum minimum (a nan operand gives nan)                                                      |
| rounding    | floor ceil trunc round (half to even)                                                          |
| functions   | sqrt rsqrt exp expm1 log log1p sin cos tanh sigmoid erf pow                                    |
| comparison  | eq ne lt le gt ge -> bool; isnan -> bool                                                       |
| logic, bits | logical_and logical_or logical_not; bit_and bit_or bit_xor shl shr (integers; shr is logical)  |
| choice      | select(condition, a, b): only the chosen side is read, so it may guard a read out of bounds    |
| conversion  | cast(x, dtype) as numpy's astype (float to int truncates; nonzero to bool)                     |

Not functions of scalars but part of `s` in an `element` rule:

* `s.const(value, dtype)`: a literal; `s.index(n)`: an int64 literal or a (symbolic) size, for index arithmetic;
* `s.reduce(op, sizes, body)`: op is add mul maximum minimum logical_or logical_and; `body(*k)` gives one term. The
  result is a scalar; a reduction over no elements gives the op's identity.
* `s.place(k, n)`: a number from data as an index into n elements. Eager raises for one out of range; compiled code
  makes the call fail with a code of its own and reads element 0 meanwhile. Not under a `select`: it reads k at once.
Index scalars are int64 and take add sub mul floordiv mod, comparisons and select.
"""

from __future__ import annotations

ARITHMETIC = ("add", "sub", "mul", "div", "floordiv", "mod", "neg", "abs")
EXTREMES = ("maximum", "minimum")
ROUNDING = ("floor", "ceil", "trunc", "round")
FUNCTIONS = ("sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "sigmoid", "erf", "pow")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "isnan")
LOGIC = ("logical_and", "logical_or", "logical_not", "bit_and", "bit_or", "bit_xor", "shl", "shr")

#: Every scalar function; `select` and `cast` are nodes of their own in the loop grammar.
SCALARS = frozenset(ARITHMETIC + EXTREMES + ROUNDING + FUNCTIONS + COMPARISONS + LOGIC)

#: Reduction ops and the value a reduction over nothing gives.
IDENTITY = {
    "add": 0.0,
    "mul": 1.0,
    "maximum": float("-inf"),
    "minimum": float("inf"),
    "logical_or": False,
    "logical_and": True,
}


def result_dtype(name: str, dtype: str) -> str:
    """The dtype of a scalar function's result, given its operands' (comparisons and logic give bool)."""
    if name in COMPARISONS or name.startswith("logical_"):
        return "bool"
    return dtype
