"""How the axes of a tensor lie in memory, and the one layout there is: names that PyTorch programs pass on."""

from __future__ import annotations


class memory_format:
    """An order of axes in memory; `channels_last` keeps axis 1 innermost."""

    __slots__ = ("name", "ndim")

    def __init__(self, name: str, ndim: int | None = None) -> None:
        self.name, self.ndim = name, ndim

    def __repr__(self) -> str:
        return f"tapecast.{self.name}"

    def __reduce__(self) -> str:
        return self.name


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last", 4)
channels_last_3d = memory_format("channels_last_3d", 5)


class layout:
    """What a tensor's memory holds: here always its elements by strides."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"tapecast.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided = layout("strided")
