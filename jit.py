"""`tapecast.jit`: from a function or module to a program, in memory (`trace`) and in a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .tracer.dims import Dim
from .tracer.parse import ParseError, parse
from .tracer.program import Program, TracedModule, register_compiler
from .tracer.python import call, sizes, tensor
from .tracer.record import TracerError, TracerWarning
from .tracer.storage import ProgramError, load as _load_program, save as _save_program
from .tracer.trace import trace

__all__ = [
    "Dim",
    "ParseError",
    "Program",
    "ProgramError",
    "TracedModule",
    "TracerError",
    "TracerWarning",
    "call",
    "load",
    "parse",
    "save",
    "sizes",
    "tensor",
    "trace",
]


def save(module: TracedModule, path: str | os.PathLike[str]) -> None:
    """Write a traced module to `path`; as `module.save(path)`."""
    _save_program(module.program, path)


def load(path: str | os.PathLike[str]) -> TracedModule:
    """The traced module that `save` wrote. ProgramError for a file that is missing, damaged or newer."""
    return TracedModule(_load_program(path))


def _compile(program: Program, path: str | os.PathLike[str], **options: Any) -> Any:
    """Compile to an artifact and, unless `verify=False`, compare what it computes with the graphs."""
    from . import runtime
    from .compiler.compile import compile_artifact

    state = {name: program.tensors[name].array for name in program.state}
    return compile_artifact(program.graphs, Path(path), load=runtime.load, state=state, **options)


# The layers do not know each other: the tracer is told here how to compile, the compiler how to run what it
# made.
register_compiler(lambda: _compile)
