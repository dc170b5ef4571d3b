"""Modules that hold other modules or parameters: Sequential, ModuleList, ModuleDict, ParameterList."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from itertools import groupby
from typing import Any, Self

from ..tensor import Tensor
from ..typenames import typename
from .module import Module
from .parameter import Parameter


def absolute(children: Sized, index: int) -> str:
    """The name, "0", "1", ..., of the child at `index`, which may count from the end."""
    position = operator.index(index)
    if not -len(children) <= position < len(children):
        raise IndexError(f"index {position} is out of range")
    return str(position % len(children))


class Listing(Module):
    """What Sequential and ModuleList share: children named "0", "1", ... in order."""

    def _set_all(self, modules: Iterable[Any]) -> None:
        """Make `modules` the children, in order, in place of those there are."""
        modules = list(modules)
        for name in list(self._modules):
            delattr(self, name)
        for position, module in enumerate(modules):
            self.add_module(str(position), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(module is mine for mine in self)

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def _key(self, index: int) -> str:
        return absolute(self, index)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self)
        del modules[index if isinstance(index, slice) else int(absolute(self, index))]
        self._set_all(modules)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before the one at `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._set_all(modules)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add several modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Take out and return the module at `key`."""
        module = self[key]  # type: ignore[index]
        del self[key]
        return module


class Sequential(Listing):
    """Modules called one after the other; given one by one, or named in a dict."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            named = list(args[0].items())
        else:
            named = [(str(i), module) for i, module in enumerate(args)]
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def _key(self, index: int) -> str:
        return list(self._modules)[int(absolute(self, index))]

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for name in names:
            delattr(self, name)
        self._set_all(list(self))

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*list(self) * repeats(times))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        mine = list(self)
        for _ in range(repeats(times) - 1):
            self.extend(mine)
        return self


def repeats(times: Any) -> int:
    """How often to repeat a Sequential; errors for what is no positive int."""
    if not isinstance(times, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(Sequential())} and {type(times)}")
    if times <= 0:
        raise ValueError(f"Non-positive multiplication factor {times} for {type(Sequential())}")
    return times


class ModuleList(Listing):
    """A list of modules that the parent module knows about."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[absolute(self, index)]

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *iter(other)])

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add several modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        return super().extend(modules)

    def _child_lines(self) -> list[str]:
        lines, position = [], 0
        for text, run in groupby(map(repr, self)):
            n = len(list(run))
            lines.append(
                f"({position}): {text}" if n == 1 else f"({position}-{position + n - 1}): {n} x {text}"
            )
            position += n
        return lines


class ModuleDict(Module):
    """A dict of modules, by name, that the parent module knows about."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take out and return the module called `key`."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        return self._modules.keys()

    def items(self) -> Any:
        return self._modules.items()

    def values(self) -> Any:
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules by name, in place of those of the same names."""
        if isinstance(modules, Mapping | ModuleDict):
            modules = modules.items()
        for key, module in pairs("ModuleDict", modules):
            self[key] = module


def pairs(kind: str, values: Any) -> Iterator[tuple[str, Any]]:
    """The pairs of an iterable; TypeError and ValueError, that name the container, for anything else."""
    if not isinstance(values, Iterable):
        raise TypeError(
            f"{kind}.update should be called with an iterable of key/value pairs, but got {type(values).__name__}"
        )
    for position, pair in enumerate(values):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{kind} update sequence element #{position} should be Iterable; is{type(pair).__name__}"
            )
        if len(found := list(pair)) != 2:
            raise ValueError(
                f"{kind} update sequence element #{position} has length {len(found)}; 2 is required"
            )
        yield found[0], found[1]


class ParameterList(Module):
    """A list of parameters that the parent module knows about; a tensor becomes a parameter."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        self.extend(values or ())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, absolute(self, index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, absolute(self, index), as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(i)) for i in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Add a parameter at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add several parameters at the end."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def pop(self, key: int) -> Any:
        """Take out and return the entry at `key`."""
        value = self[key]
        rest = [entry for i, entry in enumerate(self) if i != operator.index(key) % len(self)]
        for i in range(len(self)):
            delattr(self, str(i))
        self._size = 0
        self.extend(rest)
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {describe(value)}" for i, value in enumerate(self))


def as_parameter(value: Any) -> Any:
    """A plain tensor as a parameter; anything else as it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def describe(value: Any, type_name: Callable[[Tensor], str] = lambda t: str(t.dtype)) -> str:
    """One line for an entry of a list or, where types have other names, of a dict of parameters."""
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    size = "x".join(map(str, value.shape))
    device = "" if value.device.type == "cpu" else f" ({value.device})"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{type_name(value)} of size {size}{device}]"


class ParameterDict(Module):
    """A dict of parameters that the parent module knows about; a tensor becomes a parameter."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, str(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, str(key), as_parameter(value))
        self._keys[str(key)] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, str(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def keys(self) -> Iterable[str]:
        """The names, in the order they were added."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """The parameters."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and parameters."""
        return ((key, self[key]) for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter of that name, or `default`."""
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter of that name, which is `default` where there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Take a parameter out."""
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        """Take all parameters out."""
        for key in list(self._keys):
            del self[key]

    def update(self, parameters: Any) -> None:
        """Add the parameters of a dict or of pairs."""
        entries = parameters.items() if hasattr(parameters, "items") else parameters
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            entries = sorted(entries)  # as in PyTorch, for the order of an optimiser's parameters
        for key, value in pairs("ParametersDict", entries):
            self[key] = value

    def popitem(self) -> tuple[str, Any]:
        """Take out the parameter that was added last, and its name."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def copy(self) -> ParameterDict:
        """Another dict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A dict with `default` for each key."""
        return ParameterDict((key, default) for key in keys)

    def __or__(self, other: ParameterDict | Mapping[str, Any]) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other: Mapping[str, Any]) -> ParameterDict:
        out = ParameterDict(other)
        out.update(self)
        return out

    def __ior__(self, other: ParameterDict | Mapping[str, Any]) -> Self:
        self.update(other)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {describe(value, typename)}" for key, value in self.items())
