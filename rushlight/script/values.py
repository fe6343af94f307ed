"""Values between Python and running programs: what a call may be given, how it comes in, and how results go out.

Enters: Python values and types. Leaves: the values a function runs on: containers are copies of the caller's, as they
were when the call was made; a float for an int where a float is asked for; for an instance of a class, an `Object`
with the same attributes. Results come out as Python's: an object as an instance of the user's class.
Refuses: values that do not fit, with parameter, type, value and reason.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _C
from ..base import late
from . import types as t
from .classes import ClassType, InterfaceType, Object
from .constants import as_number
from .schemas import Schema


class Refused(Exception):
    """A value that a type does not take, with the reason."""


def is_of(value: Any, type: t.Type) -> bool:
    """Whether a value of a running program is of a type, elements of containers included."""
    ask = _ASKED.get(type.__class__)
    return ask(value, type) if ask is not None else True


def _is_list(value: Any, type: Any) -> bool:
    return isinstance(value, list) and all(is_of(item, type.element) for item in value)


def _is_dict(value: Any, type: Any) -> bool:
    return isinstance(value, dict) and all(is_of(k, type.key) and is_of(v, type.value) for k, v in value.items())


def _is_tuple(value: Any, type: Any) -> bool:
    return isinstance(value, tuple) and len(value) == len(type.elements_) and all(map(is_of, value, type.elements_))


def _is_enum(value: Any, type: Any) -> bool:
    return isinstance(value, enum.Enum) and (type.python_class is None or isinstance(value, type.python_class))


def _is_union(value: Any, type: Any) -> bool:
    return any(is_of(value, member) for member in type.members())


def _is_object(value: Any, type: Any) -> bool:
    return isinstance(value, Object) and value.type.is_subtype_of(type)


_ASKED: dict[Any, Callable[[Any, Any], bool]] = {
    t.BoolType: lambda value, type: isinstance(value, bool), t.StringType: lambda value, type: isinstance(value, str),
    t.FloatType: lambda value, type: isinstance(value, float), t.NoneType: lambda value, type: value is None,
    t.ComplexType: lambda value, type: isinstance(value, complex),
    t.TensorType: lambda value, type: isinstance(value, _C.Tensor),
    t.DeviceObjType: lambda value, type: isinstance(value, _C.device),
    t.AnyListType: lambda value, type: isinstance(value, list),
    t.AnyTupleType: lambda value, type: isinstance(value, tuple),
    t.IntType: lambda value, type: isinstance(value, int) and not isinstance(value, bool),
    t.NumberType: lambda value, type: isinstance(value, (int, float, complex)),
    t.UnionType: _is_union, t.OptionalType: _is_union, t.ListType: _is_list, t.DictType: _is_dict,
    t.TupleType: _is_tuple, t.EnumType: _is_enum, ClassType: _is_object, InterfaceType: _is_object,
}


# --- in ---------------------------------------------------------------------------------------------------------------


def converted(value: Any, type: t.Type) -> Any:
    """A Python value as a parameter of a type takes it. Raises Refused with the reason."""
    take = _TAKEN.get(type.__class__)
    if take is not None:
        return take(value, type)
    if not is_of(value, type):
        raise Refused(f"{value.__class__.__name__} is no {type}")
    return value


def _no(value: Any, type: t.Type) -> Refused:
    return Refused(f"Unable to cast a {value.__class__} to {type}")


def _tensor(value: Any, type: Any) -> Any:
    if isinstance(value, _C.Tensor) or value is None:        # no tensor at all passes, as an undefined one
        return value
    raise Refused(f"Unable to cast {value!r:.80} to Tensor")


def _integer(value: Any, type: Any) -> Any:
    if value.__class__ is int:
        if not -(2**63) <= value < 2**63:
            raise _no(value, type)
        return value
    number = as_number(value)
    if number is not None:
        return number
    if isinstance(value, _C.Tensor):
        return int(value)
    if isinstance(value, (float, complex)) or not hasattr(value, "__index__"):
        raise _no(value, type)
    return int(value)


def _float(value: Any, type: Any) -> Any:
    if value.__class__ is float:
        return value
    if isinstance(value, (int, float, _C.Tensor)) or (hasattr(value, "__float__") and not isinstance(value, str)):
        return float(value)
    raise _no(value, type)


def _complex(value: Any, type: Any) -> Any:
    if isinstance(value, (int, float, complex)) or hasattr(value, "__complex__"):
        return complex(value)
    raise _no(value, type)


def _bool(value: Any, type: Any) -> Any:
    if isinstance(value, (bool, _C.Tensor)) or value is None or hasattr(value, "__bool__"):
        return bool(value)
    raise _no(value, type)


def _device(value: Any, type: Any) -> Any:
    if isinstance(value, _C.device):
        return value
    if isinstance(value, str):
        return _C.device(value)
    raise _no(value, type)


def _optional(value: Any, type: Any) -> Any:
    return None if value is None else converted(value, type.element)


def _union(value: Any, type: Any) -> Any:
    """The member that the value is of as it stands: nothing is converted on the way."""
    found = inferred(value)
    for member in type.members():
        if is_of(found, member):
            return found
    for member in type.members():        # an empty container, or one of plain tuples for named ones
        if isinstance(member, (t.ListType, t.DictType, t.TupleType)):
            try:
                return converted(value, member)
            except Refused:
                continue
    raise Refused(f"Expected a member of {type} but instead found type {value.__class__.__name__}")


def _list(value: Any, type: Any) -> Any:
    held = getattr(value, "__script_value__", None)
    if held is not None:
        return held
    if not isinstance(value, (list, tuple)):
        raise _no(value, type)
    element = type.element
    take = _TAKEN.get(element.__class__)
    if take is None:
        return [converted(item, element) for item in value]
    return [take(item, element) for item in value]


def _dict(value: Any, type: Any) -> Any:
    held = getattr(value, "__script_value__", None)
    if held is not None:
        return held
    if not isinstance(value, Mapping):
        raise _no(value, type)
    return {converted(k, type.key): converted(v, type.value) for k, v in value.items()}


def _tuple(value: Any, type: Any) -> Any:
    if not isinstance(value, (tuple, list)):
        raise _no(value, type)
    if len(value) != len(type.elements_):
        raise Refused(f"{value!r:.80} has {len(value)} elements, and type {type} has {len(type.elements_)}")
    row = [converted(item, element) for item, element in zip(value, type.elements_, strict=True)]
    return type.python_class(*row) if type.python_class is not None else tuple(row)


def _enum(value: Any, type: Any) -> Any:
    if not isinstance(value, enum.Enum):
        raise Refused(f"{value.__class__.__name__} is no member of an enum")
    if type.python_class is None or isinstance(value, type.python_class):
        return value
    members = type.python_class.__members__              # of another enum: the member of that name
    if value.name not in members:
        raise Refused(f"{value!r} is no member of {type}")
    return members[value.name]


def _object(value: Any, type: ClassType) -> Any:
    held = value if isinstance(value, Object) else getattr(value, "__script_object__", None)
    if isinstance(held, Object):
        if not held.type.is_subtype_of(type):
            raise Refused(f"an object of {held.type} is none of {type}")
        return held
    slots = []
    for slot in type.slots:
        if not hasattr(value, slot.name):
            raise Refused(f"the object is missing attribute {slot.name}, which type {type} has")
        try:
            slots.append(converted(getattr(value, slot.name), slot.type))
        except Refused as refused:
            raise Refused(f"Could not cast attribute '{slot.name}' to type {slot.type}: {refused}") from None
    return Object(type, slots)


def _through_interface(value: Any, type: InterfaceType) -> Any:
    held = value if isinstance(value, Object) else getattr(value, "__script_object__", None)
    if held is None:
        known = late.provided("known script class")(value.__class__)
        if not isinstance(known, ClassType):
            raise Refused(f"{value!r:.80} cannot stand where interface {type} is asked for: its class is no script"
                          " class, which `@jit.script` would make it")
        held = _object(value, known)
    missing = type.missing_in(held.type)
    if missing:
        raise Refused(f"Object {value!r:.80} is not compatible with interface {type}: {missing}")
    return held


def _any(value: Any, type: Any) -> Any:
    return inferred(value)


def inferred(value: Any) -> Any:
    """A Python value as a program takes it where any will do: instances of script classes as objects."""
    if isinstance(value, (_C.Tensor, bool, int, float, complex, str, _C.device, enum.Enum, Object)) or value is None:
        return value
    if isinstance(value, list):
        return [inferred(item) for item in value]
    if isinstance(value, tuple):
        row = [inferred(item) for item in value]
        return value.__class__(*row) if hasattr(value, "_fields") else tuple(row)
    if isinstance(value, dict):
        return {inferred(k): inferred(v) for k, v in value.items()}
    for name in ("__script_object__", "__script_value__"):
        held = getattr(value, name, None)
        if held is not None:
            return held
    number = as_number(value)
    if number is not None:
        return number
    known = late.provided("script classes")(value.__class__)
    if isinstance(known, ClassType):
        return _object(value, known)
    raise RuntimeError(f"cannot infer the type of {value!r:.80}: only tensors, numbers, strings, (possibly nested)"
                       " tuples, lists and dicts of them and objects of script classes have one, a"
                       f" {value.__class__.__name__} has not")


_TAKEN: dict[Any, Callable[[Any, Any], Any]] = {
    t.TensorType: _tensor, t.IntType: _integer, t.FloatType: _float, t.ComplexType: _complex, t.BoolType: _bool,
    t.DeviceObjType: _device, t.OptionalType: _optional, t.UnionType: _union, t.ListType: _list, t.DictType: _dict,
    t.TupleType: _tuple, t.EnumType: _enum, ClassType: _object, InterfaceType: _through_interface, t.AnyType: _any,
}


# --- out --------------------------------------------------------------------------------------------------------------


def outward(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """A value of a program as Python sees it: objects as instances of the user's class, at any depth. `seen` are the
    containers on the way there: one that holds itself does so there too."""
    if isinstance(value, Object):
        return _instance(value)
    if isinstance(value, tuple):
        row = [outward(item, seen) for item in value]
        return value.__class__(*row) if hasattr(value, "_fields") else tuple(row)
    if not isinstance(value, (list, dict)):
        return value
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)]
    made: Any = [] if isinstance(value, list) else {}
    seen[id(value)] = made
    if isinstance(value, list):
        made.extend(outward(item, seen) for item in value)
    else:
        made.update((outward(k, seen), outward(v, seen)) for k, v in value.items())
    return made


def _instance(held: Object) -> Any:
    if held.type.is_module_ or held.type.python_class is None:
        return late.provided("script face")(held)
    made = held.type.python_class.__new__(held.type.python_class)
    for slot, value in held.items():
        object.__setattr__(made, slot.name, outward(value))
    return made


def leaving(type: t.Type) -> Callable[[Any], Any] | None:
    """How results of a type go back to Python: containers as copies, which the program no longer sees, objects as
    instances; None where nothing is to do."""
    if isinstance(type, (ClassType, InterfaceType, t.AnyType)):
        return outward
    if isinstance(type, t.OptionalType):
        inner = leaving(type.element)
        return None if inner is None else lambda value: None if value is None else inner(value)
    if isinstance(type, t.UnionType):
        return outward if any(map(leaving, type.members())) else None
    if isinstance(type, t.ListType):
        inner = leaving(type.element)
        return list if inner is None else lambda value: [inner(item) for item in value]
    if isinstance(type, t.DictType):
        inner = leaving(type.value)
        return dict if inner is None else lambda value: {key: inner(item) for key, item in value.items()}
    if isinstance(type, t.TupleType):
        return _leaving_tuple(type)
    return None


def _leaving_tuple(type: t.TupleType) -> Callable[[Any], Any] | None:
    parts = [leaving(element) for element in type.elements_]
    if not any(parts):
        return None

    def leave(value: Any) -> Any:
        row = [item if part is None else part(item) for item, part in zip(value, parts, strict=True)]
        return value.__class__(*row) if hasattr(value, "_fields") else tuple(row)

    return leave


# --- calls ------------------------------------------------------------------------------------------------------------


def bound(schema: Schema, args: Sequence[Any], kwargs: Mapping[str, Any], skip: int = 0) -> list[Any]:
    """The values of a call in the order of the parameters, the first `skip` left out. Refuses calls that do not fit, as
    the language words it."""
    listed = schema.arguments[skip:]
    positional = sum(not argument.kwarg_only for argument in listed)
    if positional < len(args) <= len(listed):
        raise RuntimeError(f"{schema.name}() takes {positional} positional argument(s), got {len(args)}. Declaration:"
                           f" {schema}")
    if len(args) + len(kwargs) > len(listed):
        raise RuntimeError(f"{schema.name}() takes at most {len(listed)} argument(s), got"
                           f" {len(args) + len(kwargs)}. Declaration: {schema}")
    found, used = [], 0
    for at, argument in enumerate(listed):
        if at < len(args):
            value = args[at]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
            used += 1
        elif argument.has_default:
            found.append(_default(argument.default, argument.type))
            continue
        else:
            raise RuntimeError(f"{schema.name}() is missing value for argument '{argument.name}'. Declaration:"
                               f" {schema}")
        try:
            found.append(converted(value, argument.type))
        except Refused as refused:
            raise RuntimeError(
                f"{schema.name}() Expected a value of type '{argument.type}' for argument '{argument.name}' but instead"
                f" found type '{_named(value)}'.\nPosition: {at + skip}\nValue: {value!r:.120}\nDeclaration: {schema}\n"
                f"Why: {refused}") from None
    if used < len(kwargs):
        odd = next(name for name in kwargs if name not in [argument.name for argument in listed[len(args):]])
        raise RuntimeError(f"{schema.name}(): Unknown keyword argument '{odd}'. Declaration: {schema}")
    return found


_EXACT = {t.TensorType: _C.Tensor, t.FloatType: float, t.BoolType: bool, t.StringType: str,
          ClassType: Object}


def entrance(schema: Schema, run: Callable[..., Any]) -> Callable[..., Any]:
    """`run` for values from Python, all given by place: those that are of their parameter's type as they stand go in as
    they are, others as the type takes them. The text of the function holds places and nothing of the program."""
    held: dict[str, Any] = {"run": run}
    lines = []
    for at, argument in enumerate(schema.arguments):
        held[f"take{at}"] = _TAKEN.get(argument.type.__class__, converted)
        held[f"type{at}"] = argument.type
        exact = held[f"exact{at}"] = _EXACT.get(argument.type.__class__)
        test = f"if a{at}.__class__ is not exact{at}: " if exact is not None else ""
        if exact is Object:
            test = f"if a{at}.__class__ is not exact{at} or a{at}.type is not type{at}: "
        lines.append(f"    {test}a{at} = take{at}(a{at}, type{at})")
    names = ", ".join(f"a{at}" for at in range(len(schema.arguments)))
    text = "\n".join((f"def enter({names}):", *lines, f"    return run({names})"))
    exec(compile(text, "<entrance>", "exec"), held)  # noqa: S102 - text that was just made from numbers
    return held["enter"]


def _default(value: Any, type: t.Type) -> Any:
    """A default as the function may change it: containers are copies, and instances become objects."""
    is_shared = isinstance(value, (list, dict)) or isinstance(type, (ClassType, InterfaceType, t.AnyType))
    return converted(value, type) if is_shared else value


def _named(value: Any) -> str:
    fields = getattr(value, "_fields", None)
    name = value.__class__.__name__
    return f"{name} (aka NamedTuple({', '.join(fields)}))" if fields else name
