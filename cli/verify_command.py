"""`tapecast verify model.tape model.so`."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import click

from ..runtime import Model, load
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

    with explained():
        traced = load_program(existing(program, "a program (model.tape)"))
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


def check_same_entries(graphs: Any, model: Model) -> None:
    """Raise Failure unless program and model have the same entry points."""
    if list(graphs) != list(model.methods):
        raise Failure(
            f"the program has the entry points {', '.join(graphs)} and the model "
            f"{', '.join(model.methods)}: "
            "give the program that the model was compiled from"
        )
