"""Memory for time: what a function saves for the backward pass is dropped, and computed again when it is asked for.

Source: Chen et al. 2016, "Training deep nets with sublinear memory cost".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from .. import casting, random
from ..autograd import Function, backward
from ..autograd.graph import saved_tensors_hooks
from ..modes import enable_grad, is_grad_enabled
from ..tensor import Tensor

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "set_checkpoint_early_stop"]

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]

_early_stop = [True]
IMPLICIT = (
    "checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended; "
    "without it the older use_reentrant=True is taken."
)


class CheckpointError(RuntimeError):
    """The second run of a function did not save what the first one did."""


class StopRecomputation(Exception):
    """Ends a second run that has computed all that is asked for."""


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether second runs in this block end when they have computed what is asked for, as they do by default."""
    before = _early_stop[0]
    _early_stop[0] = enable
    try:
        yield
    finally:
        _early_stop[0] = before


def noop_context_fn() -> Contexts:
    """Contexts of the two runs that change nothing."""
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), which is run again in the backward pass instead of saving what it needs.

    The second run sees the same random numbers (with `preserve_rng_state`) and the same autocast. `use_reentrant=True`
    runs the function without a tape and nests a backward pass: it takes no keyword arguments, needs an argument that
    requires grad and works with `backward()` alone. `determinism_check="none"` accepts a second run that saves tensors
    of other shapes. `context_fn` gives contexts for both runs. `debug` is accepted. Errors: CheckpointError.
    """
    if use_reentrant is None:
        warnings.warn(IMPLICIT, stacklevel=2)
        use_reentrant = True
    run = Run(function, preserve_rng_state)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        check_inputs(args)
        return Reentrant.apply(run, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of 'default', 'none', got {determinism_check!r}")
    first, second = context_fn()
    if not is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    strict, stop = determinism_check == "default", early_stop and _early_stop[0]
    again = Recomputation(run, args, kwargs, second, strict, stop)
    with first, saved_tensors_hooks(again.pack, again.unpack):
        return function(*args, **kwargs)


class Run:
    """A function that can be run again as it was run first."""

    def __init__(self, function: Callable[..., Any], preserve: bool) -> None:
        self.function, self.preserve = function, preserve
        self.stream = random.default_generator.state
        self.casts = casting.state.get()

    def again(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call it, taped, with the random numbers and the autocast of the first time; the stream then goes on."""
        now = random.default_generator.state
        if self.preserve:
            random.default_generator.state = self.stream
        casting.Open.count += 1
        token = casting.state.set(self.casts)
        try:
            with enable_grad():
                return self.function(*args, **kwargs)
        finally:
            casting.state.reset(token)
            casting.Open.count -= 1
            if self.preserve:
                random.default_generator.state = now


def detached(value: Any) -> Any:
    """A tensor as a new leaf, other values as they are."""
    return value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value


class Recomputation:
    """The saved tensors of one checkpoint: numbered in the first run, found by their number in the second."""

    def __init__(
        self,
        run: Run,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context: AbstractContextManager[Any],
        strict: bool,
        stop: bool,
    ) -> None:
        self.run, self.args, self.kwargs, self.context = run, args, kwargs, context
        self.strict, self.stop = strict, stop
        self.known: list[tuple[Any, Any]] = []
        self.found: dict[int, Tensor] = {}

    def pack(self, tensor: Tensor) -> int:
        """Keep shape and dtype, not the tensor."""
        self.known.append((tuple(tensor.array.shape), tensor.array.dtype))
        return len(self.known) - 1

    def unpack(self, number: int) -> Tensor:
        """The tensor, from a second run if it is not there any more."""
        if number not in self.found:
            self._recompute()
        return self.found.pop(number)

    def _recompute(self) -> None:
        self.found.clear()
        count = 0

        def keep(tensor: Tensor) -> None:
            nonlocal count
            if count < len(self.known):
                self._check(count, tensor)
                self.found[count] = tensor.detach()
            count += 1
            if self.stop and count == len(self.known):
                raise StopRecomputation

        args = tuple(map(detached, self.args))
        kwargs = {key: detached(value) for key, value in self.kwargs.items()}
        try:
            with ExitStack() as stack:
                stack.enter_context(self.context)
                stack.enter_context(saved_tensors_hooks(keep, refuse))
                self.run.again(args, kwargs)
        except StopRecomputation:
            pass
        if count != len(self.known) if not self.stop else count < len(self.known):
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.known)}\n"
                f"Number of tensors saved during recomputation: {count}"
            )

    def _check(self, number: int, tensor: Tensor) -> None:
        found = (tuple(tensor.array.shape), tensor.array.dtype)
        if self.strict and found != self.known[number]:
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata than during the "
                f"forward pass.\ntensor at position {number}:\nsaved metadata: {self.known[number]}\n"
                f"recomputed metadata: {found}"
            )


def refuse(packed: Any) -> Tensor:
    raise CheckpointError("checkpoint: the second run of a function is not differentiated itself")


def check_inputs(args: Sequence[Any]) -> None:
    if is_grad_enabled() and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)


class Reentrant(Function):
    """The function as one operation, whose gradient is a backward pass within the backward pass."""

    @staticmethod
    def forward(ctx: Any, run: Run, *args: Any) -> Any:
        ctx.run = run
        ctx.tensors = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*(args[k] for k in ctx.tensors))
        return run.function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        args = list(ctx.others)
        for k, tensor in zip(ctx.tensors, ctx.saved_tensors, strict=True):
            args[k] = tensor.detach().requires_grad_(ctx.needs_input_grad[k + 1])
        out = ctx.run.again(tuple(args), {})
        outputs = (out,) if isinstance(out, Tensor) else tuple(out)
        pairs = [
            (y, g)
            for y, g in zip(outputs, grads, strict=True)
            if isinstance(y, Tensor) and y.requires_grad and g is not None
        ]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([y for y, _ in pairs], [g for _, g in pairs])
        return None, *(a.grad if isinstance(a, Tensor) else None for a in args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """The modules of a Sequential, or a list of functions, in `segments` parts, all but the last checkpointed."""
    if use_reentrant is None:
        warnings.warn(IMPLICIT, stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for step in steps[start:end]:
                x = step(x)
            return x

        return run

    last = size * (segments - 1)
    for start in range(0, last, size) if size else ():
        input = checkpoint(
            part(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return part(last, len(steps))(input)
