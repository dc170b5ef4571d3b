"""The command group. Each command's module is imported when it is called: `tapecast run` needs the runtime
alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import click

from .. import __version__
from .errors import Failure

COMMANDS = {
    "compile": "Turn a program (model.tape) into one native file (model.so).",
    "run": "Run a compiled model on .npy files.",
    "inspect": "Show what is in a file, without running any of it.",
    "bench": "Time a program in eager mode against the compiled model.",
    "verify": "Compare a compiled model with the program it came from.",
}


class Commands(click.Group):
    """A group that imports `<command>_command.py` on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f".{name}_command", __package__).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tapecast")
def group() -> None:
    """Train on a tape, cast to native code."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0, 1 for a model that is wrong, 2 for an error of the user's."""
    try:
        sys.exit(group.main(args, prog_name="tapecast", standalone_mode=False) or 0)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(0)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        click.echo(f"tapecast: {error.format_message()}", err=True)
        sys.exit(error.code if isinstance(error, Failure) else 2)
