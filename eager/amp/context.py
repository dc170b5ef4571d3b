"""`autocast`: within it matrix products and convolutions run in bfloat16 or float16, losses in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..casting import Open, cast, state
from ..dtypes import dtype_of

DEVICES = {"cpu": "bfloat16", "cuda": "float16"}
"""The types of device, and the dtype of autocast there unless another is asked for."""
SUPPORTED = ("bfloat16", "float16")

_defaults = dict(DEVICES)
_cache = [True]


class autocast:
    """A block, or a decorated function, whose matrix products and convolutions run in `dtype`.

    `device_type`: "cpu" or "cuda"; `dtype`: bfloat16 or float16, by default bfloat16 on CPUs and float16 on GPUs;
    `enabled=False`: a part of such a block that is not cast. `cache_enabled` is accepted: casts are not kept.
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in DEVICES:
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'; one of {', '.join(DEVICES)}"
            )
        self.device, self.enabled = device_type, enabled
        self.fast_dtype = dtype_of(_defaults[device_type] if dtype is None else dtype)
        if enabled and self.fast_dtype.name not in SUPPORTED:
            raise RuntimeError(
                f"In {device_type} autocast, the dtype {self.fast_dtype} is not supported: use bfloat16 or float16"
            )
        self.tokens: list[Any] = []

    def __enter__(self) -> autocast:
        casts = {k: v for k, v in state.get().items() if k != self.device}
        if self.enabled:
            casts[self.device] = self.fast_dtype
        self.tokens.append(state.set(casts))
        Open.count += 1
        return self

    def __exit__(self, *exc: object) -> None:
        Open.count -= 1
        state.reset(self.tokens.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inner


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether an autocast block of this type of device is open here."""
    return device_type in state.get()


def is_autocast_cpu_enabled() -> bool:
    """Whether an autocast block for CPUs is open here."""
    return is_autocast_enabled("cpu")


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Turn autocast on or off for what follows in this thread."""
    casts = {k: v for k, v in state.get().items() if k != device_type}
    if enabled:
        casts[device_type] = dtype_of(_defaults[device_type])
        Open.count += 1
    state.set(casts)


def get_autocast_dtype(device_type: str) -> Any:
    """The dtype of the block that is open, or else the one that a block without dtype gets."""
    return state.get().get(device_type, dtype_of(_defaults[device_type]))


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """The dtype of blocks that are given none."""
    _defaults[device_type] = dtype_of(dtype).name


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for this type of device."""
    return device_type in DEVICES


def is_autocast_cache_enabled() -> bool:
    """What `set_autocast_cache_enabled` was told."""
    return _cache[0]


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Accepted for compatibility: casts are not kept."""
    _cache[0] = enabled


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """For the forward of an autograd.Function: cast its inputs to `cast_inputs` and run it without autocast.

    Without `cast_inputs` it runs as it is called, and its backward in the same mode.
    """
    if fwd is None:
        return lambda fwd: custom_fwd(fwd, device_type=device_type, cast_inputs=cast_inputs)

    @wraps(fwd)
    def inner(*args: Any, **kwargs: Any) -> Any:
        ctx, on = args[0], is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        if cast_inputs is None or not on:
            ctx._fwd_used_autocast = on
            return fwd(*args, **kwargs)
        ctx._fwd_used_autocast = False
        wanted = dtype_of(cast_inputs)
        with autocast(device_type, enabled=False):
            given = [cast(a, {device_type: wanted}, lambda to: to) for a in args]
            return fwd(
                *given, **{k: cast(v, {device_type: wanted}, lambda to: to) for k, v in kwargs.items()}
            )

    return inner


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """For the backward of an autograd.Function whose forward has `custom_fwd`: run it in the forward's mode."""
    if bwd is None:
        return lambda bwd: custom_bwd(bwd, device_type=device_type)

    @wraps(bwd)
    def inner(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, dtype=args[0]._dtype, enabled=args[0]._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return inner
