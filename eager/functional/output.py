"""`out=`: a tensor the result is written to, and resized to fit."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..dtypes import category
from ..modes import is_grad_enabled
from ..tensor import Tensor
from ..writes import write
from .base import cast_to, cpp_name


def takes_out(function: Callable[..., Any] | None = None, *, exact: bool = False) -> Callable[..., Any]:
    """`function` with one more keyword, `out`: a tensor, or one for each of several results, to write to.

    `exact`: the output must have the result's dtype; else its category must hold the result's. What a function that
    creates a tensor creates has the output's dtype.
    """
    if function is None:
        return lambda f: takes_out(f, exact=exact)
    name = function.__name__
    creates = bool({"requires_grad", "options"} & inspect.signature(function).parameters.keys())

    @wraps(function)
    def with_out(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return function(*args, **kwargs)
        outs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        inputs = [*tensors_in(args), *tensors_in(kwargs.values())]
        check_outputs(name, outs, inputs)
        if creates and kwargs.get("dtype") is None:
            kwargs["dtype"] = outs[0].dtype
        result = function(*args, **kwargs)
        results = result if isinstance(result, tuple) else (result,)
        for to, value in zip(outs, results, strict=True):
            put_out(name, to, value, inputs, exact)
        return type(result)(*outs) if hasattr(result, "_fields") else out

    with_out.__signature__ = with_keyword(function)  # type: ignore[attr-defined]
    return with_out


def with_keyword(function: Callable[..., Any]) -> inspect.Signature:
    """The signature with `out`."""
    keyword = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any")
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    at = len(parameters) - any(p.kind is p.VAR_KEYWORD for p in parameters)
    return signature.replace(parameters=[*parameters[:at], keyword, *parameters[at:]])


def tensors_in(values: Any) -> list[Tensor]:
    """The tensors among values, and in the lists among them."""
    out: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            out.append(value)
        elif isinstance(value, (tuple, list)):
            out.extend(v for v in value if isinstance(v, Tensor))
    return out


def check_outputs(name: str, outs: tuple[Any, ...], inputs: list[Tensor]) -> None:
    """Outputs are tensors without history, whose memory is not that of the operands."""
    for out in outs:
        if not isinstance(out, Tensor):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
        if is_grad_enabled() and (out.requires_grad or any(x.requires_grad for x in inputs)):
            raise RuntimeError(
                f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                "arguments requires grad."
            )
        check_apart(out, inputs)
        if any(k == 0 and n > 1 for n, k in zip(out.array.shape, out.stride(), strict=True)):
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )


def check_apart(out: Tensor, inputs: list[Tensor]) -> None:
    if any(x is out or share(out, x) for x in inputs):
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )


def share(a: Tensor, b: Tensor) -> bool:
    x, y = a.array, b.array
    return isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and bool(np.may_share_memory(x, y))


def put_out(name: str, to: Tensor, value: Tensor, inputs: list[Tensor], exact: bool) -> None:
    """Write a result: the dtype's category must allow it; a tensor of another shape is resized."""
    mine, theirs = to.array.dtype, value.array.dtype
    if mine != theirs:
        if exact:
            raise RuntimeError(
                f"{name}(): Expected out tensor to have dtype {cpp_name(theirs)}, but got {cpp_name(mine)} instead"
            )
        if category(theirs) > category(mine):
            raise RuntimeError(
                f"result type {cpp_name(theirs)} can't be cast to the desired output type {cpp_name(mine)}"
            )
        value = cast_to(value, mine)
    if to.device != value.device:
        raise RuntimeError(
            f"{name}: Expected out tensor to be on {value.device}, but found it on {to.device}"
        )
    shape = tuple(value.array.shape)
    if tuple(to.array.shape) != shape:
        from .strides import resize_

        if to.numel():
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(map(int, to.array.shape))}, "
                f"which does not match the required output shape {list(map(int, shape))}. This behavior is deprecated, "
                "and in a future release outputs will not be resized unless they have zero elements.",
                stacklevel=3,
            )
        resize_(to, shape)
        check_apart(to, inputs)
    write(to, value)
