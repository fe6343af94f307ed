"""What a Python module is to the compiler: every attribute by its kind and type.

Enters: an `nn.Module`. Leaves: a `Concrete`: attributes with types, constants, submodules, functions, and for what
scripts cannot hold the reason, told when it is used. Modules with equal records share one class.
Refuses: constants that are none, modules whose `__init__` did not run.
"""

from __future__ import annotations

import inspect
import sys
import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ..._jit_internal import get_torchscript_modifier, is_final
from ...nn import Module, ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .. import types as t
from ..classes import ClassType, InterfaceType, Object
from ..frontend.annotations import try_type
from ..frontend.builtins import builtin_of
from ..frontend.errors import CompileError
from ..functional import constants_of, is_layer, layer_of, row_of, script_of
from .inference import NoType, inferred

# what every Python module has for itself
_OWN = frozenset((
    "_version", "_parameters", "_buffers", "_non_persistent_buffers_set", "_backward_hooks", "_backward_pre_hooks",
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks", "_modules", "_initializing", "dump_patches", "_compiled_call_impl",
))
_PLAIN = frozenset(Module.__mro__)
KINDS = ((ModuleDict, "dict"), ((ModuleList, Sequential), "list"), (ParameterList, "parameter list"),
         (ParameterDict, "parameter dict"))


class Attribute(typing.NamedTuple):
    """An attribute that each object has."""

    type: t.Type
    is_parameter: bool = False
    is_buffer: bool = False


class Concrete:
    """The record of one module; `type` is the class that came of it."""

    def __init__(self, python_class: type) -> None:
        self.python_class = python_class
        self.kind = ""                                   # of containers, how they are walked over
        self.attributes: dict[str, Attribute] = {}
        self.modules: dict[str, t.Type] = {}
        self.constants: dict[str, Any] = {}
        self.functions: dict[str, Any] = {}              # scripted functions
        self.builtins: dict[str, str] = {}
        self.overloads: dict[str, list[str]] = {}
        self.failed: dict[str, str] = {}
        self.ignored: frozenset[str] = frozenset()
        self.hooks: tuple[Callable, ...] = ()
        self.pre_hooks: tuple[Callable, ...] = ()
        self.extra_names: tuple[str, ...] = ()           # attributes that only the compiled layer has
        self.type: ClassType | None = None

    def extra(self, module: Any) -> dict[str, Any]:
        """What the compiled form of a layer of `nn` holds besides."""
        for owner in self.python_class.__mro__:
            found = getattr(layer_of(owner), "__script_extra__", None)
            if found is not None:
                return found(module)
        return {}

    def is_like(self, other: Concrete) -> bool:
        """Whether both may be one class."""
        return self._key() == other._key()

    def _key(self) -> tuple[Any, ...]:
        constants = [(name, type(value), value) for name, value in sorted(self.constants.items())]
        return (self.python_class, self.kind, list(self.attributes.items()), list(self.modules.items()), constants,
                sorted((name, id(function)) for name, function in self.functions.items()), self.builtins,
                self.overloads, self.ignored, self.hooks, self.pre_hooks)


def members_of(python_class: type) -> dict[str, Any]:
    """What a class and its bases define, by name in the order of names, as they hold it; without what modules have."""
    found: dict[str, Any] = {}
    for owner in reversed(python_class.__mro__):
        if owner not in _PLAIN:
            found.update(vars(owner))
    return dict(sorted(found.items()))


def ignored_properties(module: Any) -> set[str]:
    """Properties that are left to Python: those the class says, and those whose getter is marked."""
    found = set(getattr(module, "__jit_unused_properties__", ()))
    for owner in type(module).__mro__:
        found |= set(getattr(layer_of(owner), "__jit_unused_properties__", ()))
    for name, held in members_of(type(module)).items():
        if isinstance(held, property) and get_torchscript_modifier(held.fget) in ("unused", "ignore"):
            found.add(name)
    return found


def annotations_of(module: Any) -> dict[str, Any]:
    """Annotations of a module's attributes: those of the nearest class that has any, and those the instance got."""
    found: dict[str, Any] = {}
    for owner in type(module).__mro__:
        own = inspect.get_annotations(owner)
        row = row_of(owner)
        if owner is Module:
            found = {"training": bool, "_is_full_backward_hook": bool | None}
        elif row is not None:
            if row.is_annotated:
                found = {"training": bool, **vars(layer_of(owner) or object).get("__annotated__", {})}
        elif own:
            space = vars(sys.modules[owner.__module__]) if owner.__module__ in sys.modules else {}
            found = {name: _resolved(annotation, space, owner) for name, annotation in own.items()}
        if found:
            break
    found.update(vars(module).get("__annotations__", {}))
    return found


def _resolved(annotation: Any, space: dict[str, Any], owner: type) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, space, dict(vars(owner)))  # noqa: S307 - what typing.get_type_hints does
    except Exception:  # noqa: BLE001 - names of type checkers alone: as good as no annotation
        return None


class Reader:
    """Reads one module. `type_of` gives the class of a submodule, `function_of` that of a Python function."""

    def __init__(self, module: Module, type_of: Callable[[Module], ClassType], script: Callable[[Any], Any]) -> None:
        if "_parameters" not in module.__dict__:
            raise RuntimeError(f"'{type(module).__module__}.{type(module).__name__}' has not been initialized: its"
                               " __init__ must call super().__init__()")
        self.module, self.type_of, self.script = module, type_of, script
        self.found = Concrete(type(module))
        self.found.kind = next((kind for classes, kind in KINDS if isinstance(module, classes)), "")
        self.annotations = annotations_of(module)
        self.left_out = set(getattr(module, "__jit_ignored_attributes__", ()))
        self.ignored = ignored_properties(module)
        self.found.ignored = frozenset(self.left_out)
        self.added: set[str] = set()

    def read(self) -> Concrete:
        for name, held in self.module._parameters.items():
            self._add(name, held, is_parameter=True)
        for name, held in self.module._buffers.items():
            self._add(name, held, is_buffer=True)
        self._submodules()
        self._constants()
        for name, held in self.module.__dict__.items():
            if name not in _OWN and not name.startswith("__") and name not in self.left_out | self.added:
                self._attribute(name, held)
        for name, held in self.found.extra(self.module).items():
            self.found.attributes[name] = Attribute(inferred(held))
            self.found.extra_names += (name,)
        self.found.hooks = tuple(self.module._forward_hooks.values())
        self.found.pre_hooks = tuple(self.module._forward_pre_hooks.values())
        return self.found

    def _type(self, name: str, held: Any) -> t.Type:
        """The type of an attribute: the annotated one, or that of its value. Raises NoType with the reason."""
        if name in self.annotations and self.annotations[name] is not None:
            found = try_type(_bare(self.annotations[name]))
            if found is not None:
                return found
            if self.annotations[name] is not typing.Any and not is_final(self.annotations[name]):
                raise CompileError(f"Unknown type annotation: '{self.annotations[name]}' of attribute '{name}'")
        if type(held).__name__ == "Attribute" and hasattr(held, "type") and hasattr(held, "value"):
            found = try_type(held.type)
            if found is None:
                raise CompileError(f"Unknown type annotation: '{held.type}' of attribute '{name}'")
            return found
        return inferred(held)

    def _add(self, name: str, held: Any, **kind: bool) -> None:
        if name in self.left_out:
            return
        type = t.TENSOR if held is not None and name not in self.annotations else self._type(name, held)
        self.found.attributes[name] = Attribute(type, **kind)
        self.added.add(name)

    def _submodules(self) -> None:
        for name, held in self.module._modules.items():
            if name in self.left_out:
                continue
            self.added.add(name)
            if held is None and self._interface(name) is None:
                self.found.attributes[name] = Attribute(t.NoneType())
                continue
            self.found.modules[name] = self._interface(name) or self.type_of(held)

    def _interface(self, name: str) -> t.Type | None:
        annotation = self.annotations.get(name)
        if annotation is None or not getattr(annotation, "__torch_script_interface__", False):
            return None
        found = try_type(annotation)
        return found if isinstance(found, InterfaceType) else None

    def _constants(self) -> None:
        names = dict.fromkeys(vars(self.module).get("__constants__", constants_of(type(self.module))))
        if is_layer(type(self.module)):
            names = {name: None for name in names if name not in self.added and hasattr(self.module, name)}
        names |= dict.fromkeys(name for name, annotation in self.annotations.items() if is_final(annotation))
        for name in names:
            if name in self.added:
                kind = ("submodule" if name in self.module._modules else
                        "buffer" if name in self.module._buffers else "parameter")
                warnings.warn(f"constants of a ScriptModule: '{name}' is a {kind}, which is never one; leave it"
                              " out", stacklevel=2)
            elif not hasattr(self.module, name):
                warnings.warn(f"constants of a ScriptModule: __init__ set no '{name}'; leave it out", stacklevel=2)
            else:
                self.found.constants[name] = constant(name, getattr(self.module, name), type(self.module).__name__)
                self.added.add(name)

    def _attribute(self, name: str, held: Any) -> None:
        if inspect.isfunction(held):
            try:
                self.found.functions[name] = self.script(held)
            except Exception as error:  # noqa: BLE001 - told when the function is called
                self.found.failed[name] = f"(the Python module has such a function, which failed to compile:\n{error})"
            return
        if callable(held) and script_of(held) is not None:
            self.found.functions[name] = self.script(script_of(held))
            return
        builtin = builtin_of(held) if callable(held) else None
        if builtin is not None:
            self.found.builtins[name] = builtin
            return
        if getattr(held, "__script_function__", None) is not None:
            self.found.functions[name] = held.__script_function__
            return
        try:
            self.found.attributes[name] = Attribute(self._type(name, held))
        except NoType as reason:
            self.found.failed[name] = (
                f"(the Python module has it, and nothing leads from '{_python_type(held)}' to a TorchScript type:"
                f" {reason}. An annotation of the attribute can say its type.)")


def _python_type(held: Any) -> str:
    kind = type(held)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _bare(annotation: Any) -> Any:
    """What is inside Final[...]."""
    if is_final(annotation) and typing.get_args(annotation):
        return typing.get_args(annotation)[0]
    return annotation


def constant(name: str, held: Any, owner: str) -> Any:
    """A value that may stand in compiled code. Refuses others."""
    from ... import _C
    from ..constants import as_number

    if held is None or isinstance(held, (int, float, complex, str, _C.device)) or as_number(held) is not None:
        return held
    if isinstance(held, (tuple, list)):
        return tuple(constant(name, item, owner) for item in held)
    raise TypeError(f"'{_python_type(held)}' object in attribute '{owner}.{name}' is not a valid constant: those are"
                    " numbers, bools, strings, None, devices, dtypes and layouts, and lists and tuples of them")


def walk(held: Object) -> Iterator[Object]:
    """A module's object and those of all its submodules."""
    yield held
    for slot, value in held.items():
        if isinstance(slot.type, (ClassType, InterfaceType)) and slot.type.is_module() and value is not None:
            yield from walk(value)
