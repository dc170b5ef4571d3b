"""Segments: pieces of memory that several processes map, and that the system frees with the last of them.

A segment is a file without a name (`memfd_create`, or a file of /dev/shm whose name is gone before it is used), so
that nothing is left behind however a process ends. Its pages are taken when it is made, by `posix_fallocate`: too
little memory is an error with numbers in it there, and never a bus error at some write later on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
import weakref
from typing import Any

import numpy as np

SHM = "/dev/shm"
PROT_READ, PROT_WRITE, MAP_SHARED = 1, 2, 1
MAP_FAILED = ctypes.c_void_p(-1).value
MIB = 1 << 20

strategy = ["file_descriptor"]
"""How segments are made: "file_descriptor" (memfd, bounded by memory alone), "file_system" (/dev/shm)."""


def c_library() -> ctypes.CDLL:
    """The C library with the signatures of what is called here."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    libc.munmap.restype = ctypes.c_int
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


libc = c_library()


class Segment:
    """Shared memory of `size` bytes, mapped at `address` until nothing refers to it any more.

    numpy takes it for an array of bytes (`numpy.asarray(segment)`); arrays over it keep it alive. `fd` is a
    descriptor of it for other processes, or None once `close` has been called: the memory itself stays.
    """

    # The module `mmap` would keep a descriptor of its own for each mapping; thousands of them are too many.

    def __init__(self, fd: int, size: int) -> None:
        self.fd: int | None = fd
        self.size = size
        address = libc.mmap(None, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        if address == MAP_FAILED:
            code = ctypes.get_errno()
            os.close(fd)
            raise OSError(code, f"cannot map {amount(size)} of shared memory: {os.strerror(code)}")
        self.address: int = address
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
        }
        # Not at exit: arrays may be read up to the very end, and the system frees all of it then.
        weakref.finalize(self, libc.munmap, address, size).atexit = False

    def close(self) -> None:
        """Give up the descriptor; the memory stays."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def __del__(self) -> None:
        if getattr(self, "fd", None) is not None:
            self.close()


def create(size: int) -> Segment:
    """A segment of at least one byte, filled with zeros. OSError, with numbers and a remedy, where memory is short."""
    size = max(size, 1)
    check_memory(size)
    fd = new_file()
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        os.close(fd)
        raise OSError(error.errno, shortage(size, os.strerror(error.errno or 0))) from None
    return Segment(fd, size)


def new_file() -> int:
    """The descriptor of an empty file in memory that has no name."""
    if strategy[0] == "file_descriptor" and hasattr(os, "memfd_create"):
        return os.memfd_create("tapecast")
    fd, path = tempfile.mkstemp(prefix="tapecast-", dir=SHM)
    os.unlink(path)
    return fd


def uses_shm() -> bool:
    """Whether segments take their space from /dev/shm, whose size is often set much below that of memory."""
    return strategy[0] == "file_system" or not hasattr(os, "memfd_create")


def free_space() -> int:
    """Bytes that new segments can take: what is free in /dev/shm, or in memory and the control group's limit."""
    if uses_shm():
        status = os.statvfs(SHM)
        return status.f_bavail * status.f_frsize
    return min(free_memory(), free_in_group())


def free_memory() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))


def free_in_group() -> int:
    """What the memory limit of this process's control group leaves; a very large number without a limit."""
    try:
        limit, used = (read_number(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
        cache = read_statistic("/sys/fs/cgroup/memory.stat", "inactive_file")  # given up on need
    except (OSError, ValueError):
        return 1 << 62
    return max(0, limit - used + cache)


def read_number(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())


def read_statistic(path: str, name: str) -> int:
    with open(path, encoding="ascii") as file:
        return next((int(line.split()[1]) for line in file if line.split()[0] == name), 0)


def check_memory(size: int) -> None:
    """OSError for a segment that memory does not hold: the system would not refuse it, but end some process."""
    if size >= MIB and not uses_shm() and (free := free_space()) < size:
        raise OSError(errno.ENOMEM, shortage(size, f"only {amount(free)} are free"))


def shortage(size: int, reason: str) -> str:
    """The message for a segment that could not be made."""
    place = SHM if uses_shm() else "memory"
    remedy = (
        f"make {SHM} larger (`mount -o remount,size=8G {SHM}`, `docker run --shm-size=8g`) or call "
        'tapecast.multiprocessing.set_sharing_strategy("file_descriptor"), which does not depend on its size'
        if uses_shm()
        else "use smaller batches, fewer workers or a smaller prefetch_factor, or raise the memory or file size limit"
    )
    return (
        f"cannot allocate {amount(size)} of shared memory: {reason} "
        f"({amount(free_space())} free in {place}); {remedy}"
    )


def amount(size: int) -> str:
    """`1.5 GiB`, `20.0 MiB`, `300 bytes`."""
    for unit, bytes_each in (("GiB", 1 << 30), ("MiB", MIB), ("KiB", 1024)):
        if size >= bytes_each:
            return f"{size / bytes_each:.1f} {unit}"
    return f"{size} bytes"


def owner(array: np.ndarray[Any, Any]) -> Any:
    """The object whose memory an array shows: a `Segment`, another provider of memory, or an array that owns it."""
    found: Any = array
    while isinstance(found, np.ndarray) and found.base is not None:
        found = found.base
    return found


def segment_of(array: Any) -> Segment | None:
    """The segment that an array lies in; None for ordinary memory."""
    found = owner(array) if isinstance(array, np.ndarray) else None
    found = getattr(found, "segment", found)
    return found if isinstance(found, Segment) else None
