"""Relocatable objects become one program: every relocation gets the place, blob or external it means."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from .elf_machines import MACHINES, Machine
from .elf_object import (
    SHF_ALLOC,
    SHF_TLS,
    SHN_ABS,
    SHN_COMMON,
    SHN_UNDEF,
    SHT_NOTE,
    STB_LOCAL,
    STB_WEAK,
    STT_GNU_IFUNC,
    STT_TLS,
    STV_HIDDEN,
    STV_INTERNAL,
    LinkError,
    ObjectFile,
    Section,
    Symbol,
    read_object,
)


class Place(NamedTuple):
    """An address inside the library: ``offset`` bytes into a section (by number) of an object (by number)."""

    object: int
    section: int
    offset: int


Target = Place | str
"""What a relocation means: a place, or the name of a blob or of an external symbol."""


class Fixup(NamedTuple):
    """One relocation with its symbol resolved."""

    place: Place
    type: int
    target: Target
    addend: int


class Program(NamedTuple):
    """The resolved objects.  ``exports`` and ``externals`` (mapped to "is weak") are sorted by name."""

    machine: Machine
    objects: tuple[ObjectFile, ...]
    fixups: tuple[Fixup, ...]
    exports: Mapping[str, Place]
    externals: Mapping[str, bool]

    def symbol(self, name: str) -> Symbol:
        """The definition of an exported name."""
        i = self.exports[name].object
        return next(s for s in self.objects[i].symbols if s.name == name and s.binding != STB_LOCAL)


def resolve(data: Sequence[bytes], blobs: Collection[str], allowed: Collection[str] | None) -> Program:
    """Read the objects and resolve their symbols: among each other, to blobs, to allowed externals."""
    if not data:
        raise LinkError("nothing to link: no objects were given")
    objects = tuple(read_object(d) for d in data)
    machine = _common_machine(objects)
    for i, obj in enumerate(objects):
        _refuse_unsupported(i, obj)
    definitions = _definitions(objects, blobs)
    fixups = tuple(_fixups(objects, definitions))
    users = {
        f.target: f.place for f in reversed(fixups) if isinstance(f.target, str) and f.target not in blobs
    }
    hidden = _hidden(objects)
    _check_externals(objects, users, hidden, allowed)
    exports = {name: place for name, place in sorted(definitions.items()) if name not in hidden}
    return Program(
        machine, objects, fixups, exports, {name: _is_weak(objects, name) for name in sorted(users)}
    )


def is_kept(section: Section) -> bool:
    """Is the section part of the loaded image?

    Unwind tables are not: nothing unwinds through generated code, and no loader finds them without a search
    table.
    """
    return bool(section.flags & SHF_ALLOC) and section.type != SHT_NOTE and section.name != ".eh_frame"


def _common_machine(objects: Sequence[ObjectFile]) -> Machine:
    codes = {obj.machine for obj in objects}
    if len(codes) > 1 or not codes <= MACHINES.keys():
        known = ", ".join(f"{m.name} ({m.code})" for m in MACHINES.values())
        raise LinkError(
            f"objects must be for one machine of {known}; these are for ELF machines {sorted(codes)}"
        )
    return MACHINES[codes.pop()]


def _refuse_unsupported(number: int, obj: ObjectFile) -> None:
    for section in filter(is_kept, obj.sections):
        if section.flags & SHF_TLS:
            raise LinkError(
                f"object {number}: thread-local data in {section.name} needs the TLS runtime of a C library: "
                "pass a pointer to scratch memory instead"
            )
    for symbol in obj.symbols:
        if symbol.section == SHN_COMMON or symbol.type in (STT_TLS, STT_GNU_IFUNC):
            raise LinkError(
                f"object {number}: {symbol.name!r} is a common, thread-local or indirect symbol: "
                "define it as plain data or code"
            )


def _globals(objects: Sequence[ObjectFile]) -> Iterator[tuple[int, Symbol]]:
    for i, obj in enumerate(objects):
        yield from ((i, s) for s in obj.symbols if s.binding != STB_LOCAL)


def _definitions(objects: Sequence[ObjectFile], blobs: Collection[str]) -> dict[str, Place]:
    """Where each global name is defined: by its one strong definition, else by the first weak one."""
    found: dict[str, tuple[Place, bool]] = {}
    for i, symbol in _globals(objects):
        if symbol.section == SHN_UNDEF:
            continue
        weak = symbol.binding == STB_WEAK
        if symbol.name in blobs:
            raise LinkError(f"{symbol.name!r} is both a blob and defined in object {i}")
        if symbol.name in found and not weak and not found[symbol.name][1]:
            raise LinkError(
                f"{symbol.name!r} is defined twice, in objects {found[symbol.name][0].object} and {i}"
            )
        if symbol.name not in found or not weak:
            found[symbol.name] = Place(i, symbol.section, symbol.value), weak
    return {name: place for name, (place, _) in found.items()}


def _hidden(objects: Sequence[ObjectFile]) -> set[str]:
    """Names that stay inside: one hidden mention, in a definition or a reference, is enough (gABI ch. 4)."""
    return {s.name for _, s in _globals(objects) if s.visibility in (STV_HIDDEN, STV_INTERNAL)}


def _is_weak(objects: Sequence[ObjectFile], name: str) -> bool:
    return all(s.binding == STB_WEAK for _, s in _globals(objects) if s.name == name)


def _fixups(objects: Sequence[ObjectFile], definitions: Mapping[str, Place]) -> Iterator[Fixup]:
    for i, obj in enumerate(objects):
        for section, offset, kind, number, addend in obj.relocations:
            if is_kept(obj.sections[section]):
                target = _target(i, obj.symbols[number], definitions)
                yield Fixup(Place(i, section, offset), kind, target, addend)


def _target(number: int, symbol: Symbol, definitions: Mapping[str, Place]) -> Target:
    if symbol.section == SHN_ABS:
        raise LinkError(
            f"object {number}: {symbol.name!r} is an absolute address, which a shared library cannot hold"
        )
    if symbol.binding == STB_LOCAL:
        return Place(number, symbol.section, symbol.value)
    return definitions.get(symbol.name, symbol.name)


def _function_at(objects: Sequence[ObjectFile], place: Place) -> str:
    """The function or data that covers a place, for error messages."""
    obj = objects[place.object]
    covers = (
        s.name for s in obj.symbols if s.section == place.section and 0 <= place.offset - s.value < s.size
    )
    return next(covers, obj.sections[place.section].name)


def _check_externals(
    objects: Sequence[ObjectFile],
    users: Mapping[str, Place],
    hidden: Collection[str],
    allowed: Collection[str] | None,
) -> None:
    where = {
        name: f"{name!r} (used by {_function_at(objects, place)!r})" for name, place in sorted(users.items())
    }
    if lost := [text for name, text in where.items() if name in hidden]:
        raise LinkError(f"declared hidden but defined in no object: {', '.join(lost)}")
    if allowed is not None and (strange := [text for name, text in where.items() if name not in allowed]):
        raise LinkError(
            f"undefined symbols outside the allowed list: {', '.join(strange)}.  Where the library runs "
            "there may be nothing else: emit code for the operation that LLVM turned into this call, "
            "or link an object that defines it"
        )
