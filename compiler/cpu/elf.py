"""A linker for what LLVM emits: relocatable ELF64 objects in, one shared library out, no tool needed.

The library has up to five loaded segments, each on memory pages of its own:

====== ===== ==========================================================================
name   flags content
====== ===== ==========================================================================
read   R     headers, dynamic symbols, hash table, strings, relocations, constants
code   RX    functions, and stubs through which functions of other libraries are called
relro  RW    constructors, constants with addresses, offset table, dynamic table;
             read-only once relocated
data   RW    variables, then zeros
blobs  R     the caller's data, page aligned in the file and last but for section headers
====== ===== ==========================================================================

Symbols are bound at load, none lazily.  Thread-local data, symbol versions and debug information are not
supported.  References without versions are bound by glibc to the oldest version it has: link against
functions whose oldest version is right (those of ``pthread_cond_*`` and of libm are not).
"""

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .elf_layout import Layout, Output, Plan, align_up, dynamic_entries, hash_buckets, make_layout, make_plan
from .elf_machines import STUB_SIZE, Patch
from .elf_object import (
    DYNAMIC,
    ET_DYN,
    HEADER,
    MAGIC,
    PROGRAM_HEADER,
    RELA,
    SECTION_HEADER,
    SHF_WRITE,
    SHT_STRTAB,
    STB_GLOBAL,
    STB_WEAK,
    SYMBOL,
    LinkError,
)
from .elf_resolve import Fixup, Target, resolve

__all__ = ["Image", "LinkError", "link", "link_system"]


@dataclass(frozen=True)
class Image:
    """A linked library.

    ``data`` is the file.  ``blob_offset`` is the file offset of the blob segment (a multiple of the page
    size; 0 without blobs), ``blob_offsets`` that of each blob.  ``symbols`` maps exported names to addresses
    relative to the load base.
    """

    data: bytes
    blob_offset: int
    blob_offsets: dict[str, int]
    symbols: dict[str, int]


def link(
    objects: Sequence[bytes],
    *,
    soname: str = "",
    needed: Sequence[str] = ("libc.so.6",),
    blobs: Mapping[str, bytes] | None = None,
    allowed: Collection[str] | None = None,
    nodelete: bool = False,
    blob_slack: int = 512,
) -> Image:
    """Link relocatable objects into one shared library.

    Global symbols are resolved between the objects, hidden ones included; what default visibility leaves
    visible is exported.  ``blobs`` (bytes-like, C-contiguous) define read-only data under their names,
    64-byte aligned, for the library's own use: declare them ``external`` and not ``hidden`` in the code, so
    that it reaches them at any distance.  ``allowed`` bounds the symbols that may be left for the loader to
    find in the ``needed`` libraries (None: any). ``nodelete`` keeps the library mapped after ``dlclose``, for
    code whose threads may outlive the handle.  At least ``blob_slack`` bytes of the file before the blobs
    belong to nobody.  The same input gives the same bytes.

    Raises LinkError for symbols defined twice, hidden but undefined, or not allowed, and for anything in the
    objects that this linker does not know.
    """
    views = {name: memoryview(blob).cast("B") for name, blob in (blobs or {}).items()}
    program = resolve(objects, views, allowed)
    plan = make_plan(program, views, soname, needed, nodelete)
    layout = make_layout(plan, blob_slack)
    return Image(
        data=b"".join(_pieces(plan, layout)),
        blob_offset=layout.spots[".blobs"].offset if views else 0,
        blob_offsets={name: spot.offset for name, spot in layout.blobs.items()},
        symbols={name: layout.address(place) for name, place in program.exports.items()},
    )


def _pieces(plan: Plan, layout: Layout) -> Iterator[bytes | bytearray | memoryview]:
    """The file from first byte to last; blobs are handed on as they are, uncopied."""
    head = _head(plan, layout)
    yield head
    at = len(head)
    for name, spot in layout.blobs.items():
        yield bytes(spot.offset - at)
        yield plan.blobs[name]
        at = spot.offset + len(plan.blobs[name])
    yield bytes(layout.end - at)
    yield _tail(layout)


def _head(plan: Plan, layout: Layout) -> bytearray:
    """Everything before the blobs: sections of the objects with their relocations applied, and the tables."""
    image = bytearray(layout.spots[".blobs"].offset if layout.blobs else layout.end)
    for (i, j), spot in layout.sections.items():
        data = plan.program.objects[i].sections[j].data
        image[spot.offset : spot.offset + len(data)] = data
    _write_stubs(image, plan, layout)
    for fixup in plan.program.fixups:
        _apply(image, fixup, plan, layout)
    for name, table in (
        (".dynsym", _symbol_table(plan, layout)),
        (".hash", _hash_table(plan.names)),
        (".dynstr", b"".join(text.encode() + b"\0" for text in plan.strings)),
        (".rela.dyn", _relocation_table(plan, layout)),
        (".dynamic", _dynamic_table(plan, layout)),
    ):
        offset = layout.spots[name].offset if table else 0
        image[offset : offset + len(table)] = table
    _write_headers(image, plan, layout)
    return image


def _slot(target: Target, plan: Plan, layout: Layout) -> int:
    return layout.spots[".got"].address + 8 * plan.got[target]


def _write_stubs(image: bytearray, plan: Plan, layout: Layout) -> None:
    for name, i in plan.stubs.items():
        offset, place = layout.spots[".plt"].plus(STUB_SIZE * i)
        plan.program.machine.stub(image, offset, place, _slot(name, plan, layout))


def _apply(image: bytearray, fixup: Fixup, plan: Plan, layout: Layout) -> None:
    """Write one relocation, unless it waits for the loader."""
    if fixup.type in (0, plan.program.machine.absolute):
        return
    patch, target = _meaning(fixup, plan, layout)
    offset, place = layout.spot(fixup.place)
    patch(image, offset, place, target + fixup.addend)


def _meaning(fixup: Fixup, plan: Plan, layout: Layout) -> tuple[Patch, int]:
    """How a relocation is written, and the address it is to reach."""
    machine, target = plan.program.machine, fixup.target
    external = target in plan.program.externals
    if fixup.type in machine.via_got:
        return machine.via_got[fixup.type], _slot(target, plan, layout)
    if fixup.type in machine.calls and external:
        return machine.calls[fixup.type], layout.spots[".plt"].address + STUB_SIZE * plan.stubs[str(target)]
    if external:
        raise LinkError(
            f"{target!r} is outside the library but its address is taken as if it were inside "
            f"({machine.name} relocation {fixup.type}): declare it without dso_local and without hidden"
        )
    patch = machine.calls.get(fixup.type) or machine.direct.get(fixup.type)
    if patch is None:
        section = plan.program.objects[fixup.place.object].sections[fixup.place.section].name
        raise LinkError(
            f"unknown {machine.name} relocation {fixup.type} in {section} of object {fixup.place.object}"
        )
    return patch, layout.address(target)


def _relocation_table(plan: Plan, layout: Layout) -> bytes:
    """What the loader writes, in the offset table and at absolute addresses; rows without symbol first."""
    machine = plan.program.machine
    number = {name: i for i, name in enumerate(plan.names)}
    rows = [(_slot(target, plan, layout), machine.glob_dat, target, 0) for target in plan.got]
    for fixup in plan.absolute:
        _check_writable(fixup, plan)
        rows.append((layout.spot(fixup.place).address, machine.absolute, fixup.target, fixup.addend))
    table = [
        (1, place, number[str(target)] << 32 | kind, addend)
        if target in plan.program.externals
        else (0, place, machine.relative, layout.address(target) + addend)
        for place, kind, target, addend in rows
    ]
    return b"".join(RELA.pack(*row) for _, *row in sorted(table))


def _check_writable(fixup: Fixup, plan: Plan) -> None:
    section = plan.program.objects[fixup.place.object].sections[fixup.place.section]
    if not section.flags & SHF_WRITE:
        raise LinkError(
            f"object {fixup.place.object}: an absolute address in the read-only section {section.name}: "
            "compile as position-independent code"
        )


def _symbol_table(plan: Plan, layout: Layout) -> bytes:
    rows = [(0, 0, 0, 0, 0, 0)]
    for name, weak in plan.program.externals.items():
        rows.append((plan.strings[name], (STB_WEAK if weak else STB_GLOBAL) << 4, 0, 0, 0, 0))
    for name, place in plan.program.exports.items():
        symbol = plan.program.symbol(name)
        section = _section_number(layout, (place.object, place.section))
        info = STB_GLOBAL << 4 | symbol.type
        rows.append((plan.strings[name], info, 0, section, layout.address(place), symbol.size))
    return b"".join(SYMBOL.pack(*row) for row in rows)


def _section_number(layout: Layout, key: tuple[int, int]) -> int:
    return next(i for i, output in enumerate(layout.outputs.values(), 1) if key in output.members)


def _hash_table(names: Sequence[str]) -> bytes:
    """The table of DT_HASH: a chain of symbol numbers for each bucket of hashed names (gABI chapter 5)."""
    count = hash_buckets(len(names))
    buckets, chains = [0] * count, [0] * len(names)
    for i, name in enumerate(names[1:], 1):
        bucket = _hash(name) % count
        buckets[bucket], chains[i] = i, buckets[bucket]
    return struct.pack(f"<{2 + count + len(names)}I", count, len(names), *buckets, *chains)


def _hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


def _dynamic_table(plan: Plan, layout: Layout) -> bytes:
    return b"".join(
        DYNAMIC.pack(tag, layout.spots[value].address if isinstance(value, str) else value)
        for tag, value in dynamic_entries(plan, layout.outputs)
    )


def _write_headers(image: bytearray, plan: Plan, layout: Layout) -> None:
    sections = len(layout.outputs) + 2
    at = _section_headers_at(layout)
    sizes = (
        HEADER.size,
        PROGRAM_HEADER.size,
        len(layout.segments),
        SECTION_HEADER.size,
        sections,
        sections - 1,
    )
    HEADER.pack_into(image, 0, MAGIC, ET_DYN, plan.program.machine.code, 1, 0, HEADER.size, at, 0, *sizes)
    for i, (kind, flags, (offset, address), file_size, memory_size, align) in enumerate(layout.segments):
        row = kind, flags, offset, address, address, file_size, memory_size, align
        PROGRAM_HEADER.pack_into(image, HEADER.size + PROGRAM_HEADER.size * i, *row)


def _section_names(layout: Layout) -> bytes:
    return b"".join(name.encode() + b"\0" for name in ("", *layout.outputs, ".shstrtab"))


def _section_headers_at(layout: Layout) -> int:
    return align_up(layout.end + len(_section_names(layout)), 8)


# Which section another one's header names: the strings or symbols it refers to.
_LINKS = {".dynsym": ".dynstr", ".hash": ".dynsym", ".rela.dyn": ".dynsym", ".dynamic": ".dynstr"}


def _tail(layout: Layout) -> bytes:
    """Section names and headers: for debuggers, profilers and ``nm``; loaders do not read them."""
    names = _section_names(layout)
    numbers = {name: i for i, name in enumerate(layout.outputs, 1)}

    def header(output: Output) -> bytes:
        offset, address = layout.spots[output.name]
        link = numbers.get(_LINKS.get(output.name, ""), 0)
        first_global = 1 if output.name == ".dynsym" else 0
        place = (output.flags, address, offset, output.size, link, first_global, output.align, output.entry)
        return SECTION_HEADER.pack(names.index(f"\0{output.name}\0".encode()) + 1, output.type, *place)

    name = names.index(b"\0.shstrtab\0") + 1
    last = SECTION_HEADER.pack(name, SHT_STRTAB, 0, 0, layout.end, len(names), 0, 0, 1, 0)
    padding = bytes(_section_headers_at(layout) - layout.end - len(names))
    return b"".join([names, padding, bytes(SECTION_HEADER.size), *map(header, layout.outputs.values()), last])


def link_system(
    objects: Sequence[bytes],
    path: str | Path,
    *,
    soname: str = "",
    needed: Sequence[str] = ("libc.so.6",),
    blobs: Mapping[str, bytes] | None = None,
    nodelete: bool = False,
    compiler: str = "cc",
) -> None:
    """Link the same objects by the system's ``cc -shared`` into the file ``path``: a check on :func:`link`.

    The objects must be for the system's own processor.  Raises LinkError if there is no such compiler or it
    fails.
    """
    if shutil.which(compiler) is None:
        raise LinkError(f"no {compiler!r} on PATH to link with: use link(), which needs no tools")
    options = ["-shared", "-nostdlib", "-Wl,-z,now", "-Wl,--no-undefined"]
    options += [f"-Wl,-soname,{soname}"] if soname else []
    options += ["-Wl,-z,nodelete"] if nodelete else []
    with tempfile.TemporaryDirectory() as folder:
        inputs = [Path(folder, f"{i}.o") for i in range(len(objects))]
        for file, data in zip(inputs, objects, strict=True):
            file.write_bytes(data)
        inputs += _blob_sources(Path(folder), blobs or {})
        command = [compiler, *options, "-o", path, *inputs, *(f"-l:{name}" for name in needed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LinkError(f"{compiler} failed with status {done.returncode}:\n{done.stderr.strip()}")


def _blob_sources(folder: Path, blobs: Mapping[str, bytes]) -> list[Path]:
    """Blobs as assembly that includes them, aligned and hidden as :func:`link` has them."""
    lines = ['.section .note.GNU-stack,"",@progbits', '.section .blobs,"a",@progbits']
    for i, (name, blob) in enumerate(blobs.items()):
        file = folder / f"{i}.bin"
        file.write_bytes(blob)
        lines += [".balign 64", f".globl {name}", f".hidden {name}", f"{name}:", f'.incbin "{file}"']
    source = folder / "blobs.s"
    source.write_text("\n".join(lines) + "\n")
    return [source] if blobs else []
