"""OpenMP, which tapecast itself does not use."""


def is_available() -> bool:
    """False."""
    return False
