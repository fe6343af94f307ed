"""Python classes as classes of scripts: each is compiled once, with all its methods, when it is first met.

Enters: a Python class (by `jit.script`, by an annotation, by a call of its name), or an interface. Leaves: its
`ClassType` or `InterfaceType`. `__init__` is compiled before the other methods: what it sets are the attributes.
Methods that dataclasses are given without source are written here.
Refuses: classes whose methods have no source or cannot be compiled, and leaves nothing of them behind.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .._jit_internal import get_torchscript_modifier, is_ignored_fn, should_drop
from ..nn import Module
from . import contexts, types as t
from .classes import ClassType, InterfaceType, Property
from .frontend.annotations import qualified_name, try_type
from .frontend.errors import CompileError, NotSupportedError, compiling
from .frontend.parsing import Definition, definition_of, definitions_in, names_of
from .schemas import Argument, Schema
from .source import Range
from .unit import PYTHON, Function, Unit

UNUSED = "Cannot call @unused methods"
_known: weakref.WeakKeyDictionary[type, t.Type] = weakref.WeakKeyDictionary()


def type_of_class(python_class: type, at: Range | None = None) -> t.Type | None:
    """The type of a Python class, compiled now if it has not been; None for classes that cannot be."""
    known = _known.get(python_class)
    if known is not None:
        return known
    stand_in = contexts.stand_in(python_class)
    if stand_in is not None:
        name = f"__torch__.{stand_in.home}.{stand_in.cls.__name__}"
        return _compile(stand_in.cls, at, name, for_class=python_class)
    return _compile(python_class, at) if can_compile(python_class) else None


def known_type(python_class: type) -> t.Type | None:
    """The type of a class that has been compiled already."""
    return _known.get(python_class)


def can_compile(python_class: type) -> bool:
    """Whether all methods of a class have code to compile, and it is none of those with a meaning of their own."""
    if is_ignored_fn(python_class) or issubclass(python_class, (Module, tuple, list, dict, set, Exception, type)):
        return False
    if python_class.__module__.partition(".")[0] in ("builtins", __name__.partition(".")[0]) and (
            "__scriptable__" not in vars(python_class)):
        return False         # ours have other ways into scripts, unless they say so
    found = [getattr(python_class, name, None) for name in vars(python_class)]
    return all(hasattr(fn, "__code__") for fn in found if inspect.isroutine(fn))


def script_class(python_class: type) -> type:
    """What `jit.script` does with a class: compile it; the class itself is what programs go on with."""
    if issubclass(python_class, Module):
        raise RuntimeError(f"Type '{python_class}' inherits from nn.Module: give jit.script an instance instead")
    if len(python_class.mro()) > 2:
        raise RuntimeError(f"a script class does not support inheritance: {python_class.__name__} has bases other than"
                           " 'object'")
    if python_class not in _known:
        _compile(python_class, None)
    return python_class


def _compile(python_class: type, at: Range | None, name: str = "", for_class: type | None = None) -> ClassType:
    unit = PYTHON
    key = for_class or python_class
    made = ClassType(unit.take_name(name or qualified_name(python_class)), python_class=key, unit=unit,
                     doc=python_class.__doc__ or "")
    _known[key] = made
    try:
        with compiling(made.name_, at):
            _define(unit, made, python_class)
    except BaseException:
        del _known[key]
        raise
    return made


def _define(unit: Unit, type: ClassType, python_class: type) -> None:
    """All methods and properties; then compile them, `__init__` first."""
    def add(definition: Definition) -> Function:
        return Function(unit, f"{type.name_}.{definition.name}", definition, type)

    for definition in _definitions(python_class):
        type.methods[definition.name] = add(definition)
    for name, held in inspect.getmembers(python_class, lambda member: isinstance(member, property)):
        if name in getattr(python_class, "__jit_unused_properties__", ()) or should_drop(held.fget):
            continue
        parts = []
        for word, function in (("getter", held.fget), ("setter", held.fset)):
            if function is not None:
                definition = definition_of(function, f"__{name}_{word}")
                definition.lookup = names_in(python_class, function)
                type.methods[definition.name] = add(definition)
                parts.append(type.methods[definition.name])
        type.properties[name] = Property(*parts)
    if "__init__" in type.methods:
        type.methods["__init__"].ensure()
    for name, method in list(type.methods.items()):
        try:
            method.ensure()
        except CompileError:
            if not (name in _WRITTEN and name != "__init__" and method.definition.source.filename == "<string>"):
                raise
            del type.methods[name]      # a comparison that nobody wrote, and fields that cannot be compared


def names_in(python_class: type, function: Any) -> Callable[[str], Any]:
    """What names mean in a method: the class by its name, which a decorator sees before it is bound; then the usual."""
    usual = names_of(function)

    def lookup(name: str) -> Any:
        return python_class if name == python_class.__name__ else usual(name)

    return lookup


def _definitions(python_class: type) -> Iterator[Definition]:
    """The methods of a class by name, without static ones."""
    is_data = dataclasses.is_dataclass(python_class)
    for name in sorted(vars(python_class)):
        held = vars(python_class)[name]
        function = held.__func__ if isinstance(held, classmethod) else held
        if not inspect.isfunction(function) or get_torchscript_modifier(function) == "unused (dropped)":
            continue
        if is_data and not _has_source(python_class, function):
            written = _WRITTEN.get(name)
            if written is not None:
                yield written(python_class)
            continue
        definition = definition_of(function, name)
        definition.lookup = names_in(python_class, function)
        if should_drop(function):
            _empty(definition)
        yield definition


def _has_source(python_class: type, function: Any) -> bool:
    """Whether the class's own text defines a method: what dataclasses add has a made up file, or another module's."""
    return inspect.unwrap(function).__code__.co_filename not in ("<string>", dataclasses.__file__) and (
        function.__module__ == python_class.__module__)


def _empty(definition: Definition) -> None:
    """A method that may not be called: it raises, whatever it was given."""
    raising = ast.parse(f"raise RuntimeError({UNUSED!r})").body[0]
    for node in ast.walk(raising):
        ast.copy_location(node, definition.tree)
    definition.tree.body = [raising]
    anything = ast.copy_location(ast.Name("Any", ast.Load()), definition.tree)
    for arg in definition.tree.args.args:
        arg.annotation = anything
    definition.function = None
    usual = definition.lookup
    definition.lookup = lambda name: usual(name) if name != "Any" else Any


# --- dataclasses ------------------------------------------------------------------------------------------------------


def _written(python_class: type, name: str, text: str, known: dict[str, Any]) -> Definition:
    usual = names_in(python_class, getattr(python_class, name))

    def lookup(word: str) -> Any:
        return known[word] if word in known else usual(word)

    definition = definitions_in(text, lookup)[0]
    definition.function = getattr(python_class, name)
    return definition


def _init(python_class: type) -> Definition:
    """`__init__` of a dataclass: parameters into attributes, then `__post_init__` with what is only for it."""
    signature = inspect.signature(python_class.__init__)  # type: ignore[misc]
    params, known = [], {}
    for at, (name, param) in enumerate(list(signature.parameters.items())[1:]):
        if param.kind is inspect.Parameter.KEYWORD_ONLY:
            raise NotSupportedError(None, f"{python_class.__name__}: field '{name}' is keyword-only, which compiled"
                                    " functions do not know")
        annotation = param.annotation
        known[f"_T{at}"] = annotation.type if isinstance(annotation, dataclasses.InitVar) else annotation
        params.append(f"{name}: _T{at}" + ("" if param.default is inspect.Parameter.empty else "=None"))
    body = []
    for field in dataclasses.fields(python_class):
        if field.default_factory is not dataclasses.MISSING:
            raise NotImplementedError(f"field '{field.name}' of {python_class.__name__}: Default factory initializers"
                                      " are no part of compiled dataclasses")
        if field.name in signature.parameters:
            body.append(f"self.{field.name} = {field.name}")
    if hasattr(python_class, "__post_init__"):
        only = [f.name for f in getattr(python_class, dataclasses._FIELDS).values()  # type: ignore[attr-defined]
                if f._field_type is dataclasses._FIELD_INITVAR]  # type: ignore[attr-defined]
        body.append(f"self.__post_init__({', '.join(only)})")
    text = f"def __init__(self, {', '.join(params)}) -> None:\n" + "\n".join(f"    {line}" for line in body or ["pass"])
    return _written(python_class, "__init__", text + "\n", known)


def _compared(python_class: type) -> list[str]:
    return [field.name for field in dataclasses.fields(python_class) if field.compare]


def _equal(python_class: type) -> Definition:
    """Field by field; of those that may be None, both or neither."""
    lines = []
    for at, name in enumerate(_compared(python_class)):
        mine, theirs = f"a{at}", f"b{at}"
        lines += [f"    {mine} = self.{name}", f"    {theirs} = other.{name}"]
        if _may_be_none(python_class, name):
            lines += [f"    if {mine} is not None and {theirs} is not None:", f"        if {mine} != {theirs}:",
                      "            return False", f"    elif ({mine} is None) != ({theirs} is None):",
                      "        return False"]
        else:
            lines += [f"    if {mine} != {theirs}:", "        return False"]
    text = "def __eq__(self, other: _C) -> bool:\n" + "\n".join(lines) + "\n    return True\n"
    return _written(python_class, "__eq__", text, {"_C": python_class})


def _may_be_none(python_class: type, name: str) -> bool:
    annotation = next(field.type for field in dataclasses.fields(python_class) if field.name == name)
    found = try_type(annotation, names_in(python_class, python_class.__init__))  # type: ignore[misc]
    return isinstance(found, t.UnionType) and t.NoneType().is_subtype_of(found)


def _ordered(name: str, sign: str, at_end: bool) -> Callable[[type], Definition]:
    def write(python_class: type) -> Definition:
        lines = []
        for field in _compared(python_class):
            lines += [f"    if self.{field} {sign} other.{field}:", "        return True",
                      f"    if self.{field} != other.{field}:", "        return False"]
        text = f"def {name}(self, other: _C) -> bool:\n" + "\n".join(lines) + f"\n    return {at_end}\n"
        return _written(python_class, name, text, {"_C": python_class})

    return write


_WRITTEN: dict[str, Callable[[type], Definition]] = {
    "__init__": _init, "__eq__": _equal, "__lt__": _ordered("__lt__", "<", False),
    "__le__": _ordered("__le__", "<", True), "__gt__": _ordered("__gt__", ">", False),
    "__ge__": _ordered("__ge__", ">", True),
}


# --- interfaces -------------------------------------------------------------------------------------------------------


def script_interface(python_class: Any) -> type:
    """What `jit.interface` does: note the methods that a class asks for; the class itself."""
    if not inspect.isclass(python_class):
        raise RuntimeError(f"interface must be applied to a class, got {type(python_class).__name__}")
    is_module = issubclass(python_class, Module)
    if not is_module and len(python_class.mro()) > 2:
        raise RuntimeError(f"an interface does not support inheritance: {python_class.__name__} has bases other than"
                           " 'object' and 'nn.Module'")
    made = InterfaceType(PYTHON.take_name(qualified_name(python_class)), is_module=is_module,
                         python_class=python_class)
    _known[python_class] = made
    try:
        for name, held in vars(python_class).items():
            if inspect.isfunction(held):
                definition = definition_of(held, name)
                definition.lookup = names_in(python_class, held)
                made.methods[name] = _asked(definition)
    except BaseException:
        del _known[python_class]
        raise
    python_class.__torch_script_interface__ = True  # type: ignore[attr-defined]
    return python_class


def _asked(definition: Definition) -> Schema:
    """The signature of an interface's method, its object left out."""
    tree, place = definition.tree, definition.range(definition.tree)
    body = [line for line in tree.body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
                                               and isinstance(line.value.value, str))]
    if tree.returns is None:
        raise CompileError(f"method '{definition.name}' of an interface must have a return type annotated", place)
    if len(body) != 1 or not isinstance(body[0], ast.Pass):
        raise CompileError(f"method '{definition.name}' of an interface has more than a 'pass' statement", place)
    args = [Argument(arg.arg, t.TENSOR if arg.annotation is None else definition.annotation(arg.annotation))
            for arg in tree.args.args[1:]]
    return Schema(definition.name, "", tuple(args), (Argument("", definition.annotation(tree.returns)),))

