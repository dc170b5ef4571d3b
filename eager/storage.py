"""The memory behind tensors, for programs that ask which tensors share it."""

from __future__ import annotations

from typing import Any

from .tensor import Tensor


class UntypedStorage:
    """All memory that a tensor and its views share, as bytes."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def device(self) -> Any:
        """Where the memory is."""
        return self.tensor.device

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self.tensor.data_ptr() - self.tensor.storage_offset() * self.tensor.element_size()

    def nbytes(self) -> int:
        """The number of bytes."""
        array: Any = self.tensor.array
        while hasattr(array.base, "nbytes") and hasattr(array.base, "dtype"):
            array = array.base
        return int(array.nbytes)

    size = __len__ = nbytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self.data_ptr() == other.data_ptr()

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    def is_shared(self) -> bool:
        """Whether other processes share the memory."""
        from .multiprocessing.sharing import is_shared

        return is_shared(self.tensor)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory behind the tensor."""
    return UntypedStorage(self)
