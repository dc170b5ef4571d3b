"""The command `tapecast`: compile, run, inspect, bench and verify models from a shell.

A wrong file or argument is one sentence on standard error and exit code 2; a model that does not compute what
it should is exit code 1."""

from .main import main

__all__ = ["main"]
