"""Operators of your own: a Python, NumPy, Numba or Cython function with a shape rule and a gradient.

    @custom_op("shop::smooth", mutates_args=())
    def smooth(x: np.ndarray, width: int) -> np.ndarray: ...

    @smooth.register_fake
    def _(x, width):
        return tc.empty_like(x)

    smooth.register_autograd(backward, setup_context=setup_context)

It runs eagerly and in recorded programs, of which it is one node. Compiled code cannot call Python: the compiler
refuses it by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .autograd.function import Context
from .modes import is_grad_enabled, no_grad
from .ops import executor, table
from .ops.types import Aval, aval_of
from .tape import apply
from .tensor import Tensor
from .writes import write

__all__ = ["CustomOpDef", "custom_op", "infer_schema", "register_autograd", "register_fake"]

DEFINITIONS: dict[str, CustomOpDef] = {}


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an operator called "namespace::name" of a function; also a decorator.

    The function gets a `Tensor` for each parameter that is annotated so, else the array itself: compiled functions of
    Numba or Cython take that. Parameters that are given no tensor must be numbers, text, None or sequences of them.
    It returns a new tensor or array, or a tuple of them, and no argument or part of one. `mutates_args`: the names of
    arguments it writes to. `device_types`, `schema` and `tags` are accepted. Errors: ValueError for a name that is
    not "namespace::name", or that is taken.
    """
    if fn is None:
        return lambda fn: custom_op(name, fn, mutates_args=mutates_args)
    if name.count("::") != 1 or not all(part.isidentifier() for part in name.split("::")):
        raise ValueError(f"custom_op: expected a name such as 'namespace::name', got {name!r}")
    return CustomOpDef(name, fn, (mutates_args,) if isinstance(mutates_args, str) else tuple(mutates_args))


def infer_only(op: table.Op, values: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """An executor that computes nothing: shape and dtype of the result."""
    return op.infer(*map(aval_of, values), **attrs)


class CustomOpDef:
    """An operator; call it as the function it was made of."""

    def __init__(self, name: str, fn: Callable[..., Any], mutates: tuple[str, ...]) -> None:
        self.name, self._fn, self._mutates = name, fn, mutates
        self.signature = inspect.signature(
            getattr(fn, "py_func", fn)
        )  # Numba keeps the Python function there
        self.takes_tensors = {
            p for p, v in self.signature.parameters.items() if "Tensor" in str(v.annotation)
        }
        if missing := set(mutates) - set(self.signature.parameters):
            raise ValueError(f"{name}: mutates_args names {sorted(missing)}, which are no parameters")
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._error: Exception | None = None  # of the last run
        self.op = table.library(
            name, self._infer, self._run, vjp=self._vjp, arity=(0, None), pure=not mutates
        )
        DEFINITIONS[name] = self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self.name})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        tensors = {k: v for k, v in bound.arguments.items() if isinstance(v, Tensor)}
        attrs = {k: hashable(self.name, k, v) for k, v in bound.arguments.items() if k not in tensors}
        self._check_mutable(tensors)
        out = apply(self.op, *tensors.values(), **attrs)
        if not self._mutates:
            return out
        results = out if isinstance(out, tuple) else (out,)
        count = len(results) - len(self._mutates)
        with no_grad():
            for name, value in zip(self._mutates, results[count:], strict=True):
                write(tensors[name], value.detach())
        return None if not count else results[0] if count == 1 else results[:count]

    def _check_mutable(self, tensors: dict[str, Tensor]) -> None:
        for name in self._mutates:
            if name not in tensors:
                raise TypeError(f"{self.name}: {name} is written to, and must be a Tensor")
            if is_grad_enabled() and tensors[name].requires_grad:
                raise RuntimeError(
                    f"{self.name} writes to {name}, which requires grad; with a gradient, return new tensors instead"
                )

    def _bound(self, operands: Sequence[Any], attrs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, in the order of the parameters."""
        rest = iter(operands)
        return {p: attrs[p] if p in attrs else next(rest) for p in self.signature.parameters}

    # ---- rules of the table -------------------------------------------------------------------------------

    def _run(self, xp: Any, *arrays: Any, **attrs: Any) -> Any:
        self._error = None
        try:
            return self._computed(xp, *arrays, **attrs)
        except Exception as error:
            self._error = error
            raise

    def _computed(self, xp: Any, *arrays: Any, **attrs: Any) -> Any:
        given = self._bound(arrays, attrs)
        for name in self._mutates:
            given[name] = given[name].copy()
        passed = {k: Tensor(v) if k in self.takes_tensors and k not in attrs else v for k, v in given.items()}
        with no_grad(), executor.use(executor.run_eagerly):
            out = self._fn(*passed.values())
        results = [] if out is None else list(out) if isinstance(out, tuple | list) else [out]
        found = [xp.asarray(r.array if isinstance(r, Tensor) else r) for r in results]
        if any(r is a for r in found for a in arrays):
            raise RuntimeError(f"{self.name} returned one of its arguments; return a copy of it")
        found += [given[name] for name in self._mutates]
        return found[0] if len(found) == 1 else tuple(found)

    def _infer(self, *avals: Aval, **attrs: Any) -> Any:
        given = self._bound(avals, attrs)
        mutated = [given[name] for name in self._mutates]
        if self._fake is None and (self.signature.return_annotation is None and mutated):
            return mutated[0] if len(mutated) == 1 else tuple(mutated)
        if self._fake is None:
            if self._error is not None:  # asked to explain a run that failed, which that error does
                raise self._error
            raise RuntimeError(
                f"{self.name} has no shape rule, which recording needs: give one with register_fake, a function of the "
                "same arguments that returns empty tensors of the right shape and dtype"
            )
        passed = [Tensor(v) if k not in attrs else v for k, v in given.items()]
        with no_grad(), executor.use(infer_only):
            out = self._fake(*passed)
        results = [] if out is None else list(out) if isinstance(out, tuple | list) else [out]
        found = [aval_of(r.array) for r in results] + mutated
        return found[0] if len(found) == 1 else tuple(found)

    def _vjp(self, F: Any, g: Any, out: Any, *inputs: Any, **attrs: Any) -> tuple[Any, ...]:
        if self._backward is None:
            raise RuntimeError(
                f"Trying to backward through {self.name} but no autograd formula was registered. Please use "
                "register_autograd to add one."
            )
        given = self._bound(inputs, attrs)
        context = Context()
        context.needs_input_grad = tuple(isinstance(v, Tensor) and v.requires_grad for v in given.values())
        if self._setup is not None:
            names = list(inspect.signature(self._setup).parameters)
            context_and_rest = {"inputs": tuple(given.values()), "output": out}
            self._setup(context, *(context_and_rest[n] for n in names[1:]))
        outs = out if isinstance(out, tuple) else (out,)
        gs = g if isinstance(g, tuple) else (g,)
        gs = tuple(F.zeros_like(o) if one is None else one for one, o in zip(gs, outs, strict=True))
        grads = self._backward(context, *gs)
        grads = grads if isinstance(grads, tuple | list) else (grads,)
        if len(grads) != len(given):
            raise RuntimeError(
                f"{self.name}: backward returned {len(grads)} gradients for {len(given)} arguments; return None for "
                "those without one"
            )
        return tuple(one for name, one in zip(given, grads, strict=True) if name not in attrs)

    # ---- what is registered -------------------------------------------------------------------------------

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """The shape rule: `fn` of the same arguments returns tensors of the shape and dtype of the results.

        It may look at shapes and dtypes alone; the contents of its arguments do not exist.
        """
        self._fake = fn
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., None] | None = None
    ) -> None:
        """The gradient: `setup_context(ctx, inputs, output)` keeps what `backward(ctx, *grads)` needs.

        backward returns a gradient, or None, for each argument; made of differentiable operations, it can be
        differentiated again.
        """
        self._backward, self._setup = backward, setup_context

    def register_kernel(
        self, device_types: Any, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """Another function to run, on every device: arrays say where they are."""
        if fn is None:
            return lambda fn: self.register_kernel(device_types, fn)
        self._fn = fn
        return fn


def hashable(op: str, name: str, value: Any) -> Any:
    """An attribute as the table takes it; TypeError for values that are no constants."""
    if isinstance(value, list | tuple):
        return tuple(hashable(op, name, v) for v in value)
    if value is None or isinstance(value, bool | int | float | complex | str):
        return value
    raise TypeError(
        f"{op}: {name} is a {type(value).__name__}; an argument that is no Tensor must be a number, text, None or a "
        "sequence of them"
    )


def definition(op: str | CustomOpDef) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in DEFINITIONS:
        raise KeyError(f"no custom operator is called {op!r}; define it with custom_op first")
    return DEFINITIONS[op]


def register_fake(op: str | CustomOpDef, func: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Give an operator its shape rule; see `CustomOpDef.register_fake`."""
    if func is None:
        return lambda func: definition(op).register_fake(func)
    return definition(op).register_fake(func)


def register_autograd(
    op: str | CustomOpDef,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., None] | None = None,
    **options: Any,
) -> None:
    """Give an operator its gradient; see `CustomOpDef.register_autograd`."""
    definition(op).register_autograd(backward, setup_context=setup_context)


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: Any, op_name: str = "") -> str:
    """The parameters of a function and its result, as text."""
    return f"{op_name}{inspect.signature(prototype_function)}"
