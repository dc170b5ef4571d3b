"""Writes the one file: an ELF shared library that is also a zip with its manifest, graph and weights.

The zip entry `weights.bin` is the last segment of the ELF, which lies page aligned in the file: its local
header is put into bytes before the segment that the linker left free. So the weights are in the file once,
mapped by the dynamic loader when the code reads them, and still readable by any zip tool."""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from .. import __version__
from ..serialized_models.container import digest_of, machine_of
from ..serialized_models.format import (
    ABI_VERSION,
    ARTIFACT,
    DTYPES,
    FORMAT_VERSION,
    GRAPH,
    MANIFEST,
    STATE,
    WEIGHTS,
    dump_manifest,
    read_manifest,
)
from ..serialized_models.writer import append_entries, entry_info, header_size, local_header, replacing
from .cpu.elf import link, link_system
from .cpu.elf_object import SHN_UNDEF, LinkError, read_object
from .cpu.pool import EXTERNALS
from .header import c_header, fixed_header
from .library import Entry, Library, Spec
from .weights_object import weights_object

ALLOWED = EXTERNALS | {"memcpy", "memmove", "memset", "memcmp", "bcmp", "dlopen", "dlsym"}
"""Functions of libc that an artifact may need. LLVM makes calls of the memory functions by itself."""

REQUIRED = ("level", "select", "threads", "pool", "share")
"""What every artifact exports besides its entries, behind its name and an underscore."""


class Linked(NamedTuple):
    """A shared library; `weights_at` is the offset of the weights in it, 0 where they have no bytes set
    aside.
    """

    data: memoryview
    weights_at: int


def write_artifact(
    path: str | Path,
    library: Library,
    *,
    report: Mapping[str, Any] | None = None,
    linker: str = "elf",
    emit_object: bool = False,
) -> dict[str, int]:
    """Write `library` to `path` and its C headers (`<name>.h`, `tapecast.h`) beside it; bytes of each part.

    `report` is the record of the comparison with eager. `linker="system"` links with the system's `cc`
    instead of the linker of this package and holds the weights twice: a check on the latter. `emit_object`
    writes the relocatable objects as well, for static linking. Files appear whole or not at all; the same
    library gives the same bytes.

    Raises LinkError for code that does not keep to the ABI, ValueError for a description that makes no sense.
    """
    path = Path(path)
    linked = _link(library, linker)
    sections = {GRAPH: library.graph_text.encode(), STATE: state_section(library)}
    manifest = dump_manifest(describe(library, linked, sections[STATE], report))
    read_manifest(manifest, path.name)  # what cannot be read must not be written
    entries = {name: data for name, data in sections.items() if data} | {MANIFEST: manifest}
    with replacing(path) as file:
        _write(file, library, linked, entries)
        size = file.seek(0, 2)
    _write_text(path.parent / "tapecast.h", fixed_header())
    _write_text(path.with_suffix(".h"), c_header(library))
    if emit_object:
        _write_objects(path, library)
    code = len(linked.data) - (len(library.weights) if linked.weights_at else 0)
    return {
        "file": size,
        "code": code,
        "weights": len(library.weights),
        "graph": len(sections[GRAPH]),
        "manifest": len(manifest),
    }


def _write_text(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


def _link(library: Library, linker: str) -> Linked:
    name = library.name
    blobs = {f"{name}_weights": library.weights} if library.weights else {}
    needed = _needed(library)
    if linker == "system":
        return _link_system(library, needed, blobs)
    if linker != "elf":
        raise ValueError(f'linker should be "elf" or "system", and {linker!r} came')
    slack = header_size(WEIGHTS, len(library.weights))
    image = link(
        library.objects,
        soname=f"{name}.so",
        needed=needed,
        blobs=blobs,
        allowed=ALLOWED,
        nodelete=True,
        blob_slack=slack,
    )
    check_symbols(library, set(image.symbols))
    return Linked(memoryview(image.data), image.blob_offsets.get(f"{name}_weights", 0))


def _link_system(library: Library, needed: tuple[str, ...], blobs: Mapping[str, bytes]) -> Linked:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "library.so")
        link_system(
            library.objects, file, soname=f"{library.name}.so", needed=needed, blobs=blobs, nodelete=True
        )
        return Linked(memoryview(file.read_bytes()), 0)


def _needed(library: Library) -> tuple[str, ...]:
    """The system libraries. Before glibc 2.34 threads and dlopen had their own, which all later ones still name."""
    undefined = {s.name for o in library.objects for s in read_object(o).symbols if s.section == SHN_UNDEF}
    threads = any(name.startswith("pthread_") for name in undefined)
    loader = not undefined.isdisjoint({"dlopen", "dlsym"})
    return ("libc.so.6", *(["libpthread.so.0"] if threads else []), *(["libdl.so.2"] if loader else []))


def check_symbols(library: Library, found: set[str]) -> None:
    """Raise LinkError unless the library exports what the ABI asks for, under its own name, and nothing
    else.
    """
    wanted = {f"{library.name}_{end}" for end in REQUIRED}
    for entry in library.entries:
        wanted |= {f"{library.name}_{entry.name}", f"{library.name}_{entry.name}_workspace"}
    if missing := sorted(wanted - found):
        raise LinkError(
            f"the code of {library.name} lacks {', '.join(missing)}: an artifact exports these functions"
        )
    if foreign := sorted(s for s in found if not s.startswith(f"{library.name}_")):
        raise LinkError(f"the code of {library.name} exports {', '.join(foreign)}: make them hidden")


def _write(file: IO[bytes], library: Library, linked: Linked, entries: dict[str, bytes]) -> None:
    if not library.weights:
        file.write(linked.data)
        append_entries(file, entries)
    elif not linked.weights_at:
        file.write(linked.data)
        append_entries(file, {WEIGHTS: library.weights, **entries})
    else:
        placed = _placed(library.weights, linked)
        header = local_header(placed)
        file.write(linked.data[: placed.header_offset])
        file.write(header)
        file.write(linked.data[linked.weights_at :])
        append_entries(file, entries, (placed,))


def _placed(weights: bytes, linked: Linked) -> zipfile.ZipInfo:
    """The zip entry whose content is the segment of the weights, its header in the free bytes before."""
    info = entry_info(WEIGHTS, len(weights))
    info.CRC = zlib.crc32(weights)
    info.header_offset = linked.weights_at - len(local_header(info))
    if any(linked.data[info.header_offset : linked.weights_at]):
        raise LinkError(
            "the linker left no free bytes before the weights; this is a defect of tapecast, report it"
        )
    return info


def describe(
    library: Library, linked: Linked, state: bytes, report: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The manifest of an artifact as JSON values."""
    code = _code(library, linked)
    sections: dict[str, bytes | memoryview] = {
        "code": code,
        "weights": library.weights,
        "graph": library.graph_text.encode(),
        "state": state,
    }
    return {
        "kind": ARTIFACT,
        "format": FORMAT_VERSION,
        "abi": ABI_VERSION,
        "builder": {"name": "tapecast", "version": __version__},
        "name": library.name,
        "machine": machine_of(linked.data),
        "levels": list(library.levels),
        "options": dict(library.options),
        "dims": {name: list(bounds) for name, bounds in library.dims.items()},
        "entries": [_entry(library.name, entry) for entry in library.entries],
        "state": _states(library),
        "kernels": [{"name": k.name, "entry": k.entry, "lines": list(k.lines)} for k in library.kernels],
        "sections": {
            name: {"bytes": len(data), "sha256": digest_of(data)} for name, data in sections.items() if data
        },
        "report": None if report is None else dict(report),
    }


def _code(library: Library, linked: Linked) -> memoryview:
    """What precedes the first zip entry: with weights in place, all that is loaded but them."""
    if linked.weights_at:
        return linked.data[: linked.weights_at - header_size(WEIGHTS, len(library.weights))]
    return linked.data


def _entry(name: str, entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "symbol": f"{name}_{entry.name}",
        "inputs": [_spec(s) for s in entry.inputs],
        "outputs": [_spec(s) for s in entry.outputs],
        "sizes": list(entry.sizes),
        "workspace": entry.workspace,
        "state": [list(pair) for pair in entry.state],
    }


def _spec(spec: Spec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}


STATE_ALIGN = 64


def _states(library: Library) -> list[dict[str, Any]]:
    """The values kept between calls and where their first content is in state.bin."""
    specs = {s.name: s for entry in library.entries for s in entry.inputs if s.name in library.state}
    states, at = [], 0
    for name in sorted(library.state):
        spec = specs.get(name)
        if spec is None or not all(isinstance(axis, int) for axis in spec.shape):
            raise ValueError(
                f"the state {name} should be an input of some entry, with a fixed shape; it is {spec}"
            )
        states.append({**_spec(spec), "offset": at})
        _check_state(spec, library.state[name])
        at += -(-len(library.state[name]) // STATE_ALIGN) * STATE_ALIGN
    return states


def _check_state(spec: Spec, data: bytes) -> None:
    size = DTYPES[spec.dtype]
    for axis in spec.shape:
        size *= int(axis)
    if len(data) != size:
        raise ValueError(f"the state {spec.name} should have {size} bytes, and {len(data)} came")


def state_section(library: Library) -> bytes:
    """The first content of all state, each value aligned to a cache line."""
    values = (library.state[name] for name in sorted(library.state))
    return b"".join(v + bytes(-len(v) % STATE_ALIGN) for v in values)


def _write_objects(path: Path, library: Library) -> None:
    """`model.o`, further objects as `model.1.o`…, and the weights as an object of their own."""
    files = {path.with_suffix(f".{k}.o" if k else ".o"): o for k, o in enumerate(library.objects)}
    if library.weights:
        machine = read_object(library.objects[0]).machine
        files[path.with_suffix(".weights.o")] = weights_object(
            f"{library.name}_weights", library.weights, machine
        )
    for file_path, data in files.items():
        with replacing(file_path) as file:
            file.write(data)
