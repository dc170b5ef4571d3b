"""NVRTC, NVIDIA's compiler of CUDA C++, through ctypes: no cupy, no GPU, no driver needed to compile.

The wheel `nvidia-cuda-nvrtc` (extra `[cuda]`) brings the library. cupy's own binding drops the last byte of a
cubin, which is why this does not go through it.
"""

from __future__ import annotations

import ctypes
import functools
import re
import sysconfig
from pathlib import Path
from typing import NamedTuple


class NvrtcError(RuntimeError):
    """NVRTC is not there, or refused the source; the message has its log."""


class Resources(NamedTuple):
    """What one thread of a kernel takes: registers, and bytes of spills; and a block: bytes of shared memory."""

    registers: int
    spill_stores: int
    spill_loads: int
    shared: int


class Compiled(NamedTuple):
    """A compiled module: a cubin, or PTX text ending in a zero byte as the driver wants it; and NVRTC's log."""

    image: bytes
    log: str

    def resources(self) -> dict[str, Resources]:
        """What each kernel takes, by name, as the assembler reports it. Empty for PTX, which has no registers yet."""
        found = re.finditer(_REPORT, self.log, re.DOTALL)
        return {m["name"]: Resources(*(int(m[k] or 0) for k in Resources._fields)) for m in found}


_REPORT = (
    r"Function properties for (?P<name>\w+)\n"
    r"[^\n]*?(?P<spill_stores>\d+) bytes spill stores, (?P<spill_loads>\d+) bytes spill loads\n"
    r"[^\n]*?Used (?P<registers>\d+) registers[^\n]*?(?:(?P<shared>\d+) bytes smem[^\n]*)?(?:\n|$)"
)


def compile_cuda(source: str, arch: str) -> Compiled:
    """Compile for `arch`: "sm_80", "sm_90", … give a cubin; "compute_80", … give PTX."""
    nvrtc = _library()
    program = ctypes.c_void_p()
    _check(
        nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    )
    try:
        flags = [
            f"--gpu-architecture={arch}",
            "--std=c++17",
            "-default-device",
            "--fmad=false",
            "-diag-suppress=177",
        ]
        if arch.startswith("sm_"):
            flags.append("--ptxas-options=-v")
        array = (ctypes.c_char_p * len(flags))(*[f.encode() for f in flags])
        code = nvrtc.nvrtcCompileProgram(program, len(flags), array)
        log = _get(nvrtc, program, "ProgramLog").rstrip(b"\0").decode()
        if code:
            raise NvrtcError(f"NVRTC refused the generated source for {arch}:\n{log}")
        kind = "CUBIN" if arch.startswith("sm_") else "PTX"
        return Compiled(_get(nvrtc, program, kind), log)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _get(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _check(nvrtc: ctypes.CDLL, code: int) -> None:
    if code:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise NvrtcError(f"NVRTC: {nvrtc.nvrtcGetErrorString(code).decode()}")


@functools.cache
def _library() -> ctypes.CDLL:
    """libnvrtc from the wheel, else from the system. Its companion with built-in functions is opened first, since
    the wheel's folder is on no search path."""
    folders = sorted((Path(sysconfig.get_paths()["purelib"]) / "nvidia").glob("c*/lib"))
    for folder in folders:
        for builtins in sorted(folder.glob("libnvrtc-builtins.so*")):
            ctypes.CDLL(str(builtins))
    names = [str(p) for folder in folders for p in sorted(folder.glob("libnvrtc.so*"))]
    for name in [*names, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise NvrtcError("compiling for CUDA needs NVRTC, which is not installed: pip install 'tapecast[cuda]'")


def available() -> bool:
    """Is there an NVRTC to compile with?"""
    try:
        _library()
    except NvrtcError:
        return False
    return True
