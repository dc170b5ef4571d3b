"""Settings of the whole process: threads, determinism, the device of new tensors."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Any

from .device import device as Device

#: What the function of numpy's OpenBLAS is called in its different builds.
OPENBLAS = [
    f"{prefix}openblas_set_num_threads{suffix}" for prefix in ("", "scipy_") for suffix in ("", "64_")
]

PRECISIONS = ("highest", "high", "medium")


class Settings:
    """What has been set; the defaults are what tapecast does in any case."""

    threads: int | None = None
    interop_threads = 1
    deterministic = False
    warn_only = False
    precision = "highest"
    warn_always = False


def get_num_threads() -> int:
    """The threads that products use at most: as set, else the CPUs that this process may use."""
    if Settings.threads is not None:
        return Settings.threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_num_threads(num: int) -> None:
    """Use at most so many threads for products of matrices; compiled models have `threads=` of their own.

    RuntimeError for a number below 1."""
    if not isinstance(num, int):
        raise TypeError(f"set_num_threads expects an int, but got {type(num).__name__}")
    if num < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    Settings.threads = num
    with suppress(OSError), open("/proc/self/maps", encoding="utf-8") as file:
        for path in {line.split()[-1] for line in file if "openblas" in line}:
            library = ctypes.CDLL(path)
            for name in OPENBLAS:
                if hasattr(library, name):
                    getattr(library, name)(num)


def get_num_interop_threads() -> int:
    """1, or as set: eager operations run one after another."""
    return Settings.interop_threads


def set_num_interop_threads(num: int) -> None:
    """Kept, and without effect. RuntimeError for a number below 1."""
    if num < 1:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    Settings.interop_threads = num


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Kept, and without effect: all of tapecast's operations give the same bits every time."""
    Settings.deterministic, Settings.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was told last."""
    return Settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What `use_deterministic_algorithms` was told last."""
    return Settings.warn_only


def set_float32_matmul_precision(precision: str) -> None:
    """Kept, and without effect: products of float32 are computed in float32. ValueError for an unknown word."""
    if precision not in PRECISIONS:
        raise ValueError(
            f"float32_matmul_precision must be one of {', '.join(PRECISIONS)}, got {precision!r}"
        )
    Settings.precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was told last."""
    return Settings.precision


def set_flush_denormal(mode: bool) -> bool:
    """False: subnormal numbers are kept, whatever the mode."""
    return False


def set_warn_always(b: bool) -> None:
    """Kept, and without effect: Python's warning filters decide."""
    Settings.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was told last."""
    return Settings.warn_always


def get_default_device() -> Any:
    """The device of new tensors: the CPU."""
    return Device("cpu")


def set_default_device(device: Any) -> None:
    """The CPU is the one default. RuntimeError for any other device: give `device=` where tensors are made."""
    if device is not None and Device(device).type != "cpu":
        raise RuntimeError(
            f"set_default_device: new tensors are on the cpu unless they are made with device={str(device)!r}"
        )
