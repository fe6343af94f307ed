"""Values of a running program against types: what a call may be given, and how it comes in.

Enters: Python values and types. Leaves: the values a function runs on (a list for a tuple where a list is asked for, a
float for an int where a float is), or a TypeError-like refusal that names parameter, type and value.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _C
from . import types as t
from .classes import ClassType, InterfaceType, Object
from .constants import as_number
from .schemas import Schema

_REFUSED = object()


def is_of(value: Any, type: t.Type) -> bool:
    """Whether a value is of a type, elements of containers included."""
    if isinstance(type, t.AnyType):
        return True
    if isinstance(type, t.UnionType):
        return any(is_of(value, member) for member in type.members())
    plain = ((t.BoolType, bool), (t.StringType, str), (t.FloatType, float), (t.ComplexType, complex),
             (t.TensorType, _C.Tensor), (t.DeviceObjType, _C.device), (t.AnyListType, list), (t.AnyTupleType, tuple))
    for kind, python in plain:
        if isinstance(type, kind):
            return isinstance(value, python)
    if isinstance(type, t.NoneType):
        return value is None
    if isinstance(type, t.IntType):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(type, t.NumberType):
        return isinstance(value, (int, float, complex)) and not isinstance(value, bool)
    return _is_container(value, type)


def _is_container(value: Any, type: t.Type) -> bool:
    if isinstance(type, t.ListType):
        return isinstance(value, list) and all(is_of(item, type.element) for item in value)
    if isinstance(type, t.DictType):
        return isinstance(value, dict) and all(is_of(k, type.key) and is_of(v, type.value) for k, v in value.items())
    if isinstance(type, t.TupleType):
        return isinstance(value, tuple) and len(value) == len(type.elements_) and all(
            is_of(item, element) for item, element in zip(value, type.elements_, strict=True))
    if isinstance(type, (ClassType, InterfaceType)):
        return isinstance(value, Object) and value.type.is_subtype_of(type)
    if isinstance(type, t.EnumType):
        return isinstance(value, enum.Enum) and (type.python_class is None or isinstance(value, type.python_class))
    return True


def is_refused(made: Any) -> bool:
    """Whether `converted` found no way."""
    return made is _REFUSED


def converted(value: Any, type: t.Type) -> Any:
    """A Python value as a parameter of a type takes it; `_REFUSED` where it cannot."""
    if isinstance(type, (t.AnyType, t.TensorType)):
        return value if isinstance(type, t.AnyType) or isinstance(value, _C.Tensor) else _REFUSED
    if isinstance(type, t.OptionalType):
        return None if value is None else converted(value, type.element)
    if isinstance(type, t.UnionType):
        if is_of(value, type):
            return value
        tries = [converted(value, member) for member in type.members()]
        return next((found for found in tries if found is not _REFUSED), _REFUSED)
    if isinstance(type, t.IntType):
        return _integer(value)
    if isinstance(type, t.FloatType):
        if isinstance(value, _C.Tensor) and value.numel() == 1:
            return float(value)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else _REFUSED
    if isinstance(type, t.ComplexType):
        return complex(value) if isinstance(value, (int, float, complex)) else _REFUSED
    if isinstance(type, t.DeviceObjType) and isinstance(value, str):
        return _C.device(value)
    if isinstance(type, (t.ListType, t.DictType, t.TupleType)):
        return _container(value, type)
    if isinstance(type, (ClassType, InterfaceType)):
        value = getattr(value, "__script_object__", value)
    return value if is_of(value, type) else _REFUSED


def _integer(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = as_number(value)
    if number is not None:
        return number
    if isinstance(value, _C.Tensor) and value.numel() == 1 and not value.is_floating_point():
        return int(value)
    return int(value) if hasattr(value, "__index__") and not isinstance(value, bool) else _REFUSED


def _container(value: Any, type: t.Type) -> Any:
    if isinstance(type, t.ListType):
        if not isinstance(value, (list, tuple)):
            return _REFUSED
        row = [converted(item, type.element) for item in value]
        if any(item is _REFUSED for item in row):
            return _REFUSED
        return row              # a list of its own: what the script does to it the caller does not see
    if isinstance(type, t.DictType):
        if not isinstance(value, dict):
            return _REFUSED
        pairs = [(converted(k, type.key), converted(v, type.value)) for k, v in value.items()]
        return _REFUSED if any(k is _REFUSED or v is _REFUSED for k, v in pairs) else dict(pairs)
    if not isinstance(value, tuple) or len(value) != len(type.elements_):  # type: ignore[attr-defined]
        return _REFUSED
    row = [converted(item, element) for item, element in zip(value, type.elements_, strict=True)]  # type: ignore
    return _REFUSED if any(item is _REFUSED for item in row) else value if hasattr(value, "_fields") else tuple(row)


def bound(schema: Schema, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The values of a call in the order of the parameters. Refuses calls that do not fit, as the language words it."""
    positional = sum(not argument.kwarg_only for argument in schema.arguments)
    if positional < len(args) <= len(schema.arguments):
        raise RuntimeError(f"{schema.name}() expects at most {positional} positional argument(s) but {len(args)} was/were"
                           f" given. Declaration: {schema}")
    if len(args) > len(schema.arguments):
        raise RuntimeError(f"{schema.name}() expected at most {len(schema.arguments)} argument(s) but received"
                           f" {len(args)} argument(s). Declaration: {schema}")
    rest = dict(kwargs)
    found = []
    for at, argument in enumerate(schema.arguments):
        if at < len(args):
            value = args[at]
            if argument.name in rest:
                raise RuntimeError(f"{schema.name}(): argument '{argument.name}' was given twice. Declaration:"
                                   f" {schema}")
        elif argument.name in rest:
            value = rest.pop(argument.name)
        elif argument.has_default:
            found.append(argument.default)
            continue
        else:
            raise RuntimeError(f"{schema.name}() is missing value for argument '{argument.name}'. Declaration:"
                               f" {schema}")
        made = converted(value, argument.type)
        if made is _REFUSED:
            raise RuntimeError(
                f"{schema.name}() Expected a value of type '{argument.type}' for argument '{argument.name}' but instead"
                f" found type '{type(value).__name__}'.\nPosition: {at}\nValue: {value!r:.120}\nDeclaration: {schema}")
        found.append(made)
    if rest:
        raise RuntimeError(f"{schema.name}(): unknown keyword argument '{next(iter(rest))}'. Declaration: {schema}")
    return found
