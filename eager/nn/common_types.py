"""Names for the types of settings that layers take: one value for all axes, or one for each."""

from __future__ import annotations

from typing import Any, TypeVar

from ..tensor import Tensor

T = TypeVar("T")

_scalar_or_tuple_any_t = T | tuple[T, ...]  # type: ignore[misc]
_scalar_or_tuple_1_t = T | tuple[T]  # type: ignore[misc]
_scalar_or_tuple_2_t = T | tuple[T, T]  # type: ignore[misc]
_scalar_or_tuple_3_t = T | tuple[T, T, T]  # type: ignore[misc]
_scalar_or_tuple_4_t = T | tuple[T, T, T, T]  # type: ignore[misc]
_scalar_or_tuple_5_t = T | tuple[T, T, T, T, T]  # type: ignore[misc]
_scalar_or_tuple_6_t = T | tuple[T, T, T, T, T, T]  # type: ignore[misc]

_size_any_t = int | tuple[int, ...]
_size_1_t = int | tuple[int]
_size_2_t = int | tuple[int, int]
_size_3_t = int | tuple[int, int, int]
_size_4_t = int | tuple[int, int, int, int]
_size_5_t = int | tuple[int, int, int, int, int]
_size_6_t = int | tuple[int, int, int, int, int, int]
_size_any_opt_t = int | None | tuple[int | None, ...]
_size_2_opt_t = int | None | tuple[int | None, int | None]
_size_3_opt_t = int | None | tuple[int | None, int | None, int | None]

_ratio_2_t = float | tuple[float, float]
_ratio_3_t = float | tuple[float, float, float]
_ratio_any_t = float | tuple[float, ...]
_tensor_list_t = Tensor | list[Tensor]
_maybe_indices_t: Any = Tensor | tuple[Tensor, Tensor]
