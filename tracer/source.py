"""Where in the user's program something happened, as graphs and messages of the tracer say it: `model.py:12`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from ..eager.caller import is_internal


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame outside tapecast, starting `depth` frames above the caller; None: there is none."""
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None and is_internal(frame):
        frame = frame.f_back
    return frame


def user_line() -> str:
    """`model.py:12`: the file and line of the innermost frame outside tapecast, or "" where there is none."""
    frame = user_frame()
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def error_line(error: BaseException) -> str:
    """`model.py:12`: the innermost line of user code an exception passed through; "" for none."""
    line, trace = "", error.__traceback__
    while trace is not None:
        if not is_internal(trace.tb_frame):
            line = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


def called_by_user(depth: int = 1) -> bool:
    """Whether the frame `depth` above the caller is user code, not tapecast's own."""
    return not is_internal(sys._getframe(depth + 1))
