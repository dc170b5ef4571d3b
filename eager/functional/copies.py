"""The views again as copies, by PyTorch's names: `transpose_copy(x, 0, 1)` is a clone of `transpose(x, 0, 1)`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..ops.table import TABLE
from ..tape import apply
from ..tensor import Tensor
from . import shaping, slicing, splitting, strides
from .diagonals import diagonal
from .output import takes_out

CLONE = TABLE["clone"]


def copying(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function of the same arguments whose results are memory of their own."""

    @wraps(function)
    def copied(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        out = function(input, *args, **kwargs)
        return tuple(apply(CLONE, x) for x in out) if isinstance(out, tuple) else apply(CLONE, out)

    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"In memory of its own: {function.__doc__}"
    return takes_out(copied)


def alias(input: Tensor) -> Tensor:
    """The tensor as a view of itself."""
    return shaping.view(input, tuple(input.array.shape))


alias_copy = copying(alias, "alias_copy")
as_strided_copy = copying(strides.as_strided, "as_strided_copy")
detach_copy = copying(Tensor.detach, "detach_copy")
diagonal_copy = copying(diagonal, "diagonal_copy")
expand_copy = copying(shaping.expand, "expand_copy")
narrow_copy = copying(slicing.narrow, "narrow_copy")
permute_copy = copying(shaping.permute, "permute_copy")
select_copy = copying(slicing.select, "select_copy")
split_copy = copying(splitting.split, "split_copy")
split_with_sizes_copy = copying(splitting.split_with_sizes, "split_with_sizes_copy")
squeeze_copy = copying(shaping.squeeze, "squeeze_copy")
t_copy = copying(shaping.t, "t_copy")
transpose_copy = copying(shaping.transpose, "transpose_copy")
unbind_copy = copying(splitting.unbind, "unbind_copy")
unfold_copy = copying(strides.unfold, "unfold_copy")
unsqueeze_copy = copying(shaping.unsqueeze, "unsqueeze_copy")
view_copy = copying(shaping.view, "view_copy")
