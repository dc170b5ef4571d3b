"""The names of tensor types, such as "torch.FloatTensor", and the types of those names.

They are PyTorch's, its "torch." included: programs compare and store them as text.
"""

from __future__ import annotations

from typing import Any

from .dtypes import dtype as DType, dtype_of, set_default_dtype
from .functional.creation import empty, tensor
from .tensor import Tensor

PREFIX = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "bool": "Bool",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
}


def typename(obj: Any) -> str:
    """The name of a tensor's type, "torch.FloatTensor" or "torch.cuda.FloatTensor"; of others, that of the class."""
    if isinstance(obj, Tensor):
        place = "" if obj.device.type == "cpu" else f"{obj.device.type}."
        return f"torch.{place}{PREFIX[obj.dtype.name]}Tensor"
    cls = obj if isinstance(obj, type) else type(obj)
    module = cls.__module__
    return cls.__qualname__ if module in ("builtins", None) else f"{module}.{cls.__qualname__}"


class TensorType(type):
    """The type of `FloatTensor` and its like: makes tensors of one dtype, and knows them by isinstance."""

    dtype: DType

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        """Of sizes: a tensor without values. Of a sequence or an array: a tensor of its values. Of none: empty."""
        if len(args) == 1 and not isinstance(args[0], int):
            if type(args[0]).__name__ == "Size":
                return empty(tuple(args[0]), dtype=cls.dtype, device=device)
            return tensor(args[0], dtype=cls.dtype, device=device)
        return empty(args or (0,), dtype=cls.dtype, device=device)

    def __instancecheck__(cls, obj: object) -> bool:
        return isinstance(obj, Tensor) and obj.dtype == cls.dtype and obj.device.type == "cpu"


def tensor_type(name: str) -> TensorType:
    """The class of the tensors of a dtype in main memory."""
    return TensorType(
        f"{PREFIX[name]}Tensor",
        (),
        {"dtype": dtype_of(name), "__doc__": f"Tensors of {name} in main memory.", "__module__": __name__},
    )


FloatTensor = tensor_type("float32")
DoubleTensor = tensor_type("float64")
HalfTensor = tensor_type("float16")
BFloat16Tensor = tensor_type("bfloat16")
ByteTensor = tensor_type("uint8")
CharTensor = tensor_type("int8")
ShortTensor = tensor_type("int16")
IntTensor = tensor_type("int32")
LongTensor = tensor_type("int64")
BoolTensor = tensor_type("bool")


def type_of(dtype: DType) -> TensorType:
    """The class of the tensors of a dtype, in main memory."""
    return tensor_type(dtype.name)


def set_default_tensor_type(t: Any) -> None:
    """Make the dtype of a type, such as `DoubleTensor` or "torch.DoubleTensor", that of Python floats."""
    set_default_dtype(dtype_named(t)[1] if isinstance(t, str) else t.dtype)


TYPES = {f"{prefix}Tensor": name for name, prefix in PREFIX.items()}


def dtype_named(name: str) -> tuple[str, DType]:
    """The device type and dtype of a name such as "torch.cuda.FloatTensor"; ValueError for others."""
    *place, kind = name.removeprefix("torch.").split(".")
    if place not in ([], ["cuda"]) or kind not in TYPES:
        raise ValueError(f"invalid type: '{name}'")
    return "".join(place) or "cpu", dtype_of(TYPES[kind])
