"""Train on a tape, cast to native code.

The public names are those of PyTorch. They are listed in `__init__.pyi`, for type checkers and lazy_loader
alike, and each is imported on its first use: importing this package loads no part of it, and
`import tapecast.runtime` loads the runtime alone.
"""

import sys
from importlib import import_module

from . import _aliases

__version__ = "0.1.0"

_aliases.install()
_public: list = []  # lazy_loader's getter, lister and names, once the first name has been asked for


def _table() -> list:
    """The names of the stub. Reading it takes milliseconds, hence not on import."""
    if not _public:
        import lazy_loader

        _public[:] = lazy_loader.attach_stub(__name__, __file__)
    return _public


def __getattr__(name: str) -> object:
    # Modules need no table: a deployment of numpy, runtime/ and serialized_models/ has no lazy_loader.
    if name in _aliases.ALIASES or name == "runtime":
        return import_module(f"{__name__}.{name}")
    if name == "__all__":
        return _table()[2]
    if name.startswith("__") or name not in _table()[2]:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])
    return _table()[0](name)


def __dir__() -> list[str]:
    return ["__version__", *_table()[2]]
