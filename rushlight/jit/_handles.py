"""What stands behind scripted things: `_c` of a module, its methods, and views over its slots.

Enters: an `Object` of `rushlight.script`. Leaves: `ModuleHandle` (PyTorch's `torch._C.ScriptModule`), `ScriptMethod`,
and mappings that `nn.Module` uses as its tables: parameters, buffers and submodules are the object's slots.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from ..script.classes import ClassType, InterfaceType, Object
from ..script.frontend.parsing import definitions_in, names_of
from ..script.ir import Graph
from ..script.modules.building import slot_value
from ..script.modules.values import ModuleValue
from ..script.passes.inline import inlined
from ..script.schemas import Schema
from ..script.text.code_writer import CodeWriter
from ..script.unit import PYTHON, Function


class ConstMap:
    """Constants of a function's code by name: `c0`, `c1`."""

    def __init__(self, constants: list[Any]) -> None:
        self.const_mapping = {f"c{i}": held for i, held in enumerate(constants)}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["const_mapping"][name]
        except KeyError:
            raise AttributeError(name) from None


def code_of(function: Function, *, is_method: bool = False) -> tuple[str, ConstMap]:
    """A function's code and its constants."""
    writer = CodeWriter()
    text = writer.function(function.name, function.graph, function.schema, bare_self=is_method)
    return text, ConstMap(writer.constants)


class Compiled:
    """What functions and methods show of themselves."""

    function: Function

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def qualified_name(self) -> str:
        return self.function.qualified_name

    @property
    def graph(self) -> Graph:
        return self.function.graph

    @property
    def inlined_graph(self) -> Graph:
        return inlined(self.function.graph)

    @property
    def schema(self) -> Schema:
        return self.function.schema

    @property
    def code(self) -> str:
        return code_of(self.function, is_method=self.function.owner is not None)[0]

    @property
    def code_with_constants(self) -> tuple[str, ConstMap]:
        return code_of(self.function, is_method=self.function.owner is not None)

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph as it runs for these arguments, which are run."""
        self(*args, **kwargs)  # type: ignore[operator]
        return self.inlined_graph

    def get_debug_state(self) -> Any:
        """What is known of its runs."""
        return DebugState(self)


class DebugState:
    """A look at how a function is run."""

    def __init__(self, owner: Any) -> None:
        self.graph = owner.inlined_graph

    def get_execution_plans(self) -> dict[Any, Any]:
        return {}


class ScriptMethod(Compiled):
    """A method of a scripted module."""

    __script_function__ = None

    def __init__(self, owner: ModuleHandle, function: Function) -> None:
        self.owner, self.function = owner, function
        self.__name__ = function.name
        self.__doc__ = getattr(function.definition.function, "__doc__", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.owner.object, *args, **kwargs)


class ModuleHandle:
    """A running module as the language sees it: attributes, methods, its type."""

    def __init__(self, held: Object) -> None:
        self.object = held

    def _type(self) -> ClassType:
        return self.object.type

    @property
    def qualified_name(self) -> str:
        return self.object.type.name_

    def _method_names(self) -> list[str]:
        return list(self.object.type.methods)

    def _has_method(self, name: str) -> bool:
        return name in self.object.type.methods

    def _get_method(self, name: str) -> ScriptMethod:
        found = self.object.type.find_method(name)
        if found is None:
            raise AttributeError(f"Method '{name}' is not defined.")
        return ScriptMethod(self, found)

    def _get_methods(self) -> list[ScriptMethod]:
        return [ScriptMethod(self, function) for function in self.object.type.methods.values()]

    def _get_forward_hooks(self) -> list[Any]:
        return list(self.object.type.hooks)

    def _get_forward_pre_hooks(self) -> list[Any]:
        return list(self.object.type.pre_hooks)

    def _properties(self) -> list[Any]:
        return list(self.object.type.properties)

    def hasattr(self, name: str) -> bool:
        return self.object.has(name)

    def getattr(self, name: str) -> Any:
        """A slot's value; submodules as handles."""
        if not self.object.has(name):
            if name in self.object.type.constants:
                return self.object.type.constants[name]
            raise AttributeError(f"'{self.qualified_name}' object has no attribute '{name}'")
        held = self.object.get(name)
        return ModuleHandle(held) if isinstance(held, Object) and held.type.is_module() else held

    def setattr(self, name: str, value: Any) -> None:
        """Set a slot, to a value of its type."""
        type = self.object.type
        if name in type.constants:
            raise RuntimeError(f"Can't set constant '{name}' which has value:{type.constants[name]}")
        wanted = type.slot_type(name)
        if wanted is None:
            raise AttributeError(f"'{self.qualified_name}' object has no attribute '{name}'")
        value = getattr(value, "object", value) if isinstance(value, ModuleHandle) else value
        self.object.set(name, slot_value(name, value, wanted))

    def _register_attribute(self, name: str, type: Any, value: Any, is_param: bool = False,
                            is_buffer: bool = False) -> None:
        self.object.type.add_slot(name, type, is_parameter=is_param, is_buffer=is_buffer)
        self.object.set(name, value)

    def _define(self, concrete: Any, source: str, lookup: Callable | None = None) -> None:
        for definition in definitions_in(source, lookup or names_of(ModuleHandle)):
            PYTHON.add_definition(self.object.type, definition.name, definition, ModuleValue).ensure()

    def children(self) -> list[ModuleHandle]:
        return [ModuleHandle(held) for _, held in submodules(self.object)]

    @property
    def code(self) -> str:
        return self._get_method("forward").code

    @property
    def code_with_constants(self) -> tuple[str, ConstMap]:
        return self._get_method("forward").code_with_constants

    def get_debug_state(self) -> Any:
        return self._get_method("forward").get_debug_state()

    def __copy__(self) -> ModuleHandle:
        return ModuleHandle(Object(self.object.type, list(self.object.slots)))

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleHandle:
        return ModuleHandle(deep_copy(self.object, memo))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleHandle) and other.object is self.object

    def __hash__(self) -> int:
        return hash(self.object)

    def __getstate__(self) -> Any:
        raise RuntimeError(f"an object of {self.qualified_name} cannot be pickled: its class has no __getstate__"
                           " method")

    def __repr__(self) -> str:
        return f"ScriptObject <{self.qualified_name}>"


def deep_copy(held: Object, memo: dict[int, Any]) -> Object:
    """An object with copies of all it holds."""
    if id(held) in memo:
        return memo[id(held)]
    made = memo[id(held)] = Object(held.type)
    made.slots = [deep_copy(value, memo) if isinstance(value, Object) else copy.deepcopy(value, memo)
                  for value in held.slots]
    return made


def submodules(held: Object) -> Iterator[tuple[str, Object]]:
    """An object's modules by name."""
    for slot, value in held.items():
        if isinstance(slot.type, (ClassType, InterfaceType)) and slot.type.is_module() and value is not None:
            yield slot.name, value


class SlotView:
    """Some slots of an object as a mapping: parameters or buffers."""

    def __init__(self, held: Object, kind: str) -> None:
        self.held, self.kind = held, kind

    def _names(self) -> list[str]:
        return [slot.name for slot in self.held.type.slots
                if (slot.is_parameter if self.kind == "parameter" else slot.is_buffer) and
                self.held.get(slot.name) is not None]

    def keys(self) -> list[str]:
        return self._names()

    def values(self) -> list[Any]:
        return [self.held.get(name) for name in self._names()]

    def items(self) -> list[tuple[str, Any]]:
        return [(name, self.held.get(name)) for name in self._names()]

    def get(self, name: str, default: Any = None) -> Any:
        return self.held.get(name) if name in self else default

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self.held.get(name)

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self:
            raise RuntimeError(f"'{name}': a ScriptModule gets no new parameter once it is made")
        self.held.set(name, value)

    def __delitem__(self, name: str) -> None:
        raise RuntimeError(f"cannot delete '{name}' of a ScriptModule")


class ModuleView:
    """The submodules of a scripted module, as scripted modules."""

    def __init__(self, held: Object, around: Callable[[Object], Any]) -> None:
        self.held, self.around = held, around
        self.kept: dict[Object, Any] = {}

    def wrap(self, inner: Object) -> Any:
        if inner not in self.kept:
            self.kept = {held: self.kept.get(held) or self.around(held) for _, held in submodules(self.held)}
        return self.kept[inner]

    def keys(self) -> list[str]:
        return [name for name, _ in submodules(self.held)]

    def values(self) -> list[Any]:
        return [self.wrap(inner) for _, inner in submodules(self.held)]

    def items(self) -> list[tuple[str, Any]]:
        return [(name, self.wrap(inner)) for name, inner in submodules(self.held)]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def __contains__(self, name: object) -> bool:
        return any(name == known for known, _ in submodules(self.held))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __reversed__(self) -> Iterator[str]:
        return reversed(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __getitem__(self, name: str) -> Any:
        found = dict(submodules(self.held))
        if name not in found:
            raise KeyError(name)
        return self.wrap(found[name])

    def __setitem__(self, name: str, value: Any) -> None:
        inner = getattr(value, "__script_object__", None)
        if name not in self:
            raise RuntimeError(f"'{name}': a ScriptModule gets no new submodule once it is made")
        if inner is None:
            raise RuntimeError(f"'{name}' of a ScriptModule can be replaced by a scripted module only, got {value}")
        self.held.set(name, slot_value(name, inner, self.held.type.slot_type(name)))

    def __delitem__(self, name: str) -> None:
        raise RuntimeError(f"cannot delete submodule '{name}' of a ScriptModule")

