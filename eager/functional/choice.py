"""Choice between values, bounds, conversion of dtypes, copies."""

from __future__ import annotations

from typing import Any

from ..dtypes import category, dtype_of, finfo, get_default_dtype, scalar_dtype
from ..ops.table import TABLE
from ..tape import apply, apply_unary, labelled
from ..tensor import Tensor
from .base import cast_to, check_range, common, constant, cpp_name, name_of, pair, refuse, tensor_argument
from .comparison import eq, ge, isnan, le, logical_or
from .shaping import laid_out

CLONE, CAST, CLAMP, WHERE = TABLE["clone"], TABLE["cast"], TABLE["clamp"], TABLE["where"]

# ---- choice --------------------------------------------------------------------------------------------------------


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """input where the condition holds, else other. With the condition alone, its nonzero positions."""
    if input is None and other is None:
        from .masking import nonzero

        return nonzero(condition, as_tuple=True)
    check_condition(condition)
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        dtype = get_default_dtype().numpy if float in (type(input), type(other)) else None
        x = constant(input, dtype or scalar_dtype(input), condition)
        y = constant(other, dtype or scalar_dtype(other), condition)
    else:
        x, y = pair("where", input, other)
        for value in (input, other):
            check_range(value, x.array.dtype)
    return apply(WHERE, condition, x, y)


def check_condition(condition: Any) -> None:
    if not isinstance(condition, Tensor):
        raise TypeError(f"where(): argument 'condition' must be Tensor, not {type(condition).__name__}")
    if condition.array.dtype.kind != "b":
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{cpp_name(condition.array.dtype)}"
        )


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value`, a number or a zero-dimensional tensor, where the mask holds."""
    if mask.array.dtype.kind != "b":
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if isinstance(value, Tensor):
        if value.array.shape:
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        if category(value.array.dtype) == 3 > category(input.array.dtype):
            raise RuntimeError(
                f"value cannot be converted to type {name_of(input.array.dtype)} without overflow"
            )
        fill = cast_to(value, input.array.dtype)
    else:
        check_fits(value, input)
        fill = constant(value, input.array.dtype, input)
    return apply(WHERE, mask, fill, input)


def check_fits(value: Any, x: Tensor) -> None:
    """A number of a higher kind does not go into a tensor unasked: a float into integers, a complex into floats."""
    above = 3 if isinstance(value, complex) else 2 if isinstance(value, float) else 0
    if above > category(x.array.dtype) and above > 1:
        raise RuntimeError(f"value cannot be converted to type {name_of(x.array.dtype)} without overflow")


# ---- bounds --------------------------------------------------------------------------------------------------------


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Each element kept within [min, max]; a bound is a number, a tensor or None."""
    tensor_argument("clamp", input)
    if min is None and max is None:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
    bounds = [b for b in (min, max) if b is not None]
    x = common("clamp", input, *bounds)[0]
    refuse("clamp", x, "bc")
    if not any(isinstance(b, Tensor) for b in bounds):
        return apply(CLAMP, x, min=_bound(x, min), max=_bound(x, max))
    x = x if min is None else clamp_min(x, min)
    return x if max is None else clamp_max(x, max)


def _bound(x: Tensor, value: Any) -> Any:
    """A bound as a plain number of the tensor's kind, so that equal clamps have equal attributes."""
    return value if value is None else (int(value) if x.array.dtype.kind in "iu" else float(value))


clip = clamp


def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Each element, or `min` where that is larger; nan if either is nan."""
    return bounded("clamp_min", input, min, ge)


def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Each element, or `max` where that is smaller; nan if either is nan."""
    return bounded("clamp_max", input, max, le)


def bounded(name: str, input: Tensor, bound: Any, inside: Any) -> Tensor:
    x, limit = common(name, tensor_argument(name, input), bound)
    refuse(name, x, "c")
    if not isinstance(bound, Tensor):
        refuse(f"{name}_scalar_cpu", x, "b")
        check_range(bound, x.array.dtype)
    return where(logical_or(inside(x, limit), isnan(x)), x, limit)


def nan_to_num(
    input: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """nan and the infinities replaced, these by default with the largest finite values."""
    kind = input.array.dtype.kind
    if kind in "biu":
        return clone(input)
    if kind == "c":
        from .complexes import complex, imag, real

        return complex(*(nan_to_num(part, nan, posinf, neginf) for part in (real(input), imag(input))))
    limits = finfo(input.array.dtype)
    out = where(isnan(input), 0.0 if nan is None else nan, input)
    out = where(eq(out, float("inf")), limits.max if posinf is None else posinf, out)
    return where(eq(out, float("-inf")), limits.min if neginf is None else neginf, out)


# ---- conversion and copies -----------------------------------------------------------------------------------------


def cast(input: Tensor, dtype: Any) -> Tensor:
    """The tensor in another dtype; itself if that is its own."""
    wanted = dtype if type(dtype) is str else dtype_of(dtype).name
    if name_of(input.array.dtype) == wanted:
        return input
    return labelled(apply(CAST, input, dtype=wanted), "ToCopy")


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with the history, row by row in memory or in the format asked for."""
    copy = apply_unary(CLONE, input)
    return copy if memory_format is None else laid_out(copy, memory_format)
