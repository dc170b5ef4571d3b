"""`tapecast run model.so --input x.npy -o y.npy`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..runtime import Model, load
from ..serialized_models.writer import replacing
from .console import show
from .errors import Failure, explained
from .options import threads_option


@click.command()
@click.argument("model")
@click.option(
    "--input", "inputs", multiple=True, metavar="[NAME=]FILE", help="A .npy file; once for each input."
)
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FILE", help="A .npy file; once for each output."
)
@click.option("--method", help="The entry point; by default the first.")
@threads_option
def command(
    model: str, inputs: Sequence[str], outputs: Sequence[str], method: str | None, threads: int | None
) -> None:
    """Run a compiled model on .npy files; without -o the results are printed."""
    with explained():
        loaded = load(model, threads=threads)
    function = entry_of(loaded, method)
    args, named = arguments(inputs)
    with explained():
        answer = function(*args, **named)
    results = answer if isinstance(answer, tuple) else (answer,)
    if not outputs:
        show(*(f"{r.dtype.name}{list(r.shape)}\n{r}" for r in results))
    elif len(outputs) != len(results):
        raise Failure(
            f"the model has {len(results)} outputs, and -o names {len(outputs)} files: give one for each"
        )
    for path, result in zip(outputs, results, strict=False):
        with explained(), replacing(Path(path if path.endswith(".npy") else f"{path}.npy")) as file:
            np.lib.format.write_array(file, np.asarray(result), allow_pickle=False)


def entry_of(model: Model, method: str | None) -> Any:
    """The function of an entry point."""
    if method is None:
        return model
    if method not in model.methods:
        raise Failure(f"{model.name} has no method {method}: it has {', '.join(model.methods)}")
    return model.methods[method]


def arguments(texts: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """The arrays of `--input` options: in order, or by name where one is given."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if equals and name.replace(".", "_").isidentifier() and not Path(text).exists():
            named[name] = read_array(path)
        elif named:
            raise Failure(
                f"the input {text} has no name and follows one that has: name it too, or put it first"
            )
        else:
            args.append(read_array(text))
    return args, named


def read_array(path: str) -> Any:
    """The array in a .npy file. Nothing in it is executed."""
    if not Path(path).is_file():
        raise Failure(f"{path} does not exist: give a .npy file, as numpy.save writes it")
    try:
        with open(path, "rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise Failure(f"{path} is no .npy file of numbers: write it with numpy.save") from error
