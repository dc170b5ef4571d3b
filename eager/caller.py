"""Where in the user's program we are: the innermost frame outside this package."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

_PREFIX = __name__.partition(".eager")[0] + "."

Place = tuple[CodeType, int]
"""A place before it is put into words, which is done only when a message needs it."""


def is_internal(frame: FrameType) -> bool:
    """Whether the frame runs the package's own code. Tests, examples and the like count as user code."""
    return str(frame.f_globals.get("__name__", "")).startswith(_PREFIX)


def user_place() -> Place:
    """The code object and the line number of the innermost frame outside the package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_internal(frame):
        frame = frame.f_back
    return frame.f_code, frame.f_lineno


def place_text(place: Place) -> str:
    """`file.py:12 in function`."""
    code, line = place
    return f"{os.path.basename(code.co_filename)}:{line} in {code.co_name}"


def user_line() -> str:
    """The innermost frame outside the package, as `file.py:12 in function`."""
    return place_text(user_place())
