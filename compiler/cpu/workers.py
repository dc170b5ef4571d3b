"""Modules to objects, several at a time. llvmlite serialises its calls, so each large module gets a process of its own.

A worker is this Python running `python -c`, told where to import from; it reads LLVM text and writes the object. That
also keeps a crash of LLVM away from the caller.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, closing
from typing import NamedTuple

from .llvm_driver import CompileError, object_code

#: Bytes of text below which starting a process (about 0.2 s) costs more than it saves.
SMALL = 100_000

_WORKER = """
import sys
sys.path[:] = {path!r}
from {driver} import CompileError, object_code
try:
    sys.stdout.buffer.write(object_code(sys.stdin.read(), {cpu!r}))
except CompileError as error:
    sys.exit(str(error))
"""


class Source(NamedTuple):
    """One module: its text and the CPU level it is compiled for."""

    text: str
    cpu: str


class _Worker:
    """A process that compiles one module. It reads and writes files, so neither side waits for the other."""

    def __init__(self, m: Source) -> None:
        self.output, self.messages = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        code = _WORKER.format(path=sys.path, driver=object_code.__module__, cpu=m.cpu)
        with tempfile.TemporaryFile() as text:
            text.write(m.text.encode())
            text.seek(0)
            command = [sys.executable, "-c", code]
            self.process = subprocess.Popen(command, stdin=text, stdout=self.output, stderr=self.messages)

    def result(self) -> bytes:
        code = self.process.wait()
        self.messages.seek(0)
        self.output.seek(0)
        if code:
            said = self.messages.read().decode().strip()
            raise CompileError(said or f"LLVM ended with signal {-code} while it compiled a module")
        return self.output.read()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.output.close()
        self.messages.close()


def objects(modules: Iterable[Source]) -> tuple[bytes, ...]:
    """The object of each module, in order. Modules are compiled while the iterable still makes the next ones; the last
    large one, and all small ones, in this process, which would only wait otherwise.

    CompileError where LLVM refuses a module, with the lines it is about.
    """
    alone = len(os.sched_getaffinity(0)) < 2 or not sys.executable
    done: list[bytes | Source | _Worker] = []
    with ExitStack() as stack:
        for m in modules:
            if alone or len(m.text) < SMALL:
                done.append(object_code(m.text, m.cpu))
                continue
            for k, earlier in enumerate(done):
                if isinstance(earlier, Source):
                    done[k] = stack.enter_context(closing(_Worker(earlier)))
            done.append(m)
        mine = [object_code(d.text, d.cpu) if isinstance(d, Source) else d for d in done]
        return tuple(d if isinstance(d, bytes) else d.result() for d in mine)
