"""The compiler's front door: graphs in, one artifact file out, and a report of what was done."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..serialized_models.container import ELF_MAGIC
from ..serialized_models.format import ARTIFACT
from ..serialized_models.writer import check_destination, check_replaceable
from ..tracer.graph import Graph
from .artifact import write_artifact
from .library import KernelInfo
from .options import Options
from .pipeline import Record, compile_graphs, times_text
from .verify import verify

#: Opens an artifact file for running. The runtime stands above the compiler, so it is handed down (see `jit.py`).
Loader = Callable[[Path], Any]


@dataclass(frozen=True)
class Report:
    """What a compilation did. Sizes are in bytes, times in seconds, `kernels` in order of their first call."""

    path: Path
    levels: tuple[str, ...]
    sizes: Mapping[str, int]
    times: Mapping[str, float]
    kernels: tuple[KernelInfo, ...]
    passes: tuple[str, ...] = ()
    verification: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return sum(self.times.values())

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {_bytes(n)}" for name, n in self.sizes.items())
        lines = [
            f"{self.path}: {len(self.kernels)} kernels for {', '.join(self.levels)} in {self.seconds:.2f} s",
            f"  sizes: {sizes}",
            f"  times: {times_text(self.times)}",
        ]
        for entry, runs in self.verification.items():
            worst = max((r["compiled_error"] for r in runs), default=0.0)
            eager = max((r["eager_error"] for r in runs), default=0.0)
            lines.append(
                f"  {entry}: error {worst:.1e} of the largest value against float64 (eager {eager:.1e})"
            )
        return "\n".join(lines)

    def details(self) -> str:
        """Everything: graph passes and what they changed, kernels with the user's lines, sizes, times, errors."""
        passes = [f"  {line}" for line in self.passes]
        kernels = [f"  {k.name}  {'; '.join(k.lines)}" for k in self.kernels]
        return "\n".join(["passes", *passes, "kernels", *kernels, str(self)])


def compile_artifact(
    graphs: Mapping[str, Graph],
    path: str | Path,
    *,
    load: Loader | None = None,
    state: Mapping[str, Any] | None = None,
    **options: Any,
) -> Report:
    """Compile `graphs`, one entry point each, to the file `path`; `options` are the fields of `Options`.

    `state` gives inputs that the model keeps between calls their first value, an array, by input name.
    The name of exported symbols is the file's unless `name` says otherwise. With `verify` (the default) and a
    `load`er the result is run against the graphs before it appears under its name.
    Raises ValueError for an unknown option or a path that the headers need, OSError for a path that cannot be
    written or is a file of another kind, NotImplementedError for an op without a loop rule, VerificationError.
    """
    path = Path(path)
    check_output(path)
    options.setdefault("name", symbol_name(path))
    chosen = Options(**options)
    record = Record()
    library = compile_graphs(graphs, chosen, record)
    report: dict[str, Any] = {}
    if chosen.verify and load is not None:
        with record.stage("verify"), tempfile.TemporaryDirectory() as folder:
            trial = Path(folder) / path.name
            write_artifact(trial, library)
            report = verify(graphs, load(trial))
    with record.stage("write"):
        kept = {name: array.tobytes() for name, array in (state or {}).items()}
        sizes = write_artifact(path, replace(library, state=kept), report=report)
    return Report(path, library.levels, sizes, record.stages, library.kernels, tuple(record.passes), report)


def check_output(path: Path) -> None:
    """Find out before compiling whether an artifact can take this path. ValueError or OSError if not."""
    if path.suffix == ".h" or path.stem == "tapecast":
        raise ValueError(
            f"{path}: the compiler writes the C headers {path.stem}.h and tapecast.h beside the file, and one of "
            "them would take its place or the other's; choose another name, such as model.so"
        )
    check_destination(path)
    check_replaceable(path, ELF_MAGIC, ARTIFACT)


def symbol_name(path: Path) -> str:
    """A C identifier from a file name: `my-model.v2.so` gives `my_model_v2`."""
    stem = "".join(c if c.isascii() and c.isalnum() else "_" for c in path.stem)
    return f"m_{stem}" if not stem or stem[0].isdigit() or stem.startswith("tapecast_") else stem


def _bytes(n: int) -> str:
    return f"{n / 1e6:.2f} MB" if n >= 1e6 else f"{n / 1e3:.1f} kB"
