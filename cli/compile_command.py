"""`tapecast compile model.tape -o model.so`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..serialized_models.writer import check_destination
from .console import show
from .errors import Failure, explained, one_line
from .options import existing


@click.command()
@click.argument("program")
@click.option(
    "-o", "--output", metavar="FILE", help="The file to write; by default the program's name with .so."
)
@click.option(
    "--target", default="portable", show_default=True, help="portable, native, or a CPU level: x86-64-v3."
)
@click.option("--name", help="What exported symbols begin with; by default the name of the file.")
@click.option("--fast-math", is_flag=True, help="Allow rewrites that change rounding.")
@click.option("--no-verify", is_flag=True, help="Skip the comparison with the program at the end.")
def command(
    program: str, output: str | None, target: str, name: str | None, fast_math: bool, no_verify: bool
) -> None:
    """Turn a program (model.tape) into one native file, with its C headers beside it."""
    source = existing(program, "a program (model.tape)")
    path = Path(output) if output else source.with_suffix(".so")
    with explained():
        check_destination(path)
        traced = load_program(source)
    if path.exists() and path.samefile(source):
        raise Failure(f"{path} is the program itself: choose another file with -o")
    options: dict[str, Any] = {"target": target, "fast_math": fast_math, "verify": not no_verify}
    if name:
        options["name"] = name
    show(str(compiled(traced, path, options)))


def load_program(path: Path) -> Any:
    """The traced module in a file."""
    from .. import jit

    return jit.load(path)


def compiled(traced: Any, path: Path, options: dict[str, Any]) -> Any:
    """Compile and give the report. A model that fails the comparison is exit code 1."""
    from ..compiler.verify import VerificationError

    try:
        with explained(NotImplementedError):
            return traced.compile(path, **options)
    except VerificationError as error:
        raise Failure(one_line(str(error)), code=1) from error
