"""What is in the two kinds of file: versions, sections, the manifest of an artifact, and the checks on both.

This module and its neighbours import the standard library alone: a deployment reads artifacts with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .sizes import compile_size, readings

ARTIFACT = "tapecast artifact"
PROGRAM = "tapecast program"

FORMAT_VERSION = 1
"""Version of both file kinds. A reader takes every version up to its own; README.md says when it grows."""

ABI_VERSION = 1
"""Version of the exported functions of an artifact and of `tapecast.h`."""

MANIFEST, GRAPH, WEIGHTS, STATE = "manifest.json", "graph.txt", "weights.bin", "state.bin"
PROGRAM_WEIGHTS = "weights.safetensors"

DTYPES: dict[str, int] = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
"""Element types of arguments and results, and their bytes."""

MACHINES = {"x86-64": 62, "aarch64": 183}
"""Processor families and their numbers in ELF headers."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ArtifactError(ValueError):
    """A file that cannot be used; the message is one sentence: what was wanted, what came, what to do."""


class Tensor(NamedTuple):
    """An argument or result. A size is an int, or the text of an expression over the entry's sizes:
    `2*batch+1`.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


class Entry(NamedTuple):
    """An entry point: its exported function is `symbol`, and `symbol + "_workspace"` gives its scratch bytes.

    `sizes` names the dynamic sizes in the order the function takes them, `workspace` is the formula behind
    `<symbol>_workspace`, and `state` pairs the position of an input with that of the output replacing it.
    """

    name: str
    symbol: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    sizes: tuple[str, ...]
    workspace: str
    state: tuple[tuple[int, int], ...]


class State(NamedTuple):
    """A value kept between calls, an input of every entry that has an input of this name. `offset` in
    state.bin.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Section(NamedTuple):
    """A part of the file. `code` begins at 0 and is all that can run; the others are entries of the zip."""

    bytes: int
    sha256: str


class Manifest(NamedTuple):
    """manifest.json of an artifact, checked. `text` is the file as it stands, with what is only for
    people.
    """

    name: str
    format: int
    abi: int
    builder: Mapping[str, str]
    machine: str
    levels: tuple[str, ...]
    options: Mapping[str, Any]
    dims: Mapping[str, tuple[int, int | None]]
    entries: tuple[Entry, ...]
    state: tuple[State, ...]
    sections: Mapping[str, Section]
    kernels: tuple[Mapping[str, Any], ...]
    report: Mapping[str, Any] | None
    text: Mapping[str, Any]


def dump_manifest(manifest: Mapping[str, Any]) -> bytes:
    """The bytes of a manifest: sorted, indented for people, the same on every machine."""
    return (json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def parse_manifest(data: bytes, where: str, kind: str = ARTIFACT) -> Mapping[str, Any]:
    """The manifest of a file of `kind`, of a version that this reader knows. Raises ArtifactError otherwise.

    `where` names the file in the message.
    """
    try:
        text = json.loads(data)
        found, version = text["kind"], int(text["format"])
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ArtifactError(damaged(where, f"its manifest cannot be read ({error})")) from None
    if found != kind:
        raise ArtifactError(
            f"{where} should be a {kind}, and it is a {found}: {_ADVICE.get(found, 'check the path')}"
        )
    check_version(where, "format", version, FORMAT_VERSION, text)
    return dict(text)


_ADVICE = {
    PROGRAM: "compile it first, with `tapecast compile model.tape -o model.so`",
    ARTIFACT: "give the model.tape that it was compiled from",
}


def check_version(where: str, what: str, found: int, known: int, text: Mapping[str, Any]) -> None:
    """Refuse a file that is newer than its reader, naming the version that wrote it."""
    if found > known:
        builder = text.get("builder", {})
        raise ArtifactError(
            f"{where} has {what} version {found} and this tapecast reads up to {known}: "
            f"upgrade tapecast here to {builder.get('version', 'a newer version')} or later, or compile "
            f"the model "
            "with the version installed here"
        )


def damaged(where: str, why: str) -> str:
    """The sentence for a file that was an artifact once."""
    return f"{where} is damaged: {why}; copy or compile it again"


def read_manifest(data: bytes, where: str) -> Manifest:
    """The checked manifest of an artifact. Raises ArtifactError for another kind, a newer version or bad
    content.
    """
    text = parse_manifest(data, where)
    check_version(where, "ABI", int(text.get("abi", 0)), ABI_VERSION, text)
    try:
        manifest = _manifest(text)
        check_manifest(manifest)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(damaged(where, f"its manifest makes no sense ({error})")) from None
    return manifest


def _manifest(text: Mapping[str, Any]) -> Manifest:
    return Manifest(
        name=text["name"],
        format=int(text["format"]),
        abi=int(text["abi"]),
        builder=dict(text["builder"]),
        machine=text["machine"],
        levels=tuple(text["levels"]),
        options=dict(text["options"]),
        dims={
            name: (int(low), None if high is None else int(high))
            for name, (low, high) in text["dims"].items()
        },
        entries=tuple(_entry(e) for e in text["entries"]),
        state=tuple(State(s["name"], s["dtype"], tuple(s["shape"]), int(s["offset"])) for s in text["state"]),
        sections={name: Section(int(s["bytes"]), s["sha256"]) for name, s in text["sections"].items()},
        kernels=tuple(text["kernels"]),
        report=text["report"],
        text=text,
    )


def _entry(text: Mapping[str, Any]) -> Entry:
    return Entry(
        name=text["name"],
        symbol=text["symbol"],
        inputs=tuple(Tensor(t["name"], t["dtype"], tuple(t["shape"])) for t in text["inputs"]),
        outputs=tuple(Tensor(t["name"], t["dtype"], tuple(t["shape"])) for t in text["outputs"]),
        sizes=tuple(text["sizes"]),
        workspace=text["workspace"],
        state=tuple((int(i), int(o)) for i, o in text["state"]),
    )


def check_manifest(manifest: Manifest) -> None:
    """The rules that writer and reader both rely on. Raises ValueError naming the entry or tensor."""
    if not _NAME.fullmatch(manifest.name):
        raise ValueError(
            f"the name {manifest.name!r} is not an identifier, and exported symbols begin with it"
        )
    if not manifest.entries:
        raise ValueError("there is no entry point")
    if manifest.machine not in MACHINES:
        raise ValueError(f"the machine {manifest.machine!r} is none of {', '.join(MACHINES)}")
    names = [e.name for e in manifest.entries]
    if len(set(names)) < len(names):
        raise ValueError(f"two entry points share a name: {', '.join(names)}")
    for name, (low, high) in manifest.dims.items():
        if low < 0 or (high is not None and high < low):
            raise ValueError(f"the size {name} has the empty range {low} to {high}")
    for entry in manifest.entries:
        _check_entry(entry, manifest)


def _check_entry(entry: Entry, manifest: Manifest) -> None:
    if entry.symbol != f"{manifest.name}_{entry.name}" or not _NAME.fullmatch(entry.name):
        raise ValueError(f"entry {entry.name!r} has the symbol {entry.symbol!r}")
    if missing := [s for s in entry.sizes if s not in manifest.dims]:
        raise ValueError(f"entry {entry.name} has the size {missing[0]} without a range")
    try:
        readings([t.shape for t in entry.inputs], entry.sizes)
    except ValueError as error:
        raise ValueError(f"entry {entry.name}: {error}") from None
    for tensor in (*entry.inputs, *entry.outputs):
        _check_tensor(tensor, entry)
    compile_size(entry.workspace, entry.sizes)
    _check_pairs(entry)


def _check_tensor(tensor: Tensor, entry: Entry) -> None:
    if tensor.dtype not in DTYPES:
        raise ValueError(f"{tensor.name} of {entry.name} has the unknown dtype {tensor.dtype!r}")
    for axis in tensor.shape:
        if isinstance(axis, str):
            compile_size(axis, entry.sizes)
        elif axis < 0:
            raise ValueError(f"{tensor.name} of {entry.name} has the size {axis}")


def _check_pairs(entry: Entry) -> None:
    for i, o in entry.state:
        if entry.inputs[i][1:] != entry.outputs[o][1:]:
            raise ValueError(
                f"state {entry.inputs[i].name} of {entry.name} is {entry.inputs[i]} before and "
                f"{entry.outputs[o]} after a call"
            )
