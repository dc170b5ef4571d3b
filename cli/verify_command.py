"""`tapecast verify model.tape model.so`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from ..runtime import Model, load
from ..serialized_models.container import ELF_MAGIC
from .compile_command import load_program
from .console import show, table
from .errors import Failure, explained, one_line
from .options import existing


@click.command()
@click.argument("program")
@click.argument("model")
def command(program: str, model: str) -> None:
    """Compare a compiled model with its program.

    Sizes tried: the smallest, a middle one and the largest of every range, but none above 64 unless the range
    begins there.
    """
    from ..compiler.verify import LARGEST, VerificationError, verify

    traced = program_of(program, model)
    with explained():
        loaded = load(model)
    check_same_entries(traced.program.graphs, loaded)
    # The state goes in and out explicitly, so that every run begins with the same values in both.
    pure = SimpleNamespace(**{name: loaded.pure(name) for name in loaded.methods})
    try:
        with explained():
            report = verify(traced.program.graphs, pure)
    except VerificationError as error:
        raise Failure(one_line(str(error)), code=1) from error
    rows = [
        (
            name,
            ", ".join(f"{k}={v}" for k, v in run["sizes"].items()),
            f"{run['compiled_error']:.1e}",
            f"{run['eager_error']:.1e}",
        )
        for name, runs in report.items()
        for run in runs
    ]
    show(
        table("error against float64, of the largest value", ("entry", "sizes", "compiled>", "eager>"), rows)
    )
    if untried := larger_sizes(traced.program.dims, LARGEST):
        show(f"not tried: {untried}")


def larger_sizes(ranges: Mapping[str, tuple[int, int | None]], largest: int) -> str:
    """The part of each range that lies above the sizes that are tried: `batch above 64`."""
    tops = {name: max(low, largest) for name, (low, _) in ranges.items()}
    return ", ".join(
        f"{name} above {tops[name]}"
        for name, (_, high) in ranges.items()
        if high is None or high > tops[name]
    )


def program_of(program: str, model: str) -> Any:
    """The traced module in the file `program`. Raises Failure where it is the model, and the other way round."""
    path = existing(program, "a program (model.tape)")
    if is_artifact(path) and not is_artifact(Path(model)):
        raise Failure(f"{program} is a compiled model: give the program first (model.tape), then the model")
    with explained():
        return load_program(path)


def is_artifact(path: Path) -> bool:
    """Whether a file begins as a library does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(ELF_MAGIC)) == ELF_MAGIC


def check_same_entries(graphs: Any, model: Model) -> None:
    """Raise Failure unless program and model have the same entry points, with inputs of the same types."""
    advice = "give the program that the model was compiled from"
    if list(graphs) != list(model.methods):
        raise Failure(
            f"the program has the entry points {', '.join(graphs)} and the model "
            f"{', '.join(model.methods)}: {advice}"
        )
    for entry in model.manifest["entries"]:
        wanted = [f"{n.name}: {n.single}".replace(" ", "") for n in graphs[entry["name"]].inputs]
        came = [_typed(spec).replace(" ", "") for spec in entry["inputs"]]
        if wanted != came:
            raise Failure(
                f"{entry['name']} of the program takes ({', '.join(wanted)}), of the model ({', '.join(came)}): "
                f"{advice}"
            )


def _typed(spec: Mapping[str, Any]) -> str:
    return f"{spec['name']}: {spec['dtype']}[{','.join(map(str, spec['shape']))}]"
