"""Containers: modules and parameters in sequences and mappings, registered under their index or key.

Enters: modules, parameters or tensors. Leaves: a module that indexes, slices and iterates like a list or dict.
Refuses: indices out of range, things that are not modules where modules are wanted.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Container as _Container, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Self

from ..._C import Tensor
from ..parameter import Parameter
from .module import Module, _addindent


class Container(Module):
    """The deprecated ancestor of the containers: modules by keyword."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


def _position(index: Any, length: int, what: str = "index") -> int:
    """A non-negative position from an index that may count from the end."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"{what} {index} is out of range")
    return index % length


class _Numbered(Module):
    """Submodules called "0", "1", …: what Sequential and ModuleList share."""

    def _renumber(self, modules: Iterable[Module]) -> None:
        result = {str(i): module for i, module in enumerate(modules)}
        self._modules.clear()
        self._modules.update(result)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def pop(self, key: int | slice) -> Any:
        """Remove and return the module at an index."""
        found = self[key]
        del self[key]
        return found


class Sequential(_Numbered):
    """Modules called one after the other, each with the result of the one before.

    Arguments:
        *args: modules in order, or one dict of them

    Shape:
        what its first module takes; what its last module gives

    Example:
        >>> layer = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.ReLU())
        >>> tuple(layer(rl.ones(2, 3)).shape)
        (2, 4)
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for index, module in enumerate(args):
                self.add_module(str(index), module)

    def forward(self, input: Any) -> Any:
        """The last module's result."""
        for module in self._modules.values():
            input = module(input)
        return input

    def _name_at(self, index: Any) -> str:
        return next(islice(self._modules, _position(index, len(self)), None))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential: can only be added to another Sequential, got {type(other)}.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential: can only be added to another Sequential, got {type(other)}.")
        return self.extend(list(other))

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*list(self) * _times(times))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        modules = list(self)
        for _ in range(_times(times) - 1):
            self.extend(modules)
        return self

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before an index."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}, got {type(module).__name__}")
        length = len(self)
        if not -length <= index <= length:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index if index >= 0 else index + length, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add the modules of another sequence at the end."""
        for module in list(sequential):
            self.append(module)
        return self


def _times(times: Any) -> int:
    if not isinstance(times, int):
        raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(times)}")
    if times <= 0:
        raise ValueError(f"Non-positive multiplication factor {times} for {Sequential}")
    return times


class ModuleList(_Numbered):
    """Submodules in a list.

    Arguments:
        modules: modules to begin with

    Shape:
        holds modules and has no forward

    Example:
        >>> layer = rl.nn.ModuleList([rl.nn.Linear(3, 3) for _ in range(2)])
        >>> len(layer)
        2
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _abs_index(self, index: Any) -> str:
        return str(_position(index, len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._abs_index(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._abs_index(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = [str(i) for i in range(len(self))[index]] if isinstance(index, slice) else [self._abs_index(index)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        """Add a module before an index."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend: expected an iterable of modules, got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        groups: list[list] = []  # [first index, last index, text]: neighbours that print alike share a line
        for i, module in enumerate(self):
            text = repr(module)
            if groups and groups[-1][2] == text:
                groups[-1][1] = i
            else:
                groups.append([i, i, text])
        if not groups:
            return self._get_name() + "()"
        lines = [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}" for a, b, text in groups]
        return self._get_name() + "(\n  " + "\n  ".join(_addindent(line, 2) for line in lines) + "\n)"


class ModuleDict(Module):
    """Submodules in a dict.

    Arguments:
        modules: modules to begin with, by name

    Shape:
        holds modules and has no forward

    Example:
        >>> layer = rl.nn.ModuleDict({'act': rl.nn.ReLU()})
        >>> list(layer)
        ['act']
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove everything."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove a key and return its module."""
        found = self[key]
        del self[key]
        return found

    def keys(self) -> Iterable[str]:
        """The keys."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        """(key, module) pairs."""
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace from a mapping or from (key, module) pairs."""
        for key, module in _pairs(modules, "ModuleDict"):
            self[key] = module


def _pairs(given: Any, what: str) -> list[tuple[Any, Any]]:
    """(key, value) pairs out of a mapping, a container with items, or an iterable of pairs."""
    if not isinstance(given, _Container) and not isinstance(given, Iterable):
        raise TypeError(
            f"{what}.update should be called with an iterable of key/value pairs, but got {type(given).__name__}"
        )
    if isinstance(given, (OrderedDict, ModuleDict, ParameterDict)):
        return list(given.items())
    if isinstance(given, Mapping):
        return sorted(given.items()) if what == "ParameterDict" else list(given.items())
    result = []
    for i, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{what} update sequence element #{i} should be Iterable; is {type(pair).__name__}")
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(f"{what} update sequence element #{i} has length {len(pair)}; 2 is required")
        result.append(pair)
    return result


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(value: Any, typed: bool = False) -> str:
    """One line of a parameter container; `typed`: with the name of the tensor's type rather than its dtype."""
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    kind = value.type() if typed else f"torch.{str(value.dtype).rpartition('.')[2]}"
    size = "x".join(str(n) for n in value.shape)
    where = f" ({value.device})" if value.device.type != "cpu" else ""
    return f"{what} containing: [{kind.replace('rushlight', 'torch')} of size {size}{where}]"


class ParameterList(Module):
    """Parameters (and anything else) in a list; plain tensors become parameters.

    Arguments:
        values: parameters to begin with

    Shape:
        holds parameters and has no forward

    Example:
        >>> layer = rl.nn.ParameterList([rl.ones(2)])
        >>> len(layer)
        1
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            result = type(self)()
            for i in range(len(self))[index]:
                result.append(self[i])
            return result
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index: int, param: Any) -> None:
        setattr(self, str(_position(index, len(self))), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> Self:
        """Add one at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add several at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend: expected an iterable, got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_describe(value)}" for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """Parameters (and anything else) in a dict; plain tensors become parameters.

    Arguments:
        parameters: parameters to begin with, by name

    Shape:
        holds parameters and has no forward

    Example:
        >>> layer = rl.nn.ParameterDict({'scale': rl.ones(2)})
        >>> list(layer)
        ['scale']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: a key must be a string, got '{type(key).__name__}'.")
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, self._attribute(key), _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Another dict of the same parameters."""
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key, set to `default` if it is new."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove everything."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove a key and return its value."""
        found = self[key]
        del self[key]
        return found

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the pair added last."""
        key, _ = self._keys.popitem()
        self._keys[key] = None  # pop removes both the key and the attribute
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default`."""
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dict with one value for all keys."""
        return ParameterDict(OrderedDict((key, default) for key in keys))

    def keys(self) -> Iterable[str]:
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(key, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add or replace from a mapping or from (key, value) pairs."""
        for key, value in _pairs(parameters, "ParameterDict"):
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_describe(value, typed=True)}" for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        result = other.copy()
        result.update(self)
        return result

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self
