"""Where everything in a linked library goes: tables, output sections, segments, offsets and addresses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from .elf_machines import STUB_SIZE
from .elf_object import (
    DYNAMIC,
    HEADER,
    PROGRAM_HEADER,
    RELA,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHT_DYNAMIC,
    SHT_DYNSYM,
    SHT_FINI_ARRAY,
    SHT_HASH,
    SHT_INIT_ARRAY,
    SHT_NOBITS,
    SHT_PROGBITS,
    SHT_RELA,
    SHT_STRTAB,
    SYMBOL,
    LinkError,
    ObjectFile,
    Section,
)
from .elf_resolve import Fixup, Place, Program, Target, is_kept

PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 0x6474E551, 0x6474E552
PF_X, PF_W, PF_R = 1, 2, 4
DT_NULL, DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT = (0, 1, 4, 5, 6, 7, 8, 9)
DT_STRSZ, DT_SYMENT, DT_SONAME, DT_FLAGS, DT_FLAGS_1, DT_RELACOUNT = (10, 11, 14, 30, 0x6FFFFFFB, 0x6FFFFFF9)
DT_INIT_ARRAY, DT_FINI_ARRAY, DT_INIT_ARRAYSZ, DT_FINI_ARRAYSZ = 25, 26, 27, 28
DF_BIND_NOW, DF_1_NOW, DF_1_NODELETE = 8, 1, 8

BLOB_ALIGN = 64  # a cache line, and the widest vector

Key = TypeVar("Key")
SectionId = tuple[int, int]
"""An input section: (object, section number)."""


class Spot(NamedTuple):
    """A position in the file, and the address it is loaded at."""

    offset: int
    address: int

    def plus(self, n: int) -> "Spot":
        """The position ``n`` bytes on."""
        return Spot(self.offset + n, self.address + n)


class Output(NamedTuple):
    """One section of the library, not yet placed; ``members`` are input sections and their offsets in it."""

    name: str
    type: int
    flags: int
    size: int
    align: int = 8
    entry: int = 0
    members: Mapping[SectionId, int] = {}


class Segment(NamedTuple):
    """One program header."""

    type: int
    flags: int
    start: Spot
    file_size: int
    memory_size: int
    align: int


@dataclass(frozen=True)
class Plan:
    """What is known before addresses are: the program, and the order of entries in the tables made for it."""

    program: Program
    blobs: Mapping[str, memoryview]
    soname: str
    needed: Sequence[str]
    nodelete: bool
    got: Mapping[Target, int]
    stubs: Mapping[str, int]
    names: Sequence[str]
    strings: Mapping[str, int]

    @property
    def string_size(self) -> int:
        """Bytes of the string table."""
        return sum(len(text.encode()) + 1 for text in self.strings)

    @property
    def absolute(self) -> list[Fixup]:
        """The fixups that hold a full address, and so wait for the loader."""
        return [f for f in self.program.fixups if f.type == self.program.machine.absolute]

    @property
    def loader_targets(self) -> list[Target]:
        """What the loader has to write the addresses of: slots, then absolute fixups."""
        return [*self.got, *(f.target for f in self.absolute)]


@dataclass(frozen=True)
class Layout:
    """Where everything is; ``end`` is the file offset after the last segment."""

    outputs: Mapping[str, Output]
    spots: Mapping[str, Spot]
    segments: Sequence[Segment]
    sections: Mapping[SectionId, Spot]
    blobs: Mapping[str, Spot]
    end: int

    def spot(self, place: Place) -> Spot:
        """Of a byte of an input section."""
        if (place.object, place.section) not in self.sections:
            raise LinkError(
                f"object {place.object}: section {place.section} is referred to but not part of the image"
            )
        return self.sections[place.object, place.section].plus(place.offset)

    def address(self, target: Target) -> int:
        """Of something in the library, blobs included."""
        return self.blobs[target].address if isinstance(target, str) else self.spot(target).address


def make_plan(
    program: Program, blobs: Mapping[str, memoryview], soname: str, needed: Sequence[str], nodelete: bool
) -> Plan:
    """Decide which table entries the program needs: slots, stubs, dynamic symbols and strings."""
    machine = program.machine
    called = {f.target for f in program.fixups if f.type in machine.calls}
    stubs = [name for name in program.externals if name in called]
    slots = dict.fromkeys([*stubs, *(f.target for f in program.fixups if f.type in machine.via_got)])
    names = ["", *program.externals, *program.exports]
    texts = dict.fromkeys([*names, *needed, soname])
    starts, _, _ = _pack((text, len(text.encode()) + 1, 1) for text in texts)
    return Plan(
        program=program,
        blobs=blobs,
        soname=soname,
        needed=needed,
        nodelete=nodelete,
        got={target: i for i, target in enumerate(slots)},
        stubs={name: i for i, name in enumerate(stubs)},
        names=names,
        strings=starts,
    )


def make_layout(plan: Plan, blob_slack: int) -> Layout:
    """Place all sections in groups, as listed in ``elf.py``, each on memory pages of its own.

    Between groups the address skips to a fresh page while the file goes on at the next byte, so that a page
    of the file may be mapped twice and no file space is lost to padding (64 KiB a group on aarch64).
    """
    page = plan.program.machine.page
    blobs, blob_size, _ = _pack((name, len(view), BLOB_ALIGN) for name, view in plan.blobs.items())
    groups = [[o for o in group if o.size] for group in _groups(plan)]
    if blobs:
        # At least one byte: a segment of none is not mapped, and empty blobs have addresses too.
        groups.append([Output(".blobs", SHT_PROGBITS, SHF_ALLOC, max(blob_size, 1), page)])
    groups = [group for group in groups if group]
    spots, loads = _place(groups, page, HEADER.size + PROGRAM_HEADER.size * (len(groups) + 3), blob_slack)
    outputs = {o.name: o for group in groups for o in group}
    sections = {key: spots[o.name].plus(at) for o in outputs.values() for key, at in o.members.items()}
    return Layout(
        outputs=outputs,
        spots=spots,
        segments=[*loads, *_special_segments(outputs, spots, loads)],
        sections=sections,
        blobs={name: spots[".blobs"].plus(at) for name, at in blobs.items()},
        end=loads[-1].start.offset + loads[-1].file_size,
    )


def align_up(n: int, to: int) -> int:
    """The least multiple of ``to`` that is not below ``n``."""
    return -(-n // to) * to


def _pack(items: Iterable[tuple[Key, int, int]]) -> tuple[dict[Key, int], int, int]:
    """Put (key, size, align) items one after another: offset by key, size of all, largest alignment."""
    offsets, end, widest = {}, 0, 1
    for key, size, align in items:
        offsets[key] = align_up(end, align)
        end, widest = offsets[key] + size, max(widest, align)
    return offsets, end, widest


def _output_name(section: Section) -> str:
    if section.type in (SHT_INIT_ARRAY, SHT_FINI_ARRAY) or section.name.startswith((".ctors", ".dtors")):
        initial = section.type == SHT_INIT_ARRAY or section.name.startswith(".ctors")
        return ".init_array" if initial else ".fini_array"
    if section.flags & SHF_EXECINSTR:
        return ".text"
    if not section.flags & SHF_WRITE:
        return ".rodata"
    if section.type == SHT_NOBITS:
        return ".bss"
    return ".data.rel.ro" if section.name.startswith(".data.rel.ro") else ".data"


def _priority(name: str) -> int:
    """The place of a section among constructors or destructors: ascending, those without a number last.

    LLVM writes the older ``.ctors.N``, which counts down from 65535, where its options do not say otherwise.
    """
    kind, _, number = name.rpartition(".")
    if not number.isdecimal():
        return 65536
    return 65535 - int(number) if kind in (".ctors", ".dtors") else int(number)


def _room(obj: ObjectFile, number: int) -> int:
    """The bytes a section takes: one if it is empty but has a symbol, which needs an address."""
    return obj.sections[number].size or int(any(s.section == number and s.name for s in obj.symbols))


def _gathered(program: Program, name: str, kind: int, flags: int) -> Output:
    """The output section of a name, with every input section that belongs in it."""
    inputs = [
        ((i, j), section.name, _room(obj, j), section.align)
        for i, obj in enumerate(program.objects)
        for j, section in enumerate(obj.sections)
        if is_kept(section) and _output_name(section) == name
    ]
    if kind in (SHT_INIT_ARRAY, SHT_FINI_ARRAY):
        inputs.sort(key=lambda item: _priority(item[1]))
    members, size, align = _pack((key, room, align) for key, _, room, align in inputs)
    if align > program.machine.page:
        raise LinkError(
            f"{name} asks for an alignment of {align} bytes; a loader grants {program.machine.page}"
        )
    return Output(name, kind, SHF_ALLOC | flags, size, align, members=members)


def _groups(plan: Plan) -> list[list[Output]]:
    """The output sections by segment; those of no size are dropped later."""
    program, count = plan.program, len(plan.names)
    relocations = len(plan.loader_targets)
    relro = [
        _gathered(program, ".init_array", SHT_INIT_ARRAY, SHF_WRITE),
        _gathered(program, ".fini_array", SHT_FINI_ARRAY, SHF_WRITE),
        _gathered(program, ".data.rel.ro", SHT_PROGBITS, SHF_WRITE),
        Output(".got", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 8 * len(plan.got), entry=8),
    ]
    tags = len(dynamic_entries(plan, {o.name: o for o in relro if o.size}))
    return [
        [
            Output(".dynsym", SHT_DYNSYM, SHF_ALLOC, SYMBOL.size * count, entry=SYMBOL.size),
            Output(".hash", SHT_HASH, SHF_ALLOC, 4 * (2 + hash_buckets(count) + count), entry=4),
            Output(".dynstr", SHT_STRTAB, SHF_ALLOC, plan.string_size, 1),
            Output(".rela.dyn", SHT_RELA, SHF_ALLOC, RELA.size * relocations, entry=RELA.size),
            _gathered(program, ".rodata", SHT_PROGBITS, 0),
        ],
        [
            _gathered(program, ".text", SHT_PROGBITS, SHF_EXECINSTR),
            Output(
                ".plt", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, STUB_SIZE * len(plan.stubs), 16, STUB_SIZE
            ),
        ],
        [
            *relro,
            Output(".dynamic", SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, DYNAMIC.size * tags, entry=DYNAMIC.size),
        ],
        [
            _gathered(program, ".data", SHT_PROGBITS, SHF_WRITE),
            _gathered(program, ".bss", SHT_NOBITS, SHF_WRITE),
        ],
    ]


def hash_buckets(count: int) -> int:
    """Buckets of the hash table for ``count`` dynamic symbols."""
    return max(1, count // 2)


def dynamic_entries(plan: Plan, outputs: Mapping[str, Output]) -> list[tuple[int, int | str]]:
    """The dynamic table as (tag, value); a string stands for the address of that output section."""
    entries: list[tuple[int, int | str]] = [(DT_NEEDED, plan.strings[name]) for name in plan.needed]
    if plan.soname:
        entries.append((DT_SONAME, plan.strings[plan.soname]))
    for name, tag, size in (
        (".init_array", DT_INIT_ARRAY, DT_INIT_ARRAYSZ),
        (".fini_array", DT_FINI_ARRAY, DT_FINI_ARRAYSZ),
    ):
        if name in outputs:
            entries += [(tag, name), (size, outputs[name].size)]
    entries += [(DT_HASH, ".hash"), (DT_STRTAB, ".dynstr"), (DT_SYMTAB, ".dynsym")]
    entries += [(DT_STRSZ, plan.string_size), (DT_SYMENT, SYMBOL.size)]
    if targets := plan.loader_targets:
        relative = sum(target not in plan.program.externals for target in targets)
        entries += [(DT_RELA, ".rela.dyn"), (DT_RELASZ, RELA.size * len(targets)), (DT_RELAENT, RELA.size)]
        entries += [(DT_RELACOUNT, relative)]
    flags_1 = DF_1_NOW | (DF_1_NODELETE if plan.nodelete else 0)
    return [*entries, (DT_FLAGS, DF_BIND_NOW), (DT_FLAGS_1, flags_1), (DT_NULL, 0)]


def _place(
    groups: list[list[Output]], page: int, headers: int, slack: int
) -> tuple[dict[str, Spot], list[Segment]]:
    """Spots of all outputs, and a loaded segment for each group; the first begins with ``headers`` bytes."""
    spots = _place_group(groups[0], Spot(headers, headers))
    loads = [_load(groups[0], Spot(0, 0), spots, page)]
    for group in groups[1:]:
        last = loads[-1]
        gap = slack if group[0].name == ".blobs" else 0
        offset = align_up(last.start.offset + last.file_size + gap, group[0].align)
        start = Spot(offset, align_up(last.start.address + last.memory_size, page) + offset % page)
        spots |= _place_group(group, start)
        loads.append(_load(group, start, spots, page))
    return spots, loads


def _place_group(group: list[Output], at: Spot) -> dict[str, Spot]:
    spots = {}
    for output in group:
        spots[output.name] = at = at.plus(-at.address % output.align)
        at = at.plus(output.size)  # zeros (.bss) take no file space, and are last in their group
    return spots


def _load(group: list[Output], start: Spot, spots: Mapping[str, Spot], page: int) -> Segment:
    last, spot = group[-1], spots[group[-1].name]
    end = spot.address + last.size
    if last.name == ".dynamic":
        end = align_up(end, page)  # the loader protects whole pages, which must all be mapped
    file_end = spot.offset + (0 if last.type == SHT_NOBITS else last.size)
    flags = PF_R | (PF_W if last.flags & SHF_WRITE else 0) | (PF_X if last.flags & SHF_EXECINSTR else 0)
    return Segment(PT_LOAD, flags, start, file_end - start.offset, end - start.address, page)


def _special_segments(
    outputs: Mapping[str, Output], spots: Mapping[str, Spot], loads: list[Segment]
) -> list[Segment]:
    """The dynamic table, the part read-only after relocation, and a stack that is not executable."""
    table, size = spots[".dynamic"], outputs[".dynamic"].size
    relro = next(s for s in loads if s.start.address <= table.address < s.start.address + s.memory_size)
    return [
        Segment(PT_DYNAMIC, PF_R | PF_W, table, size, size, 8),
        Segment(PT_GNU_RELRO, PF_R, relro.start, relro.file_size, relro.memory_size, 1),
        Segment(PT_GNU_STACK, PF_R | PF_W, Spot(0, 0), 0, 0, 16),
    ]
