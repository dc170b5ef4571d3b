"""A relocatable ELF object that holds one blob under a symbol: the weights, for those who link statically."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .cpu.elf_object import (
    ET_REL,
    HEADER,
    MAGIC,
    SECTION_HEADER,
    SHF_ALLOC,
    SHT_PROGBITS,
    SHT_STRTAB,
    SHT_SYMTAB,
    STB_GLOBAL,
    SYMBOL,
)

STT_OBJECT = 1
ALIGN = 64
STRINGS = 3  # the number of .strtab, which holds the names of symbols and of sections
NAMES = b"\0.rodata\0.symtab\0.strtab\0.note.GNU-stack\0"


class _Section(NamedTuple):
    name: str
    type: int
    flags: int
    data: bytes
    align: int
    link: int = 0
    info: int = 0
    entry: int = 0


def weights_object(symbol: str, data: bytes, machine: int) -> bytes:
    """The object: `symbol` is global, read-only, 64-byte aligned. `machine` is a number of the ELF header."""
    strings = b"\0" + symbol.encode() + NAMES
    symbols = bytes(SYMBOL.size) + SYMBOL.pack(1, STB_GLOBAL << 4 | STT_OBJECT, 0, 1, 0, len(data))
    sections = (
        _Section(".rodata", SHT_PROGBITS, SHF_ALLOC, data, ALIGN),
        _Section(".symtab", SHT_SYMTAB, 0, symbols, 8, link=STRINGS, info=1, entry=SYMBOL.size),
        _Section(".strtab", SHT_STRTAB, 0, strings, 1),
        _Section(".note.GNU-stack", SHT_PROGBITS, 0, b"", 1),  # else linkers ask for an executable stack
    )
    body, headers = _placed(sections, strings)
    table = HEADER.size + len(body)
    header = HEADER.pack(
        MAGIC.ljust(16, b"\0"), ET_REL, machine, 1, 0, 0, table, 0, HEADER.size, 0, 0, SECTION_HEADER.size,
        len(sections) + 1, STRINGS,
    )  # fmt: skip
    return header + body + headers


def _placed(sections: Sequence[_Section], strings: bytes) -> tuple[bytes, bytes]:
    """The sections one after another behind the ELF header, and the table that tells where they are."""
    body, headers = bytearray(), bytes(SECTION_HEADER.size)
    for s in sections:
        body += bytes(-(HEADER.size + len(body)) % s.align)
        name, at = strings.index(f"\0{s.name}\0".encode()) + 1, HEADER.size + len(body)
        headers += SECTION_HEADER.pack(
            name, s.type, s.flags, 0, at, len(s.data), s.link, s.info, s.align, s.entry
        )
        body += s.data
    body += bytes(-len(body) % 8)
    return bytes(body), headers
