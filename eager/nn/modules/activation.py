"""The activation layers, which `nn` defines in three files."""

from .. import activation as first, activations as more
from ..attention import MultiheadAttention

__all__ = ["MultiheadAttention"]

for _file in (first, more):
    for _name, _layer in vars(_file).items():
        if isinstance(_layer, type) and _layer.__module__ == _file.__name__:
            globals()[_name] = _layer
            __all__.append(_name)
