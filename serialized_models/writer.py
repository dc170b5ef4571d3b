"""Writing the container of both kinds of file; `container.py` says what it looks like.

Bytes depend on the content alone: entries have one fixed date, no owner, no compression (whose output varies
from one zlib to another), and nothing holds a path."""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from .container import COMMENT, COMMENT_SIZE, DIGEST_SIZE, END, ZIP_MAGIC, has_end

EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date a zip can hold
CHUNK = 1 << 20


def entry_info(name: str, size: int) -> zipfile.ZipInfo:
    """A stored entry of `size` bytes with the fixed date and plain permissions."""
    info = zipfile.ZipInfo(name, EPOCH)
    info.create_system, info.external_attr = 3, 0o644 << 16
    info.file_size, info.compress_size, info.CRC = size, size, 0
    return info


def local_header(info: zipfile.ZipInfo) -> bytes:
    """The bytes that precede an entry's content; `info` has its size and CRC."""
    return info.FileHeader(zip64=info.file_size > zipfile.ZIP64_LIMIT)


def header_size(name: str, size: int) -> int:
    """The bytes of a local header, before the content is known."""
    return len(local_header(entry_info(name, size)))


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Within the block an OSError becomes one of its kind that names `path`."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise type(error)(f"{path} cannot be written ({error.strerror}): choose another path") from None


def check_destination(path: Path) -> None:
    """Raise OSError, of the kind the system would, in a sentence, where no file can be written at `path`."""
    folder = path.absolute().parent
    with contextlib.suppress(FileNotFoundError), _naming(path):
        os.lstat(path)  # fails for a name that is too long, or below something that is no folder
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the path of a file in it")
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{path} cannot be written: the folder {folder} does not exist; make it first"
        )
    if path.exists() and not path.is_file():
        raise FileExistsError(f"{path} is not a regular file and is not replaced: choose another path")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{path} cannot be written: its folder has no write permission")


def check_replaceable(path: Path, magic: bytes, kind: str) -> None:
    """Raise FileExistsError if `path` is a file that is no `kind`, one that begins with `magic` and ends as our
    containers do. An empty file is anybody's."""
    if not path.is_file() or not (size := path.stat().st_size):
        return
    with open(path, "rb") as file:
        start = file.read(len(magic))
        file.seek(max(0, size - COMMENT_SIZE - END.size))
        if start == magic and has_end(memoryview(file.read())):
            return
    raise FileExistsError(
        f"{path} exists and is no {kind}, so it is not replaced: choose another path, or remove it first"
    )


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when the block ends well, and leaves nothing behind when it does
    not. OSError names `path` where it cannot be written.

    A process that has the old file mapped keeps the old one.
    """
    check_destination(path)
    draft = path.with_name(f".tapecast-{os.urandom(8).hex()}")
    try:
        with _naming(path):
            file = open(draft, "x+b")
        with file:
            yield file
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def append_entries(
    file: IO[bytes], entries: Mapping[str, bytes], placed: tuple[zipfile.ZipInfo, ...] = ()
) -> None:
    """Add a zip of `entries` at the end of `file`, its comment the digest of all before it.

    `placed` are entries whose header and content are in the file already, each with its `header_offset`.
    """
    file.seek(0, os.SEEK_END)
    # Mode "w" writes from here on and, unlike "a", does not search what is there for an older zip.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.filelist.extend(placed)
        for name, data in entries.items():
            archive.writestr(entry_info(name, len(data)), data)
        archive.comment = COMMENT + b"0" * DIGEST_SIZE
    _seal(file)


def _seal(file: IO[bytes]) -> None:
    """Put the digest into the comment, over the zeros that hold its place."""
    size = file.seek(0, os.SEEK_END) - DIGEST_SIZE
    digest, left = hashlib.sha256(), size
    file.seek(0)
    while left > 0:
        chunk = file.read(min(CHUNK, left))
        digest.update(chunk)
        left -= len(chunk)
    file.seek(size)
    file.write(digest.hexdigest().encode())


def write_program(path: Path, manifest: bytes, graph: bytes, weights: bytes) -> None:
    """Write `model.tape`: `manifest` and `graph` are texts, `weights` a safetensors file.

    OSError in a sentence where `path` cannot be written or is a file of another kind.
    """
    from .format import GRAPH, MANIFEST, PROGRAM, PROGRAM_WEIGHTS

    check_replaceable(path, ZIP_MAGIC, PROGRAM)
    with replacing(path) as file:
        append_entries(file, {MANIFEST: manifest, GRAPH: graph, PROGRAM_WEIGHTS: weights})
