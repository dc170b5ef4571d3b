"""Files of `torch.save`: read without PyTorch and without running code, and written so that `torch.load` reads them.

Such a file is a zip archive: `data.pkl` is a pickle of the object, in which a tensor is a call of a function of
PyTorch's on a storage, and `data/0`, `data/1`, … are the storages' bytes. (Before version 1.6: pickles one after the
other, then the bytes.) The pickle is read by an unpickler that knows what tensors and plain containers are made of,
and refuses every other name.
"""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from . import functional as F
from .device import device as device_of
from .dtypes import dtype, dtype_of
from .nn.parameter import Parameter
from .ops.types import DTYPES
from .tensor import Size, Tensor

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
"""What a file from before version 1.6 begins with."""

STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "uint8",
}
OF_DTYPE = {name: storage for storage, name in STORAGES.items() if storage != "UntypedStorage"}


def is_archive(data: bytes) -> bool:
    """Whether these are the bytes of a zip archive of torch.save."""
    file = io.BytesIO(data)
    return zipfile.is_zipfile(file) and pickle_name(zipfile.ZipFile(file)) is not None


def is_old(data: bytes) -> bool:
    """Whether these are the bytes of a file of torch.save from before version 1.6."""
    return data[:2] == b"\x80\x02" and pickle.dumps(MAGIC, 2) == data[: len(pickle.dumps(MAGIC, 2))]


def pickle_name(archive: zipfile.ZipFile) -> str | None:
    return next((n for n in archive.namelist() if n.count("/") == 1 and n.endswith("/data.pkl")), None)


# ---- reading -----------------------------------------------------------------------------------------------


class Storage:
    """Bytes that tensors share, and the dtype that their first user sees."""

    def __init__(self, data: Any, dtype_name: str) -> None:
        self.data, self.dtype = data, DTYPES[dtype_name]


class StorageType:
    """The class of a storage in the pickle."""

    def __init__(self, dtype_name: str) -> None:
        self.dtype = dtype_name


def rebuild_tensor(
    storage: Storage, offset: int, size: Any, stride: Any, requires_grad: bool = False, *rest: Any
) -> Tensor:
    """A tensor of a part of a storage."""
    return strided(storage, storage.dtype, offset, size, stride, requires_grad)


def rebuild_tensor_of_dtype(
    storage: Storage,
    offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    hooks: Any,
    of: dtype,
    *rest: Any,
) -> Tensor:
    """As above, of a dtype that is not the storage's."""
    return strided(storage, of.numpy, offset, size, stride, requires_grad)


def strided(storage: Storage, of: Any, offset: int, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    flat = np.frombuffer(storage.data, of)
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else 0
    if min((offset, *size, *stride), default=0) < 0 or (all(size) and last >= flat.size):
        raise ValueError(
            f"a tensor of shape {tuple(size)} and stride {tuple(stride)} does not fit a storage of {flat.size}"
        )
    steps = tuple(s * flat.itemsize for s in stride)
    array = np.lib.stride_tricks.as_strided(flat[offset:] if all(size) else flat[:0], tuple(size), steps)
    return F.from_numpy(array).requires_grad_(bool(requires_grad))


def rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any, *state: Any) -> Parameter:
    """A parameter."""
    return Parameter(data.detach(), bool(requires_grad))


def encoded(text: str, encoding: str) -> bytes:
    """Bytes, as older protocols write them."""
    return text.encode(encoding)


def rebuilt_size(values: Any = ()) -> Size:
    return Size(values)


NAMES: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "defaultdict"): defaultdict,
    ("builtins", "dict"): dict,
    ("builtins", "list"): list,
    ("builtins", "set"): set,
    ("builtins", "complex"): complex,
    ("builtins", "bytearray"): bytearray,
    ("_codecs", "encode"): encoded,
    ("torch", "Size"): rebuilt_size,
    ("torch", "device"): device_of,
    ("torch._utils", "_rebuild_tensor"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): rebuild_tensor_of_dtype,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): rebuild_parameter,
    ("torch.nn.parameter", "Parameter"): Parameter,
    **{("torch", storage): StorageType(name) for storage, name in STORAGES.items()},
    ("torch.storage", "UntypedStorage"): StorageType("uint8"),
    **{("torch", name): dtype_of(name) for name in DTYPES},
}
"""What a pickle may name, and what stands for it here."""


class Unpickler(pickle.Unpickler):
    """Reads what tensors, plain containers and numbers are made of; nothing else is ever imported or called."""

    def __init__(self, file: Any, storage: Callable[[str, str, int], Storage]) -> None:
        super().__init__(file)
        self.storage = storage

    def find_class(self, module: str, name: str) -> Any:
        module = {"__builtin__": "builtins"}.get(module, module)  # the name in protocol 2
        if (module, name) not in NAMES:
            raise pickle.UnpicklingError(
                f"Weights only load failed. Unsupported global: GLOBAL {module}.{name} was not an allowed global by "
                "default; a file is read for its tensors, containers and numbers. Save the state_dict() of an object"
            )
        return NAMES[module, name]

    def persistent_load(self, pid: Any) -> Storage:
        kind, of, key, _, count, *_ = pid
        if kind != "storage" or not isinstance(of, StorageType):
            raise pickle.UnpicklingError(f"a persistent object is a storage, got {kind!r}")
        return self.storage(key, of.dtype, count)


def load_archive(data: bytes) -> Any:
    """The object in a zip archive of torch.save. Tensors that shared memory share it again."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    name = pickle_name(archive)
    assert name is not None
    folder = name.rpartition("/")[0]
    if f"{folder}/byteorder" in archive.namelist() and archive.read(f"{folder}/byteorder") != b"little":
        raise ValueError("the file was written on a machine whose numbers begin with the large end")
    found: dict[str, Storage] = {}

    def storage(key: str, dtype_name: str, count: int) -> Storage:
        if key not in found:
            found[key] = Storage(bytearray(archive.read(f"{folder}/data/{key}")), dtype_name)
        return found[key]

    return Unpickler(io.BytesIO(archive.read(name)), storage).load()


def load_old(data: bytes) -> Any:
    """The object in a file from before version 1.6."""
    file = io.BytesIO(data)
    found: dict[str, Storage] = {}

    def storage(key: str, dtype_name: str, count: int) -> Storage:
        if key not in found:
            found[key] = Storage(bytearray(count * DTYPES[dtype_name].itemsize), dtype_name)
        return found[key]

    def read() -> Any:
        return Unpickler(file, storage).load()

    if read() != MAGIC or read() != PROTOCOL:
        raise ValueError("the file is of a version that is not known")
    read()  # sizes of integers where it was written
    out = read()
    for key in read():
        (count,) = struct.unpack("<q", file.read(8))
        view = found[key].data
        if count * found[key].dtype.itemsize != len(view):
            raise ValueError(f"storage {key} is not of the size that the object says")
        view[:] = file.read(len(view))
    return out


# ---- writing -----------------------------------------------------------------------------------------------


def save_archive(obj: Any, file: Any) -> None:
    """Write a zip archive that `torch.load(…, weights_only=True)` reads. TypeError for what it would refuse."""
    pickler = Pickler()
    pickler.put(obj, "the object")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, content in [
            ("data.pkl", b"\x80\x02" + bytes(pickler.out) + b"."),
            ("byteorder", b"little"),
            *((f"data/{key}", content) for key, content in enumerate(pickler.contents())),
            ("version", b"3\n"),
        ]:
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), content)


class Pickler:
    """Writes the opcodes of pickle protocol 2. (Python's own pickler names only what can be imported.)"""

    def __init__(self) -> None:
        self.out = bytearray()
        self.storages: dict[int, tuple[int, np.ndarray[Any, Any]]] = {}
        self.open: set[int] = set()

    def contents(self) -> list[bytes]:
        return [array.tobytes() for _, array in self.storages.values()]

    def put(self, obj: Any, place: str) -> None:
        """Write an object. `place` says where it is, for messages."""
        match obj:
            case None | bool():
                self.out += {None: b"N", True: b"\x88", False: b"\x89"}[obj]
            case int():
                raw = int(obj).to_bytes((int(obj).bit_length() + 8) // 8, "little", signed=True)
                self.out += b"\x8a" + bytes([len(raw)]) + raw
            case float():
                self.out += b"G" + struct.pack(">d", obj)
            case str():
                raw = obj.encode("utf-8", "surrogatepass")
                self.out += b"X" + struct.pack("<I", len(raw)) + raw
            case bytes():
                self.call("_codecs", "encode", (obj.decode("latin1"), "latin1"), place)
            case Tensor():
                self.put_tensor(obj, place)
            case dtype():
                self.name("torch", obj.name)
            case Size():
                self.call("torch", "Size", (tuple(map(int, obj)),), place)
            case dict() | list() | tuple() if not hasattr(obj, "_fields"):
                self.put_container(obj, place)
            case _:
                self.put_number(obj, place)

    def put_number(self, obj: Any, place: str) -> None:
        if isinstance(obj, np.generic) and isinstance(obj.item(), bool | int | float):
            self.put(obj.item(), place)
            return
        if isinstance(obj, complex):
            self.call("builtins", "complex", (obj.real, obj.imag), place)
            return
        hint = "its state_dict()" if hasattr(obj, "state_dict") else "plain containers and tensors"
        raise TypeError(
            f"tc.save: {place} is a {type(obj).__name__}, which torch.load(weights_only=True) refuses; save {hint}"
        )

    def put_container(self, obj: Any, place: str) -> None:
        if id(obj) in self.open:
            raise ValueError(f"tc.save: {place} contains itself")
        self.open.add(id(obj))
        if isinstance(obj, dict):
            self.put_dict(obj, place)
        else:
            self.out += b"(" if isinstance(obj, tuple) else b"]("
            for i, value in enumerate(obj):
                self.put(value, f"{place}[{i}]")
            self.out += b"t" if isinstance(obj, tuple) else b"e"
        self.open.remove(id(obj))

    def put_dict(self, obj: dict[Any, Any], place: str) -> None:
        if isinstance(obj, OrderedDict):
            self.call("collections", "OrderedDict", (), place)
        else:
            self.out += b"}"
        self.out += b"("
        for key, value in obj.items():
            self.put(key, f"a key of {place}")
            self.put(value, f"{place}[{key!r}]")
        self.out += b"u"
        if isinstance(obj, OrderedDict) and hasattr(obj, "_metadata"):
            self.put({"_metadata": obj._metadata}, place)
            self.out += b"b"

    def put_tensor(self, tensor: Tensor, place: str) -> None:
        key, base, array = self.storage_of(tensor)
        if isinstance(tensor, Parameter):
            self.name("torch._utils", "_rebuild_parameter")
            self.out += b"("
        self.name("torch._utils", "_rebuild_tensor_v2")
        self.out += b"(("
        self.put("storage", place)
        self.name("torch", OF_DTYPE[tensor.dtype.name])
        for value in (str(key), "cpu", base.size):
            self.put(value, place)
        self.out += b"tQ"
        offset = (address(array) - address(base)) // array.itemsize if array.size else 0
        self.put(offset, place)
        self.put(tuple(map(int, array.shape)), place)
        self.put(strides(array), place)
        self.put(tensor.requires_grad and not isinstance(tensor, Parameter), place)
        self.call("collections", "OrderedDict", (), place)
        self.out += b"tR"
        if isinstance(tensor, Parameter):
            self.put(tensor.requires_grad, place)
            self.call("collections", "OrderedDict", (), place)
            self.out += b"tR"

    def storage_of(self, tensor: Tensor) -> tuple[int, Any, Any]:
        """Number and array of the memory a tensor is in, written once for all that share it; and the tensor's array."""
        array = tensor.detach().cpu().numpy()
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        whole = base.flags.c_contiguous and base.dtype == array.dtype and all(s >= 0 for s in array.strides)
        if not whole or base.nbytes > 4 * array.nbytes:  # a small part of much: the part alone
            base = array = np.ascontiguousarray(array).reshape(array.shape)
        entry = self.storages.setdefault(address(base) if base.size else id(base), (len(self.storages), base))
        return entry[0], entry[1], array

    def name(self, module: str, name: str) -> None:
        self.out += f"c{module}\n{name}\n".encode()

    def call(self, module: str, name: str, args: tuple[Any, ...], place: str) -> None:
        self.name(module, name)
        self.out += b"("
        for value in args:
            self.put(value, place)
        self.out += b"tR"


def strides(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Steps in elements; those of an empty array as PyTorch has them."""
    if array.size:
        return tuple(step // array.itemsize for step in array.strides)
    steps = [1]
    for n in reversed(array.shape[1:]):
        steps.append(steps[-1] * max(n, 1))
    return tuple(reversed(steps)) if array.ndim else ()


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
