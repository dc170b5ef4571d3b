"""Relocatable ELF64 objects as data: the part of the format that a linker of LLVM's output has to read.

Names and numbers are those of the System V gABI, chapters 4 and 5.
"""

import struct
from typing import NamedTuple

ET_REL, ET_DYN = 1, 3
(SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_HASH, SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS) = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
)
SHT_DYNSYM, SHT_INIT_ARRAY, SHT_FINI_ARRAY = 11, 14, 15
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 0x1, 0x2, 0x4, 0x400
SHN_UNDEF, SHN_ABS, SHN_COMMON, SHN_XINDEX = 0, 0xFFF1, 0xFFF2, 0xFFFF
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STV_DEFAULT, STV_INTERNAL, STV_HIDDEN, STV_PROTECTED = 0, 1, 2, 3
STT_SECTION, STT_TLS, STT_GNU_IFUNC = 3, 6, 10

MAGIC = b"\x7fELF\x02\x01\x01"  # 64-bit, little-endian, version 1
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELA = struct.Struct("<QQq")
DYNAMIC = struct.Struct("<QQ")


class LinkError(Exception):
    """Objects that cannot become a shared library; the message names the object, symbol or section."""


class Section(NamedTuple):
    """One section: ``data`` is empty for SHT_NOBITS, whose ``size`` bytes are zeros."""

    name: str
    type: int
    flags: int
    size: int
    align: int
    link: int
    info: int
    data: bytes


class Symbol(NamedTuple):
    """One symbol: ``value`` is an offset in section number ``section``."""

    name: str
    binding: int
    type: int
    visibility: int
    section: int
    value: int
    size: int


class Relocation(NamedTuple):
    """A place to fix: ``offset`` in a section (by number), to a symbol (by number) plus ``addend``."""

    section: int
    offset: int
    type: int
    symbol: int
    addend: int


class ObjectFile(NamedTuple):
    """A relocatable object; the numbers in symbols and relocations index these tuples."""

    machine: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]


def read_object(data: bytes) -> ObjectFile:
    """Read a little-endian ELF64 relocatable object.  Raises LinkError for anything else."""
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError, UnicodeDecodeError) as error:
        raise LinkError(f"damaged ELF object of {len(data)} bytes: {error}") from error


def _read(data: bytes) -> ObjectFile:
    if data[:7] != MAGIC:
        raise LinkError(f"not a little-endian ELF64 object: it begins with {data[:7]!r}")
    _, kind, machine, _, _, _, at, _, _, _, _, _, count, names = HEADER.unpack_from(data)
    if kind != ET_REL:
        raise LinkError(f"not a relocatable object: its ELF type is {kind}, wanted {ET_REL}")
    if count == 0 or names == SHN_XINDEX:
        raise LinkError(
            "an object with no section table, or with more than 65,279 sections, is not supported"
        )
    sections = _read_sections(data, at, count, names)
    return ObjectFile(machine, sections, _read_symbols(sections), tuple(_read_relocations(sections)))


def _string(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()


def _read_sections(data: bytes, at: int, count: int, names: int) -> tuple[Section, ...]:
    headers = [SECTION_HEADER.unpack_from(data, at + SECTION_HEADER.size * i) for i in range(count)]
    contents = [b"" if h[1] == SHT_NOBITS else data[h[4] : h[4] + h[5]] for h in headers]
    if any(len(c) != h[5] for h, c in zip(headers, contents, strict=True) if h[1] != SHT_NOBITS):
        raise ValueError("a section runs past its end")
    return tuple(
        Section(_string(contents[names], name), kind, flags, size, max(align, 1), link, info, content)
        for (name, kind, flags, _, _, size, link, info, align, _), content in zip(
            headers, contents, strict=True
        )
    )


def _read_symbols(sections: tuple[Section, ...]) -> tuple[Symbol, ...]:
    table = next((s for s in sections if s.type == SHT_SYMTAB), None)
    if table is None:
        return ()
    names = sections[table.link].data
    return tuple(
        Symbol(_string(names, name), info >> 4, info & 15, other & 3, section, value, size)
        for name, info, other, section, value, size in SYMBOL.iter_unpack(table.data)
    )


def _read_relocations(sections: tuple[Section, ...]) -> list[Relocation]:
    return [
        Relocation(s.info, offset, info & 0xFFFFFFFF, info >> 32, addend)
        for s in sections
        if s.type == SHT_RELA
        for offset, info, addend in RELA.iter_unpack(s.data)
    ]
