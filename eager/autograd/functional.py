"""Products with Jacobians and Hessians, and these matrices themselves, of functions of tensors.

Each takes `func` and its inputs, a tensor or a tuple. Results have the structure of the inputs, outputs first, as in
PyTorch. With `create_graph` results can be differentiated; with `strict` an output that does not depend on an input
is an error where else its derivative is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import functional as F
from ..backward import grad
from ..modes import enable_grad
from ..tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Func = Callable[..., Any]


def vjp(func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), vᵀJ): v has the shape of the output, and may be left out for an output of one element."""
    with enable_grad():
        xs, single = prepared(inputs, create_graph)
        ys, single_out = outputs_of(func, xs, strict, "vjp")
        vs = directions(v, ys, single_out, "output")
        grads = filled(derivative(ys, xs, vs, create_graph, strict), xs)
    return finished(ys, single_out, create_graph), finished(grads, single, create_graph)


def jvp(func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), J v): v has the shape of the inputs, and may be left out for an input of one element.

    By differentiating twice: vᵀJ is linear in v, and its derivative by v is J.
    """
    with enable_grad():
        xs, single = prepared(inputs, create_graph)
        vs = directions(v, xs, single, "input")
        ys, single_out = outputs_of(func, xs, strict, "jvp")
        us = tuple(F.zeros_like(y).requires_grad_() for y in ys)
        grads = filled(derivative(ys, xs, us, True, strict), xs)
        products = filled(derivative(grads, us, vs, create_graph, False), us)
    return finished(ys, single_out, create_graph), finished(products, single_out, create_graph)


def jacobian(
    func: Func,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivative of every element of every output by every element of every input.

    For one output and one input, a tensor of shape output.shape + input.shape; tuples for several. One backward pass
    per element of the output, whatever `vectorize` and `strategy` say.
    """
    with enable_grad():
        xs, single = prepared(inputs, create_graph)
        ys, single_out = outputs_of(func, xs, strict, "jacobian")
        rows = tuple(jacobian_of(y, xs, create_graph, strict, i) for i, y in enumerate(ys))
    found = tuple(finished(row, single, create_graph) for row in rows)
    return found[0] if single_out else found


def jacobian_of(
    y: Tensor, xs: Sequence[Tensor], create: bool, strict: bool, number: int
) -> tuple[Tensor, ...]:
    """The derivative of one output by each input."""
    columns: list[list[Tensor]] = [[] for _ in xs]
    for element in y.reshape(-1).unbind(0) if y.requires_grad else ():
        grads = grad(element, xs, retain_graph=True, create_graph=create, allow_unused=True)
        for k, (g, x) in enumerate(zip(grads, xs, strict=True)):
            if g is None and strict:
                raise RuntimeError(
                    f"Output {number} of the user-provided function is independent of input {k}. This is not allowed "
                    "in strict mode."
                )
            columns[k].append(F.zeros_like(x) if g is None else g)
    shape = tuple(y.shape)
    return tuple(
        F.stack(column).reshape(shape + tuple(x.shape))
        if column
        else F.zeros(shape + tuple(x.shape), dtype=x.dtype)
        for column, x in zip(columns, xs, strict=True)
    )


def hessian(
    func: Func,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a `func` with one output of one element: the Jacobian of its gradient.

    For one input, a tensor of shape input.shape + input.shape; for several, a tuple of tuples.
    """
    single = isinstance(inputs, Tensor)

    def gradient(*xs: Tensor) -> Any:
        first = jacobian(scalar(func, "hessian"), xs, create_graph=True, strict=strict)
        return tuple(g.reshape(x.shape) for g, x in zip(first, xs, strict=True))

    found = jacobian(gradient, (inputs,) if single else tuple(inputs), create_graph, strict)
    return found[0][0] if single else found


def vhp(func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), vᵀH), of a `func` with one output of one element; v has the shape of the inputs."""
    with enable_grad():
        xs, single = prepared(inputs, create_graph)
        vs = directions(v, xs, single, "input")
        ys, _ = outputs_of(scalar(func, "vhp"), xs, strict, "vhp")
        first = filled(derivative(ys, xs, None, True, strict), xs)
        second = filled(derivative(first, xs, vs, create_graph, strict), xs)
    return finished(ys, True, create_graph), finished(second, single, create_graph)


def hvp(func: Func, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), H v): the same numbers as `vhp`, for a Hessian is symmetric."""
    return vhp(func, inputs, v, create_graph, strict)


def scalar(func: Func, name: str) -> Func:
    """`func`, whose output is checked to be one tensor of one element."""

    def checked(*xs: Tensor) -> Tensor:
        out = func(*xs)
        if not isinstance(out, Tensor):
            raise RuntimeError(f"The function given to {name} should return a single Tensor")
        if out.numel() != 1:
            raise RuntimeError(
                f"The Tensor returned by the function given to {name} should contain a single element"
            )
        return out.reshape(())

    return checked


def prepared(inputs: Any, keep_history: bool) -> tuple[tuple[Tensor, ...], bool]:
    """The inputs as new places on the tape, with their history if it is wanted; whether there was one alone."""
    single = isinstance(inputs, Tensor)
    found = (inputs,) if single else tuple(inputs)
    for i, x in enumerate(found):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"The inputs given to func must be Tensors but the value at index {i} has type {type(x).__name__}."
            )
    fresh = (x.view_as(x) if keep_history and x.requires_grad else x.detach() for x in found)
    return tuple(x if x.requires_grad else x.requires_grad_() for x in fresh), single


def outputs_of(func: Func, xs: Sequence[Tensor], strict: bool, name: str) -> tuple[tuple[Tensor, ...], bool]:
    out = func(*xs)
    single = isinstance(out, Tensor)
    ys = (out,) if single else tuple(out)
    for i, y in enumerate(ys):
        if not isinstance(y, Tensor):
            raise TypeError(
                f"The outputs of the function given to {name} must be Tensors but the value at index {i} has type "
                f"{type(y).__name__}."
            )
        if strict and not y.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must be computed "
                "in a differentiable manner from the input when running in strict mode."
            )
    return ys, single


def directions(v: Any, like: Sequence[Tensor], single: bool, what: str) -> tuple[Tensor, ...]:
    """The vectors to multiply by, of the shapes of `like`."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the user-provided function's {what} is a single Tensor with a "
                "single element."
            )
        return (F.ones_like(like[0]),)
    vs = (v,) if isinstance(v, Tensor) else tuple(v)
    if len(vs) != len(like):
        raise RuntimeError(f"v is a tuple of {len(vs)} tensors, but the {what} has {len(like)}")
    for i, (one, x) in enumerate(zip(vs, like, strict=True)):
        if tuple(one.shape) != tuple(x.shape):
            raise RuntimeError(
                f"v has invalid size: entry {i} is {list(one.shape)}, and should be {list(x.shape)} as the {what}"
            )
    return vs


def derivative(
    ys: Sequence[Tensor], xs: Sequence[Tensor], vs: Sequence[Tensor] | None, create: bool, strict: bool
) -> tuple[Tensor | None, ...]:
    """The gradient of what depends on anything; None where nothing does."""
    pairs = [(y, None if vs is None else vs[i]) for i, y in enumerate(ys) if y.requires_grad]
    if not pairs:
        return (None,) * len(xs)
    outs, weights = zip(*pairs, strict=True)
    grads = grad(outs, xs, weights, retain_graph=True, create_graph=create, allow_unused=True)
    for k, g in enumerate(grads):
        if g is None and strict:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {k}. This is not allowed in "
                "strict mode."
            )
    return grads


def filled(grads: Sequence[Tensor | None], like: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(F.zeros_like(x) if g is None else g for g, x in zip(grads, like, strict=True))


def finished(tensors: Sequence[Tensor], single: bool, create: bool) -> Any:
    """The results without history unless it is wanted; one alone if there was one alone."""
    found = tuple(t if create else t.detach() for t in tensors)
    return found[0] if single else found
