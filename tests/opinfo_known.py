"""The operators of operators.txt with a sample that does not pass, and why. `test_opinfo.py` fails once one passes."""

from __future__ import annotations

KNOWN: dict[str, str] = {}
