"""cuDNN, which tapecast does not use: `is_available()` is False."""

enabled = True
benchmark = False
deterministic = True
allow_tf32 = False


def is_available() -> bool:
    """False."""
    return False


def version() -> int | None:
    """None."""
    return None
