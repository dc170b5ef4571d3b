# The public surface: a name stands in the line of the module that defines it.
__version__: str
