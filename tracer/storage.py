"""`model.tape`: a program in a zip of manifest.json, graph.txt, weights.safetensors. No code, no pickle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import TensorSpec, serialize

from .. import __version__
from ..eager.device import CPU, move
from ..eager.nn.parameter import Parameter
from ..eager.serialization import dense, read as read_safetensors
from ..eager.tensor import Tensor
from ..serialized_models.container import ELF_MAGIC, ZIP_MAGIC, digest_of, has_end, open_container
from ..serialized_models.format import (
    FORMAT_VERSION,
    GRAPH,
    MANIFEST,
    PROGRAM,
    PROGRAM_WEIGHTS,
    ArtifactError,
    dump_manifest,
    parse_manifest,
)
from ..serialized_models.writer import write_program
from .check import check
from .graph import Graph
from .parse import parse_all
from .program import Method, Program
from .text import graph_text, type_text, weights_of


class ProgramError(ValueError):
    """A file that is no usable program; the message says what was wanted, what came, what to do."""


# ---- writing -------------------------------------------------------------------------------------------


def save(program: Program, path: str | os.PathLike[str]) -> None:
    """Write to `path`, which is replaced as a whole or not at all. Equal programs give equal bytes."""
    graphs = program.graphs
    text = "\n".join(map(graph_text, graphs.values())).encode()
    weights = safetensors_bytes(_weights(program, graphs))
    sections = {GRAPH: text, PROGRAM_WEIGHTS: weights}
    write_program(Path(path), dump_manifest(_manifest(program, graphs, sections)), text, weights)


def _weights(program: Program, graphs: Mapping[str, Graph]) -> dict[str, Any]:
    """Every array of the program by the name it has in the text, state included."""
    out = {name: _host(program.tensors[name].array) for name in program.state}
    for graph in graphs.values():
        for name, array in weights_of(graph).items():
            if out.setdefault(name, _host(array)) is not array and not _equal(out[name], _host(array)):
                raise ProgramError(
                    f"two constants of the program are called {name}; this is a defect of the tracer"
                )
    return out


def _host(array: Any) -> Any:
    """An array in main memory."""
    return move(array, CPU)


def _equal(a: Any, b: Any) -> bool:
    return bool(a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes())


def safetensors_bytes(arrays: Mapping[str, Any]) -> bytes:
    """A safetensors file of these arrays, in order of name; complex128 is stored as pairs of float64."""
    flat = {name: dense(array) for name, array in sorted(arrays.items())}
    specs = {
        name: TensorSpec(dtype=a.dtype.name, shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes)
        for name, a in flat.items()
    }
    return bytes(serialize(specs))


def _manifest(program: Program, graphs: Mapping[str, Graph], sections: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "kind": PROGRAM,
        "format": FORMAT_VERSION,
        "builder": {"name": "tapecast", "version": __version__},
        "dims": {name: [low, high] for name, (low, high) in program.dims.items()},
        "state": list(program.state),
        "parameters": sorted(name for name, t in program.tensors.items() if t.requires_grad),
        "complex": sorted(name for name, a in _weights(program, graphs).items() if a.dtype == np.complex128),
        "methods": [
            {
                "name": name,
                "arguments": method.arguments,
                "outputs": method.outputs,
                "varargs": method.varargs,
                "training": method.training,
                "inputs": {n.name: type_text(n.aval) for n in graphs[name].inputs},
                "results": [type_text(n.aval) for n in graphs[name].outputs],
            }
            for name, method in program.methods.items()
        ],
        "sections": {
            name: {"bytes": len(data), "sha256": digest_of(data)} for name, data in sections.items()
        },
    }


# ---- reading -------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> Program:
    """The program in a file. ProgramError for a file that is missing, damaged, or newer than this code."""
    where = Path(path).name
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ProgramError(f"{path} does not exist: a {PROGRAM} was wanted; check the path") from None
    except IsADirectoryError:
        raise ProgramError(f"{path} is a folder: give the path of a {PROGRAM} (model.tape) in it") from None
    except OSError as error:
        raise ProgramError(
            f"{path} cannot be read ({error.strerror}): check the path and its permissions"
        ) from None
    check_kind(data, where)
    try:
        container = open_container(data, where)
        manifest = parse_manifest(bytes(container.read(MANIFEST)), where, PROGRAM)
    except ArtifactError as error:
        raise ProgramError(str(error)) from None
    try:
        return _program(
            manifest, bytes(container.read(GRAPH)).decode(), bytes(container.read(PROGRAM_WEIGHTS)), where
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProgramError(f"{where} is damaged: {error}; save the program again") from error


def check_kind(data: bytes, where: str) -> None:
    """ProgramError, saying what the file seems to be, unless it begins and ends like a program."""
    if not data:
        raise ProgramError(f"{where} is empty: a {PROGRAM} was wanted; save it again")
    if data[:4] == ELF_MAGIC:
        raise ProgramError(f"{where} is a library and no {PROGRAM}: load it with tapecast.runtime.load")
    if data[:4] != ZIP_MAGIC:
        raise ProgramError(f"{where} is no {PROGRAM}: it begins with {data[:4]!r}; check the path")
    if not has_end(memoryview(data)):
        raise ProgramError(
            f"{where} is cut short, or a zip of another kind: its end is missing; save or copy it again"
        )


def _program(manifest: Mapping[str, Any], text: str, weights: bytes, where: str) -> Program:
    arrays = read_safetensors(where, weights)[1]
    for name in manifest["complex"]:
        arrays[name] = arrays[name].view(np.complex128).reshape(arrays[name].shape[:-1])
    graphs = {name: check(graph) for name, graph in parse_all(text, arrays).items()}
    methods = {
        m["name"]: Method(graphs[m["name"]], m["arguments"], m["outputs"], m["varargs"], m["training"])
        for m in manifest["methods"]
    }
    named = {n.name for g in graphs.values() for n in g.nodes if n.is_const and n.name} | {*manifest["state"]}
    trained = set(manifest["parameters"])
    tensors = {name: _tensor(arrays[name], name in trained) for name in sorted(named)}
    return Program(methods, tensors, tuple(manifest["state"]))


def _tensor(array: Any, trained: bool) -> Tensor:
    return Parameter(Tensor(array)) if trained else Tensor(array)
