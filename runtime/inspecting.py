"""`inspect`: everything a file says of itself, read without running or mapping any of its code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..serialized_models.container import Container, digest_of, open_container
from ..serialized_models.format import GRAPH, STATE, WEIGHTS, Manifest
from .checking import describe, outside
from .load import manifest_of
from .source import Origin, opened

SECTIONS = {"weights": WEIGHTS, "graph": GRAPH, "state": STATE}


class Info(NamedTuple):
    """What `inspect` found. `str(info)` is for people; `graph` is the text of the compiled program."""

    path: str
    bytes: int
    digest: str
    manifest: Manifest
    graph: str
    sections: Mapping[str, bool]
    """The parts of the file, and whether each has the digest that the manifest gives."""

    def __str__(self) -> str:
        return "\n".join(_lines(self)) + "\n"


def inspect(origin: Origin) -> Info:
    """Read an artifact: versions, builder, entry points, kernels, digests, report. Nothing of it is run.

    It may be for another machine. Raises ArtifactError as `load` does for a file that is damaged or of
    another kind."""
    with opened(origin) as source:
        container = open_container(source.data, source.where)
        manifest = manifest_of(container, source.where)
        return Info(
            path=source.where,
            bytes=len(container.data),
            digest=container.digest,
            manifest=manifest,
            graph=bytes(container.read(GRAPH)).decode(),
            sections={name: _is_intact(container, manifest, name) for name in manifest.sections},
        )


def _is_intact(container: Container, manifest: Manifest, name: str) -> bool:
    wanted = manifest.sections[name]
    if name == "code":
        return digest_of(container.data[: wanted.bytes]) == wanted.sha256
    return digest_of(container.read(SECTIONS.get(name, name))) == wanted.sha256


def _lines(info: Info) -> Iterator[str]:
    m = info.manifest
    yield f"{info.path}: {m.name}, {size_text(info.bytes)}, sha256 {info.digest[:16]}…"
    yield f"  format {m.format}, ABI {m.abi}, built by {m.builder['name']} {m.builder['version']}"
    yield f"  for {m.machine}: {', '.join(m.levels)}"
    yield f"  options: {', '.join(f'{k}={v}' for k, v in sorted(m.options.items())) or 'the defaults'}"
    hidden = {s.name for s in m.state}
    for entry in m.entries:
        yield f"  {describe(outside(entry, hidden), m.dims)}"
        yield f"    workspace {entry.workspace} bytes"
    yield from (f"  state {s.name}: {s.dtype}{list(s.shape)}" for s in m.state)
    for name, section in sorted(m.sections.items()):
        yield f"  {name}: {size_text(section.bytes)}{'' if info.sections[name] else ', DAMAGED'}"
    for kernel in m.kernels:
        yield f"  kernel {kernel['name']} of {kernel['entry']}: {', '.join(kernel['lines'])}"
    yield f"  report: {_report(m.report)}"


def _report(report: Mapping[str, Any] | None) -> str:
    return "the model was not verified when it was compiled" if report is None else str(dict(report))


def size_text(size: int) -> str:
    """Bytes for people: `512 B`, `1.4 MB` (of a million bytes)."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"
