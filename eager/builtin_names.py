"""The dtypes that share their names with Python's types, in a module whose own code needs no such type."""

from .dtypes import bool_ as bool, float_ as float, int_ as int

__all__ = ["bool", "float", "int"]
