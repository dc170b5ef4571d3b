"""The op table: importing this package enters every op."""

from . import (
    activation,
    contract,
    conv,
    create,
    elementwise,
    gamma,
    index,
    layout,
    pool,
    random,
    reduce,
    statistics,
    view,
)

__all__ = [
    "activation",
    "contract",
    "conv",
    "create",
    "elementwise",
    "gamma",
    "index",
    "layout",
    "pool",
    "random",
    "reduce",
    "statistics",
    "view",
]
