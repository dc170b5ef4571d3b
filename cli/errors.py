"""Errors of the user's become one sentence; all others keep their traceback, as they are defects of this
package.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click


class Failure(click.ClickException):
    """What went wrong, in a sentence, and the exit code it means."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def explained(*also: type[Exception]) -> Iterator[None]:
    """Within the block, what files and arguments can cause is a Failure: TypeError, ValueError, OSError and
    `also`.
    """
    caught: tuple[type[Exception], ...] = (TypeError, ValueError, OSError, *also)
    try:
        yield
    except caught as error:
        raise Failure(one_line(str(error))) from error


def one_line(text: str) -> str:
    """A message on one line; what follows the first line is joined to it."""
    return " ".join(line.strip() for line in text.splitlines() if line.strip())
