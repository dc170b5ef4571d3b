"""What type checkers and editors are told about Tensor is what it has."""

import importlib.util
from pathlib import Path

TOOL = Path(__file__).resolve().parents[1] / "tools" / "signatures.py"


def test_the_stub_of_the_methods_is_up_to_date():
    spec = importlib.util.spec_from_file_location("signatures_tool", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.stub() == tool.TARGET.read_text(encoding="utf-8"), "run tools/signatures.py and read the diff"
