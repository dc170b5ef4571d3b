"""Where an artifact comes from: a path, bytes or a file descriptor becomes memory to check and a name to
map.
"""

from __future__ import annotations

import mmap
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..serialized_models.format import ARTIFACT, ArtifactError

Origin = str | os.PathLike[str] | bytes | bytearray | memoryview | int


class Source(NamedTuple):
    """An open file: its bytes, its descriptor and what to call it. `path` is empty unless it has a lasting
    one.
    """

    data: memoryview
    descriptor: int
    where: str
    path: str


@contextmanager
def opened(origin: Origin) -> Iterator[Source]:
    """The file behind `origin`, open for the block. Raises ArtifactError where there is none to read."""
    if isinstance(origin, (bytes, bytearray, memoryview)):
        yield from _from_bytes(bytes(origin))
    elif isinstance(origin, int):
        yield from _mapped(origin, f"the file of descriptor {origin}", "")
    else:
        path = os.path.abspath(os.fspath(origin))
        descriptor = _open(path)
        try:
            yield from _mapped(descriptor, path, path)
        finally:
            os.close(descriptor)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ArtifactError(
            f"{path} does not exist: give the path of a {ARTIFACT} (model.so){_nearby(path)}"
        ) from None
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read ({error.strerror}): check its permissions") from None


def _nearby(path: str) -> str:
    """The artifacts of the folder, for someone who mistyped a name."""
    folder = os.path.dirname(path)
    found = (
        sorted(name for name in os.listdir(folder) if name.endswith(".so"))[:5]
        if os.path.isdir(folder)
        else []
    )
    return f"; in that folder are {', '.join(found)}" if found else ""


def _mapped(descriptor: int, where: str, path: str) -> Iterator[Source]:
    try:
        status = os.fstat(descriptor)
    except OSError as error:
        raise ArtifactError(f"{where} cannot be read ({error.strerror}): give an open file") from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise ArtifactError(f"{where} is {kind}: give a {ARTIFACT} (model.so) itself")
    if status.st_size == 0:
        yield Source(memoryview(b""), descriptor, where, path)
        return
    # Not closed here: views of it may live on in the traceback of an error. The last of them closes it.
    yield Source(memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)), descriptor, where, path)


def _from_bytes(data: bytes) -> Iterator[Source]:
    """A file in memory alone: the dynamic loader maps files, and this one leaves no trace."""
    where = f"the {len(data):,} bytes given"
    if not hasattr(os, "memfd_create"):
        raise ArtifactError(
            f"{where} cannot be mapped on this system: write them to a file and load its path"
        )
    descriptor = os.memfd_create("tapecast")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        yield Source(memoryview(data), descriptor, where, "")
    finally:
        os.close(descriptor)


_count = 0
_count_lock = threading.Lock()


def fresh_name(source: Source) -> str:
    """A name of the file that no earlier load has used.

    The dynamic loader takes a name it has seen for the library it has, even if the file was replaced since.
    It does not simplify names, so extra `/.` make one new."""
    global _count
    with _count_lock:
        _count += 1
        number = _count
    folder, base = os.path.split(source.path or f"/proc/self/fd/{source.descriptor}")
    return folder + "".join("/." if bit == "1" else "/" for bit in f"{number:b}") + "/" + base
