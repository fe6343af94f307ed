"""From a Python module to a class and an object of the language.

Enters: an `nn.Module`. Leaves: its `ClassType`, shared by all modules with the same class and attributes, with
`forward`, exported methods, properties and hooks compiled; and an `Object` whose slots hold the module's own tensors.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any

from ..._jit_internal import get_torchscript_modifier, is_ignored_fn
from ...nn import Module, ModuleDict, ModuleList, Sequential
from ..classes import ClassType, InterfaceType, Object, Property
from ..frontend.annotations import qualified_name
from ..frontend.overloads import overloaded_methods
from ..frontend.parsing import Definition, definition_of, definitions_in
from ..functional import method_of
from ..unit import PYTHON, Function, Unit
from ..values import Refused, converted
from .concrete import Concrete, Reader, ignored_properties, members_of
from .values import ModuleValue

Types = dict[int, ClassType]
_known: weakref.WeakKeyDictionary[type, list[Concrete]] = weakref.WeakKeyDictionary()


def object_of(module: Module, unit: Unit = PYTHON, methods: dict[str, Callable] | None = None) -> Object:
    """A module's object, its methods compiled: forward and what is exported, or those given."""
    held = getattr(module, "__script_object__", None)
    if held is not None:
        return held
    types: Types = {}
    return _made(module, type_of(module, unit, types), unit, methods, types)


def type_of(module: Module, unit: Unit = PYTHON, types: Types | None = None) -> ClassType:
    """The class of a module, which equal modules share; `types` are those of modules that were just read."""
    held = getattr(module, "__script_object__", None)
    if held is not None:
        return held.type
    types = {} if types is None else types
    if id(module) not in types:
        types[id(module)] = _read(module, unit, types)
    return types[id(module)]


def _read(module: Module, unit: Unit, types: Types) -> ClassType:
    overloads = overloaded_methods(module)
    found = Reader(module, lambda inner: type_of(inner, unit, types),
                   lambda function: unit.compile(function).ensure()).read()
    found.overloads = {name: [new for new, _ in row] for name, row in overloads.items()}
    kept = _known.setdefault(type(module), [])
    for known in kept:
        if known.is_like(found):
            return known.type  # type: ignore[return-value]
    found.type = _class_of(found, unit)
    kept.append(found)
    return found.type


def _class_of(found: Concrete, unit: Unit) -> ClassType:
    name = unit.take_name(qualified_name(found.python_class))
    made = ClassType(name, is_module=True, python_class=found.python_class, unit=unit)
    made.concrete = found
    for attribute, held in found.attributes.items():
        made.add_slot(attribute, held.type, is_parameter=held.is_parameter, is_buffer=held.is_buffer)
    for attribute, type in found.modules.items():
        made.add_slot(attribute, type)
    made.constants.update(found.constants)
    return made


def _made(module: Module, type: ClassType, unit: Unit, methods: dict[str, Callable] | None, types: Types) -> Object:
    made = Object(type)
    concrete: Concrete = type.concrete
    for name, attribute in concrete.attributes.items():
        held = concrete.extra(module)[name] if name in concrete.extra_names else (
            module.__dict__[name] if name in module.__dict__ else getattr(module, name))
        if held.__class__.__name__ == "Attribute" and hasattr(held, "value"):
            held = held.value
        made.set(name, owned(slot_value(name, held, attribute.type)))
    for name, wanted in concrete.modules.items():
        inner = module._modules[name]
        if inner is None:
            made.set(name, None)
            continue
        held = getattr(inner, "__script_object__", None)
        made.set(name, held if held is not None else _made(inner, type_of(inner, unit, types), unit, None, types))
        if isinstance(wanted, InterfaceType):
            _answer(inner, made.get(name).type, wanted, unit)
            problem = wanted.missing_in(made.get(name).type)
            if problem:
                raise RuntimeError(f"attribute '{name}' of {type}: {problem}")
    if not type.is_compiled:
        type.is_compiled = True
        try:
            _compile(module, type, unit, methods)
        except BaseException:
            type.is_compiled = False
            if concrete in _known.get(concrete.python_class, ()):
                _known[concrete.python_class].remove(concrete)
            raise
    return made


def _answer(module: Module, type: ClassType, wanted: InterfaceType, unit: Unit) -> None:
    """Compile the methods of a module that an interface asks for. Refuses modules without one of them."""
    for name in wanted.methods:
        if name not in type.methods:
            if not hasattr(module, name):
                raise AttributeError(f"'{module.__class__.__name__}' object has no attribute '{name}', which interface"
                                     f" '{wanted}' asks for")
            unit.add_method(type, name, _source_of(module, name), ModuleValue).ensure()


def owned(held: Any) -> Any:
    """A value whose lists and dicts belong to the object alone."""
    if type(held) is list:
        return [owned(item) for item in held]
    if type(held) is dict:
        return {key: owned(item) for key, item in held.items()}
    return held


def slot_value(name: str, held: Any, type: Any) -> Any:
    """A Python value as an attribute of a type holds it. Refuses others."""
    try:
        return converted(held, type)
    except Refused as refused:
        raise RuntimeError(f"Could not cast attribute '{name}' to type {type}: it is a value of type"
                           f" {held.__class__.__name__}, {held!r:.80}. {refused}") from None


# --- methods ----------------------------------------------------------------------------------------------------------


def _compile(module: Module, type: ClassType, unit: Unit, methods: dict[str, Callable] | None) -> None:
    """Everything of a class that scripts may call from outside."""
    functions: list[Function] = []
    for name in properties_of(module):
        functions += _property(type, name, getattr(type.python_class, name), unit)
    overloads = overloaded_methods(module)
    for row in overloads.values():
        for name, definition in row:
            functions.append(unit.add_definition(type, name, definition, ModuleValue))
    chosen = methods if methods is not None else {name: _source_of(module, name) for name in methods_of(module)}
    for name, held in chosen.items():
        if name not in overloads:
            functions.append(unit.add_method(type, name, getattr(held, "__func__", held), ModuleValue))
    for function in functions:
        function.ensure()
    _hooks(type, type.concrete, unit)
    _container(module, type, unit)


def _source_of(module: Module, name: str) -> Any:
    """A method to compile: the instance's own, or the class's."""
    return module.__dict__[name] if name in module.__dict__ else method_of(type(module), name)


def methods_of(module: Module) -> list[str]:
    """The methods to compile: forward and what is exported."""
    ignored = ignored_properties(module)
    found = []
    forward = getattr(module, "forward", None)
    if forward is not None and not is_ignored_fn(forward) and getattr(forward, "__func__", forward) is not (
            Module.forward):
        found.append("forward")
    found += [name for name, held in members_of(type(module)).items()
              if name not in ignored and get_torchscript_modifier(held) == "export"]
    found += [name for name, held in module.__dict__.items() if get_torchscript_modifier(held) == "export"]
    return list(dict.fromkeys(found))


def properties_of(module: Module) -> list[str]:
    """The properties to compile: those of the class that are not left to Python."""
    ignored = ignored_properties(module)
    return [name for name, held in members_of(type(module)).items()
            if isinstance(held, property) and name not in ignored and not hasattr(Module, name)]


def _property(type: ClassType, name: str, held: property, unit: Unit) -> list[Function]:
    getter = unit.add_method(type, f"__{name}_getter", held.fget, ModuleValue)
    setter = unit.add_method(type, f"__{name}_setter", held.fset, ModuleValue) if held.fset is not None else None
    type.properties[name] = Property(getter, setter)
    return [getter] if setter is None else [getter, setter]


def _hooks(type: ClassType, concrete: Concrete, unit: Unit) -> None:
    """Compile what runs around forward."""
    for target, hooks in ((type.pre_hooks, concrete.pre_hooks), (type.hooks, concrete.hooks)):
        for hook in hooks:
            definition = definition_of(hook)
            _check_hook(definition, type, "Pre-hook" if target is type.pre_hooks else "Hook")
            made = Function(unit, f"{type.name_}.{definition.name}", definition, type, ModuleValue)
            target.append(made.ensure())


def _check_hook(definition: Definition, type: ClassType, kind: str) -> None:
    """Refuse hooks whose signature does not say what they take and give."""
    tree, count = definition.tree, 2 if kind == "Pre-hook" else 3
    where = f"{kind} '{definition.name}' on module '{type.name()}'"
    if len(tree.args.args) != count:
        raise RuntimeError(f"{where} is expected to have exactly {count} parameters: the module, its input"
                           f"{' and its output' if count == 3 else ''}, it has {len(tree.args.args)}")
    if tree.args.args[1].annotation is None:
        raise RuntimeError(f"{where} is missing a type annotation of its input: a Tuple of what forward takes")
    if tree.returns is None and kind == "Pre-hook":
        raise RuntimeError(f"{where} is missing a return annotation, from which the type of its result is known")


def _container(module: Module, type: ClassType, unit: Unit) -> None:
    """Length and membership of containers, as methods."""
    texts = {}
    if isinstance(module, (ModuleList, Sequential, ModuleDict)) and "__len__" not in type.methods:
        texts["__len__"] = f"def __len__(self):\n    return {len(module)}\n"
    if isinstance(module, ModuleDict) and "__contains__" not in type.methods and len(module):
        keys = ",".join(repr(key) for key in module)
        texts["__contains__"] = f"def __contains__(self, key: str):\n    return key in [{keys}]\n"
    for name, text in texts.items():
        definition = definitions_in(text, lambda word: {"str": str}.get(word))[0]
        unit.add_definition(type, name, definition, ModuleValue).ensure()


def left_to_python(python_class: type) -> dict[str, Callable]:
    """Methods of a class that stay Python, for the scripted module to keep."""
    found = {}
    for name, held in members_of(python_class).items():
        if inspect.isfunction(held) and get_torchscript_modifier(held) in (
                "ignore", "unused", "drop", "copy_to_script_wrapper"):
            found[name] = held
    return found
