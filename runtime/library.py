"""The native side of an artifact: mapping it, choosing its CPU level, one thread pool for the whole
process.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from typing import Any

from ..serialized_models.container import machine_of
from ..serialized_models.format import ArtifactError, Manifest
from ..serialized_models.levels import cpu_level, cpu_name
from .source import Source, fresh_name
from .threads import default_threads

_MACHINE_NAMES = {"x86-64": ("x86_64", "AMD64"), "aarch64": ("aarch64", "arm64")}

_lock = threading.RLock()
_loaded: dict[str, ctypes.CDLL] = {}  # by digest: equal files are one library
_inodes: dict[tuple[int, int], str] = {}  # device and inode of a mapped file to its digest
_pool: list[tuple[ctypes.CDLL, str]] = []  # the library whose thread pool all use, and its name
_pool_size = 0


def open_library(source: Source, manifest: Manifest, digest: str, threads: int | None) -> ctypes.CDLL:
    """Map the library and make it ready; the one already mapped if the process has an equal file.

    Raises ArtifactError where this machine cannot run it.
    """
    check_machine(source, manifest)
    with _lock:
        library = _loaded.get(digest)
        if library is None:
            library = _map(source, manifest, digest)
            check_level(library, source.where, manifest)
            _loaded[digest] = library
        _share_pool(library, manifest.name, threads)
    return library


def check_machine(source: Source, manifest: Manifest) -> None:
    """Raise ArtifactError if the file is for another processor family or system than this process."""
    found = machine_of(source.data)
    here = platform.machine()
    if here not in _MACHINE_NAMES.get(found, ()) or found != manifest.machine:
        raise ArtifactError(
            f"{source.where} is for {found} and this process runs on {here}: compile the model with "
            f"--target {'portable' if here == 'x86_64' else here}"
        )
    if platform.system() != "Linux":
        raise ArtifactError(
            f"{source.where} is for Linux and this process runs on {platform.system()}: run it there"
        )


def _map(source: Source, manifest: Manifest, digest: str) -> ctypes.CDLL:
    status = os.fstat(source.descriptor)
    inode = status.st_dev, status.st_ino
    if _inodes.get(inode, digest) != digest:
        raise ArtifactError(
            f"{source.where} was overwritten while an earlier content of it is loaded: write a model to a "
            f"new file and "
            "rename it over the old one, as compile does, then load it in a new process"
        )
    try:
        library = ctypes.CDLL(fresh_name(source))
        if source.path and not os.path.samestat(status, os.stat(source.path)):
            raise ArtifactError(f"{source.where} was replaced while it was being loaded: load it again")
        for symbol in (f"{manifest.name}_{end}" for end in ("level", "select", "threads", "pool", "share")):
            getattr(library, symbol)
    except (OSError, AttributeError) as error:
        raise ArtifactError(
            f"{source.where} cannot be mapped as a library ({error}): compile it again, or report this if "
            f"it persists"
        ) from None
    _inodes[inode] = digest
    return library


def check_level(library: ctypes.CDLL, where: str, manifest: Manifest) -> None:
    """Raise ArtifactError if the CPU has none of the levels that the file holds code for."""
    if function(library, f"{manifest.name}_level", ctypes.c_int32)() == 0:
        raise ArtifactError(
            f"{where} holds code for {' and '.join(manifest.levels)} and this CPU ({cpu_name()}) is "
            f"{cpu_level()}: "
            "compile the model with --target portable, or with --target native on this machine"
        )


def _share_pool(library: ctypes.CDLL, name: str, threads: int | None) -> None:
    """Let the library run on the process's one pool, which grows to the most threads ever asked for."""
    if not _pool:
        _pool.append((library, name))
    owner, owner_name = _pool[0]
    if library is not owner:
        pool = function(owner, f"{owner_name}_pool", ctypes.c_void_p)()
        function(library, f"{name}_share", None, ctypes.c_void_p)(pool)
    grow_pool(default_threads() if threads is None else threads)


def grow_pool(threads: int) -> None:
    """Make the pool have at least `threads` threads."""
    global _pool_size
    with _lock:
        if threads > _pool_size:
            owner, name = _pool[0]
            function(owner, f"{name}_threads", None, ctypes.c_int32)(threads)
            _pool_size = threads


def function(library: ctypes.CDLL, symbol: str, result: Any, *arguments: Any) -> Any:
    """An exported function with its C types; a new object, so that no user changes another's types."""
    found = library[symbol]
    found.restype, found.argtypes = result, arguments
    return found
