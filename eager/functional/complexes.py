"""Complex tensors: their parts, their angles, and how they are made."""

from __future__ import annotations

from math import pi
from typing import Any

from ..ops.table import TABLE
from ..ops.types import is_floating
from ..tape import apply, apply_view
from ..tensor import Tensor
from .base import as_float, cast_to, cpp_name, tensor_argument

CONJ, REAL, IMAG, COMPLEX = TABLE["conj"], TABLE["real"], TABLE["imag"], TABLE["complex"]
AS_REAL, AS_COMPLEX = TABLE["view_as_real"], TABLE["view_as_complex"]


def is_complex(x: Tensor) -> bool:
    return x.array.dtype.kind == "c"


def real(input: Tensor) -> Tensor:
    """The real part, a view; a real tensor itself."""
    return apply_view(REAL, input, {}) if is_complex(tensor_argument("real", input)) else input


def imag(input: Tensor) -> Tensor:
    """The imaginary part, a view; RuntimeError for a real tensor."""
    if not is_complex(tensor_argument("imag", input)):
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return apply_view(IMAG, input, {})


def conj(input: Tensor) -> Tensor:
    """The complex conjugate, computed at once; a real tensor itself."""
    return apply(CONJ, input) if is_complex(tensor_argument("conj", input)) else input


def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate."""
    return conj(input)


def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugation is never put off."""
    return tensor_argument("resolve_conj", input)


def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: negation is never put off."""
    return tensor_argument("resolve_neg", input)


def is_conj(input: Tensor) -> bool:
    """Whether a conjugation is put off: never."""
    return False


def is_neg(input: Tensor) -> bool:
    """Whether a negation is put off: never."""
    return False


def complex(real: Tensor, imag: Tensor) -> Tensor:
    """A complex tensor of two real ones of the same floating dtype."""
    for x in (tensor_argument("complex", real), tensor_argument("complex", imag)):
        if not is_floating(x.array.dtype) or cpp_name(x.array.dtype) == "BFloat16":
            raise RuntimeError(
                "Expected both inputs to be Half, Float or Double tensors but got "
                f"{cpp_name(real.array.dtype)} and {cpp_name(imag.array.dtype)}"
            )
    if real.array.dtype != imag.array.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {cpp_name(real.array.dtype)} but got scalar type "
            f"{cpp_name(imag.array.dtype)} for second argument"
        )
    return apply(COMPLEX, real, imag)


def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs · (cos(angle) + i·sin(angle))."""
    from .functions import cos, sin

    complex(abs, angle)  # the same operands are asked for
    return complex(abs * cos(angle), abs * sin(angle))


def view_as_real(input: Tensor) -> Tensor:
    """A view [..., 2] of the real and imaginary parts of a complex tensor."""
    if not is_complex(input):
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return apply_view(AS_REAL, input, {})


def view_as_complex(input: Tensor) -> Tensor:
    """A complex view of a real tensor [..., 2], whose last axis must be dense and the other steps even."""
    if not is_floating(input.array.dtype) or cpp_name(input.array.dtype) == "BFloat16":
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar "
            f"type: {cpp_name(input.array.dtype)}"
        )
    if not input.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.array.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    steps = input.stride()
    if steps[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(step % 2 for step in steps[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return apply_view(AS_COMPLEX, input, {})


def pairs_as_complex(x: Tensor) -> Tensor:
    """As `view_as_complex`, of a tensor of any strides."""
    from .slicing import select

    return apply(COMPLEX, select(x, -1, 0), select(x, -1, 1))


def angle(input: Tensor) -> Tensor:
    """The angle of a complex number in radians; of a real one 0, or π where it is negative."""
    from .arithmetic import atan2
    from .choice import where
    from .comparison import isnan, logical_and

    x = as_float("angle", input)
    if not is_complex(x):
        return where(isnan(x), x, where(x < 0, pi, x * 0.0))
    re, im = real(x), imag(x)
    zero = logical_and(re == 0, im == 0)
    return where(zero, atan2(im, re).detach(), atan2(im, where(zero, 1.0, re)))


def sgn(input: Tensor) -> Tensor:
    """x / |x|, 0 for 0; of a real tensor its sign."""
    from .choice import where
    from .functions import abs, sign

    if not is_complex(tensor_argument("sgn", input)):
        return sign(input)
    size = abs(input)
    zero = size == 0
    return where(zero, 0.0, input / where(zero, 1.0, size))


def isreal(input: Tensor) -> Tensor:
    """Where the imaginary part is 0."""
    from .comparison import eq
    from .creation import ones_like

    if is_complex(tensor_argument("isreal", input)):
        return eq(imag(input), 0)
    return ones_like(input, dtype="bool")


def as_complex(x: Tensor) -> Tensor:
    """A real tensor as a complex one of its precision."""
    from ..ops.types import complex_dtype

    return cast_to(x, complex_dtype(x.array.dtype))


def real_setter(self: Tensor, value: Any) -> None:
    """Write the real part."""
    real(self).copy_(value)


def imag_setter(self: Tensor, value: Any) -> None:
    """Write the imaginary part."""
    imag(self).copy_(value)
