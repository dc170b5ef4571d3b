"""Reading the container of both kinds of file: a zip whose entries are stored as they are, behind an ELF or
alone.

The reader is small and strict, so that loading costs well under a millisecond and takes no zip library: it
wants what `writer.py` writes, an archive comment of `sha256:` and the digest of every byte before the digest.

====================  ==========================================================================
part                  content
====================  ==========================================================================
ELF                   headers, code, data (an artifact only)
local header + data   weights.bin: the same bytes are the last segment of the ELF, page aligned
ELF section headers   for debuggers and profilers
local header + data   state.bin, graph.txt, manifest.json
central directory     where the entries are
end record + comment  "sha256:" and 64 digits
====================  ==========================================================================
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from .format import ARTIFACT, MACHINES, ArtifactError, damaged

COMMENT = b"sha256:"
COMMENT_SIZE = len(COMMENT) + 64
DIGEST_SIZE = 64

ELF_MAGIC = b"\x7fELF"
ZIP_MAGIC = b"PK\x03\x04"
LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END_64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR_64 = struct.Struct("<4sIQI")
FULL_16, FULL_32 = 0xFFFF, 0xFFFFFFFF
PAGE = 4096

Buffer = bytes | memoryview


class Part(NamedTuple):
    """One entry of the zip: where its bytes are in the file."""

    offset: int
    size: int


class Container(NamedTuple):
    """A file that was taken apart. `code_size` is the offset of the first entry's header: all before it is
    ELF.
    """

    data: memoryview
    digest: str
    parts: dict[str, Part]
    code_size: int

    def read(self, name: str) -> memoryview:
        """The bytes of an entry, empty if there is none."""
        offset, size = self.parts.get(name, Part(0, 0))
        return self.data[offset : offset + size]


def open_container(data: Buffer, where: str, verify: bool = True) -> Container:
    """Take a file apart. `where` names it in messages; `verify` compares its digest, which reads every byte.

    Raises ArtifactError for a file that is cut short, damaged or no container.
    """
    view = memoryview(data)
    check_kind(view, where)
    digest = bytes(view[-DIGEST_SIZE:]).decode("ascii", "replace")
    if verify and digest != digest_of(view[:-DIGEST_SIZE]):
        raise ArtifactError(damaged(where, "its bytes do not have the digest that is written at its end"))
    try:
        parts, code_size = _directory(view)
    except (struct.error, ValueError, UnicodeDecodeError) as error:
        raise ArtifactError(damaged(where, f"its directory cannot be read ({error})")) from None
    return Container(view, digest, parts, code_size)


def digest_of(data: Buffer) -> str:
    """SHA-256 as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def check_kind(view: memoryview, where: str) -> None:
    """Raise ArtifactError, saying what the file seems to be, unless it begins and ends as a container."""
    start = bytes(view[:4])
    if not start:
        raise ArtifactError(f"{where} is empty: a {ARTIFACT} was wanted; copy or compile it again")
    if start not in (ELF_MAGIC, ZIP_MAGIC):
        shown = start.hex(" ") if len(view) < 4 or not start.isascii() else repr(start.decode())
        raise ArtifactError(
            f"{where} is not a {ARTIFACT}: it begins with {shown}, not as a library; check the path"
        )
    if not has_end(view):
        raise ArtifactError(f"{where} {_no_end(view, start)}")


def has_end(view: memoryview) -> bool:
    """Whether the last bytes are an end record with our comment."""
    at = len(view) - COMMENT_SIZE - END.size
    return (
        at >= 0
        and bytes(view[at : at + 4]) == b"PK\x05\x06"
        and view[at + END.size : at + END.size + len(COMMENT)] == COMMENT
    )


def _no_end(view: memoryview, start: bytes) -> str:
    if start == ZIP_MAGIC:
        return (
            "is a zip without the end that tapecast writes: it was cut short, or is another kind of file; "
            "copy it again"
        )
    if cut_short(view):
        return "is cut short: its ELF headers tell of more bytes than there are; copy or compile it again"
    return (
        "is an ELF file without the manifest that tapecast writes at the end: it is some other library, "
        "or a model that "
        "was cut short or appended to; check the path, or copy it again"
    )


def cut_short(view: memoryview) -> bool:
    """Whether the section headers that the ELF header tells of lie outside the file."""
    if len(view) < 64:
        return True
    (at,), (count,) = struct.unpack_from("<Q", view, 40), struct.unpack_from("<H", view, 60)
    return bool(at + 64 * count > len(view))


def machine_of(view: Buffer) -> str:
    """The processor family an ELF file is for; its number where we have no name."""
    (number,) = struct.unpack_from("<H", view, 18)
    return next((name for name, code in MACHINES.items() if code == number), f"machine {number}")


def _directory(view: memoryview) -> tuple[dict[str, Part], int]:
    count, at = _end(view)
    parts, first = {}, len(view)
    for _ in range(count):
        name, size, header, at = _central_entry(view, at)
        parts[name] = _part(view, header, name, size)
        first = min(first, header)
    return parts, first


def _end(view: memoryview) -> tuple[int, int]:
    """Number of entries and offset of the central directory."""
    end = len(view) - COMMENT_SIZE - END.size
    count, offset = END.unpack_from(view, end)[4], END.unpack_from(view, end)[6]
    if FULL_32 != offset and count != FULL_16:
        return count, offset
    record = LOCATOR_64.unpack_from(view, end - LOCATOR_64.size)[2]
    fields = END_64.unpack_from(view, record)
    return fields[7], fields[9]


def _central_entry(view: memoryview, at: int) -> tuple[str, int, int, int]:
    """Name, size and header offset of the entry at `at`, and where the next one is."""
    fields = CENTRAL.unpack_from(view, at)
    magic, method, packed, size = fields[0], fields[4], fields[8], fields[9]
    name_size, extra_size, comment_size, header = fields[10], fields[11], fields[12], fields[16]
    if magic != b"PK\x01\x02" or method != 0:
        raise ValueError("an entry is not stored as it is")
    start = at + CENTRAL.size
    name = bytes(view[start : start + name_size]).decode()
    extra = view[start + name_size : start + name_size + extra_size]
    size, packed, header = _wide(extra, size, packed, header)
    if size != packed:
        raise ValueError(f"{name} is compressed")
    return name, size, header, start + name_size + extra_size + comment_size


def _wide(extra: memoryview, *values: int) -> tuple[int, ...]:
    """The values with those that are full replaced from the zip64 field (APPNOTE 4.5.3)."""
    if FULL_32 not in values:
        return values
    kind, length = struct.unpack_from("<2H", extra)
    wide = iter(struct.unpack_from(f"<{length // 8}Q", extra, 4))
    if kind != 1:
        raise ValueError("an entry of 4 GiB has no zip64 field")
    return tuple(next(wide) if v == FULL_32 else v for v in values)


def _part(view: memoryview, header: int, name: str, size: int) -> Part:
    fields = LOCAL.unpack_from(view, header)
    offset = header + LOCAL.size + fields[9] + fields[10]
    if fields[0] != ZIP_MAGIC or offset + size > len(view):
        raise ValueError(f"{name} is not where the directory says")
    return Part(offset, size)
