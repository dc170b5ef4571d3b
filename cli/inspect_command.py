"""`tapecast inspect model.so` or `model.tape`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from rich.table import Table

from ..runtime import Info, inspect
from ..runtime.checking import describe, outside, range_text
from ..runtime.inspecting import size_text
from ..serialized_models.container import ZIP_MAGIC
from .console import show, table
from .errors import explained
from .options import existing


@click.command()
@click.argument("file")
@click.option("--graph", is_flag=True, help="Print the graph as well.")
@click.option("--kernels", is_flag=True, help="List every kernel with the lines of your code it came from.")
def command(file: str, graph: bool, kernels: bool) -> None:
    """Show what is in a file, without running any of it."""
    path = existing(file, "a model.so or model.tape")
    with path.open("rb") as opened:
        is_program = opened.read(4) == ZIP_MAGIC
    if is_program:
        inspect_program(path, graph)
        return
    with explained():
        info = inspect(path)
    show(*artifact_tables(info, kernels))
    if graph:
        show(info.graph.rstrip())


def artifact_tables(info: Info, kernels: bool) -> list[Table]:
    """What an artifact says of itself."""
    m = info.manifest
    hidden = {s.name for s in m.state}
    facts: list[tuple[str, object]] = [
        ("file", f"{info.path}, {size_text(info.bytes)}"),
        ("sha256", info.digest),
        ("built by", f"{m.builder['name']} {m.builder['version']}, format {m.format}, ABI {m.abi}"),
        ("runs on", f"{m.machine}: {', '.join(m.levels)}"),
        ("options", ", ".join(f"{k}={v}" for k, v in sorted(m.options.items())) or "the defaults"),
        *(("entry", describe(outside(e, hidden))) for e in m.entries),
        *(("size", f"{name}: {range_text(bounds)}") for name, bounds in sorted(m.dims.items())),
        *(("state", f"{s.name}: {s.dtype}{list(s.shape)}") for s in m.state),
        *(("workspace", f"{e.name}: {e.workspace} bytes") for e in m.entries),
        ("verified", report_text(m.report)),
    ]
    sections = [
        (name, size_text(s.bytes), s.sha256[:16], "intact" if info.sections[name] else "DAMAGED")
        for name, s in sorted(m.sections.items())
    ]
    tables = [
        table(m.name, ("", ""), facts),
        table("sections", ("section", "size>", "sha256", "state"), sections),
    ]
    if kernels:
        rows = [(k["entry"], k["name"], "\n".join(k["lines"])) for k in m.kernels]
        tables.append(table("kernels", ("entry", "kernel", "lines"), rows))
    return tables


def report_text(report: Mapping[str, Any] | None) -> str:
    """The comparison that was made when the file was compiled."""
    if not report:
        return "no: the model was not compared with its program when it was compiled"
    runs = [run for entry in report.values() if isinstance(entry, list) for run in entry]
    errors = [run["compiled_error"] for run in runs if "compiled_error" in run]
    return f"yes, {len(runs)} runs" + (
        f", largest error {max(errors):.1e} of the largest value" if errors else ""
    )


def inspect_program(path: Any, graph: bool) -> None:
    """What a program holds. Its graphs are read and checked, and not run."""
    from .compile_command import load_program

    with explained():
        traced = load_program(path)
    program = traced.program
    rows: list[tuple[str, object]] = [("file", f"{path}, {size_text(path.stat().st_size)}")]
    for name, g in program.graphs.items():
        inputs = ", ".join(f"{n.name}: {n.single}" for n in g.inputs)
        outputs = ", ".join(str(n.single) for n in g.outputs)
        rows.append(("entry", f"{name}({inputs}) -> ({outputs}), {len(g.nodes)} nodes"))
    rows += [("size", f"{name}: {range_text(bounds)}") for name, bounds in program.dims.items()]
    rows += [("state", name) for name in program.state]
    count = sum(t.array.size for t in program.tensors.values())
    rows.append(("tensors", f"{len(program.tensors)}, {count:,} elements"))
    show(table(path.name, ("", ""), rows))
    if graph:
        show(traced.text.rstrip())
