"""The `golden` fixture itself: it must be able to fail."""

from pathlib import Path

import pytest


@pytest.fixture
def kept(golden, tmp_path: Path):
    """A golden text in a folder of its own, not written yet."""
    return type(golden)(tmp_path / "golden" / "kernel.txt", update=False)


def test_a_text_that_was_never_kept_differs(kept):
    assert (kept == "a\n") is False
    assert kept.difference("a\n")[0] == "there is no tests/golden/kernel.txt"


def test_update_keeps_the_text(kept):
    kept.update = True
    assert kept == "a\nb"
    kept.update = False
    assert kept == "a\nb\n"
    assert kept != "a\nc"
    assert {"-b", "+c"} <= set(kept.difference("a\nc"))


def test_parts_are_files_of_their_own(kept):
    assert kept("cuda").path.name == "kernel.cuda.txt"
    with pytest.raises(ValueError, match="wants a short name"):
        kept("for i < 4:\n  store")


def test_only_text_is_compared(kept):
    with pytest.raises(TypeError, match="compared with text, got int"):
        assert kept == 3


@pytest.mark.parametrize("kind", ["cpu/f32"])
def test_the_file_is_named_after_file_and_test(golden, kind: str):
    assert golden.path.name == "golden.the_file_is_named_after_file_and_test[cpu_f32].txt"
    assert golden("b").path.name == "golden.the_file_is_named_after_file_and_test[cpu_f32].b.txt"
