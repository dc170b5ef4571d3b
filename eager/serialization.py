"""`save` and `load`: state dicts and other nested containers in one safetensors file, without pickle.

The tensors are the file's tensors, under names made of their path (`model.fc.weight`), so any safetensors reader
can use them. How they nest, and every value that is no tensor, is JSON in the file's metadata. In that JSON
numbers, text, booleans, null and lists stand for themselves; all else is an object with one of these keys:

| key                 | value                                                                             |
|---------------------|-----------------------------------------------------------------------------------|
| `dict`              | an object, or a list of [key, value] where a key is not text                      |
| `ordered`           | the same, of an OrderedDict; `metadata` beside it: the versions in a state dict   |
| `tuple`             | a list                                                                            |
| `tensor`            | a name; beside it `parameter`, `requires_grad`, `complex`, where true             |
| `array`, `scalar`   | a name, for a numpy array or scalar; beside it `complex`, where true              |
| `float`             | "nan", "inf", "-inf", which JSON has not                                          |
| `complex`, `bytes`  | [real, imaginary]; base64                                                         |
"""

from __future__ import annotations

import base64
import json
import math
import os
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, TensorSpec, deserialize, serialize, serialize_file

from . import functional as F
from .nn.parameter import Parameter
from .ops.types import DTYPES
from .tensor import Tensor

KEY = "tapecast"
VERSION = 1

# safetensors' names of the dtypes that both sides have.
SAFE_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}

File = str | os.PathLike[str] | IO[bytes]


def save(
    obj: Any,
    f: File,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    *,
    format: str = "safetensors",
) -> None:
    """Write `obj`, made of dicts, lists, tuples, numbers, text, arrays and tensors, to a path or a binary file.

    A path is written as a whole or not at all: another reader sees the old file or the new one. Tensors that
    share all their memory are stored once. `format="torch"` writes a file that `torch.load` reads; `load` reads both.
    The other arguments are accepted for compatibility. Errors: TypeError, naming the place, for any other object.
    """
    if format not in ("safetensors", "torch"):
        raise ValueError(f"format must be 'safetensors' or 'torch', got {format!r}")
    if format == "torch":
        save_for_torch(obj, f)
        return
    writer = Writer()
    tree = writer.encode(obj, "")
    metadata = {KEY: json.dumps({"version": VERSION, "tree": tree}, allow_nan=False)}
    if hasattr(f, "write"):
        f.write(serialize(writer.specs(), metadata=metadata))
        return
    with replacing(Path(f)) as temporary:
        serialize_file(writer.specs(), temporary, metadata=metadata)


def save_for_torch(obj: Any, f: File) -> None:
    from .torch_files import save_archive

    if hasattr(f, "write"):
        save_archive(obj, f)
        return
    with replacing(Path(f)) as temporary:
        save_archive(obj, temporary)


def load(
    f: File,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
) -> Any:
    """What `save` or `torch.save` wrote to a path or a binary file; of another safetensors file, a dict of its tensors.

    `map_location`: the device for the tensors, by default main memory. The other arguments are accepted: no code of a
    file is run, whatever they say. Errors: ValueError for a file that is damaged or of another kind;
    pickle.UnpicklingError for one of torch.save that holds other objects than tensors, containers and numbers.
    """
    name, data = (
        (getattr(f, "name", "the file"), f.read()) if hasattr(f, "read") else (f, Path(f).read_bytes())
    )
    if data[:2] in (b"PK", b"\x80\x02"):
        from . import torch_files

        for known, reader in (
            (torch_files.is_archive, torch_files.load_archive),
            (torch_files.is_old, torch_files.load_old),
        ):
            if known(data):
                return moved_to(reader(data), map_location)
    metadata, arrays = read(str(name), data)
    device = map_location or "cpu"
    if KEY not in metadata:
        return {key: F.from_numpy(array).to(device=device) for key, array in arrays.items()}
    content = json.loads(metadata[KEY])
    if content["version"] > VERSION:
        raise ValueError(
            f"{name} has version {content['version']} of the format of tc.save, this tapecast reads up to "
            f"{VERSION}; use a newer tapecast"
        )
    try:
        return Reader(arrays, device).decode(content["tree"])
    except KeyError as error:
        raise ValueError(f"{name} is damaged: it names {error} and does not hold it") from None


def moved_to(obj: Any, device: Any) -> Any:
    """The tensors in nested containers on a device; None leaves them."""
    if device is None or str(device) == "cpu" or callable(device) or isinstance(device, dict):
        return obj
    if isinstance(obj, Tensor):
        return obj.to(device=device)
    if isinstance(obj, dict):
        for key, value in obj.items():
            obj[key] = moved_to(value, device)
    elif isinstance(obj, list | tuple):
        return type(obj)(moved_to(value, device) for value in obj)
    return obj


def read(name: str, data: bytes) -> tuple[dict[str, str], dict[str, np.ndarray[Any, Any]]]:
    """Metadata and arrays of a safetensors file. The arrays can be written to."""
    if data[:4] == b"PK\x03\x04":
        raise ValueError(
            f"{name} is a zip archive, but not of tc.save or torch.save. A model.tape: use tc.jit.load"
        )
    try:
        found = deserialize(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{name} is not a file of tc.save, or it is damaged: {error}") from None
    return header.get("__metadata__", {}), {key: array_of(name, key, value) for key, value in found}


def array_of(name: str, key: str, value: dict[str, Any]) -> np.ndarray[Any, Any]:
    if value["dtype"] not in SAFE_DTYPES:
        raise ValueError(
            f"{name}: tensor {key!r} has dtype {value['dtype']}, which is not one of {', '.join(SAFE_DTYPES)}"
        )
    dtype = DTYPES[SAFE_DTYPES[value["dtype"]]]
    return np.frombuffer(value["data"], dtype).reshape(value["shape"])


@contextmanager
def replacing(path: Path) -> Iterator[str]:
    """A temporary name beside `path` to write to; what was written takes the place of `path` at the end."""
    path = path.resolve()  # the file that a symbolic link leads to, not the link
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the path of a file in it")
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        try:
            temporary.touch(exist_ok=False)
        except OSError as error:
            raise type(error)(f"{path} cannot be written ({error.strerror}): choose another path") from None
        permissions = (path if path.exists() else temporary).stat().st_mode
        yield str(temporary)
        temporary.chmod(permissions)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


class Writer:
    """Turns an object into JSON, and collects its arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.names: dict[tuple[Any, ...], str] = {}
        self.alive: list[Any] = []  # arrays whose addresses are in `names` and must not become another's
        self.open: set[int] = set()

    def specs(self) -> dict[str, TensorSpec]:
        """The arrays as safetensors takes them; valid as long as this writer lives."""
        return {
            name: TensorSpec(
                dtype=array.dtype.name, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes
            )
            for name, array in self.arrays.items()
        }

    def encode(self, obj: Any, place: str) -> Any:
        """The JSON of an object. `place` is the path to it."""
        match obj:
            case None | bool() | str():
                return obj
            case np.generic() | np.ndarray():
                return self.encode_array("scalar" if isinstance(obj, np.generic) else "array", obj, place)
            case int():
                return int(obj)
            case float():
                return float(obj) if math.isfinite(obj) else {"float": repr(float(obj))}
            case complex():
                return {"complex": [obj.real, obj.imag]}
            case bytes():
                return {"bytes": base64.b64encode(obj).decode()}
            case Tensor():
                return self.encode_tensor(obj, place)
            case dict() | list() | tuple() if not hasattr(obj, "_fields"):
                return self.encode_container(obj, place)
        raise TypeError(
            f"tc.save: {place or 'the object'} is a {type(obj).__name__}, which a file of tensors and JSON cannot "
            f"hold; save {'its state_dict()' if hasattr(obj, 'state_dict') else 'plain containers and tensors'}"
        )

    def encode_container(self, obj: Any, place: str) -> Any:
        if id(obj) in self.open:
            raise ValueError(f"tc.save: {place or 'the object'} contains itself")
        self.open.add(id(obj))
        try:
            if isinstance(obj, dict):
                return self.encode_dict(obj, place)
            values = [self.encode(value, joined(place, i)) for i, value in enumerate(obj)]
            return {"tuple": values} if isinstance(obj, tuple) else values
        finally:
            self.open.remove(id(obj))

    def encode_dict(self, obj: dict[Any, Any], place: str) -> Any:
        values = {key: self.encode(value, joined(place, key)) for key, value in obj.items()}
        content: Any = values
        if not all(type(key) is str for key in obj):
            content = [[self.encode(key, f"a key of {place}"), value] for key, value in values.items()]
        out = {"ordered" if isinstance(obj, OrderedDict) else "dict": content}
        if hasattr(obj, "_metadata"):
            out["metadata"] = self.encode(obj._metadata, joined(place, "_metadata"))
        return out

    def encode_tensor(self, tensor: Tensor, place: str) -> dict[str, Any]:
        out = self.encode_array("tensor", tensor.detach().cpu().numpy(), place)
        flags = {"parameter": isinstance(tensor, Parameter), "requires_grad": tensor.requires_grad}
        return out | {name: True for name, on in flags.items() if on}

    def encode_array(self, kind: str, array: Any, place: str) -> dict[str, Any]:
        array = np.asarray(array)
        if array.dtype not in DTYPES.values():
            raise TypeError(
                f"tc.save: {place or 'the array'} has dtype {array.dtype}, which is not one of {', '.join(DTYPES)}"
            )
        out = {kind: self.name_of(array, place)}
        return out | ({"complex": True} if array.dtype == np.complex128 else {})

    def name_of(self, array: np.ndarray[Any, Any], place: str) -> str:
        """The name under which the array is stored; memory that is stored already keeps its first name."""
        key = (
            (array.ctypes.data, array.shape, array.strides, array.dtype) if array.size else (place, object())
        )
        if key not in self.names:
            name = place or "value"
            while name in self.arrays:
                name += "_"
            self.names[key] = name
            self.arrays[name] = dense(array)
            self.alive.append(array)
        return self.names[key]


def joined(place: str, key: Any) -> str:
    return f"{place}.{key}" if place else str(key)


def dense(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array as safetensors stores it: row-major, little-endian, complex128 as pairs of float64."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if array.dtype == np.complex128:
        return flat.view(np.float64).reshape(*array.shape, 2)
    return flat.reshape(array.shape)


class Reader:
    """Turns JSON back into an object."""

    def __init__(self, arrays: dict[str, np.ndarray[Any, Any]], device: Any) -> None:
        self.arrays, self.device = arrays, device
        self.tensors: dict[tuple[Any, ...], Tensor] = {}

    def decode(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.decode(value) for value in node]
        if not isinstance(node, dict):
            return node
        kind = next(iter(node))
        return DECODERS[kind](self, node[kind], node)

    def dict_of(self, content: Any, node: Any) -> dict[Any, Any]:
        if isinstance(content, list):
            return {self.decode(key): self.decode(value) for key, value in content}
        return {key: self.decode(value) for key, value in content.items()}

    def ordered(self, content: Any, node: Any) -> OrderedDict[Any, Any]:
        out = OrderedDict(self.dict_of(content, node))
        if "metadata" in node:
            out._metadata = self.decode(node["metadata"])  # type: ignore[attr-defined]
        return out

    def array(self, name: str, node: Any) -> np.ndarray[Any, Any]:
        array = self.arrays[name]
        return array.view(np.complex128).reshape(array.shape[:-1]) if node.get("complex") else array

    def tensor(self, name: str, node: Any) -> Tensor:
        # Tensors that were stored once, as shared weights are, are one tensor again.
        key = (name, node.get("parameter"), node.get("requires_grad"))
        if key not in self.tensors:
            value = F.from_numpy(self.array(name, node)).to(device=self.device)
            wants_grad = node.get("requires_grad", False)
            parameter = node.get("parameter", False)
            self.tensors[key] = (
                Parameter(value, wants_grad) if parameter else value.requires_grad_(wants_grad)
            )
        return self.tensors[key]


DECODERS: dict[str, Callable[[Reader, Any, Any], Any]] = {
    "dict": Reader.dict_of,
    "ordered": Reader.ordered,
    "tuple": lambda reader, content, node: tuple(reader.decode(content)),
    "tensor": Reader.tensor,
    "array": Reader.array,
    "scalar": lambda reader, content, node: reader.array(content, node)[()],
    "float": lambda reader, content, node: float(content),
    "complex": lambda reader, content, node: complex(*content),
    "bytes": lambda reader, content, node: base64.b64decode(content),
}
