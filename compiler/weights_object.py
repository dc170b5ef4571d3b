"""A relocatable ELF object that holds one blob under a symbol: the weights, for those who link statically."""

from __future__ import annotations

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
    """The object: `symbol` is global, read-only and 64-byte aligned. `machine` is a number of the ELF
    header.
    """
    strings = b"\0" + symbol.encode() + b"\0"
    symbols = bytes(SYMBOL.size) + SYMBOL.pack(1, STB_GLOBAL << 4 | STT_OBJECT, 0, 1, 0, len(data))
    sections = (
        _Section(".rodata", SHT_PROGBITS, SHF_ALLOC, data, ALIGN),
        _Section(".symtab", SHT_SYMTAB, 0, symbols, 8, link=3, info=1, entry=SYMBOL.size),
        _Section(".strtab", SHT_STRTAB, 0, strings + NAMES, 1),
        _Section(
            ".note.GNU-stack", SHT_PROGBITS, 0, b"", 1
        ),  # without it linkers ask for an executable stack
    )
    pieces, headers, at = [], [bytes(SECTION_HEADER.size)], HEADER.size
    for section in sections:
        pad = -at % section.align
        at += pad
        name = len(strings) + NAMES.index(f"\0{section.name}\0".encode()) + 1
        headers.append(
            SECTION_HEADER.pack(
                name,
                section.type,
                section.flags,
                0,
                at,
                len(section.data),
                *section[5:7],
                section.align,
                section.entry,
            )
        )
        pieces += [bytes(pad), section.data]
        at += len(section.data)
    pad = -at % 8
    header = HEADER.pack(
        MAGIC.ljust(16, b"\0"),
        ET_REL,
        machine,
        1,
        0,
        0,
        at + pad,
        0,
        HEADER.size,
        0,
        0,
        SECTION_HEADER.size,
        5,
        3,
    )
    return b"".join([header, *pieces, bytes(pad), *headers])
